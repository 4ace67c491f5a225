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

// A writer that uses a script is faster than a compare-and-swap and may overtake it every time. The
// large batch still takes effect, once for each key.
func TestSwapOvertaken(t *testing.T) {
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	slow, fast := openStore(t, client, "race"), openStore(t, dial(t, server.Addr()), "race")
	id := favfilter.PageID{Number: 5}
	create(t, fast, 2000, id)
	overtakes := 0
	client.AddHook(&hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		err := next(ctx, cmds)
		if cmds[0].Name() == "mget" {
			batch := favfilter.Batch{ID: id, Identity: identity(), Add: hashes(5, 10_000+overtakes, 1)}
			wantAll(t, fast.Apply(ctx, []favfilter.Batch{batch}), favfilter.Applied)
			overtakes++
		}
		return err
	}})
	const n = 500
	for _, remove := range []int{0, 300} {
		batch := favfilter.Batch{ID: id, Identity: identity(), Remove: hashes(5, 0, remove), Add: hashes(5, 0, n)}
		res := slow.Apply(t.Context(), []favfilter.Batch{batch})
		wantAll(t, res, favfilter.Applied)
		if len(res[0].Outcomes) != remove+n {
			t.Fatalf("%d outcomes, want %d", len(res[0].Outcomes), remove+n)
		}
		for i, o := range res[0].Outcomes {
			want := favfilter.Added // new, or removed just before
			switch {
			case i < remove:
				want = favfilter.Removed
			case remove > 0 && i-remove >= remove:
				want = favfilter.Present
			}
			if o != want && o != favfilter.Stuck && o != favfilter.Present {
				t.Errorf("key %d of %d: %v, want %v", i, remove+n, o, want)
			}
		}
	}
	l, err := fast.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	for i, h := range append(hashes(5, 0, n), hashes(5, 10_000, overtakes)...) {
		if !l[0].Page.Contains(h) {
			t.Errorf("key %d was lost", i)
		}
	}
	if overtakes < 16 {
		t.Errorf("%d overtakes", overtakes)
	}
}

// overtaken makes each of the first n reads of a page that has grown stale at once: another writer
// swaps the page. It returns the two writers.
func overtaken(t *testing.T, id favfilter.PageID, n int) (slow, fast favfilter.Store) {
	t.Helper()
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	slow, fast = openStore(t, client, "race"), openStore(t, dial(t, server.Addr()), "race")
	page := newPage(t, id.Number, shapeFor(t, 100))
	must(t, page.Grow(shapeFor(t, 5000)))
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

// All writers swap a page that has grown. A writer that is overtaken repeatedly still succeeds in
// the end. Each key takes effect once, and no key is lost.
func TestSwapOfAGrownPageOvertaken(t *testing.T) {
	id := favfilter.PageID{Number: 5}
	const overtakes, n = 12, 300 // more than the rounds before the batch is applied in steps
	slow, fast := overtaken(t, id, overtakes)
	res := slow.Apply(t.Context(), []favfilter.Batch{{ID: id, Identity: identity(), Rate: 0.001, Grow: true, Add: hashes(5, 0, n)}})
	wantAll(t, res, favfilter.Applied)
	if len(res[0].Outcomes) != n {
		t.Errorf("%d outcomes of %d keys", len(res[0].Outcomes), n)
	}
	l, err := fast.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	added := overtakes
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
}

// A writer that is overtaken until its time is up changes nothing, and gets an error.
func TestSwapOfAGrownPageAlwaysOvertaken(t *testing.T) {
	id := favfilter.PageID{Number: 5}
	slow, fast := overtaken(t, id, 1_000_000)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	for _, n := range []int{1, 300} {
		res := slow.Apply(ctx, []favfilter.Batch{{ID: id, Identity: identity(), Rate: 0.001, Grow: true, Add: hashes(5, 0, n)}})
		if res[0].Err == nil || res[0].State != 0 || !strings.Contains(res[0].Err.Error(), "page 5") {
			t.Errorf("%d keys: %v, %v, want an error that names the page", n, res[0].State, res[0].Err)
		}
	}
	l, err := fast.Load(t.Context(), []favfilter.PageID{id})
	if err != nil || l[0].Page.Contains(hashes(5, 0, 1)[0]) {
		t.Errorf("%+v, %v: the page was changed", l[0], err)
	}
}
