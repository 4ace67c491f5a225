package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// calls returns the calls of s on the page, by script and by compare-and-swap.
func calls(t testing.TB, s *redisstore.Store, id favfilter.PageID) map[string]func(context.Context) error {
	h := newPage(t, id.Number, shapeFor(t, 100)).Header()
	h.Sequence = 1000
	page, err := favfilter.NewPage(h)
	must(t, err)
	apply := func(keys int) func(context.Context) error {
		return func(ctx context.Context) error {
			res := s.Apply(ctx, []favfilter.Batch{{ID: id, Identity: identity(), Add: hashes(0, 0, keys)}})[0]
			if res.Err != nil && (res.State != 0 || res.Outcomes != nil) {
				t.Errorf("apply of %d keys: %v %v beside an error", keys, res.State, res.Outcomes)
			}
			return res.Err
		}
	}
	return map[string]func(context.Context) error{
		"Load": func(ctx context.Context) error {
			_, _, err := s.Load(ctx, []favfilter.PageID{id})
			return err
		},
		"Replace": func(ctx context.Context) error {
			_, err := s.Replace(ctx, favfilter.Replacement{ID: id, Page: page, Newer: true})
			return err
		},
		"Peek": func(ctx context.Context) error {
			_, err := s.Peek(ctx, []favfilter.PageID{id})
			return err
		},
		"Load, and compare": func(ctx context.Context) error {
			_, versions, err := s.Load(ctx, []favfilter.PageID{id}, id)
			if err != nil && versions != nil {
				err = fmt.Errorf("versions %x beside %w", versions, err)
			}
			return err
		},
		"Apply of 1":   apply(1),
		"Apply of 100": apply(100),
	}
}

func TestServerDown(t *testing.T) {
	server := redistest.Start(t)
	s := openStore(t, dial(t, server.Addr()), "down")
	server.Kill()
	for name, call := range calls(t, s, favfilter.PageID{Number: 3, Part: "7up"}) {
		err := call(t.Context())
		var op *net.OpError
		if !errors.As(err, &op) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: error %v, want that of the network", name, err)
			continue
		}
		text := err.Error()
		namesPage := strings.Contains(text, "page 3:7up ") || strings.Contains(text, "pages [3:7up 3:7up] ")
		if !strings.Contains(text, "filter down") || !namesPage {
			t.Errorf("%s: error %q does not name the page", name, text)
		}
	}
}

// A server accepts connections and never answers. Without the deadline of the context, the calls
// would hang.
func TestDeadline(t *testing.T) {
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	s := openStore(t, dial(t, silent.Addr().String()), "silent")
	for name, call := range calls(t, s, favfilter.PageID{Number: 3}) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := call(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: error %v, want that of the deadline", name, err)
		}
	}
}

// A value that is not a string counts as missing. Without bits the page is missing, without its
// collision bitmap it is torn, and a replacement overwrites the value.
func TestWrongType(t *testing.T) {
	client := redistest.Start(t).Client()
	for which, want := range map[string]favfilter.State{"bits": favfilter.Missing, "regions": favfilter.Torn} {
		s := openStore(t, client, which)
		id := favfilter.PageID{Number: 3}
		create(t, s, 100, id)
		key := "fav:{" + which + "/3}:" + which
		must(t, client.Del(t.Context(), key).Err())
		if err := client.RPush(t.Context(), key, "a").Err(); err != nil {
			t.Fatal(err)
		}
		for _, keys := range []int{1, 100} {
			batch := favfilter.Batch{ID: id, Identity: identity(), Add: hashes(0, 0, keys)}
			wantAll(t, s.Apply(t.Context(), []favfilter.Batch{batch}), want)
		}
		loaded, _, err := s.Load(t.Context(), []favfilter.PageID{id})
		if err != nil || (loaded[0].Page == nil) != (want == favfilter.Missing) {
			t.Errorf("%s string is a list: loaded %+v, %v", which, loaded[0], err)
		}
		standing, err := s.Peek(t.Context(), []favfilter.PageID{id})
		if missing := want == favfilter.Missing; err != nil || standing[0].Missing != missing ||
			errors.Is(standing[0].Damage, favfilter.ErrDamaged) == missing {
			t.Errorf("%s string is a list: peeked at %+v, %v", which, standing, err)
		}
		replacement := favfilter.Replacement{ID: id, Page: newPage(t, 3, shapeFor(t, 100)), Seen: loaded[0].Version}
		if done, err := s.Replace(t.Context(), replacement); err != nil || !done {
			t.Errorf("%s string is a list: replaced %v, %v", which, done, err)
		}
		wantAll(t, s.Apply(t.Context(), addOne([]favfilter.PageID{id}, 1)), favfilter.Applied)
		wantKeys(t, s, []favfilter.PageID{id}, 1)
	}
}

// One page of many fails; the others do not.
func TestFailureOfOnePage(t *testing.T) {
	client := dial(t, redistest.Start(t).Addr())
	s := openStore(t, client, "one")
	ids := pageIDs(4)
	create(t, s, 100, ids...)
	wantAll(t, s.Apply(t.Context(), addOne(ids, 1)), favfilter.Applied)
	down := errors.New("CLUSTERDOWN Hash slot not served")
	client.AddHook(&hook{pipeline: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		cmds[2].SetErr(down)
		return errors.Join(down, next(ctx, slices.Concat(cmds[:2], cmds[3:])))
	}})
	results := s.Apply(t.Context(), addOne(ids, 2))
	if err := results[2].Err; !errors.Is(err, down) || !strings.Contains(err.Error(), "page 2 of filter one") {
		t.Errorf("page 2: error %v", err)
	}
	wantAll(t, slices.Concat(results[:2], results[3:]), favfilter.Applied)
	if _, _, err := s.Load(t.Context(), ids); !errors.Is(err, down) {
		t.Errorf("load: error %v", err)
	}
}

// The server is out of memory: it refuses the change, and the page stays.
func TestOutOfMemory(t *testing.T) {
	client := redistest.Start(t).Client()
	s := openStore(t, client, "oom")
	id := favfilter.PageID{Number: 3}
	create(t, s, 100, id)
	wantAll(t, s.Apply(t.Context(), addOne([]favfilter.PageID{id}, 1)), favfilter.Applied)
	must(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for name, call := range calls(t, s, id) {
		err := call(t.Context())
		if slices.Contains([]string{"Load", "Peek", "Load, and compare"}, name) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "OOM") || !strings.Contains(err.Error(), "page 3 of filter oom") {
			t.Errorf("%s: error %v, want that of the server, and the page", name, err)
		}
	}
	must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	wantKeys(t, s, []favfilter.PageID{id}, 1)
}
