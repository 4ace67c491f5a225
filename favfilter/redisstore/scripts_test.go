package redisstore_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A server that has lost its scripts gets them again, once for each page that needed them.
func TestScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	ids := pageIDs(6)
	s := openStore(t, client, "flush")
	create(t, s, 100, ids...)
	wantAll(t, s.Apply(t.Context(), addOne(ids, 1)), favfilter.Applied)
	if err := client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	got := commandsOf(server, func() {
		wantAll(t, s.Apply(t.Context(), addOne(ids, 2)), favfilter.Applied)
	})
	if got["evalsha"] != 6 || got["eval"] != 6 {
		t.Errorf("commands %v, want each script by name and then in full", got)
	}
	wantKeys(t, s, ids, 2)
}

// The scripts disappear between the commands of one pipeline. Earlier commands took effect and are
// not resent; later ones are resent.
func TestScriptFlushWithinAPipeline(t *testing.T) {
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	ids := pageIDs(8)
	s := openStore(t, client, "within")
	create(t, s, 100, ids...)
	wantAll(t, s.Apply(t.Context(), addOne(ids, 1)), favfilter.Applied)
	flushes := 0
	client.AddHook(&hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		flushes++
		if flushes > 1 {
			return next(ctx, cmds)
		}
		flush := redis.NewStatusCmd(ctx, "script", "flush")
		return next(ctx, slices.Insert(slices.Clone(cmds), len(cmds)/2, redis.Cmder(flush)))
	}})
	got := commandsOf(server, func() {
		wantAll(t, s.Apply(t.Context(), addOne(ids, 2)), favfilter.Applied)
	})
	delete(got, "getrange")
	delete(got, "setrange")
	delete(got, "bitfield")
	delete(got, "strlen")
	if want := map[string]int64{"evalsha": 8, "eval": 4, "script|flush": 1}; !maps.Equal(got, want) {
		t.Errorf("commands %v, want %v", got, want)
	}
	wantKeys(t, s, ids, 2)
	// Without a guard, the outcome and the sequence would show that a batch ran twice.
	flushes = 0
	batches := addOne(ids, 3)
	for i := range batches {
		batches[i].Sequence = 0
	}
	for i, r := range s.Apply(t.Context(), batches) {
		if r.Err != nil || !slices.Equal(r.Outcomes, []favfilter.Outcome{favfilter.Added}) || r.Header.Sequence != 3 {
			t.Errorf("batch %d: %v at %d, %v, want added once", i, r.Outcomes, r.Header.Sequence, r.Err)
		}
	}
	wantKeys(t, s, ids, 3)
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
		server.Restart() //nolint:contextcheck // a server outlives the call it interrupts
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

// A client retries a pipeline whose answers were lost. The sequences make the repetition harmless.
func TestPipelineReplayed(t *testing.T) {
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	ids := pageIDs(5)
	s := openStore(t, client, "replay")
	create(t, s, 100, ids...)
	wantAll(t, s.Apply(t.Context(), addOne(ids, 1)), favfilter.Applied)
	client.AddHook(&hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		if err := next(ctx, cmds); err != nil {
			return err
		}
		return next(ctx, cmds)
	}})
	wantAll(t, s.Apply(t.Context(), addOne(ids, 2)), favfilter.Current)
	wantKeys(t, s, ids, 2)
}
