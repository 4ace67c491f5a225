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
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/feedfilter/feedfilter/internal/pause"
)

// ErrUnavailable is wrapped by the errors of commands that a guarded client did not send, see
// [Guard].
var ErrUnavailable = errors.New("node not asked: it failed lately")

var errPanic = errors.New("sending the command panicked")

const (
	guardFailures = 5           // successive failures that open a breaker
	guardPause    = time.Second // on average
	reloadPause   = 250 * time.Millisecond
)

// Guard adds three circuit breakers to each node of client. The result reports which breakers are
// open.
//
//   - The first breaker stops all commands. It opens when a node has failed 5 times in a row: with
//     a network error, a timeout, a refused sign-in, or too many clients. The end of a context's
//     deadline counts as a timeout. No failure counts if the process was stopped while it waited:
//     the answer may have come meanwhile.
//   - The second breaker stops the commands by which a [Store] reads, the third those by which it
//     writes. Each opens when a node has refused 5 of its commands in a row because of a state that
//     concerns all pages. These states are LOADING, MASTERDOWN, READONLY, NOREPLICAS, and
//     CLUSTERDOWN for the whole cluster. Reads therefore continue on a node that refuses writes.
//
// While a breaker is open, commands fail at once with [ErrUnavailable], for 0.5 to 1.5 seconds.
// Then one command is sent, and its outcome decides. Other error replies count as answers; a
// cancelled context does not count at all. Guard writes a line to log when a breaker opens, and one
// when it closes; if log is nil, it writes none.
//
// The nodes of a cluster do not share breakers. When a node fails, Guard makes the cluster client
// reload the topology. By itself the client does so only after MOVED, and once a minute. Guard also
// stops the client from resending commands of a [Store] that a node put off, because the Store
// resends them.
//
// A client that finds its server through Sentinel has one set of breakers. The command sent after a
// pause goes to the server that is primary then.
//
// Call Guard once, before client is used.
func Guard(client redis.UniversalClient, log *slog.Logger) *Breakers {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	all := &Breakers{nodes: make(map[string]weak.Pointer[guard])}
	if c, ok := client.(*redis.ClusterClient); ok {
		sometimes := &rate.Sometimes{Interval: reloadPause}
		reload := func(ctx context.Context) {
			sometimes.Do(func() { c.ReloadState(ctx) }) // reloads in the background
		}
		c.OnNewNode(func(node *redis.Client) {
			node.AddHook(all.add(newGuard(node.Options().Addr, log, reload)))
		})
		return all
	}
	addr := fmt.Sprintf("%T", client)
	if c, ok := client.(*redis.Client); ok {
		addr = c.Options().Addr
	}
	client.AddHook(all.add(newGuard(addr, log, func(context.Context) {})))
	return all
}

// Breakers reports the state of the circuit breakers of a client's nodes. It is safe for concurrent
// use.
type Breakers struct {
	mu sync.Mutex
	// nodes is keyed by address. A node that left the cluster disappears with its client.
	nodes map[string]weak.Pointer[guard]
}

func (b *Breakers) add(g *guard) *guard {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[g.addr] = weak.Make(g)
	return g
}

// Open reports, by the address of each node, whether a breaker stops its reads, and its writes.
// Such commands fail at once, or wait for the outcome of a single command that is being tried.
func (b *Breakers) Open() (reads, writes map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reads, writes = make(map[string]bool), make(map[string]bool)
	for addr, node := range b.nodes {
		if g := node.Value(); g != nil {
			reads[addr] = g.node.isOpen() || g.reads.isOpen()
			writes[addr] = g.node.isOpen() || g.writes.isOpen()
		} else {
			delete(b.nodes, addr)
		}
	}
	return reads, writes
}

// guard holds the breakers of one node. It implements [redis.Hook].
type guard struct {
	addr                string
	node, reads, writes *circuit
	failed              func(context.Context) // called after each failure and each command not sent
}

func newGuard(addr string, log *slog.Logger, failed func(context.Context)) *guard {
	log = log.With("addr", addr)
	return &guard{
		addr: addr, failed: failed,
		node: newCircuit(log, isFailure,
			"a Redis node failed and is left alone for a while", "a Redis node is back"),
		reads: newCircuit(log, isRefusal,
			"a Redis node refuses reads", "a Redis node takes reads again"),
		writes: newCircuit(log, isRefusal,
			"a Redis node refuses writes", "a Redis node takes writes again"),
	}
}

// access is the way in which the commands of a [Store] access pages.
type access uint8

const (
	reads access = iota + 1
	writes
)

// accessKey is the context key of the access. The hooks of the nodes find it there.
type accessKey struct{}

// of returns the breaker for the access of ctx, or nil if ctx is not from a [Store].
func (g *guard) of(ctx context.Context) *circuit {
	switch ctx.Value(accessKey{}) {
	case reads:
		return g.reads
	case writes:
		return g.writes
	default:
		return nil
	}
}

// repeats reports whether the client is resending cmds by itself after a node put them off. A
// cluster client does so for half a second, beside the retries of a [Store].
func repeats(cmds []redis.Cmder) bool {
	err := cmds[0].Err()
	return begins(err, "TRYAGAIN ") || isUnserved(err) || isRefusal(err)
}

// asking is the context key of the guard that let a command pass.
type asking struct{}

// do calls send, unless a breaker stops commands to the node or calls like that of ctx. send
// returns the error of the commands as a whole, and the one to report to the breaker for their
// access.
func (g *guard) do(
	ctx context.Context, send func(context.Context) (err, access error),
) (err error) {
	if ctx.Value(asking{}) == g {
		// These commands set up a connection for another command, and are part of that command.
		err, _ = send(ctx)
		return err
	}
	own := g.of(ctx)
	tellOwn := func(error) {}
	if own != nil {
		var refused error
		if tellOwn, refused = own.breaker.Allow(); refused != nil {
			return g.refuse(ctx, own)
		}
	}
	tell, refused := g.node.breaker.Allow()
	if refused != nil {
		tellOwn(context.Canceled) // does not count
		return g.refuse(ctx, g.node)
	}
	err, access := errPanic, errPanic // replaced when send returns
	w := pause.StartWatch()
	defer func() {
		said := err
		if w.Stop() && isFailure(err) {
			said = context.Canceled // does not count
		}
		failed := g.node.done(tell, said)
		if own != nil {
			failed = own.done(tellOwn, access) || failed
		}
		if failed {
			g.failed(ctx)
		}
	}()
	err, access = send(context.WithValue(ctx, asking{}, g))
	return err
}

// refuse returns the error of commands that are not sent.
func (g *guard) refuse(ctx context.Context, c *circuit) error {
	g.failed(ctx)
	// The cause is included as text and not wrapped, because the client would treat it as a network
	// failure and retry.
	//nolint:errorlint // see above
	return fmt.Errorf("%s: %w: %v", g.addr, ErrUnavailable, c.lastFailure())
}

// accessOf returns the error of commands to report for their access. A node that answered one of
// them, even with an error for that command alone, does not refuse all of them.
func accessOf(err error, cmds ...redis.Cmder) error {
	if isFailure(err) {
		return context.Canceled // no answer, so this does not count for their access
	}
	if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return !isRefusal(cmd.Err()) }) {
		return nil
	}
	return cmds[0].Err()
}

// DialHook implements [redis.Hook].
func (*guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return next(ctx, network, addr)
	}
}

// ProcessHook implements [redis.Hook].
func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return g.do(ctx, func(ctx context.Context) (err, access error) {
			err = next(ctx, cmd)
			return err, accessOf(err, cmd)
		})
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if g.of(ctx) != nil && repeats(cmds) {
			if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() == nil }) {
				return nil // the client would copy an error to the commands
			}
			//nolint:errorlint // as in refuse
			return fmt.Errorf("%s: %w: %v", g.addr, ErrUnavailable, cmds[0].Err())
		}
		err := g.do(ctx, func(ctx context.Context) (err, access error) {
			err = next(ctx, cmds)
			return err, accessOf(err, cmds...)
		})
		if errors.Is(err, ErrUnavailable) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// circuit is one circuit breaker.
type circuit struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	fails   func(error) bool
	cause   atomic.Pointer[error] // the last failure
}

// newCircuit returns a closed circuit breaker. It logs one message when it opens, and the other
// when it closes.
func newCircuit(log *slog.Logger, fails func(error) bool, opened, closed string) *circuit {
	c := &circuit{fails: fails}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      pause.About(guardPause),
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= guardFailures },
		IsSuccessful: func(err error) bool { return !fails(err) },
		IsExcluded:   saysNothing,
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateClosed:
				log.Info(closed) //nolint:sloglint // a constant of newGuard
			case from == gobreaker.StateClosed:
				log.Warn(opened, "error", c.lastFailure()) //nolint:sloglint // a constant of newGuard
			}
		},
	})
	return c
}

func (c *circuit) isOpen() bool { return c.breaker.State() != gobreaker.StateClosed }

// done records the outcome of a command, and reports whether it was a failure.
func (c *circuit) done(tell func(error), err error) bool {
	failed := c.fails(err) && !saysNothing(err)
	if failed {
		c.cause.Store(&err)
	}
	tell(err)
	return failed
}

func (c *circuit) lastFailure() error {
	if cause := c.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}
