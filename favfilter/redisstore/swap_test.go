package redisstore_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A writer by script is faster than a compare-and-swap and may overtake it every time.
// The large batch takes effect all the same, each key once.
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
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range append(hashes(5, 0, n), hashes(5, 10_000, overtakes)...) {
		if !l[0].Page.Contains(h) {
			t.Errorf("key %d was lost", i)
		}
	}
	if overtakes < 16 {
		t.Errorf("%d overtakes", overtakes)
	}
}
