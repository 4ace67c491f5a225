package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
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

// Guard gives each node of client a circuit breaker. When a node has failed 5 times in a
// row, commands for it fail at once with [ErrUnavailable], for 0.8 to 1.2 seconds; then
// one is sent, and its outcome decides. Failures are those of the network, and timeouts,
// also of a context's deadline, and a sign-in that is refused. A server's other error
// replies are none, a cancelled context says nothing. log (nil: none) is told when a node is given up and when it is
// back.
//
// Each node of a cluster has a breaker of its own: commands for other nodes are sent as
// ever. A cluster client is also made to look at once for who serves a failing node's
// slots now, which by itself it does when a node answers MOVED, and each minute. A client
// that finds its server through Sentinel has one breaker, and the command that is sent
// after a pause goes to the primary of then.
//
// It is to be called once, before client is used. What it returns tells how the breakers are.
func Guard(client redis.UniversalClient, log *slog.Logger) *Breakers {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	all := &Breakers{nodes: make(map[string]weak.Pointer[guard])}
	switch c := client.(type) {
	case *redis.ClusterClient:
		reload := reloader(c)
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

// Open says for the address of each node whether commands for it fail at once, or whether the one is out that decides if they
// go on to.
func (b *Breakers) Open() map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := make(map[string]bool, len(b.nodes))
	for addr, node := range b.nodes {
		if g := node.Value(); g != nil {
			open[addr] = g.breaker.State() != gobreaker.StateClosed
		} else {
			delete(b.nodes, addr)
		}
	}
	return open
}

// reloader returns a function that has the cluster's topology read anew in the
// background, not more often than each reloadPause.
func reloader(cluster *redis.ClusterClient) func(context.Context) {
	var last atomic.Int64
	start := time.Now()
	return func(ctx context.Context) {
		now := int64(time.Since(start))
		before := last.Load()
		if before != 0 && now-before < int64(reloadPause) || !last.CompareAndSwap(before, now) {
			return
		}
		cluster.ReloadState(ctx)
	}
}

// guard is the breaker of one node. It implements [redis.Hook].
type guard struct {
	addr    string
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	cause   atomic.Pointer[error] // the last failure
	failed  func(context.Context) // called after each failure, and each command not sent
}

func newGuard(addr string, log *slog.Logger, failed func(context.Context)) *guard {
	g := &guard{addr: addr, failed: failed}
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      guardPause*4/5 + rand.N(guardPause*2/5), //nolint:gosec // a predictable pause is one too
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= guardFailures },
		IsSuccessful: func(err error) bool { return !isFailure(err) },
		IsExcluded:   saysNothing,
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateClosed:
				log.Info("a Redis node is back", "addr", addr)
			case from == gobreaker.StateClosed:
				log.Warn("a Redis node failed and is left alone for a while", "addr", addr, "error", g.lastFailure())
			}
		},
	})
	return g
}

// isFailure tells whether err is a failure of the node, as opposed to an answer.
func isFailure(err error) bool {
	return err != nil && (!isReply(err) || signInRefused(err))
}

// signInRefused tells whether err says that whoever sent the command may not use the node at all.
func signInRefused(err error) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && (strings.HasPrefix(reply.Error(), "WRONGPASS ") || strings.HasPrefix(reply.Error(), "NOAUTH "))
}

// saysNothing tells whether err leaves open whether the node works.
func saysNothing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

func (g *guard) lastFailure() error {
	if cause := g.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// asking is the key under which the context of a command holds the guard that let it pass.
type asking struct{}

// do calls send unless the node has failed lately.
func (g *guard) do(ctx context.Context, send func(context.Context) error) (err error) {
	if ctx.Value(asking{}) == g {
		// The first commands on a connection that is made for another: part of that.
		return send(ctx)
	}
	done, refused := g.breaker.Allow()
	if refused != nil {
		g.failed(ctx)
		// The cause is told, and not wrapped: the client would take it for a failure of
		// the network, and try again.
		return fmt.Errorf("%s: %w: %v", g.addr, ErrUnavailable, g.lastFailure()) //nolint:errorlint // see above
	}
	err = errPanic // unless send returns
	defer func() {
		failed := isFailure(err) && !saysNothing(err)
		if failed {
			g.cause.Store(&err)
		}
		done(err)
		if failed {
			g.failed(ctx)
		}
	}()
	return send(context.WithValue(ctx, asking{}, g))
}

// DialHook implements [redis.Hook].
func (*guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements [redis.Hook].
func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return g.do(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := g.do(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
		if errors.Is(err, ErrUnavailable) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}
