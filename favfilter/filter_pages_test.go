package favfilter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

func mustCount(t testing.TB, f *favfilter.Filter) int {
	t.Helper()
	n, err := f.Count(t.Context())
	must(t, err)
	return n
}

// Each key counts once, whatever its page and its changes. This also holds for more pages than one
// call of the store reads, and after the filter has grown.
func TestFilterCount(t *testing.T) {
	for _, c := range []favfilter.Config{{Capacity: 100, Pages: 1}, {Capacity: 5000, Pages: 2}, {Capacity: 3000, Pages: 4096}} {
		f := openFilter(t, &favfilter.Memory{}, c)
		want := 0
		tally := func(outcomes []favfilter.Outcome) {
			t.Helper()
			for _, o := range outcomes {
				switch o {
				case favfilter.Added:
					want++
				case favfilter.Removed:
					want--
				default:
				}
			}
			if got := mustCount(t, f); got != want {
				t.Fatalf("%+v: %d keys counted, want %d", c, got, want)
			}
		}
		tally(nil)
		keys := userKeys("U1", 2000)
		tally(mustAdd(t, f, keys...))
		tally(mustAdd(t, f, keys[:500]...))
		tally(mustRemove(t, f, keys[:1000]...))
		tally(mustRemove(t, f, keys[:10]...))
		tally(mustAdd(t, f, keys...))
		if want < 1900 || want > 2000 {
			t.Errorf("%d keys are left of 2,000", want)
		}
	}
}

// A copy has the keys that the filter had. Later changes of one do not affect the other.
func TestFilterSnapshot(t *testing.T) {
	for _, c := range []favfilter.Config{{Capacity: 50, Pages: 1}, {Capacity: 3000, Pages: 256, PageBy: byUser, Seed: 9}} {
		f := openFilter(t, &favfilter.Memory{}, c)
		keys := slices.Concat(userKeys("U1", 500), userKeys("U2", 500), userKeys("U3", 200))
		outcomes := mustAdd(t, f, keys...)
		keys = slices.DeleteFunc(keys, func(string) bool { // remove keys that depend on bits of others
			o := outcomes[0]
			outcomes = outcomes[1:]
			return o != favfilter.Added
		})
		snapshot, err := f.Snapshot(t.Context())
		must(t, err)
		if found := mustContain(t, snapshot, keys...); slices.Contains(found, false) || mustCount(t, snapshot) != len(keys) {
			t.Fatalf("%+v: the copy lacks keys, and counts %d of %d", c, mustCount(t, snapshot), len(keys))
		}
		before := mustContain(t, f, userKeys("U4", 300)...)
		mustAdd(t, snapshot, userKeys("U4", 300)...)
		if got := mustRemove(t, snapshot, keys[:300]...); !slices.Contains(got, favfilter.Removed) || slices.Contains(got, favfilter.Absent) {
			t.Errorf("removals from the copy: %v", got)
		}
		if found := mustContain(t, f, keys...); slices.Contains(found, false) || mustCount(t, f) != len(keys) {
			t.Errorf("%+v: removals from the copy removed keys from the filter", c)
		}
		if after := mustContain(t, f, userKeys("U4", 300)...); !slices.Equal(after, before) {
			t.Errorf("%+v: a key added to the copy is in the filter", c)
		}
		mustRemove(t, f, keys[300:]...)
		if found := mustContain(t, snapshot, keys[300:]...); slices.Contains(found, false) {
			t.Errorf("%+v: removals from the filter removed keys from the copy", c)
		}
		again, err := snapshot.Snapshot(t.Context())
		if err != nil || mustCount(t, again) != mustCount(t, snapshot) {
			t.Errorf("%+v: a copy of the copy: %v", c, err)
		}
	}
}

// Copies are made while writers are active: each has all keys that were added before.
func TestSnapshotWhileWriting(t *testing.T) {
	f := openFilter(t, &favfilter.Memory{}, favfilter.Config{Capacity: 1000, Pages: 128})
	before := userKeys("U0", 500)
	before = slices.DeleteFunc(before, func(key string) bool { return mustAdd(t, f, key)[0] != favfilter.Added })
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for r := range 20 {
				keys := userKeys(fmt.Sprintf("U%d-%d", w+1, r), 20)
				outcomes, err := f.Add(t.Context(), keys...)
				if err != nil {
					t.Error(err)
					return
				}
				for i, o := range outcomes {
					if o == favfilter.Added && i%2 == 0 {
						_, _ = f.Remove(t.Context(), keys[i])
					}
				}
			}
		})
	}
	for range 20 {
		snapshot, err := f.Snapshot(t.Context())
		must(t, err)
		if found := mustContain(t, snapshot, before...); slices.Contains(found, false) {
			t.Error("a copy lacks a key that was added before it")
		}
		mustAdd(t, snapshot, userKeys("mine", 100)...)
	}
	wg.Wait()
}

// If a page cannot be read, is damaged or belongs to another filter, Count and Snapshot fail.
func TestCountAndSnapshotFail(t *testing.T) {
	down := errors.New("node is down")
	inner := &favfilter.Memory{}
	store := &faultyStore{Store: inner, page: 4000}
	f := openFilter(t, store, favfilter.Config{Capacity: 1000, Pages: 4096, PageBy: byUser})
	mustAdd(t, f, keyOfPage(4000, 4096))
	wantBoth := func(name string, ctx context.Context, want error) {
		t.Helper()
		n, countErr := f.Count(ctx)
		snapshot, copyErr := f.Snapshot(ctx)
		if n != 0 || !errors.Is(countErr, want) || !strings.HasPrefix(countErr.Error(), "count keys: ") {
			t.Errorf("%s: counted %d, %v, want %v", name, n, countErr, want)
		}
		if snapshot != nil || !errors.Is(copyErr, want) || !strings.HasPrefix(copyErr.Error(), "copy filter: ") {
			t.Errorf("%s: copied with %v, want %v", name, copyErr, want)
		}
	}
	store.down = down
	wantBoth("a page that cannot be asked", t.Context(), down)
	store.down, store.damage = nil, fmt.Errorf("page 4000: %w", favfilter.ErrDamaged)
	wantBoth("a damaged page", t.Context(), favfilter.ErrDamaged)
	store.damage = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantBoth("a cancelled context", ctx, context.Canceled)
	if n := mustCount(t, f); n != 1 {
		t.Errorf("%d keys counted, want 1", n)
	}
	h := favfilter.Header{Identity: favfilter.Identity{Pages: 4096, Seed: 1}, Shape: shapeFor(t, 10, 0.001), Number: 4000}
	r := favfilter.Replacement{ID: favfilter.PageID{Number: 4000}, Page: newPage(t, h), Newer: true}
	r.Seen = favfilter.Version(encoded(pageOf(t, inner, 4000))[:favfilter.HeaderBytes])
	replace(t, inner, r)
	wantBoth("a page of another filter", t.Context(), favfilter.ErrMismatch)
}
