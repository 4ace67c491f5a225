package proxytest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// soon is how long a test waits for an answer that must not come. far is the upper bound for an
// answer that must come, on an overloaded machine.
const (
	soon = 100 * time.Millisecond
	far  = time.Minute
)

func TestHealthyProxyPassesAll(t *testing.T) {
	t.Parallel()
	server, proxy := start(t)
	if proxy.Addr() == server.Addr() {
		t.Fatalf("the proxy and its server share the address %s", proxy.Addr())
	}
	value := strings.Repeat("value", 1<<20)
	client := newClient(t, proxy)
	must(t, client.Set(t.Context(), "key", value, 0).Err())
	if got, err := client.Get(t.Context(), "key").Result(); err != nil || got != value {
		t.Errorf("GET gave %d bytes, %v; want the %d written", len(got), err, len(value))
	}
	if got := server.Client().StrLen(t.Context(), "key").Val(); got != int64(len(value)) {
		t.Errorf("the server holds %d bytes, want the %d written", got, len(value))
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	_, proxy := start(t)
	conn := dial(t, proxy)
	ping(t, conn)
	const delay = 60 * time.Millisecond
	proxy.Delay(2*delay, 0)
	proxy.Delay(delay, 0)
	begin := time.Now()
	ping(t, conn)
	if took := time.Since(begin); took < delay {
		t.Errorf("on an open connection an answer took %s, want %s at least", took, delay)
	}
	begin = time.Now()
	ping(t, dial(t, proxy))
	if took := time.Since(begin); took < delay {
		t.Errorf("on a new connection an answer took %s, want %s at least", took, delay)
	}
	// The delay is longer than the test may take. Only the end of the delay lets an answer through.
	proxy.Delay(10*far, far)
	if err := newClient(t, proxy).Ping(within(t, soon)).Err(); !isTimeout(err) {
		t.Errorf("PING with a delay past its deadline: %v, want a timeout", err)
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	proxy.Reset()
	wantReply(t, conn)
	ping(t, conn)
	wantPong(t, proxy)
}

func TestCutResetsAndRefuses(t *testing.T) {
	t.Parallel()
	_, proxy := start(t)
	addr, conn := proxy.Addr(), dial(t, proxy)
	ping(t, conn)
	client := newClient(t, proxy)
	must(t, client.Ping(t.Context()).Err())
	proxy.Cut()
	proxy.Cut()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reading from a cut connection: %v, want it reset", err)
	}
	if err := client.Ping(t.Context()).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("PING through a cut proxy: %v, want the connection refused", err)
	}
	// While the proxy is cut, this has no effect.
	proxy.Delay(far, 0)
	proxy.Stall()
	proxy.Truncate(1)
	proxy.Reset()
	if proxy.Addr() != addr {
		t.Errorf("after Reset the address is %s, was %s", proxy.Addr(), addr)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the same client after Reset: %v", err)
	}
}

func TestCutResetsTheServersSide(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	proxy := proxytest.Start(t, l.Addr().String())
	dial(t, proxy)
	conn, err := l.Accept()
	must(t, err)
	defer conn.Close()
	proxy.Cut()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server reads %v, want its connection reset", err)
	}
}

func TestStallAnswersNothing(t *testing.T) {
	t.Parallel()
	server, proxy := start(t)
	open := dial(t, proxy)
	ping(t, open)
	proxy.Stall()
	proxy.Stall()
	fresh := dial(t, proxy)
	wantSilence(t, open)
	wantSilence(t, fresh)
	if err := newClient(t, proxy).Ping(within(t, soon)).Err(); !isTimeout(err) {
		t.Errorf("PING through a stalled proxy: %v, want a timeout", err)
	}
	// The client must not notice the end of the server either.
	server.Kill()
	wantSilence(t, open)
	wantSilence(t, dial(t, proxy))
	server.Restart()
	proxy.Reset()
	wantPong(t, proxy)
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	_, proxy := start(t)
	open := dial(t, proxy)
	ping(t, open)
	for _, limit := range []int64{0, 1, 3, 11} {
		proxy.Truncate(limit)
		for _, conn := range []net.Conn{open, dial(t, proxy)} {
			if _, err := io.WriteString(conn, strings.Repeat("PING\r\n", 2)); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			if want := strings.Repeat("+PONG\r\n", 2)[:limit]; string(got) != want || isTimeout(err) {
				t.Errorf("after Truncate(%d) the answer is %q, %v; want %q and no more", limit, got, err, want)
			}
		}
		open = dial(t, proxy) // its earlier bytes do not count
		if limit > 7 {
			ping(t, open)
		}
	}
	// The client gets half an answer, and must return an error.
	proxy.Truncate(4)
	if err := newClient(t, proxy).Ping(t.Context()).Err(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("PING with its answer cut short: %v, want an error", err)
	}
	proxy.Reset()
	wantPong(t, proxy)
}

func TestMove(t *testing.T) {
	t.Parallel()
	_, proxy := start(t)
	next := redistest.Start(t)
	old := dial(t, proxy)
	ping(t, old)
	proxy.Cut()
	proxy.Move(next.Addr())
	if n, err := old.Read(make([]byte, 1)); err == nil {
		t.Errorf("the old connection reads %d bytes", n)
	}
	must(t, next.Client().Set(t.Context(), "here", "next", 0).Err())
	if got, err := newClient(t, proxy).Get(t.Context(), "here").Result(); err != nil || got != "next" {
		t.Errorf("a new connection reads %q, %v", got, err)
	}
}

func TestServerThatIsDown(t *testing.T) {
	t.Parallel()
	server, proxy := start(t)
	server.Kill()
	if err := newClient(t, proxy).Ping(t.Context()).Err(); err == nil || isTimeout(err) {
		t.Errorf("PING to a server that is down: %v, want the connection closed", err)
	}
	server.Restart()
	wantPong(t, proxy)
	conn := dial(t, proxy)
	ping(t, conn)
	server.Kill()
	if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("reading when the server dies: %v, want the connection closed", err)
	}
}

func TestEndsWithItsTest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var conn net.Conn
	var proxy *proxytest.Proxy
	t.Run("uses a proxy", func(t *testing.T) {
		proxy = proxytest.Start(t, server.Addr())
		conn = dialUntil(t, proxy)
		ping(t, conn)
	})
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reading after the proxy's test: %v, want it reset", err)
	}
	var d net.Dialer
	if conn, err := d.DialContext(t.Context(), "tcp", proxy.Addr()); err == nil {
		_ = conn.Close()
		t.Error("after its test a proxy accepts connections")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T) (*redistest.Server, *proxytest.Proxy) {
	t.Helper()
	server := redistest.Start(t)
	return server, proxytest.Start(t, server.Addr())
}

// newClient returns a client that does not retry, so that each failure is visible.
func newClient(t *testing.T, proxy *proxytest.Proxy) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                     proxy.Addr(),
		MaxRetries:               -1,
		DialerRetries:            1,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func wantPong(t *testing.T, proxy *proxytest.Proxy) {
	t.Helper()
	if err := newClient(t, proxy).Ping(t.Context()).Err(); err != nil {
		t.Errorf("PING through a healthy proxy: %v", err)
	}
}

func dial(t *testing.T, proxy *proxytest.Proxy) net.Conn {
	t.Helper()
	conn := dialUntil(t, proxy)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// dialUntil opens a connection whose deadline is far in the future.
func dialUntil(t *testing.T, proxy *proxytest.Proxy) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", proxy.Addr())
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(far)))
	return conn
}

func ping(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	wantReply(t, conn)
}

// wantReply reads the answer to a PING.
func wantReply(t *testing.T, conn net.Conn) {
	t.Helper()
	reply := make([]byte, len("+PONG\r\n"))
	if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "+PONG\r\n" {
		t.Fatalf("PING answered %q, %v", reply, err)
	}
}

// wantSilence sends a request, and fails the test if an answer comes soon.
func wantSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	must(t, conn.SetReadDeadline(time.Now().Add(soon)))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !isTimeout(err) {
		t.Errorf("reading through a stalled proxy: %d bytes, %v; want nothing", n, err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
