package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// heldRead is a pipeline that waits for the test to answer it, with an error or nil.
type heldRead struct {
	ctx    context.Context
	cmds   []redis.Cmder
	answer chan error
}

// keys returns the keys that the commands read.
func (r *heldRead) keys() (all []string) {
	for _, cmd := range r.cmds {
		for _, key := range cmd.Args()[1:] {
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(key), "fav:{held/"), ":bits"))
		}
	}
	return all
}

// heldLoads is a store whose pipelines reach no server. Every string has its key as its value.
type heldLoads struct {
	t     *testing.T
	store *redisstore.Store
	reads chan *heldRead
}

// holdLoads runs a test with a store on the client, in a bubble.
func holdLoads(t *testing.T, client redis.UniversalClient, test func(t *testing.T, h *heldLoads)) {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	synctest.Test(t, func(t *testing.T) {
		h := &heldLoads{t, openStore(t, client, "held"), make(chan *heldRead, 100)}
		client.AddHook(&hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, _ redis.ProcessPipelineHook) error {
			r := &heldRead{ctx, cmds, make(chan error)}
			h.reads <- r
			err := <-r.answer
			for _, cmd := range cmds {
				if read, ok := cmd.(*redis.Cmd); ok && err == nil && cmd.Err() == nil {
					read.SetVal(cmd.Args()[1:])
				} else if err != nil {
					cmd.SetErr(err)
				}
			}
			return cmds[0].Err()
		}})
		test(t, h)
	})
}

// heldLoad is a call of Load.
type heldLoad struct {
	ids  []favfilter.PageID
	done bool
	err  error
}

// load starts a call of Load, and returns when that waits.
func (h *heldLoads) load(ctx context.Context, ids ...favfilter.PageID) *heldLoad {
	l := &heldLoad{ids: ids}
	go func() {
		loaded, _, err := h.store.Load(ctx, ids)
		for i, got := range loaded {
			if !strings.HasPrefix(string(got.Version), fmt.Sprintf("fav:{held/%v", strings.Replace(ids[i].String(), ":", "}:", 1))) {
				h.t.Errorf("page %v is that of %q", ids[i], got.Version)
			}
		}
		if err == nil && len(loaded) != len(ids) {
			h.t.Errorf("%d pages for %d ids", len(loaded), len(ids))
		}
		l.err, l.done = err, true
	}()
	synctest.Wait()
	return l
}

// begun returns the pipelines that have begun and were not returned before.
func (h *heldLoads) begun() (reads []*heldRead) {
	synctest.Wait()
	for len(h.reads) > 0 {
		reads = append(reads, <-h.reads)
	}
	return reads
}

// want returns the n pipelines that have begun.
func (h *heldLoads) want(n int) []*heldRead {
	h.t.Helper()
	reads := h.begun()
	if len(reads) != n {
		h.t.Fatalf("%d pipelines began, want %d", len(reads), n)
	}
	return reads
}

// busy returns as many pipelines as may be in progress before further calls wait.
func (h *heldLoads) busy(t *testing.T) []*heldRead {
	t.Helper()
	h.load(t.Context(), page(1))
	h.load(t.Context(), page(2))
	return h.want(2)
}

// release answers a pipeline, and returns when the calls have continued.
func (h *heldLoads) release(r *heldRead, err error) {
	r.answer <- err
	synctest.Wait()
}

// finish answers all pipelines, until there are no more.
func (h *heldLoads) finish(reads ...*heldRead) {
	for ; len(reads) > 0; reads = h.begun() {
		for _, r := range reads {
			h.release(r, nil)
		}
	}
}

func (h *heldLoads) wantDone(loads ...*heldLoad) {
	h.t.Helper()
	for _, l := range loads {
		if !l.done || l.err != nil {
			h.t.Errorf("load of %v: done %v, %v", l.ids, l.done, l.err)
		}
	}
}

func page(number uint32) favfilter.PageID { return favfilter.PageID{Number: number} }

func part(number uint32, name string) favfilter.PageID {
	return favfilter.PageID{Number: number, Part: name}
}

// nowhere returns a client of one server, for tests that send nothing.
func nowhere() *redis.Client { return redis.NewClient(&redis.Options{Addr: "192.0.2.1:1"}) }

// Calls that begin while two reads are in progress wait, and one pipeline reads for all of them.
// Each call gets the pages that it asked for, in its order.
func TestLoadsAreCoalesced(t *testing.T) {
	holdLoads(t, nowhere(), func(t *testing.T, h *heldLoads) {
		first := []*heldLoad{h.load(t.Context(), page(1)), h.load(t.Context(), page(2))}
		reads := h.want(2)
		waiting := []*heldLoad{
			h.load(t.Context(), page(3), part(3, "a"), page(4)),
			h.load(t.Context(), page(4), page(3)),
			h.load(t.Context(), part(3, "b")),
		}
		h.want(0)
		h.release(reads[1], nil)
		h.wantDone(first[1])
		together := h.want(1)[0]
		if got, want := together.keys(), []string{"3}", "3}:a", "4}", "4}", "3}", "3}:b"}; !slices.Equal(got, want) {
			t.Errorf("the shared read is of %q, want %q", got, want)
		}
		if len(together.cmds) != 5 {
			t.Errorf("the shared read has %d commands, want 5", len(together.cmds))
		}
		h.release(together, nil)
		h.wantDone(waiting...)
		h.finish(reads[0])
		h.wantDone(first...)
		// With no read in progress, calls begin at once again.
		h.finish(h.busy(t)...)
	})
}

// A call shares no read that began before it: it would miss writes acknowledged in between.
func TestNoLoadSharesAnEarlierRead(t *testing.T) {
	holdLoads(t, nowhere(), func(t *testing.T, h *heldLoads) {
		reads := h.busy(t)
		early := h.load(t.Context(), page(3))
		h.release(reads[0], nil)
		together := h.want(1)[0]
		late := h.load(t.Context(), page(3))
		h.want(0)
		h.release(together, nil)
		h.wantDone(early)
		if late.done {
			t.Error("a call returned with the answer to a read that began before it")
		}
		h.finish(append(h.want(1), reads[1])...)
		h.wantDone(late)
	})
}

type valueKey struct{}

// A shared read has the latest deadline of its calls, but ends within 3 seconds. No call cancels
// it.
func TestContextOfASharedRead(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 3 * time.Second, time.Minute: 3 * time.Second, time.Second: time.Second} {
		holdLoads(t, nowhere(), func(t *testing.T, h *heldLoads) {
			reads := h.busy(t)
			first, cancel := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, "first"), time.Second/2)
			leaves := h.load(first, page(3))
			ctx, done := t.Context(), func() {}
			if limit > 0 {
				ctx, done = context.WithTimeout(ctx, limit)
			}
			defer done()
			stays := h.load(ctx, page(4))
			h.release(reads[0], nil)
			together := h.want(1)[0]
			if end, ok := together.ctx.Deadline(); !ok || time.Until(end) != want {
				t.Errorf("the shared read has %v left, want %v", time.Until(end), want)
			}
			if together.ctx.Value(valueKey{}) != "first" {
				t.Error("the shared read lacks the values of its first call")
			}
			cancel()
			synctest.Wait()
			if !leaves.done || !errors.Is(leaves.err, context.Canceled) || !strings.Contains(leaves.err.Error(), "page 3 of filter held") {
				t.Errorf("a call whose context ended: done %v, %v", leaves.done, leaves.err)
			}
			if together.ctx.Err() != nil || stays.done {
				t.Errorf("one call ended the shared read: %v", together.ctx.Err())
			}
			h.finish(together, reads[1])
			h.wantDone(stays)
		})
	}
}

// A call whose context ends while it waits returns at once. It counts for no breaker.
func TestLoadEndsWhileItWaits(t *testing.T) {
	client := nowhere()
	breakers := redisstore.Guard(client, nil)
	holdLoads(t, client, func(t *testing.T, h *heldLoads) {
		reads := h.busy(t)
		stays := h.load(t.Context(), page(3))
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			ends := h.load(ctx, page(4))
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if !ends.done || !errors.Is(ends.err, context.DeadlineExceeded) {
				t.Errorf("a call whose context ended: done %v, %v", ends.done, ends.err)
			}
			cancel()
		}
		h.release(reads[0], nil)
		h.finish(append(h.want(1), reads[1])...)
		h.wantDone(stays)
		breaker, _ := breakers.Open()
		for addr, open := range breaker {
			if open {
				t.Errorf("the breaker of %s is open", addr)
			}
		}
	})
}

// If a shared read fails, each call gets an error that names its pages. If one command fails, only
// its call fails.
func TestSharedReadFails(t *testing.T) {
	broken, refused := errors.New("the connection broke"), reply("ERR not that one")
	holdLoads(t, nowhere(), func(t *testing.T, h *heldLoads) {
		reads := h.busy(t)
		fails := []*heldLoad{h.load(t.Context(), page(3)), h.load(t.Context(), page(4), page(5))}
		h.release(reads[0], nil)
		together := h.want(1)[0]
		one := []*heldLoad{h.load(t.Context(), page(6)), h.load(t.Context(), page(7), page(8)), h.load(t.Context(), page(9))}
		h.release(together, broken)
		for i, want := range []string{"page 3 ", "pages [4 5] "} {
			if !errors.Is(fails[i].err, broken) || !strings.Contains(fails[i].err.Error(), want) {
				t.Errorf("call %d: %v, want an error about %s", i, fails[i].err, want)
			}
		}
		together = h.want(1)[0]
		together.cmds[2].SetErr(refused)
		h.finish(together, reads[1])
		h.wantDone(one[0], one[2])
		if !errors.Is(one[1].err, refused) || !strings.Contains(one[1].err.Error(), "pages [7 8] ") {
			t.Errorf("the call whose command failed: %v", one[1].err)
		}
	})
}

// A shared read has at most 64 pages. A call for more does not wait, and no call waits for it.
func TestSharedReadIsBounded(t *testing.T) {
	holdLoads(t, nowhere(), func(t *testing.T, h *heldLoads) {
		reads := h.busy(t)
		var waiting []*heldLoad
		for _, n := range []uint32{30, 34, 40, 1} {
			waiting = append(waiting, h.load(t.Context(), pageIDs(n)...))
		}
		h.want(0)
		large := h.load(t.Context(), pageIDs(65)...)
		h.finish(h.want(1)...)
		h.wantDone(large)
		h.release(reads[0], nil)
		for i, want := range []int{64, 41} {
			together := h.want(1)[0]
			if got := len(together.keys()); got != want {
				t.Errorf("shared read %d has %d pages, want %d", i, got, want)
			}
			h.release(together, nil)
		}
		h.wantDone(waiting...)
		h.finish(reads[1])
	})
}

// Reads that hang hold up other calls for 20 ms.
func TestLoadsThatHang(t *testing.T) {
	holdLoads(t, nowhere(), func(t *testing.T, h *heldLoads) {
		hanging := h.busy(t)
		for range 2 {
			waits, after := h.load(t.Context(), page(3)), h.load(t.Context(), page(4))
			time.Sleep(19 * time.Millisecond)
			h.want(0)
			time.Sleep(time.Millisecond)
			together := h.want(1)
			if got := together[0].keys(); !slices.Equal(got, []string{"3}", "4}"}) {
				t.Errorf("the shared read is of %q", got)
			}
			h.finish(together...)
			h.wantDone(waits, after)
		}
		h.finish(hanging...)
		h.finish(h.busy(t)...)
	})
}

// In a cluster, calls share no read, because a node that hangs would delay calls for others.
func TestLoadsAreNotCoalescedInACluster(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"192.0.2.1:1"}})
	holdLoads(t, client, func(t *testing.T, h *heldLoads) {
		for n := range uint32(5) {
			h.load(t.Context(), page(n))
		}
		h.finish(h.want(5)...)
	})
}

// Readers load the pages of all writers beside them. Each writer reads what it has written.
func TestReadAfterWriteWithSharedReads(t *testing.T) {
	t.Parallel()
	s := openStore(t, redistest.Start(t).Client(), "shared")
	ids := pageIDs(8)
	create(t, s, 1000, ids...)
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			for n := uint64(1); n <= 50; n++ {
				if r := s.Apply(t.Context(), addOne([]favfilter.PageID{id}, n))[0]; r.State != favfilter.Applied {
					t.Errorf("page %v: %v, %v", id, r.State, r.Err)
					return
				}
				loaded, _, err := s.Load(t.Context(), []favfilter.PageID{ids[(i+1)%len(ids)], id})
				if err != nil || loaded[1].Page.Header().Sequence != n || loaded[0].Page.Header().Number != ids[(i+1)%len(ids)].Number {
					t.Errorf("page %v after write %d: %+v, %v", id, n, loaded, err)
					return
				}
			}
		})
	}
	wg.Wait()
	wantKeys(t, s, ids, 50)
}
