package redisstore_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func openFilter(t testing.TB, store favfilter.Store, c favfilter.Config) *favfilter.Filter {
	t.Helper()
	f, err := favfilter.Open(t.Context(), store, c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func userKeys(user string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s_P%d", user, i)
	}
	return keys
}

func TestFilterModel(t *testing.T) {
	client := redistest.Start(t).Client()
	var opened atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		storetest.FilterModel(rt, openStore(t, client, fmt.Sprintf("model-%d", opened.Add(1))))
	})
}

func must(t testing.TB, cmd redis.Cmder) {
	t.Helper()
	if err := cmd.Err(); err != nil {
		t.Fatal(err)
	}
}

// Writers in several processes, each with its own client and store, change the same page by script
// and by compare-and-swap: no key is lost.
func TestFilterRacing(t *testing.T) {
	server := redistest.Start(t)
	const writers, rounds = 8, 25
	kept := make([][]string, writers)
	var wg sync.WaitGroup
	for w := range writers {
		f := openFilter(t, openStore(t, dial(t, server.Addr()), "race"), favfilter.Config{Capacity: 8000, Pages: 2})
		wg.Go(func() {
			for r := range rounds {
				keys := userKeys(fmt.Sprintf("U%d-%d", w, r), 1+39*(r%2))
				outcomes, err := f.Add(t.Context(), keys...)
				if err != nil {
					t.Error(err)
					return
				}
				var undo []string
				for i, o := range outcomes {
					switch {
					case o != favfilter.Added: // a false positive, so this writer must not remove it
					case i%3 == 0:
						kept[w] = append(kept[w], keys[i])
					default:
						undo = append(undo, keys[i])
					}
				}
				if _, err := f.Remove(t.Context(), undo...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f := openFilter(t, openStore(t, server.Client(), "race"), favfilter.Config{Capacity: 8000, Pages: 2})
	for w, keys := range kept {
		found, err := f.Contains(t.Context(), keys...)
		if err != nil || slices.Contains(found, false) {
			t.Errorf("writer %d lost a key of %d: %v", w, len(keys), err)
		}
	}
}
