package activity

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// In a cluster, a page of several homes stands in another slot than the windows of most of its users: one Load reads both.
func TestReshapeInCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	redis, err := redisstore.New(cluster.Client(), "feed")
	must(t, err)
	store := &readCounter{Store: redis}
	g := newRig(t, store, 32)
	check := g.everybody(t, 100)
	for _, pages := range []uint32{4, 64, 1, 32} {
		must(t, g.Reshape(t.Context(), pages, nil))
		before := store.loads.Load()
		check(fmt.Sprint(pages, " pages"))
		if n := store.loads.Load() - before; n != 100 {
			t.Errorf("%d pages: %d loads for 100 views", pages, n)
		}
		for i := range 100 {
			user := fmt.Sprint("u", i)
			_, err := g.Record(t.Context(), []Activity{add(user, "seen", fmt.Sprint("at ", pages)), add(user, "like", fmt.Sprint("at ", pages))})
			must(t, err)
			g.want(t, user, "seen", fmt.Sprint("at ", pages), Direct)
			g.want(t, user, "like", fmt.Sprint("at ", pages), Direct)
		}
	}
	g.wantWhole(t)
}

// An import goes on while the number of pages changes.
func TestReshapeDuringBulk(t *testing.T) {
	for _, pages := range []uint32{64, 2} {
		g := crowded(t, &favfilter.Memory{}, 8)
		bulk := g.NewBulk()
		var all []Activity
		for round := range 4 {
			var batch []Activity
			for i := range 300 {
				batch = append(batch, add(fmt.Sprint("u", i%50), "hide", fmt.Sprint("p", round, "-", i)), add(fmt.Sprint("u", i), "block", "star"))
			}
			prepared, err := bulk.Prepare(batch)
			must(t, err)
			_, err = bulk.Record(t.Context(), prepared)
			must(t, err)
			if round%2 == 0 {
				must(t, g.Reshape(t.Context(), pages<<round, nil))
			}
			all = append(all, batch...)
		}
		must(t, bulk.Finish(t.Context()))
		for _, a := range all {
			g.want(t, a.User, a.Kind, a.Target, Direct)
		}
		for i := range 300 {
			if g.check(t, "star", "block", fmt.Sprint("u", i)) == None {
				t.Errorf("the star misses the block of u%d", i)
			}
		}
		g.scrubAll()
		g.wantWhole(t)
		if n := g.Stats().OwnPages; n == 0 {
			t.Error("nobody who is heavy has left a page that a reshape made")
		}
	}
}

// An export during which users move, to other pages and to their own, has everything.
func TestExportDuringReshape(t *testing.T) {
	for _, start := range []uint32{8, 32, 2} {
		g := newRig(t, &favfilter.Memory{}, 8)
		g.everybody(t, 60)
		must(t, g.Reshape(t.Context(), start, nil))
		want := make(map[Activity]bool)
		collect := func(into map[Activity]bool) func(Activity) error {
			return func(a Activity) error {
				into[add(a.User, a.Kind, a.Target)] = true
				return nil
			}
		}
		must(t, g.Export(t.Context(), "", collect(want)))
		if len(want) != 60*6 {
			t.Fatalf("%d activities", len(want))
		}
		got := make(map[Activity]bool)
		add, n := collect(got), 0
		must(t, g.Export(t.Context(), "", func(a Activity) error {
			n++
			switch n {
			case 20:
				must(t, g.Reshape(t.Context(), 64, nil))
			case 100:
				must(t, g.Reshape(t.Context(), 1, nil))
			case 150, 200, 250:
				must(t, g.move(t.Context(), userHash(g.identity.Seed, a.User), g.Recorder.ledger.MoveOut))
			case 300:
				must(t, g.Reshape(t.Context(), 16, nil))
			}
			return add(a)
		}))
		for a := range want {
			if !got[a] {
				t.Errorf("from %d pages: %+v is not exported", start, a)
			}
		}
	}
}

// Who is deleted after a reshape leaves nothing, of a page of their own or of one that is shared.
func TestDeleteAfterReshape(t *testing.T) {
	for _, pages := range []uint32{64, 2} {
		g := crowded(t, &favfilter.Memory{}, 8)
		check := g.everybody(t, 30)
		must(t, g.Reshape(t.Context(), pages, nil))
		g.recordMany(t, "bot", "hide", 300, posts("b"))
		g.recordMany(t, "mate", "hide", 5, posts("m"))
		for i := range 30 {
			g.record(t, true, add("bot", "block", fmt.Sprint("u", i)))
			g.record(t, true, add("mate", "block", fmt.Sprint("u", i)))
		}
		g.settleMoves()
		if g.Stats().OwnPages == 0 {
			t.Fatal("the bot has no page of its own")
		}
		for _, user := range []string{"bot", "mate"} {
			if _, err := g.DeleteUser(t.Context(), user); err != nil {
				t.Fatal(err)
			}
			found := g.lookAll(t, user, "hide", posts("b"), 300) + g.lookAll(t, user, "hide", posts("m"), 5)
			for i := range 30 {
				if g.check(t, fmt.Sprint("u", i), "block", user) != None {
					found++
				}
			}
			g.checkRate(t, found, 365)
			g.wantGone(t, g.ledger, user)
		}
		check("deleted")
		g.wantWhole(t)
		g.scrubAll()
		if n := g.Stats().Found; len(n) > 0 {
			t.Errorf("the scrub found %v", n)
		}
	}
}

// Who is heavy leaves a page that a reshape has made, too.
func TestHeavyUserLeavesReshapedPage(t *testing.T) {
	for _, pages := range []uint32{32, 2} {
		g := crowded(t, &favfilter.Memory{}, 8)
		must(t, g.Reshape(t.Context(), pages, nil))
		g.recordMany(t, "bot", "hide", 600, posts("b"))
		g.settleMoves()
		if n := g.Stats().OwnPages; n != 1 {
			t.Errorf("%d pages: %d users have a page of their own", pages, n)
		}
		must(t, g.Reshape(t.Context(), 8, nil))
		for i := range 600 {
			g.want(t, "bot", "hide", posts("b")(i), Direct)
		}
		g.wantWhole(t)
	}
}

// The scrub tells when pages have too many keys, and how many would be right, once; and is content when there are.
func TestReshapeDue(t *testing.T) {
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
		{12, 12*DuePage + 1, 32}, // a reshape is under way
		{MaxPages, MaxPages * DuePage * 2, 0},
	} {
		if got := (load{pages: c.pages, keys: c.keys}).due(); got != c.want {
			t.Errorf("%d keys on %d pages: %d are due, want %d", c.keys, c.pages, got, c.want)
		}
	}
	g := newRig(t, &favfilter.Memory{}, 1)
	g.ownPage = 1 << 20
	var batch []Activity
	for i := range DuePage + 100 {
		batch = append(batch, add(fmt.Sprint("u", i), "hide", "p"))
	}
	_, err := g.Record(t.Context(), batch)
	must(t, err)
	g.scrubAll() // begins in the middle of a round
	g.scrubAll()
	s := g.Stats()
	if s.ReshapeDue != 4 || s.KeysPerPage != DuePage+100 || s.SharedPages != 1 {
		t.Errorf("%+v", s)
	}
	must(t, g.Reshape(t.Context(), s.ReshapeDue, nil))
	g.scrubAll()
	if s := g.Stats(); s.ReshapeDue != 0 || s.KeysPerPage != (DuePage+100)/4.0 || s.SharedPages != 4 {
		t.Errorf("after it: %+v", s)
	}
}

// Who has a page of their own is no load for others.
func TestOwnPagesAreNotDue(t *testing.T) {
	g := crowded(t, &favfilter.Memory{}, 2)
	g.recordMany(t, "bot", "hide", 3*DuePage, posts("b"))
	g.settleMoves()
	for range 3 {
		g.scrubAll()
	}
	if s := g.Stats(); s.OwnPages != 1 || s.SharedPages != 2 || s.KeysPerPage != 0 || s.ReshapeDue != 0 {
		t.Errorf("%+v", s)
	}
}

// A page that a reshape made, and that lost a write of another process, is found out and mended like any other.
func TestReshapedPageIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := bubbleLedger(t, 2), &favfilter.Memory{}
		a := startProcess(t, l, store, Config{ScrubRate: 1})
		b := startProcess(t, l, store, Config{ScrubRate: 1})
		check := a.everybody(t, 20)
		must(t, a.Reshape(t.Context(), 8, nil))
		user := ""
		for i := 0; user == ""; i++ {
			if name := fmt.Sprint("u", i); a.pageOf(userHash(a.identity.Seed, name)) >= ledger.OwnPages {
				user = name
			}
		}
		id := a.pageID(a.pageOf(userHash(a.identity.Seed, user)))
		back := heldBack(t, store, id)
		a.record(t, true, add(user, "hide", "late"))
		back()
		time.Sleep(2 * time.Second)
		loaded, err := store.Load(t.Context(), []favfilter.PageID{id})
		must(t, err)
		if h := loaded[0].Page.Header(); h.Sequence != 2 {
			t.Errorf("the page stands at %d", h.Sequence)
		}
		b.want(t, user, "hide", "late", Direct)
		check("mended")
		a.Close()
		b.Close()
		must(t, l.Close())
	})
}

// failingPage is a store in which one page cannot be reached.
type failingPage struct {
	favfilter.Store
	id favfilter.PageID
}

func (s failingPage) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	if slices.Contains(ids, s.id) {
		return nil, faulttest.ErrInjected
	}
	return s.Store.Load(ctx, ids)
}

func (s failingPage) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	if r.ID == s.id {
		return false, faulttest.ErrInjected
	}
	return s.Store.Replace(ctx, r)
}

// A write is not acknowledged before the page that its user has left stands where the reshape has put it: somebody may not
// have heard of it. Where that page cannot be reached, and the ledger cannot be polled either, the write fails.
func TestWriteWaitsForThePageLeft(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	unpolled := &slowLedger{Ledger: g.ledger}
	g.everybody(t, 40)
	must(t, g.Reshape(t.Context(), 4, nil))
	user, left := "", favfilter.PageID{}
	for i := 0; user == ""; i++ { // of the last quarter of all: 2^24+2, which they leave for another
		if name := fmt.Sprint("u", i); userHash(g.identity.Seed, name)>>61 == 7 {
			user, left = name, g.pageID(g.pageOf(userHash(g.identity.Seed, name)))
		}
	}
	back := heldBack(t, g.store, left)
	must(t, g.Reshape(t.Context(), 8, nil))
	if id := g.pageID(g.pageOf(userHash(g.identity.Seed, user))); id == left {
		t.Fatal("the user has not left the page")
	}
	back()
	g.open(t, unpolled, g.store) // nothing is known of where pages stand
	unpolled.fails.Store(true)
	g.Recorder.store = failingPage{g.store, left}
	if _, err := g.Record(t.Context(), []Activity{add(user, "hide", "q")}); dependency(err) != "pages" {
		t.Errorf("acknowledged though somebody may take the page left for theirs: %v", err)
	}
	g.Recorder.store = g.store
	g.record(t, false, add(user, "hide", "q"))
	loaded, err := g.store.Load(t.Context(), []favfilter.PageID{left})
	must(t, err)
	if h := loaded[0].Page.Header(); h.Moves != 1 || h.Sequence != 2 {
		t.Errorf("acknowledged while the page left stands at %d, with %d moves", h.Sequence, h.Moves)
	}
}
