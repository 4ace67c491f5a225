package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"weak"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

// replied is an error that a server answers with.
type replied string

func (e replied) Error() string { return string(e) }

// RedisError implements Error of go-redis.
func (replied) RedisError() {}

// TestFailureOf checks the reasons of failed round trips, also for wrapped errors.
func TestFailureOf(t *testing.T) {
	late := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for err, want := range map[error]string{
		redis.Nil: "", context.Canceled: "", redis.ErrClosed: "",
		replied("NOSCRIPT No matching script"): "", replied("MOVED 1 h:1"): "", replied("ASK 1 h:1"): "",
		replied("LOADING Redis is loading"): failReply, replied("ERR x"): failReply,
		redisstore.ErrUnavailable: failBreaker,
		redis.ErrPoolTimeout:      failPool, redis.ErrPoolExhausted: failPool,
		context.DeadlineExceeded: failTimeout, os.ErrDeadlineExceeded: failTimeout, late: failTimeout,
		&net.DNSError{IsTimeout: true}: failTimeout,
		io.EOF:                         failNetwork, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}: failNetwork, &net.DNSError{}: failNetwork,
	} {
		if got := failureOf(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
		if got := failureOf(fmt.Errorf("read pages: %w", err)); got != want {
			t.Errorf("%v, wrapped: %q, want %q", err, got, want)
		}
	}
	if got := failureOf(nil); got != "" {
		t.Errorf("no error: %q", got)
	}
}

// TestWorst checks why a pipeline failed: its own error, or that of a command. An error of the
// command with which a client introduces itself does not count.
func TestWorst(t *testing.T) {
	refused, cut := replied("WRONGPASS"), io.EOF
	for _, c := range []struct {
		what  string
		err   error
		names []string
		errs  []error
		want  string
	}{
		{"none", nil, []string{"get", "set"}, []error{nil, redis.Nil}, ""},
		{"of the first command", refused, []string{"get", "set"}, []error{refused, nil}, failReply},
		{"of the last command", refused, []string{"get", "set"}, []error{nil, refused}, failReply},
		{"of the introduction", refused, []string{"client", "client"}, []error{nil, refused}, ""},
		{"of the introduction, and of a command", refused, []string{"client", "get"}, []error{refused, refused}, failReply},
		{"of the sign-in, which is none of the commands", refused, []string{"get"}, []error{nil}, failReply},
		{"of the connection", cut, []string{"get", "set"}, []error{cut, cut}, failNetwork},
		{"of the connection, before the commands", cut, []string{"get"}, []error{nil}, failNetwork},
		{"of the connection, at the introduction", cut, []string{"client"}, []error{cut}, failNetwork},
	} {
		var cmds []redis.Cmder
		for i, name := range c.names {
			cmd := redis.NewCmd(t.Context(), name)
			cmd.SetErr(c.errs[i])
			cmds = append(cmds, cmd)
		}
		if got := worst(c.err, cmds); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestRoundTrips checks that only commands that were sent are counted.
func TestRoundTrips(t *testing.T) {
	d := New(Settings{}).Redis()
	n := d.node(nodeName{"pages", "h:1"})
	want := 0.0
	for err, sent := range map[error]bool{
		redisstore.ErrUnavailable: false, redis.ErrPoolTimeout: false, io.EOF: true, context.DeadlineExceeded: true, replied("ERR x"): true, redis.Nil: true,
	} {
		if sent {
			want++
		}
		get := redis.NewCmd(t.Context(), "get")
		_ = n.ProcessHook(func(context.Context, redis.Cmder) error { return err })(t.Context(), get)
		_ = n.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { return err })(t.Context(), []redis.Cmder{get, get})
		if got := testutil.ToFloat64(n.commands.WithLabelValues("get")); got != 3*want {
			t.Errorf("after %v: %v commands, want %v", err, got, 3*want)
		}
	}
}

// TestDialled checks that a counted connection still has its socket, if it had one. A client's pool
// looks at the socket to see whether the server has closed the connection.
func TestDialled(t *testing.T) {
	n := New(Settings{}).Redis().node(nodeName{"pages", "h:1"})
	near, far := net.Pipe()
	for _, made := range []net.Conn{near, &net.TCPConn{}} {
		conn, err := n.DialHook(func(context.Context, string, string) (net.Conn, error) { return made, nil })(t.Context(), "tcp", "h:1")
		if err != nil {
			t.Fatal(err)
		}
		_, had := made.(syscall.Conn)
		if _, has := conn.(syscall.Conn); has != had {
			t.Errorf("%T: a socket: %v, want %v", made, has, had)
		}
	}
	_ = far.Close()
	conn, _ := n.DialHook(func(context.Context, string, string) (net.Conn, error) { return near, nil })(t.Context(), "tcp", "h:1")
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read at the end: %v", err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("written after the end: %v", err)
	}
	if conn, err := n.DialHook(func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF })(t.Context(), "tcp", "h:1"); conn != nil || !errors.Is(err, io.EOF) {
		t.Errorf("failed dial: %v, %v", conn, err)
	}
}

// TestNodesThatLeft checks that nodes without clients are removed.
func TestNodesThatLeft(t *testing.T) {
	r := New(Settings{})
	d := r.Redis()
	d.nodes[nodeName{"pages", "gone:1"}] = weak.Pointer[redis.Client]{}
	if _, err := r.Gatherer().Gather(); err != nil || len(d.nodes) != 0 {
		t.Errorf("%v, %d nodes are left", err, len(d.nodes))
	}
}
