package activity

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/ratetest"
)

func TestWithoutLedger(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := openWithout(t, PlainConfig{Store: store, Pages: 4})
		g.record(t, true, add("1", "block", "2"))
		g.record(t, false, add("1", "block", "2"))
		g.record(t, true, add("1", "hide", "a_b%c"))
		g.record(t, true, add("u_%", "block", "1"))
		g.record(t, true, add("1", "like", "p"))
		g.record(t, true, add("1", "seen", "p"))
		look := func() {
			t.Helper()
			g.want(t, "1", "block", "2", Direct)
			g.want(t, "2", "block", "1", Reverse)
			g.want(t, "1", "hide", "a_b%c", Direct)
			g.want(t, "u_%", "block", "1", Direct)
			g.want(t, "1", "block", "u_%", Reverse)
			g.want(t, "1", "like", "p", Direct)
			g.want(t, "1", "seen", "p", Direct)
			g.want(t, "3", "block", "2", None)
		}
		look()
		g.Close()
		g = openWithout(t, PlainConfig{Store: store}) // the store says how it was made
		if g.Inside().Identity().Pages != 4 {
			t.Errorf("opened again with %d pages", g.Inside().Identity().Pages)
		}
		look()
		g.record(t, true, undo("1", "block", "2"))
		g.record(t, false, undo("1", "block", "2"))
		g.want(t, "1", "block", "2", None)
		g.want(t, "2", "block", "1", None)
		outcomes, err := g.Record(t.Context(), []Activity{
			add("5", "hide", "p"), add("5", "hide", "p"), undo("5", "hide", "p"), undo("5", "hide", "p"), add("5", "hide", "p"), add("5", "seen", "p"),
		})
		want := []Outcome{Changed, Unchanged, Changed, Unchanged, Changed, Changed}
		if err != nil || !slices.Equal(outcomes, want) {
			t.Errorf("%v, %v, want %v", outcomes, err, want)
		}
		g.want(t, "5", "hide", "p", Direct)
	})
}

// TestWithoutLedgerRefuses checks that calls that need a ledger are refused and change nothing.
func TestWithoutLedgerRefuses(t *testing.T) {
	g := openWithout(t, PlainConfig{Store: &favfilter.Memory{}, Pages: 2})
	ctx := t.Context()
	g.record(t, true, add("1", "block", "2"))
	timed := add("1", "hide", "p")
	timed.Until = time.Now().Add(time.Hour)
	var invalid *InvalidError
	if _, err := g.Record(ctx, []Activity{add("1", "hide", "q"), timed}); !errors.As(err, &invalid) || invalid.Code != CodeNoLedger ||
		invalid.Field != "activities[1].until" {
		t.Errorf("until: %v", err)
	}
	timed.Since, timed.Until = time.Now().Add(-time.Hour), time.Time{}
	if _, err := g.Record(ctx, []Activity{timed}); !errors.As(err, &invalid) || invalid.Code != CodeNoLedger ||
		invalid.Field != "activities[0].since" {
		t.Errorf("since: %v", err)
	}
	g.want(t, "1", "block", "2", Direct)
	g.want(t, "1", "hide", "q", None)
	limited, err := NewKinds(Kind{Name: "hide", Plural: "hides", Target: Post, Effect: Drop, Limit: 5})
	must(t, err)
	if _, err := OpenPlain(ctx, PlainConfig{Store: &favfilter.Memory{}, Kinds: limited}); err == nil {
		t.Error("a limit is taken without a ledger")
	}
	keeping, err := NewKinds(append(builtinKinds(), Kind{Name: "pin", Plural: "pins", Target: Post, Effect: Keep, Over: []string{"hide"}})...)
	must(t, err)
	if _, err := OpenPlain(ctx, PlainConfig{Store: &favfilter.Memory{}, Kinds: keeping}); err == nil {
		t.Error("a kind that keeps is taken without a ledger")
	}
}

// TestWithoutLedgerHistory: windows take a since without a ledger, too.
func TestWithoutLedgerHistory(t *testing.T) {
	g := openWithout(t, PlainConfig{Store: &favfilter.Memory{}, Pages: 2})
	recent, old := add("1", "seen", "recent"), add("1", "seen", "old")
	const day = 24 * time.Hour
	recent.Since, old.Since = time.Now().Add(-29*day), time.Now().Add(-36*day)
	outcomes, err := g.Record(t.Context(), []Activity{recent, old})
	must(t, err)
	if !slices.Equal(outcomes, []Outcome{Changed, Unchanged}) {
		t.Errorf("outcomes %v", outcomes)
	}
	g.want(t, "1", "seen", "recent", Direct)
	g.want(t, "1", "seen", "old", None)
}

// TestWithoutLedgerSettings checks that a filter cannot be opened with other settings than it was
// made with.
func TestWithoutLedgerSettings(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := openWithout(t, PlainConfig{Store: store, Pages: 4})
		g.record(t, true, add("1", "block", "2"))
		for name, c := range map[string]PlainConfig{
			"pages": {Store: store, Pages: 8}, "rate": {Store: store, FalsePositiveRate: 0.1},
		} {
			if _, err := OpenPlain(t.Context(), c); !errors.Is(err, favfilter.ErrMismatch) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	store := &favfilter.Memory{}
	openWithout(t, PlainConfig{Store: store, Pages: 4})
	l := openLedger(t, filepath.Join(t.TempDir(), "ledger.db"), 4)
	if _, err := Open(t.Context(), Config{Store: store, Ledger: l}); !errors.Is(err, favfilter.ErrMismatch) {
		t.Errorf("pages without a ledger: %v", err)
	}
	store = &favfilter.Memory{}
	g := newRig(t, store, 1)
	g.record(t, true, add("1", "block", "2"))
	if _, err := OpenPlain(t.Context(), PlainConfig{Store: store}); !errors.Is(err, favfilter.ErrMismatch) {
		t.Errorf("pages of a ledger: %v", err)
	}
}

// TestWithoutLedgerAndStore: without either there is no answer.
func TestWithoutLedgerAndStore(t *testing.T) {
	g := openWithout(t, PlainConfig{Store: &favfilter.Memory{}, Pages: 2})
	g.under.Store = faulttest.Down()
	if _, err := g.View(t.Context(), "1", g.Kinds().All()); dependency(err) != "pages" {
		t.Errorf("view: %v", err)
	}
	if ready, down := g.Ready(context.Background()); ready || len(down) != 1 {
		t.Errorf("ready %v, %v", ready, down)
	}
}

// TestWithoutLedgerAtOnce: processes that open a new filter at once open one.
func TestWithoutLedgerAtOnce(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		filters := make([]*Plain, 4)
		var wg sync.WaitGroup
		for i := range filters {
			wg.Go(func() {
				r, err := OpenPlain(t.Context(), PlainConfig{Store: store, Pages: 4})
				if err != nil {
					t.Error(err)
					return
				}
				filters[i] = r
			})
		}
		wg.Wait()
		for _, r := range filters {
			if r == nil {
				t.FailNow()
			}
			if r.source.Identity() != filters[0].source.Identity() {
				t.Errorf("%+v and %+v", r.source.Identity(), filters[0].source.Identity())
			}
			r.Close()
		}
	})
}

// TestWithoutLedgerOverOne checks that the pages of a ledger are not opened as a filter without
// one, even if page 0 is missing.
func TestWithoutLedgerOverOne(t *testing.T) {
	store := &favfilter.Memory{}
	g := newRig(t, store, 64)
	user := "1"
	for i := 2; g.pageOf(t, user) == 0; i++ {
		user = fmt.Sprint(i)
	}
	g.record(t, true, add(user, "hide", "p"))
	if _, err := OpenPlain(t.Context(), PlainConfig{Store: store}); !errors.Is(err, favfilter.ErrMismatch) {
		t.Errorf("pages of a ledger: %v", err)
	}
}

// TestStuckOnOneSide: a block that cannot be undone on one side is not undone on the other.
func TestStuckOnOneSide(t *testing.T) {
	store := &favfilter.Memory{}
	openWithout(t, PlainConfig{Store: store, Pages: 4})
	made, _, err := store.Load(t.Context(), []favfilter.PageID{{}})
	must(t, err)
	h := made[0].Page.Header()
	h.Shape.Uniform = true // keys with more bits are seldom stuck
	page, err := favfilter.NewPage(h)
	must(t, err)
	_, err = store.Replace(t.Context(), favfilter.Replacement{Page: page, Seen: made[0].Version})
	must(t, err)
	g := openWithout(t, PlainConfig{Store: store, Pages: 4})
	var batch []Activity
	for i := range 6000 {
		batch = append(batch, add(fmt.Sprint("u", i%50), "block", fmt.Sprint("v", i)))
	}
	_, err = g.Record(t.Context(), batch)
	must(t, err)
	whole := func(a Activity) bool { // what is not there may look as if it were, so that either match will do
		return g.match(t, a.User, "block", a.Target) != None && g.match(t, a.Target, "block", a.User) != None
	}
	stuck, lost := 0, 0
	for i := range batch {
		if !whole(batch[i]) {
			lost++ // with a false positive that was undone
			continue
		}
		batch[i].Remove = true
		outcomes, err := g.Record(t.Context(), batch[i:i+1])
		must(t, err)
		if outcomes[0] != Stuck {
			continue
		}
		stuck++
		if !whole(batch[i]) {
			t.Errorf("the block of %s by %s is stuck, and undone on one side", batch[i].Target, batch[i].User)
		}
	}
	t.Logf("%d of %d stuck, %d lost before", stuck, len(batch), lost)
	if most := favfilter.MaxHashes * ratetest.Most(2*g.Plain.rates.Key*float64(len(batch))); lost > most {
		t.Errorf("%d of %d lost, where false positives may take %d along", lost, len(batch), most)
	}
	if stuck == 0 {
		t.Error("nothing was stuck to try this")
	}
}
