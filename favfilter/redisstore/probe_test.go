package redisstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// probes is the number of keys in a probe of these tests: 20,000 IDs of a feed, by four kinds.
const probes = 80_000

// sent counts the pipelines that a client sends, and their commands.
type sent struct {
	pipelines, commands int
	after               func()
}

func (s *sent) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (s *sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.pipelines++
		s.commands += len(cmds)
		err := next(ctx, cmds)
		s.after()
		return err
	}
}

// largePage stores a page to be probed, and returns its header.
func largePage(t testing.TB, s *redisstore.Store, id favfilter.PageID) favfilter.Header {
	t.Helper()
	page := newPage(t, id.Number, shapeFor(t, 10_000))
	for _, h := range hashes(id.Number, 0, 5000) {
		page.Insert(h)
	}
	put(t, s, id, page)
	return page.Header()
}

// A probe whose context has ended sends nothing more.
func TestProbeLooksAtItsContext(t *testing.T) {
	server := redistest.Start(t)
	s := openStore(t, server.Client(), "probe")
	id := favfilter.PageID{Number: 3}
	known := largePage(t, s, id)
	client := dial(t, server.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	counted := &sent{after: cancel}
	client.AddHook(counted)
	_, ok, err := openStore(t, client, "probe").Probe(ctx, id, known, hashes(id.Number, 0, probes), make([]bool, probes))
	if ok || !errors.Is(err, context.Canceled) {
		t.Errorf("probed: %v, %v, want context.Canceled", ok, err)
	}
	if counted.pipelines != 1 || counted.commands > 16 {
		t.Errorf("%d pipelines of %d commands were sent, want one of at most 16", counted.pipelines, counted.commands)
	}
}
