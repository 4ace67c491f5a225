package pages

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// TestStatsOfViews checks the counts of views from store and ledger, and whether the store counts
// as down.
func TestStatsOfViews(t *testing.T) {
	store := &partitioned{Store: &favfilter.Memory{}}
	g := newRig(t, store, 1)
	g.record(t, true, add("1", "hide", "p"))
	want := func(fromStore, fromLedger uint64, down bool) {
		t.Helper()
		if s := g.Stats(); s.FromStore != fromStore || s.FromLedger != fromLedger || s.PagesDown != down || s.LedgerDown {
			t.Errorf("%d views from the store, %d from the ledger, pages down %v, ledger down %v; want %d, %d, %v, false",
				s.FromStore, s.FromLedger, s.PagesDown, s.LedgerDown, fromStore, fromLedger, down)
		}
	}
	want(0, 0, false)
	g.check(t, "1", "hide", "p")
	want(1, 0, false)
	store.down.Store(true)
	g.check(t, "1", "hide", "p")
	want(1, 1, true)
	store.down.Store(false)
	g.scrubAll()
	want(1, 1, false)
	store.down.Store(true)
	g.scrubAll()
	want(1, 1, true)
}

// TestScrubAge is the time since the end of a round that checked every page.
func TestScrubAge(t *testing.T) {
	store := &partitioned{Store: &favfilter.Memory{}}
	g := newRig(t, store, 4)
	g.record(t, true, add("1", "hide", "p"))
	before := g.life.Elapsed()
	if age := g.Stats().ScrubAge; int64(age) < before {
		t.Errorf("age %v, %v after the start, without a round", age, time.Duration(before))
	}
	store.down.Store(true)
	g.scrubAll()
	if age := g.Stats().ScrubAge; int64(age) < before {
		t.Errorf("age %v after a round without answers", age)
	}
	store.down.Store(false)
	g.scrubAll()
	if age, since := g.Stats().ScrubAge, g.life.Elapsed()-before; int64(age) >= since {
		t.Errorf("age %v of a round that began %v ago", age, time.Duration(since))
	}
}

// TestOnRebuild checks that OnRebuild is called for each rebuilt page, and for each failed rebuild.
func TestOnRebuild(t *testing.T) {
	store := &partitioned{Store: &favfilter.Memory{}}
	g := newRig(t, store, 1)
	var mu sync.Mutex
	var told []string
	g.rebuilder.rebuilds.onRebuild = func(reason string, took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		if took <= 0 {
			t.Errorf("%s took %v", reason, took)
		}
		if err != nil {
			reason += " failed"
		}
		told = append(told, reason)
	}
	g.record(t, true, add("1", "hide", "p")) // makes the page
	store.down.Store(true)
	g.check(t, "1", "hide", "p") // made, but not stored
	if want := []string{"missing", "missing failed"}; !slices.Equal(told, want) {
		t.Errorf("%v, want %v", told, want)
	}
	store.down.Store(false)
	must(t, g.ledger.Close())
	told = nil
	if err := g.rebuilder.remake(context.WithoutCancel(t.Context()), 0, 1, "corrupt"); err == nil || !slices.Equal(told, []string{"corrupt failed"}) {
		t.Errorf("%v, %v, without a ledger", told, err)
	}
	if s := g.Stats(); s.Rebuilding != 0 {
		t.Errorf("%d pages are being rebuilt, want 0", s.Rebuilding)
	}
}

// TestRebuilding counts the pages that are being rebuilt.
func TestRebuilding(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	for range maxRebuilds {
		g.rebuilder.rebuilds.slots <- struct{}{}
	}
	_, _, err := g.rebuilder.join(0, "missing", 1)
	must(t, err)
	if _, _, err := g.rebuilder.join(1, "missing", 1); !errors.Is(err, ErrOverloaded) {
		t.Errorf("a second flight: %v", err)
	}
	if n := g.Stats().Rebuilding; n != 1 {
		t.Errorf("%d pages are being rebuilt, want 1", n)
	}
	for range maxRebuilds {
		<-g.rebuilder.rebuilds.slots
	}
}
