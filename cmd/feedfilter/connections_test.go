package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	soon  = time.Second // timeout that must expire, but not too early on a busy machine
	late  = time.Hour   // timeout that must not expire
	limit = time.Minute // time after which a test gives up
)

// serveWith serves a whole service in this process, with the given timeouts and maximum number of
// connections, and returns its address.
func serveWith(t testing.TB, limits timeouts, connections int) string {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 16})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	recorder, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}})
	must(t, err)
	t.Cleanup(recorder.Close)
	handler := httpapi.New(httpapi.Config{Activities: recorder})
	server := newServer(handler, slog.New(slog.DiscardHandler), limits)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(newConnectionLimit(connections, handler.Unread).listener(listener)) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// byteClient is a connection for single bytes. It gives up after limit.
type byteClient struct {
	*net.TCPConn

	t  testing.TB
	in *bufio.Reader
}

func dial(t testing.TB, addr string) *byteClient {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(limit)))
	return &byteClient{conn.(*net.TCPConn), t, bufio.NewReader(conn)}
}

func (c *byteClient) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatalf("send %.50q: %v", text, err)
	}
}

// dribble sends one byte at a time, more often than the timeouts, until the server has closed the
// connection.
func (c *byteClient) dribble(text string) {
	tick := time.NewTicker(soon / 30)
	defer tick.Stop()
	for ; ; <-tick.C {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

// reply is an answer that was read completely.
type reply struct {
	status int
	proto  string
	closed bool // whether the server closed the connection after it
	body   string
}

func (c *byteClient) answer() reply {
	c.t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatalf("%s: %v", res.Status, err)
	}
	return reply{res.StatusCode, res.Proto, res.Close, string(body)}
}

// wantClosed checks that the server closes the connection without sending anything.
func (c *byteClient) wantClosed(what string) {
	c.t.Helper()
	rest, err := io.ReadAll(c.in)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%s: the connection is still open", what)
	}
	if len(rest) > 0 {
		c.t.Errorf("%s: the server says %.200q", what, rest)
	}
}

const health = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

func TestSlowHeader(t *testing.T) {
	t.Parallel()
	addr := serveWith(t, timeouts{header: soon, read: late, write: late, idle: late}, 10)
	c := dial(t, addr)
	c.send("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	go c.dribble("x")
	silent := dial(t, addr)
	// On a busy machine, the server may be the slow one.
	got := c.answer()
	if timeout := got.status == http.StatusRequestTimeout && strings.HasPrefix(got.body, `{"error":{"code":"timeout",`); !got.closed ||
		!timeout && (got.status != http.StatusServiceUnavailable || !strings.HasPrefix(got.body, `{"error":{"code":"overloaded",`)) {
		t.Errorf("a header that does not end: %+v", got)
	}
	c.wantClosed("a header that does not end")
	silent.wantClosed("no byte at all")
}

func TestSlowBody(t *testing.T) {
	t.Parallel()
	addr := serveWith(t, timeouts{header: late, read: soon, write: late, idle: late}, 10)
	const post = " /v1/users/1/seen HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	all := make(map[string]*byteClient)
	for name, c := range map[string]struct{ begin, more string }{
		"length":    {"POST" + post + "Content-Length: 60000\r\n\r\n{\"posts\":[\"", "x"},
		"no byte":   {"POST" + post + "Content-Length: 60000\r\n\r\n", ""},
		"chunked":   {"POST" + post + "Transfer-Encoding: chunked\r\n\r\nb\r\n{\"posts\":[\"\r\n", "1\r\nx\r\n"},
		"unwelcome": {"PUT /v1/users/1/hides/p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", ""},
	} {
		conn := dial(t, addr)
		conn.send(c.begin)
		if c.more != "" {
			go conn.dribble(c.more)
		}
		all[name] = conn
	}
	for name, conn := range all { // they time out at once
		if got := conn.answer(); got.status != http.StatusRequestTimeout || !strings.HasPrefix(got.body, `{"error":{"code":"timeout",`) || !got.closed {
			t.Errorf("%s: %+v", name, got)
		}
		conn.wantClosed(name)
	}
	c := dial(t, addr)
	c.send("GET /v1/users/1/hides HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := c.answer(); got.body != `{"items":[]}` {
		t.Errorf("hides: %+v", got)
	}
}

// A stream of NDJSON extends its deadlines as it proceeds.
func TestStreamOutlastsTimeouts(t *testing.T) {
	t.Parallel()
	const most = 2 * soon // it expires only after a delay of seven times the interval between lines
	addr := serveWith(t, timeouts{header: late, read: most, write: most, idle: late}, 10)
	c := dial(t, addr)
	c.send("POST /v1/activities HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
	res, err := http.ReadResponse(c.in, nil)
	must(t, err)
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	tick := time.NewTicker(soon / 4)
	defer tick.Stop()
	for i := range 10 { // longer than both timeouts
		l := fmt.Sprintf(`{"user":"1","kind":"hide","target":"p%d","op":"add"}`+"\n", i)
		c.send(fmt.Sprintf("%x\r\n%s\r\n", len(l), l))
		if got, err := lines.ReadString('\n'); err != nil || got != `{"changed":true}`+"\n" {
			t.Fatalf("line %d: %q, %v", i, got, err)
		}
		<-tick.C
	}
	c.send("0\r\n\r\n")
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("end: %q, %v", rest, err)
	}
}

// The server disconnects a client that sends requests and reads no answers.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	addr := serveWith(t, timeouts{header: late, read: late, write: soon, idle: late}, 10)
	c := dial(t, addr)
	body := `{"viewer":"1","kinds":["hide"],"posts":[` + strings.TrimSuffix(strings.Repeat(`{"id":"`+strings.Repeat("x", 250)+`"},`, 2000), ",") + `]}`
	request := fmt.Sprintf("POST /v1/feed/filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for {
		_, err := io.WriteString(c, request)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the server still waits for the client to read")
		}
		if err != nil {
			return // cut off
		}
	}
}

// The server disconnects a client of HTTP/2 that lets it send as much as it likes, and reads
// nothing.
func TestUnreadConnection(t *testing.T) {
	t.Parallel()
	var begun, ended atomic.Int64
	part := make([]byte, 1<<20)
	server := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begun.Add(1)
		defer ended.Add(1)
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}), slog.New(slog.DiscardHandler), timeouts{header: late, read: late, write: soon, idle: late})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	c := dial(t, listener.Addr().String())
	const header = "\x82\x86\x84\x41\x01x" // GET http://x/
	c.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
		"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + "\x00\x04\x7f\xff\xff\xff" + // SETTINGS: the largest window
		"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + "\x7f\xff\x00\x00" + // the same for the connection
		"\x00\x00\x06\x01\x05\x00\x00\x00\x01" + header + "\x00\x00\x06\x01\x05\x00\x00\x00\x03" + header)
	err = servertest.Await(t.Context(), "both requests have ended", func(context.Context) error {
		if begun.Load() != 2 || ended.Load() != 2 {
			return fmt.Errorf("%d of %d have ended", ended.Load(), begun.Load())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestIdleConnection(t *testing.T) {
	t.Parallel()
	addr := serveWith(t, timeouts{header: late, read: late, write: late, idle: soon}, 10)
	c := dial(t, addr)
	c.send(health)
	if got := c.answer(); got.status != http.StatusOK || got.closed {
		t.Errorf("%+v", got)
	}
	c.wantClosed("nothing asked for any more")
}

// TestHTTP2 uses HTTP/2 without TLS on the port for HTTP/1.1. A request to upgrade from HTTP/1.1 is
// answered in HTTP/1.1.
func TestHTTP2(t *testing.T) {
	addr := serveWith(t, defaultTimeouts(), 10)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	res, err := (&http.Client{Transport: transport}).Get("http://" + addr + "/healthz") //nolint:noctx // ends with the server
	must(t, err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Proto != "HTTP/2.0" {
		t.Errorf("%s %s", res.Proto, res.Status)
	}
	c := dial(t, addr)
	c.send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	if got := c.answer(); got.status != http.StatusOK || got.proto != "HTTP/1.1" {
		t.Errorf("%+v", got)
	}
}

// TestIdleConnectionsMakeRoom: at the limit, the connection that has been idle for the longest time
// is closed for a new one, whether or not it has sent anything. The others go on.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	addr := serveWith(t, timeouts{header: late, read: late, write: late, idle: late}, 3)
	silent, slow, probed := dial(t, addr), dial(t, addr), dial(t, addr)
	slow.send("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	probed.send(health)
	probed.answer()
	for range 4 { // each new one but the first replaces the one before
		c := dial(t, addr)
		c.send(health)
		if got := c.answer(); got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
		probed.send(health)
		if got := probed.answer(); got.status != http.StatusOK {
			t.Errorf("the connection in use: %+v", got)
		}
	}
	silent.wantClosed("no byte at all")
	slow.wantClosed("a header that does not end")
}

// TestWorkingConnectionsStay: a connection with a request in progress is not idle. If there are no
// others, new ones wait.
func TestWorkingConnectionsStay(t *testing.T) {
	addr := serveWith(t, timeouts{header: late, read: late, write: late, idle: late}, 2)
	const stream = "POST /v1/activities HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
	first, second := dial(t, addr), dial(t, addr)
	for _, c := range []*byteClient{first, second} {
		c.send(stream)
		res, err := http.ReadResponse(c.in, nil)
		must(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
	}
	third := dial(t, addr) // the system accepts it
	third.send(health)
	got := make(chan int, 1)
	go func() {
		res, err := http.ReadResponse(third.in, nil)
		if err != nil {
			got <- 0
			return
		}
		_ = res.Body.Close()
		got <- res.StatusCode
	}()
	const line = `{"user":"1","kind":"hide","target":"p","op":"add"}` + "\n"
	for range 50 { // the others are served
		first.send(fmt.Sprintf("%x\r\n%s\r\n", len(line), line))
		if _, err := first.in.ReadString('}'); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case status := <-got:
		t.Fatalf("answered %d, over the limit", status)
	default:
	}
	second.send("0\r\n\r\n")
	if status := <-got; status != 200 {
		t.Errorf("answered %d when there was room", status)
	}
}

// TestWorkingStreamsStay: a connection of HTTP/2 with a request in progress is not idle.
func TestWorkingStreamsStay(t *testing.T) {
	addr := serveWith(t, timeouts{header: late, read: late, write: late, idle: late}, 2)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	body, lines := io.Pipe()
	t.Cleanup(func() { _ = lines.Close() })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/activities", body)
	must(t, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	res, err := (&http.Client{Transport: transport}).Do(r)
	must(t, err)
	defer res.Body.Close()
	for range 3 {
		c := dial(t, addr)
		c.send(health)
		if got := c.answer(); got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
	}
	if _, err := io.WriteString(lines, `{"user":"1","kind":"hide","target":"p","op":"add"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || got != `{"changed":true}`+"\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLimitedListenerChanges raises the limit, so that a waiting connection is accepted. It then
// lowers the limit, and no connection is accepted while more are open.
func TestLimitedListenerChanges(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	limited := newConnectionLimit(1, nil).listener(l)
	accepted := make(chan net.Conn)
	go func() {
		for {
			conn, err := limited.Accept()
			if err != nil {
				close(accepted)
				return
			}
			conn.(*limitedConn).work(1)
			accepted <- conn
		}
	}()
	for range 4 {
		dial(t, l.Addr().String())
	}
	first := <-accepted
	limited.limit.set(3)
	second, third := <-accepted, <-accepted
	limited.limit.set(2)
	_ = first.Close()
	// Two are open, which is the limit.
	limited.limit.mu.Lock()
	open := limited.limit.open
	limited.limit.mu.Unlock()
	if open != 2 {
		t.Errorf("%d are open, want 2", open)
	}
	_ = second.Close()
	fourth := <-accepted
	_ = limited.Close()
	if conn, more := <-accepted; more {
		t.Errorf("accepted %v after the end", conn.RemoteAddr())
	}
	_ = third.Close()
	_ = fourth.Close()
}

// TestLimitedListenerCloses closes the listener while Accept waits for room.
func TestLimitedListenerCloses(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	limited := newConnectionLimit(1, nil).listener(l)
	dial(t, l.Addr().String())
	conn, err := limited.Accept()
	must(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := limited.Accept()
		failed <- err
	}()
	if err := errors.Join(limited.Close(), limited.Close()); err == nil {
		t.Error("the second Close reports nothing")
	}
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	// A connection returns its slot once, even if it is closed several times.
	_ = conn.Close()
	_ = conn.Close()
}
