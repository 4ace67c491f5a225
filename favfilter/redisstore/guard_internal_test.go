package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// node is a guarded node that answers every command with err.
type node struct {
	guard  *guard
	log    bytes.Buffer
	err    error
	sent   int
	failed atomic.Int64
}

func newNode() *node {
	n := &node{}
	n.guard = newGuard("host:1", slog.New(slog.NewTextHandler(&n.log, nil)), func(context.Context) { n.failed.Add(1) })
	return n
}

func (n *node) do() error {
	return n.guard.do(context.Background(), func(context.Context) (err, access error) {
		n.sent++
		return n.err, nil
	})
}

// givenUp returns a node that failed, after the pause.
func givenUp() *node {
	n := newNode()
	n.err = refused()
	_ = n.doTimes(5)
	time.Sleep(guardPause*3/2 + 1)
	return n
}

// doTimes sends commands and returns the error of the last.
func (n *node) doTimes(times int) (err error) {
	for range times {
		err = n.do()
	}
	return err
}

func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func TestGuardGivesUpAfterFiveFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.err = refused()
		if err := n.doTimes(5); !errors.Is(err, syscall.ECONNREFUSED) || n.sent != 5 || n.failed.Load() != 5 {
			t.Fatalf("the fifth command: %v; %d sent, %d reported", err, n.sent, n.failed.Load())
		}
		err := n.do()
		if !errors.Is(err, ErrUnavailable) || n.sent != 5 || n.failed.Load() != 6 {
			t.Errorf("the sixth command: %v; %d sent, %d reported", err, n.sent, n.failed.Load())
		}
		for _, part := range []string{"host:1", "refused"} {
			if !strings.Contains(err.Error(), part) || !strings.Contains(n.log.String(), part) {
				t.Errorf("%q is not in error %q and log %q", part, err, n.log.String())
			}
		}
		// The client would retry an error that it considers a network failure.
		if op, ok := errors.AsType[*net.OpError](err); ok {
			t.Errorf("the error wraps %v", op)
		}
		time.Sleep(guardPause/2 - 1)
		if err := n.do(); !errors.Is(err, ErrUnavailable) || n.sent != 5 {
			t.Errorf("before the pause is over: %v; %d sent", err, n.sent)
		}
	})
}

func TestGuardProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := givenUp()
		if err := n.do(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the probe: %v", err)
		}
		if err := n.do(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after a probe that failed: %v", err)
		}
		time.Sleep(guardPause*3/2 + 1)
		n.err = nil
		// While a probe is in flight, no other is sent.
		answered, began := make(chan struct{}), make(chan struct{})
		var probe error
		var wg sync.WaitGroup
		wg.Go(func() {
			probe = n.guard.do(context.Background(), func(context.Context) (err, access error) { close(began); <-answered; return nil, nil })
		})
		<-began
		if err := n.do(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("beside a probe: %v", err)
		}
		close(answered)
		wg.Wait()
		if err := n.doTimes(10); err != nil || probe != nil {
			t.Errorf("the probe: %v; after it: %v", probe, err)
		}
		if got := strings.Count(n.log.String(), "\n"); got != 2 || !strings.Contains(n.log.String(), "back") {
			t.Errorf("the log has %d lines, want one that it failed and one that it is back:\n%s", got, &n.log)
		}
	})
}

// After a cancelled probe, the next command probes the node.
func TestGuardProbeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := givenUp()
		n.err = context.Canceled
		if err := n.doTimes(3); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled probes: %v", err)
		}
		n.err = nil
		if err := n.doTimes(3); err != nil {
			t.Errorf("the node is back: %v", err)
		}
	})
}

// Commands whose time was up while the process was stopped do not open the breaker. The same
// commands do without a stop.
func TestGuardStopped(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		n := newNode()
		var sending, ended sync.WaitGroup
		answered := make(chan struct{})
		for range guardFailures + 1 {
			sending.Add(1)
			ended.Go(func() {
				_ = n.guard.do(t.Context(), func(context.Context) (err, access error) {
					sending.Done()
					<-answered
					return context.DeadlineExceeded, nil
				})
			})
		}
		sending.Wait()
		if stopped {
			servertest.StopTest(t, 400*time.Millisecond)
		}
		close(answered)
		ended.Wait()
		if err := n.do(); errors.Is(err, ErrUnavailable) == stopped {
			t.Errorf("stopped is %t, and then a command: %v", stopped, err)
		}
	}
}

func TestGuardCounts(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		open bool
	}{
		"refused":         {refused(), true},
		"cut":             {io.EOF, true},
		"deadline":        {fmt.Errorf("read: %w", context.DeadlineExceeded), true},
		"timeout":         {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		"cancelled":       {fmt.Errorf("read: %w", context.Canceled), false},
		"closed":          {redis.ErrClosed, false},
		"pool":            {redis.ErrPoolTimeout, false},
		"no connection":   {redis.ErrPoolExhausted, false},
		"missing":         {redis.Nil, false},
		"an error reply":  {redis.ErrNoScript, false},
		"a wrapped reply": {fmt.Errorf("load: %w", redis.ErrCrossSlot), false},
		"no rights":       {serverError("NOPERM this user has no permissions to run the 'mget' command"), false},
		"no connections":  {serverError("ERR max number of clients reached"), true},
		// A client that asks Sentinels wraps their replies.
		"no Sentinel knows it": {fmt.Errorf("unreachable: %w", errors.Join(redis.Nil, redis.Nil)), true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode()
			n.err = c.err
			_ = n.doTimes(20)
			if open := n.sent == guardFailures; open != c.open || !open && n.sent != 20 {
				t.Errorf("%d of 20 commands were sent", n.sent)
			}
		})
	}
}

// Only successive failures count. A reply ends the succession, even if it is an error.
func TestGuardCountsInARow(t *testing.T) {
	n := newNode()
	for range 10 {
		n.err = refused()
		_ = n.doTimes(guardFailures - 1)
		n.err = redis.ErrNoScript
		_ = n.do()
	}
	if n.sent != 10*guardFailures {
		t.Errorf("%d commands were sent, want all %d", n.sent, 10*guardFailures)
	}
}

// A command that panics does not leave a probe pending.
func TestGuardPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := givenUp()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was lost")
				}
			}()
			_ = n.guard.do(context.Background(), func(context.Context) (err, access error) { panic("mad") })
		}()
		time.Sleep(guardPause*3/2 + 1)
		n.err = nil
		if err := n.do(); err != nil {
			t.Errorf("after a panic: %v", err)
		}
	})
}

// TestBreakersOpen checks what Breakers reports, from the first failure until the node is gone.
func TestBreakersOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Breakers{nodes: make(map[string]weak.Pointer[guard])}
		n, other := newNode(), newNode()
		other.guard.addr = "host:2"
		all.add(n.guard)
		all.add(other.guard)
		want := func(open, otherOpen bool) {
			t.Helper()
			reads, writes := all.Open()
			for of, got := range map[string]map[string]bool{"reads": reads, "writes": writes} {
				if len(got) != 2 || got["host:1"] != open || got["host:2"] != otherOpen {
					t.Errorf("open for %s: %v, want host:1 %v, host:2 %v", of, got, open, otherOpen)
				}
			}
		}
		n.err = refused()
		_ = n.doTimes(4)
		want(false, false)
		_ = n.do()
		want(true, false)
		time.Sleep(2 * guardPause)
		want(true, false) // the other node has had no command yet
		n.err = nil
		_ = n.do()
		want(false, false)
		runtime.KeepAlive(other)
	})
	gone := &Breakers{nodes: make(map[string]weak.Pointer[guard])}
	gone.add(newNode().guard)
	runtime.GC()
	if reads, writes := gone.Open(); len(reads)+len(writes) != 0 {
		t.Errorf("of a node that is gone: %v, %v", reads, writes)
	}
	if len(gone.nodes) != 0 {
		t.Error("a node that is gone takes memory")
	}
}

// After the pause, the breaker for reads lets one command through, but the breaker of the node
// stops it. The breaker for reads must not keep waiting for that command.
func TestGuardTriesReadsAfterTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.err = serverError("LOADING Redis is loading the dataset in memory")
		for range guardFailures {
			n.pipeline(reads)
		}
		time.Sleep(guardPause * 3 / 2)
		n.err = refused()
		_ = n.doTimes(guardFailures) // other commands, which open the breaker of the node
		for range 3 {
			if n.pipeline(reads) {
				t.Fatal("a command was sent to a node that failed")
			}
		}
		n.err = nil
		time.Sleep(guardPause*3/2 + 1)
		for i := range 3 {
			if !n.pipeline(reads) {
				t.Errorf("read %d is not sent although both pauses are over", i)
			}
		}
	})
}

// Only a reply can report that a command in a script was refused.
func TestRefusalIsAReply(t *testing.T) {
	const text = "ERR Error running script (call to f_1): @user_script:1: -READONLY "
	if !isRefusal(serverError(text)) || isRefusal(errors.New(text)) {
		t.Error("a refusal is a reply, and nothing else")
	}
	if !isRefusal(serverError("ERR Error running script (call to f_1): @user_script:1: -NOREPLICAS ")) {
		t.Error("a write that lacks replicas is refused in a script, too")
	}
}

// serverError is an error reply of a server.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

// pipelineOf returns commands of a Store with that access, and their context.
func pipelineOf(a access, commands int) (context.Context, []redis.Cmder) {
	ctx := context.WithValue(context.Background(), accessKey{}, a)
	cmds := make([]redis.Cmder, commands)
	for i := range cmds {
		cmds[i] = redis.NewStatusCmd(ctx)
	}
	return ctx, cmds
}

// send sends commands, of which the first fails, and returns whether they got through.
func (n *node) send(ctx context.Context, cmds []redis.Cmder) (sent bool, err error) {
	err = n.guard.ProcessPipelineHook(func(_ context.Context, cmds []redis.Cmder) error {
		n.sent++
		sent = true
		cmds[0].SetErr(n.err)
		return n.err
	})(ctx, cmds)
	return sent, err
}

// pipeline sends one command of a Store with that access, and returns whether it got through.
func (n *node) pipeline(a access) bool {
	ctx, cmds := pipelineOf(a, 1)
	sent, err := n.send(ctx, cmds)
	if !sent && !errors.Is(err, ErrUnavailable) {
		panic("not sent, and no error that says so")
	}
	return sent
}

// TestGuardRefusals checks which commands are still sent to a node that answered five reads, or
// five writes, with an error.
func TestGuardRefusals(t *testing.T) {
	const none = access(9)
	for text, stops := range map[string]access{
		"LOADING Redis is loading the dataset in memory":                            reads,
		"MASTERDOWN Link with MASTER is down":                                       reads,
		"CLUSTERDOWN The cluster is down":                                           reads,
		"CLUSTERDOWN The cluster is down and only accepts read commands":            writes,
		"READONLY You can't write against a read only replica.":                     writes,
		"NOREPLICAS Not enough good replicas to write.":                             writes,
		"ERR Error running script (call to f_1): @user_script:1: -READONLY ":        writes,
		"CLUSTERDOWN Hash slot not served":                                          none,
		"TRYAGAIN Multiple keys request during rehashing of slot":                   none,
		"MOVED 1 127.0.0.1:1":                                                       none,
		"OOM command not allowed when used memory > 'maxmemory'.":                   none,
		"MISCONF Redis is configured to save RDB snapshots":                         none,
		"NOPERM this user has no permissions to run the 'evalsha' command":          none,
		"BUSY Redis is busy running a script.":                                      none,
		"ERR Error running script (call to f_1): @user_script:1: no READONLY here.": none,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode()
			n.err = serverError(text)
			asked := stops
			if asked == none {
				asked = reads
			}
			for i := range 5 {
				if !n.pipeline(asked) {
					t.Fatalf("%q: command %d is not sent", text, i)
				}
			}
			n.err = nil
			for _, a := range []access{reads, writes} {
				if sent := n.pipeline(a); sent != (stops == none || a != stops) {
					t.Errorf("%q: access %d: sent %v", text, a, sent)
				}
			}
			open := &Breakers{nodes: make(map[string]weak.Pointer[guard])}
			open.add(n.guard)
			if r, w := open.Open(); r["host:1"] != (stops == reads) || w["host:1"] != (stops == writes) {
				t.Errorf("%q: open %v, for writes %v", text, r, w)
			}
			time.Sleep(guardPause*3/2 + 1)
			for range 2 {
				if !n.pipeline(asked) {
					t.Errorf("%q: after the pause, and an answer, commands are not sent", text)
				}
			}
			if lines := strings.Count(n.log.String(), "\n"); stops != none && lines != 2 || stops == none && lines != 0 {
				t.Errorf("%q: the log has %d lines:\n%s", text, lines, &n.log)
			}
		})
	}
}

// A node that answers for one page of a pipeline does not refuse all commands.
func TestGuardRefusesSome(t *testing.T) {
	n := newNode()
	n.err = serverError("CLUSTERDOWN The cluster is down")
	for range 20 {
		ctx, cmds := pipelineOf(reads, 2)
		if sent, err := n.send(ctx, cmds); !sent || !errors.Is(err, n.err) {
			t.Fatal(sent, err)
		}
	}
}

// A cluster client may follow redirections of commands. It may not resend commands that a node put
// off.
func TestGuardStopsRepetition(t *testing.T) {
	one, other := newNode(), newNode()
	for text, stopped := range map[string]bool{
		"TRYAGAIN Multiple keys request during rehashing of slot": true,
		"LOADING Redis is loading the dataset in memory":          true,
		"CLUSTERDOWN Hash slot not served":                        true,
		"MOVED 1 127.0.0.1:1":                                     false,
		"ASK 1 127.0.0.1:1":                                       false,
	} {
		ctx, cmds := pipelineOf(reads, 2)
		one.err, other.err = serverError(text), serverError(text)
		if sent, err := one.send(ctx, cmds); !sent || err == nil {
			t.Errorf("%q: sent %v, %v", text, sent, err)
		}
		// A command that was answered keeps its answer. An error of the hook would replace it.
		if sent, err := one.send(ctx, cmds); sent == stopped || stopped && err != nil {
			t.Errorf("%q: repeated %v, %v", text, sent, err)
		}
		if sent, _ := other.send(ctx, cmds); sent == stopped {
			t.Errorf("%q: sent to another node: %v", text, sent)
		}
		cmds[1].SetErr(serverError(text))
		if sent, err := other.send(ctx, cmds); sent == stopped || stopped && !errors.Is(err, ErrUnavailable) {
			t.Errorf("%q: repeated %v, %v", text, sent, err)
		}
	}
}
