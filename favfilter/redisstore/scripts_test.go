package redisstore_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// The scripts disappear before the first command of a pipeline, or between its commands. Earlier
// commands took effect and are not resent; later ones are resent, each with its script.
func TestScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	ids := pageIDs(8)
	s := openStore(t, client, "flush")
	create(t, s, 100, ids...)
	wantAll(t, s.Apply(t.Context(), addOne(ids, 1)), favfilter.Applied)
	at := -1
	client.AddHook(&hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		if at >= 0 {
			cmds = slices.Insert(slices.Clone(cmds), at, redis.Cmder(redis.NewStatusCmd(ctx, "script", "flush")))
			at = -1
		}
		return next(ctx, cmds)
	}})
	for n, flushed := range []int{0, 4} {
		at = flushed
		got := commandsOf(server, func() {
			wantAll(t, s.Apply(t.Context(), addOne(ids, uint64(2+n))), favfilter.Applied)
		})
		maps.DeleteFunc(got, func(name string, _ int64) bool { return !strings.HasPrefix(name, "eval") })
		if want := map[string]int64{"evalsha": 8, "eval": int64(8 - flushed)}; !maps.Equal(got, want) {
			t.Errorf("commands %v, want %v", got, want)
		}
	}
	wantKeys(t, s, ids, 3)
	// Without a guard, the outcome and the sequence would show that a batch ran twice.
	at = 4
	batches := addOne(ids, 4)
	for i := range batches {
		batches[i].Sequence = 0
	}
	for i, r := range s.Apply(t.Context(), batches) {
		if r.Err != nil || !slices.Equal(r.Outcomes, []favfilter.Outcome{favfilter.Added}) || r.Header.Sequence != 4 {
			t.Errorf("batch %d: %v at %d, %v, want added once", i, r.Outcomes, r.Header.Sequence, r.Err)
		}
	}
	wantKeys(t, s, ids, 4)
}

// The server dies between the commands of one pipeline and comes back with its data, but without
// its scripts. The commands that were cut off fail. A repetition of the pipeline applies only
// those.
func TestRestartWithinAPipeline(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	client := dial(t, server.Addr())
	ids := pageIDs(6)
	s := openStore(t, client, "restart")
	create(t, s, 100, ids...)
	wantAll(t, s.Apply(t.Context(), addOne(ids, 1)), favfilter.Applied)
	pipelines := 0
	client.AddHook(&hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		pipelines++
		if pipelines > 1 {
			return next(ctx, cmds)
		}
		if err := next(ctx, cmds[:2]); err != nil {
			t.Error(err)
		}
		server.Kill()
		if err := next(ctx, cmds[2:4]); err == nil {
			t.Error("a dead server answered")
		}
		server.Restart()
		return next(ctx, cmds[4:])
	}})
	results := s.Apply(t.Context(), addOne(ids, 2))
	wantAll(t, results[:2], favfilter.Applied)
	wantAll(t, results[4:], favfilter.Applied)
	for i, r := range results[2:4] {
		if r.Err == nil || r.State != 0 {
			t.Errorf("batch %d: %v, %v, want the connection's error", i+2, r.State, r.Err)
		}
	}
	results = s.Apply(t.Context(), addOne(ids, 2))
	wantAll(t, results[:2], favfilter.Current)
	wantAll(t, results[2:4], favfilter.Applied)
	wantAll(t, results[4:], favfilter.Current)
	wantKeys(t, s, ids, 2)
}
