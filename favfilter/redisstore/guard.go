package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
)

// ErrUnavailable is wrapped by the errors of commands that a guarded client did not
// send, see [Guard].
var ErrUnavailable = errors.New("node not asked: it failed lately")

var errPanic = errors.New("sending the command panicked")

const (
	guardFailures = 5           // in a row, and a node is not asked for a while
	guardPause    = time.Second // give or take a fifth
	reloadPause   = 250 * time.Millisecond
)

// Guard gives each node of client three circuit breakers.
//
//   - The first opens when a node failed 5 times in a row: with an error of the network, a
//     timeout, also of a context's deadline, a refused sign-in, or too many clients. It stops
//     all commands.
//   - The other two are for the commands by which a [Store] reads, and for those by which it
//     writes. Each opens when a node refused 5 of its commands in a row, in a state that concerns
//     all pages: LOADING, MASTERDOWN, READONLY, NOREPLICAS, or CLUSTERDOWN for the whole cluster.
//     So a node that takes no writes is still read.
//
// While a breaker is open, commands fail at once with [ErrUnavailable], for 0.8 to 1.2 seconds;
// then one is sent, and its outcome decides. Other error replies count as answers, a cancelled
// context says nothing. log (nil: none) gets a line when a breaker opens and one when it closes.
//
// The nodes of a cluster do not share breakers. When a node fails, the cluster client reloads the
// topology; by itself it does so only after MOVED, and each minute. It also stops repeating
// commands of a [Store] at a node that put them off: the Store repeats them. A client that finds its
// server through Sentinel has one set of breakers, and the command that is sent after a pause goes
// to the primary of then.
//
// Call it once, before client is used. The result tells which breakers are open.
func Guard(client redis.UniversalClient, log *slog.Logger) *Breakers {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	all := &Breakers{nodes: make(map[string]weak.Pointer[guard])}
	switch c := client.(type) {
	case *redis.ClusterClient:
		reload := atMostEach(reloadPause, c.ReloadState)
		c.OnNewNode(func(node *redis.Client) {
			node.AddHook(all.add(newGuard(node.Options().Addr, log, reload)))
		})
	case *redis.Client:
		c.AddHook(all.add(newGuard(c.Options().Addr, log, func(context.Context) {})))
	default:
		client.AddHook(all.add(newGuard(fmt.Sprintf("%T", client), log, func(context.Context) {})))
	}
	return all
}

// Breakers are those of the nodes of a client. They may be asked by several goroutines at once.
type Breakers struct {
	mu    sync.Mutex
	nodes map[string]weak.Pointer[guard] // by address; nodes that left a cluster are gone with their clients
}

func (b *Breakers) add(g *guard) *guard {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[g.addr] = weak.Make(g)
	return g
}

// Open reports for the address of each node whether all of its commands, or those that read, fail
// at once, or wait for the outcome of the one command that is tried.
func (b *Breakers) Open() map[string]bool {
	return b.states(func(g *guard) bool { return g.node.isOpen() || g.reads.isOpen() })
}

// OpenForWrites is like [Breakers.Open] for commands that write.
func (b *Breakers) OpenForWrites() map[string]bool {
	return b.states(func(g *guard) bool { return g.node.isOpen() || g.writes.isOpen() })
}

func (b *Breakers) states(isOpen func(*guard) bool) map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := make(map[string]bool, len(b.nodes))
	for addr, node := range b.nodes {
		if g := node.Value(); g != nil {
			open[addr] = isOpen(g)
		} else {
			delete(b.nodes, addr)
		}
	}
	return open
}

// atMostEach returns a function that calls do, and does not call it again within the pause. The
// cluster client reads the topology again in the background.
func atMostEach(pause time.Duration, do func(context.Context)) func(context.Context) {
	var next atomic.Int64 // when do may be called, since start
	start := time.Now()
	return func(ctx context.Context) {
		now, at := int64(time.Since(start)), next.Load()
		if now >= at && next.CompareAndSwap(at, now+int64(pause)) {
			do(ctx)
		}
	}
}

// guard holds the breakers of one node. It implements [redis.Hook].
type guard struct {
	addr                string
	node, reads, writes *circuit
	failed              func(context.Context) // called after each failure, and each command not sent
}

func newGuard(addr string, log *slog.Logger, failed func(context.Context)) *guard {
	log = log.With("addr", addr)
	return &guard{
		addr: addr, failed: failed,
		node: newCircuit(isFailure,
			func(err error) { log.Warn("a Redis node failed and is left alone for a while", "error", err) },
			func() { log.Info("a Redis node is back") }),
		reads: newCircuit(isRefusal,
			func(err error) { log.Warn("a Redis node refuses reads", "error", err) },
			func() { log.Info("a Redis node takes reads again") }),
		writes: newCircuit(isRefusal,
			func(err error) { log.Warn("a Redis node refuses writes", "error", err) },
			func() { log.Info("a Redis node takes writes again") }),
	}
}

// of returns the breaker for the access of a call, nil for none.
func (g *guard) of(c *call) *circuit {
	switch {
	case c == nil || c.access == neither:
		return nil
	case c.access == reads:
		return g.reads
	default:
		return g.writes
	}
}

// asking is the key under which the context of a command holds the guard that let it pass.
type asking struct{}

// sent is the outcome of commands.
type sent struct {
	err    error // of all of them
	access error // what the breaker for their access is told
}

// do calls send unless the node has failed lately, or refused calls like that of ctx.
func (g *guard) do(ctx context.Context, send func(context.Context) sent) error {
	if ctx.Value(asking{}) == g {
		// The first commands on a connection that is made for another: part of that.
		return send(ctx).err
	}
	own := g.of(callOf(ctx))
	tellOwn := func(error) {}
	if own != nil {
		var refused error
		if tellOwn, refused = own.breaker.Allow(); refused != nil {
			return g.refuse(ctx, own)
		}
	}
	tell, refused := g.node.breaker.Allow()
	if refused != nil {
		tellOwn(context.Canceled) // which says nothing
		return g.refuse(ctx, g.node)
	}
	out := sent{errPanic, errPanic} // unless send returns
	defer func() {
		failed := g.node.done(tell, out.err)
		if own != nil {
			failed = own.done(tellOwn, out.access) || failed
		}
		if failed {
			g.failed(ctx)
		}
	}()
	out = send(context.WithValue(ctx, asking{}, g))
	return out.err
}

// refuse is the error of commands that are not sent.
func (g *guard) refuse(ctx context.Context, c *circuit) error {
	g.failed(ctx)
	// The cause is told, and not wrapped: the client would take it for a failure of
	// the network, and try again.
	return fmt.Errorf("%s: %w: %v", g.addr, ErrUnavailable, c.lastFailure()) //nolint:errorlint // see above
}

// resultOf tells how commands went. A node that answered one of them, if with an error of its own,
// does not refuse all of them.
func resultOf(err error, cmds []redis.Cmder) sent {
	if isFailure(err) {
		return sent{err, context.Canceled} // they were not answered, which says nothing of their access
	}
	for _, cmd := range cmds {
		if !isRefusal(cmd.Err()) {
			return sent{err, nil}
		}
	}
	return sent{err, cmds[0].Err()}
}

// DialHook implements [redis.Hook].
func (*guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements [redis.Hook].
func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return g.do(ctx, func(ctx context.Context) sent {
			err := next(ctx, cmd)
			return resultOf(err, []redis.Cmder{cmd})
		})
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c := callOf(ctx)
		if c.repeats(g, cmds) {
			if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() == nil }) {
				return nil // an error would become theirs
			}
			return fmt.Errorf("%s: %w: %v", g.addr, ErrUnavailable, cmds[0].Err()) //nolint:errorlint // as in refuse
		}
		err := g.do(ctx, func(ctx context.Context) sent {
			err := next(ctx, cmds)
			c.note(g, cmds)
			return resultOf(err, cmds)
		})
		if errors.Is(err, ErrUnavailable) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}
