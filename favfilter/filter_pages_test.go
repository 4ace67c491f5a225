package favfilter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// If a page cannot be read, is damaged or belongs to another filter, Count fails.
func TestCountFails(t *testing.T) {
	down := errors.New("node is down")
	inner := &favfilter.Memory{}
	store := &faultyStore{Store: inner, page: 4000}
	f := openFilter(t, store, favfilter.Config{Capacity: 1000, Pages: 4096, PageBy: byUser})
	mustAdd(t, f, keyOfPage(4000, 4096))
	wantFailure := func(name string, ctx context.Context, want error) {
		t.Helper()
		n, countErr := f.Count(ctx)
		if n != 0 || !errors.Is(countErr, want) || !strings.HasPrefix(countErr.Error(), "count keys: ") {
			t.Errorf("%s: counted %d, %v, want %v", name, n, countErr, want)
		}
	}
	store.down = down
	wantFailure("a page that cannot be asked", t.Context(), down)
	store.down, store.damage = nil, fmt.Errorf("page 4000: %w", favfilter.ErrDamaged)
	wantFailure("a damaged page", t.Context(), favfilter.ErrDamaged)
	store.damage = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantFailure("a cancelled context", ctx, context.Canceled)
	if n := mustCount(t, f); n != 1 {
		t.Errorf("%d keys counted, want 1", n)
	}
	h := favfilter.Header{Identity: favfilter.Identity{Pages: 4096, Seed: 1}, Shape: shapeFor(t, 10, 0.001), Number: 4000}
	r := favfilter.Replacement{ID: favfilter.PageID{Number: 4000}, Page: newPage(t, h), Newer: true}
	r.Seen = favfilter.Version(encoded(pageOf(t, inner, 4000))[:favfilter.HeaderBytes])
	replace(t, inner, r)
	wantFailure("a page of another filter", t.Context(), favfilter.ErrMismatch)
}
