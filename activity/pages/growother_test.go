package pages

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// An import continues while the number of pages grows.
func TestGrowDuringBulk(t *testing.T) {
	g := crowded(t, &favfilter.Memory{}, 8)
	bulk := g.NewBulk()
	var all []act
	for round := range 4 {
		var batch []act
		for i := range 300 {
			batch = append(batch, add(fmt.Sprint("u", i%50), "hide", fmt.Sprint("p", round, "-", i)), add(fmt.Sprint("u", i), "block", "star"))
		}
		_, err := recordBulk(t.Context(), bulk, batch)
		must(t, err)
		if round%2 == 0 {
			must(t, g.grower.growTo(t.Context(), 16<<round))
		}
		all = append(all, batch...)
	}
	must(t, bulk.Finish(t.Context()))
	for _, a := range all {
		g.want(t, a.User, a.Kind, a.Target, true)
	}
	for i := range 300 {
		if !g.check(t, "star", "blocked-by", fmt.Sprint("u", i)) {
			t.Errorf("the star misses the block of u%d", i)
		}
	}
	g.scrubAll()
	g.wantWhole(t)
	if n := g.Stats().DedicatedPages; n == 0 {
		t.Error("no heavy user has left a page of the new layout")
	}
}

// The scrub reports once that pages have too many keys, and how many pages are due. It stops once
// there are that many.
func TestGrowthDue(t *testing.T) {
	for _, c := range []struct {
		pages int
		keys  uint64
		want  uint32
	}{
		{0, 0, 0},
		{16, 16 * DuePage, 0},
		{16, 16*DuePage + 1, 64},
		{16, 16 * 10 * DuePage, 512},
		{1, 2 * DuePage, 4},
		{12, 12*DuePage + 1, 32},
		{MaxPages, MaxPages * DuePage * 2, 0},
	} {
		if got := (load{pages: c.pages, keys: c.keys}).due(); got != c.want {
			t.Errorf("%d keys on %d pages: %d pages are due, want %d", c.keys, c.pages, got, c.want)
		}
	}
	g := newRig(t, &favfilter.Memory{}, 1)
	g.rebuilder.maxSharedKeys = 1 << 20
	var batch []act
	for i := range DuePage + 100 {
		batch = append(batch, add(fmt.Sprint("u", i), "hide", "p"))
	}
	_, err := g.Record(t.Context(), batch)
	must(t, err)
	g.scrubAll() // starts in the middle of a round
	g.scrubAll()
	s := g.Stats()
	if s.ReshapeDue != 4 || s.KeysPerPage != DuePage+100 || s.SharedPages != 1 {
		t.Errorf("%+v", s)
	}
	must(t, g.grower.growTo(t.Context(), s.ReshapeDue))
	for _, when := range []string{"after it", "after the next round"} { // the keys count once
		if s := g.Stats(); s.ReshapeDue != 0 || s.KeysPerPage != (DuePage+100)/4.0 || s.SharedPages != 4 {
			t.Errorf("%s: %+v", when, s)
		}
		if l, err := g.grower.Layout(t.Context()); err != nil || l.Due != 0 || l.KeysPerPage != (DuePage+100)/4.0 || l.Current != 4 {
			t.Errorf("%s: %+v, %v", when, l, err)
		}
		g.scrubAll()
	}
}

// Users with dedicated pages do not count for ReshapeDue.
func TestDedicatedPagesAreNotDue(t *testing.T) {
	g := crowded(t, &favfilter.Memory{}, 2)
	g.recordMany(t, "bot", "hide", 3*DuePage, posts("b"))
	g.settleMoves()
	for range 3 {
		g.scrubAll()
	}
	if s := g.Stats(); s.DedicatedPages != 1 || s.SharedPages != 2 || s.KeysPerPage != 0 || s.ReshapeDue != 0 {
		t.Errorf("%+v", s)
	}
}

// A page of a later layout that lost a write of another process is found and rebuilt.
func TestPageOfLaterLayoutIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 2), &favfilter.Memory{}
		a := startProcess(t, l, store, Config{ScrubRate: 1})
		b := startProcess(t, l, store, Config{ScrubRate: 1})
		check := a.everybody(t, 20)
		must(t, a.grower.growTo(t.Context(), 8))
		const user = "u1"
		id := a.layout.PageID(a.pageOf(user))
		back := setBack(t, store, id)
		before, _, err := store.Load(t.Context(), []favfilter.PageID{id})
		must(t, err)
		a.record(t, true, add(user, "hide", "late"))
		back()
		time.Sleep(2 * time.Second)
		loaded, _, err := store.Load(t.Context(), []favfilter.PageID{id})
		must(t, err)
		if h, was := loaded[0].Page.Header(), before[0].Page.Header(); h.Sequence != was.Sequence+1 {
			t.Errorf("the page is at sequence %d, was %d before the write", h.Sequence, was.Sequence)
		}
		b.want(t, user, "hide", "late", true)
		check("repaired")
	})
}

// Grow refuses more than 16 times the pages that are due, unless forced. A refusal changes nothing.
func TestGrowTooMany(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 256)
	check := g.everybody(t, 20)
	const most, over = 16 * DefaultPages, 32 * DefaultPages
	refused := func(what string, err error) {
		t.Helper()
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Code != CodeTooManyPages || invalid.Field != "pages" {
			t.Fatalf("%s: %v", what, err)
		}
		for _, number := range []string{fmt.Sprint(over), fmt.Sprint(most), fmt.Sprint(DefaultPages)} {
			if !strings.Contains(invalid.Message, number) {
				t.Errorf("%s: %q does not say %s", what, invalid.Message, number)
			}
		}
	}
	ask := func() error {
		_, err := g.grower.Grow(t.Context(), over, false)
		return err
	}
	refused("before the first round of the scrub", ask())
	g.scrubAll()
	g.scrubAll()
	refused("after it", ask())
	if l, err := g.grower.Layout(t.Context()); err != nil || l.Pages != 256 || l.Current != 256 || l.Growing {
		t.Errorf("%+v, %v", l, err)
	}
	// So many keys that the pages are 16 times those due, and one key fewer.
	const enough = over / 16 / 2 * aimPage // keys that half as many pages can hold
	g.storage.stats.survey.Store(&Survey{Whole: true, load: load{pages: 256, keys: enough}})
	refused("too few keys", ask())
	g.storage.stats.survey.Store(&Survey{Whole: true, load: load{pages: 256, keys: enough + 1}})
	if _, err := g.grower.mayGrow(t.Context(), over, false); err != nil {
		t.Errorf("enough keys: %v", err)
	}
	check("done")
}

// Before the first round of the scrub, the keys are estimated from the ledger, also after a growth.
func TestSharedKeys(t *testing.T) {
	// A fixed seed: with some random seeds, the sampled pages have too few users.
	file := filepath.Join(t.TempDir(), "ledger.db")
	must(t, openLedger(t, file, 64).Close())
	db, err := sql.Open("sqlite", file)
	must(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE meta SET value = '1' WHERE name = 'seed'`)
	must(t, errors.Join(err, db.Close()))
	g := newRigOn(t, &favfilter.Memory{}, "sqlite:"+file, 64)
	g.everybody(t, 500) // each user has 2 keys of blocks and 5 of hides
	for _, pages := range []uint32{64, 512} {
		must(t, g.grower.growTo(t.Context(), pages))
		got, err := g.grower.sharedKeys(t.Context())
		must(t, err)
		if got < 3500*8/10 || got > 3500*12/10 || pages <= sampledPages && got != 3500 {
			t.Errorf("on %d pages: %d keys, want 3500", pages, got)
		}
	}
}

// NumberFor rounds the number of pages up to a power of two within its limits.
func TestNumberFor(t *testing.T) {
	for _, c := range []struct {
		keys uint64
		want uint32
	}{
		{0, DefaultPages},
		{DefaultPages * aimPage, DefaultPages},
		{DefaultPages*aimPage + 1, 2 * DefaultPages},
		{3 * DefaultPages * aimPage, 4 * DefaultPages},
		{MaxPages * aimPage, MaxPages},
		{1 << 63, MaxPages},
	} {
		if got := NumberFor(c.keys); got != c.want {
			t.Errorf("%d keys: %d pages, want %d", c.keys, got, c.want)
		}
	}
}
