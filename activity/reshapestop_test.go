package activity

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

// Reshape refuses more than 16 times the pages that are due, unless it is forced to; a refusal changes nothing.
func TestReshapeTooMany(t *testing.T) {
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
		_, err := g.StartReshape(t.Context(), over)
		if direct := g.Reshape(t.Context(), over, nil); fmt.Sprint(direct) != fmt.Sprint(err) {
			t.Errorf("Reshape: %v, StartReshape: %v", direct, err)
		}
		return err
	}
	refused("before the first round of the scrub", ask())
	g.scrubAll()
	g.scrubAll()
	refused("after it", ask())
	if s, err := g.Shape(t.Context()); err != nil || s.Pages != 256 || s.Reshaped != 256 || s.Reshaping {
		t.Errorf("%+v, %v", s, err)
	}
	// As many keys as make it 16 times what is due, and one fewer.
	const enough = over / 16 / 2 * aimPage // that is what half as many pages hold
	g.stats.load.Store(&load{pages: 256, keys: enough})
	refused("too few keys", ask())
	g.stats.load.Store(&load{pages: 256, keys: enough + 1})
	if err := g.checkDue(t.Context(), over); err != nil {
		t.Errorf("enough keys: %v", err)
	}
	check("done")
}

// Nobody needs force for the number that a ledger was made with, or for fewer pages than there are.
func TestReshapeBack(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 32*DefaultPages)
	if err := g.checkDue(t.Context(), 32*DefaultPages); err != nil {
		t.Error(err)
	}
	var invalid *InvalidError
	if err := g.checkDue(t.Context(), 64*DefaultPages); !errors.As(err, &invalid) || invalid.Code != CodeTooManyPages {
		t.Errorf("%v", err)
	}
}

// Before the first round of the scrub, the keys are estimated from the ledger, also where users have moved to other pages.
func TestSharedKeys(t *testing.T) {
	// One seed: with a random one, the pages that are sampled now and then have too few users.
	file := filepath.Join(t.TempDir(), "ledger.db")
	must(t, openLedger(t, file, 64).Close())
	db, err := sql.Open("sqlite", file)
	must(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE meta SET value = '1' WHERE name = 'seed'`)
	must(t, errors.Join(err, db.Close()))
	g := newRigOn(t, &favfilter.Memory{}, "sqlite:"+file, 64)
	g.everybody(t, 500) // each with 2 keys of blocks, and 5 of hides
	for _, pages := range []uint32{64, 512, 1} {
		must(t, g.Reshape(t.Context(), pages, nil))
		got, err := g.sharedKeys(t.Context())
		must(t, err)
		if got < 3500*8/10 || got > 3500*12/10 || pages <= sampledPages && got != 3500 {
			t.Errorf("on %d pages: %d keys, want 3500", pages, got)
		}
	}
}

// The pages for a number of keys are those that a plan has, and that a load is told to have.
func TestPagesFor(t *testing.T) {
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
		if got := PagesFor(c.keys); got != c.want {
			t.Errorf("%d keys: %d pages, want %d", c.keys, got, c.want)
		}
	}
}

// A huge number that was asked for by mistake is taken back while the reshape is under way: asking for the earlier number
// ends it, and brings those back who have moved.
func TestReshapeTakenBack(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 256)
	check := g.everybody(t, 40)
	const huge = 256 * 1024
	if started, err := g.StartReshape(t.Context(), huge, ForceReshape); !started || err != nil {
		t.Fatal(started, err)
	}
	await := func(what string, is func(Shape) bool) {
		t.Helper()
		var s Shape
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			var err error
			if s, err = g.Shape(t.Context()); err != nil {
				t.Fatal(err)
			}
			if is(s) {
				return
			}
		}
		t.Fatalf("%s: %+v", what, s)
	}
	await("under way", func(s Shape) bool { return s.Pages == huge && s.Reshaped > 0 })
	if started, err := g.StartReshape(t.Context(), 256); !started || err != nil {
		t.Fatalf("taken back: started %v, %v", started, err)
	}
	await("taken back", func(s Shape) bool {
		if s.Pages != 256 {
			t.Fatalf("%+v", s)
		}
		return !s.Reshaping
	})
	if s, err := g.Shape(t.Context()); err != nil || s.Reshaped != 256 || s.Shared != 256 || s.Err != nil {
		t.Errorf("%+v, %v", s, err)
	}
	check("taken back")
}

// A process that waits for its store does not ask again for a number that was taken back by way of another process.
func TestReshapeTakenBackElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := bubbleLedger(t, 4), &favfilter.Memory{}
		cut := &partitioned{Store: store}
		a := startProcess(t, l, cut, Config{ScrubRate: 1})
		b := startProcess(t, l, store, Config{ScrubRate: 1})
		check := a.everybody(t, 40)
		cut.down.Store(true)
		if started, err := a.StartReshape(t.Context(), 64); !started || err != nil {
			t.Fatal(started, err)
		}
		time.Sleep(10 * time.Second)
		if _, err := b.StartReshape(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		cut.down.Store(false)
		time.Sleep(10 * time.Second)
		for _, p := range []*process{a, b} {
			if s, err := p.Shape(t.Context()); err != nil || s.Pages != 4 || s.Reshaped != 4 || s.Reshaping || s.Err != nil {
				t.Errorf("%+v, %v", s, err)
			}
		}
		check("taken back")
		a.Close()
		b.Close()
		must(t, l.Close())
	})
}
