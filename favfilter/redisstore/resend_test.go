package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// reply is an error reply of a server.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

var _ redis.Error = reply("")

// answer makes the first times pipelines fail with err. The first pass commands of the first
// pipeline succeed. answer notes the number of commands of each pipeline.
type answer struct {
	err         error
	times, pass int
	sizes       []int
}

func (a *answer) pipeline(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
	a.sizes = append(a.sizes, len(cmds))
	if a.times == 0 {
		return next(ctx, cmds)
	}
	a.times--
	sent := cmds[:a.pass]
	a.pass = 0
	for _, cmd := range cmds[len(sent):] {
		cmd.SetErr(a.err)
	}
	if len(sent) == 0 {
		return a.err
	}
	return errors.Join(next(ctx, sent), a.err)
}

// answer answers cmds without a server: with the error, or with nothing stored.
func (a *answer) answer(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if read, ok := cmd.(*redis.Cmd); ok && cmd.Name() == "mget" && a.times == 0 {
			read.SetVal(make([]any, len(cmd.Args())-1))
		} else {
			cmd.SetErr(a.err)
		}
	}
	return cmds[0].Err()
}

// Only the commands that a server puts off are resent. Each takes effect once.
func TestPutOff(t *testing.T) {
	server := redistest.Start(t)
	for i, text := range []string{
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"LOADING Redis is loading the dataset in memory",
		"CLUSTERDOWN The cluster is down",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"READONLY You can't write against a read only replica.",
		"ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write against a read only replica. ",
		"MOVED 1 127.0.0.1:1",
		"ASK 1 127.0.0.1:1",
	} {
		client := dial(t, server.Addr())
		s := openStore(t, client, fmt.Sprint("putoff-", i))
		ids := pageIDs(4)
		create(t, s, 100, ids...)
		// This call makes the scripts known to the server.
		wantAll(t, s.Apply(t.Context(), addOne(ids[:1], 9)), favfilter.Behind)
		_, err := s.Peek(t.Context(), ids[:1])
		must(t, err)
		a := &answer{}
		client.AddHook(&hook{pipeline: a.pipeline})
		expect := func(name string, want []int, call func()) {
			t.Helper()
			*a = answer{err: reply(text), times: 3, pass: min(1, want[0]-1)}
			call()
			if !slices.Equal(a.sizes, want) {
				t.Errorf("%s answered %q: pipelines of %d commands, want %d", name, text, a.sizes, want)
			}
		}
		expect("Replace", []int{1, 1, 1, 1}, func() { create(t, s, 100, favfilter.PageID{Number: 9}) })
		expect("Apply", []int{4, 3, 3, 3}, func() { wantAll(t, s.Apply(t.Context(), addOne(ids, 1)), favfilter.Applied) })
		expect("Load", []int{4, 3, 3, 3}, func() { wantKeys(t, s, ids, 1) })
		expect("Peek", []int{4, 3, 3, 3}, func() {
			statuses, err := s.Peek(t.Context(), ids)
			if err != nil {
				t.Error(err)
			}
			for i, standing := range statuses {
				if standing.Header.Sequence != 1 {
					t.Errorf("page %d: %+v", i, standing)
				}
			}
		})
	}
}

// Other errors are final.
func TestNotPutOff(t *testing.T) {
	server := redistest.Start(t)
	for _, err := range []error{
		reply("ERR unknown command"),
		reply("OOM command not allowed when used memory > 'maxmemory'."),
		reply("CLUSTERDOWN Hash slot not served"),
		reply("WRONGTYPE Operation against a key holding the wrong kind of value"),
		errors.New("TRYAGAIN is not what a server said"),
	} {
		client := dial(t, server.Addr())
		a := &answer{err: err, times: 1}
		client.AddHook(&hook{pipeline: a.pipeline})
		_, _, got := openStore(t, client, "final").Load(t.Context(), pageIDs(2))
		if !errors.Is(got, err) || len(a.sizes) != 1 {
			t.Errorf("load answered %q: %v after %d pipelines", err, got, len(a.sizes))
		}
	}
}

// If a server always puts commands off, writes are retried for a second and reads for a quarter of
// that, but not past the context's deadline. The error is the server's reply. No command reaches a
// server, so the test can use the clock of its bubble.
func TestPutOffForEver(t *testing.T) {
	client := dial(t, redistest.Start(t).Addr())
	s := openStore(t, client, "ever")
	down := reply("CLUSTERDOWN The cluster is down")
	a := &answer{err: down, times: -1}
	client.AddHook(&hook{pipeline: a.pipeline})
	all := calls(t, s, favfilter.PageID{Number: 3})
	synctest.Test(t, func(t *testing.T) {
		for name, call := range all {
			a.sizes = nil
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err := call(ctx)
			if !errors.Is(err, down) || ctx.Err() != nil || len(a.sizes) < 3 {
				t.Errorf("%s: %v after %d pipelines, context %v", name, err, len(a.sizes), ctx.Err())
			}
			cancel()
		}
		for name, want := range map[string]time.Duration{
			"Load": time.Second / 4, "Peek": time.Second / 4, "Replace": time.Second,
		} {
			a.sizes = nil
			began := time.Now()
			err := all[name](t.Context())
			if !errors.Is(err, down) || len(a.sizes) < 5 || len(a.sizes) > 20 {
				t.Errorf("%s without a deadline: %v after %d pipelines", name, err, len(a.sizes))
			}
			if took := time.Since(began); took != want {
				t.Errorf("%s without a deadline took %v, want %v", name, took, want)
			}
		}
	})
}

// If the slot of a page puts commands off for as long as a call waits, no commands for it are sent
// for a second. Then one command is sent, without retries, and its reply decides. Other pages, and
// other commands for the page, are sent as usual.
func TestSlotStuck(t *testing.T) {
	client := dial(t, redistest.Start(t).Addr())
	s := openStore(t, client, "stuck")
	ids := pageIDs(2)
	for _, text := range []string{
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"MOVED 1 127.0.0.1:1",
		"CLUSTERDOWN Hash slot not served",
	} {
		a := &answer{err: reply(text), times: -1}
		h := &hook{pipeline: func(_ context.Context, cmds []redis.Cmder, _ redis.ProcessPipelineHook) error {
			a.sizes = append(a.sizes, len(cmds))
			return a.answer(cmds)
		}}
		client.AddHook(h)
		synctest.Test(t, func(t *testing.T) {
			load := func(id favfilter.PageID, sent bool) error {
				t.Helper()
				a.sizes = nil
				began := time.Now()
				_, _, err := s.Load(t.Context(), []favfilter.PageID{id})
				if sent != (len(a.sizes) == 1) || !sent && (len(a.sizes) > 0 || !errors.Is(err, redisstore.ErrUnavailable)) || time.Since(began) > 0 {
					t.Errorf("%q: load of page %v: %v after %d pipelines and %v", text, id, err, len(a.sizes), time.Since(began))
				}
				return err
			}
			if _, _, err := s.Load(t.Context(), ids[:1]); err == nil || !strings.Contains(err.Error(), text) {
				t.Fatalf("%q: %v", text, err)
			}
			for range 3 {
				if err := load(ids[0], false); !strings.Contains(err.Error(), text) {
					t.Errorf("the error %v does not have the server's reply", err)
				}
			}
			a.times = 0
			if err := load(ids[1], true); err != nil {
				t.Error(err)
			}
			if _, err := s.LoadWhole(t.Context(), ids[:1]); err != nil {
				t.Error(err)
			}
			a.times = -1
			time.Sleep(time.Second)
			_ = load(ids[0], true)
			_ = load(ids[0], false)
			a.times = 0
			time.Sleep(time.Second)
			for range 3 {
				if err := load(ids[0], true); err != nil {
					t.Error(err)
				}
			}
		})
		h.mu.Lock()
		h.pipeline = nil
		h.mu.Unlock()
	}
}

// A call whose context has no deadline gets one.
func TestDefaultDeadline(t *testing.T) {
	client := dial(t, redistest.Start(t).Addr())
	s := openStore(t, client, "deadline")
	create(t, s, 100, favfilter.PageID{Number: 3})
	var left atomic.Int64
	client.AddHook(&hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		left.Store(0)
		if deadline, ok := ctx.Deadline(); ok {
			left.Store(int64(time.Until(deadline)))
		}
		return next(ctx, cmds)
	}})
	all := calls(t, s, favfilter.PageID{Number: 3})
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name](t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := time.Duration(left.Load()); got <= 0 || got > 3*time.Second {
			t.Errorf("%s has %v left, want some of 3 s", name, got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		if err := all[name](ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := time.Duration(left.Load()); got < time.Minute {
			t.Errorf("%s has %v left of an hour", name, got)
		}
		cancel()
	}
}
