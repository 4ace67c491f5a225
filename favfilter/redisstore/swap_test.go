package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// overtaken makes each of the first n reads of a page stale at once: another writer changes the
// page. It returns the two writers.
func overtaken(t *testing.T, page *favfilter.Page, n int) (slow, fast favfilter.Store) {
	t.Helper()
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	slow, fast = openStore(t, client, "race"), openStore(t, dial(t, server.Addr()), "race")
	id := favfilter.PageID{Number: page.Header().Number}
	put(t, fast, id, page)
	overtakes := 0
	client.AddHook(&hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		err := next(ctx, cmds)
		if cmds[0].Name() == "mget" && overtakes < n {
			batch := favfilter.Batch{ID: id, Identity: identity(), Add: hashes(5, 10_000+overtakes, 1)}
			wantAll(t, fast.Apply(context.WithoutCancel(ctx), []favfilter.Batch{batch}), favfilter.Applied)
			overtakes++
		}
		return err
	}})
	return slow, fast
}

// grownPage returns a page of several layers, with 200 keys.
func grownPage(t *testing.T, id favfilter.PageID) *favfilter.Page {
	t.Helper()
	page := newPage(t, id.Number, shapeFor(t, 100))
	page.Apply(favfilter.Batch{ID: id, Identity: identity(), Rate: 0.001, Add: hashes(5, 20_000, 200)})
	if page.Header().Grown == 0 {
		t.Fatal("the page has not grown")
	}
	return page
}

// A writer that swaps a page may be overtaken repeatedly, by scripts and by swaps. It still
// succeeds in the end. Each key takes effect once, and no key is lost.
func TestSwapOvertaken(t *testing.T) {
	id := favfilter.PageID{Number: 5}
	const overtakes, n = 6, 300
	for name, page := range map[string]*favfilter.Page{"by scripts": newPage(t, 5, shapeFor(t, 2000)), "by swaps": grownPage(t, id)} {
		t.Run(name, func(t *testing.T) {
			had := int(page.Header().Count)
			slow, fast := overtaken(t, page, overtakes)
			res := slow.Apply(t.Context(), []favfilter.Batch{{ID: id, Identity: identity(), Rate: 0.001, Add: hashes(5, 0, n)}})
			wantAll(t, res, favfilter.Applied)
			if len(res[0].Outcomes) != n {
				t.Errorf("%d outcomes of %d keys", len(res[0].Outcomes), n)
			}
			l, _, err := fast.Load(t.Context(), []favfilter.PageID{id})
			must(t, err)
			added := had + overtakes
			for i, o := range res[0].Outcomes {
				if o == favfilter.Added {
					added++
				} else if o != favfilter.Present {
					t.Errorf("key %d is %v", i, o)
				}
			}
			if int(l[0].Page.Header().Count) != added {
				t.Errorf("%d keys are held, %d were added", l[0].Page.Header().Count, added)
			}
			for i, h := range append(hashes(5, 0, n), hashes(5, 10_000, overtakes)...) {
				if !l[0].Page.Contains(h) {
					t.Errorf("key %d was lost", i)
				}
			}
		})
	}
}

// A writer that is overtaken until its time is up changes nothing, and gets an error.
func TestSwapAlwaysOvertaken(t *testing.T) {
	id := favfilter.PageID{Number: 5}
	slow, fast := overtaken(t, grownPage(t, id), 1_000_000)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	for _, n := range []int{1, 300} {
		res := slow.Apply(ctx, []favfilter.Batch{{ID: id, Identity: identity(), Rate: 0.001, Add: hashes(5, 0, n)}})
		if res[0].Err == nil || res[0].State != 0 || !strings.Contains(res[0].Err.Error(), "page 5") {
			t.Errorf("%d keys: %v, %v, want an error that names the page", n, res[0].State, res[0].Err)
		}
	}
	l, _, err := fast.Load(t.Context(), []favfilter.PageID{id})
	if err != nil || l[0].Page.Contains(hashes(5, 0, 1)[0]) {
		t.Errorf("%+v, %v: the page was changed", l[0], err)
	}
}
