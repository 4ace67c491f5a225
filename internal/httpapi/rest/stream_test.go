package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// TestFullDuplex sends each line after the result of the previous one, once in pieces, and checks
// that each result has taken effect.
func TestFullDuplex(t *testing.T) {
	for name, client := range map[string]*http.Client{"HTTP/1": {Transport: &http.Transport{}}, "HTTP/2": httpapitest.OverHTTP2(t)} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(client.CloseIdleConnections)
			s := httpapitest.Open(t)
			testFullDuplex(t, s, s.DuplexOf(t, client, httpapitest.ServeBoth(t, s)))
		})
	}
}

func testFullDuplex(t *testing.T, s *httpapitest.Service, d *httpapitest.Duplex) {
	t.Helper()
	for i := range 5 {
		post := fmt.Sprint("p", i)
		l := httpapitest.ActivityLine("1", "hide", post, "add")
		d.Write(l[:10])
		d.Write(l[10:] + "\n")
		if got := d.Line(); got != httpapitest.Yes {
			t.Errorf("line %d: %s", i, got)
		}
		if got, _, _ := s.Items(t, "/v1/users/1/hides"); len(got) != i+1 || !slices.Contains(got, post) {
			t.Errorf("after line %d: %v", i, got)
		}
	}
	d.Write("nonsense\n" + httpapitest.ActivityLine("1", "hide", "p0", "remove") + "\n" + httpapitest.ActivityLine("1", "hide", "p1", "rem"))
	httpapitest.WantError(t, d.Line(), "malformed_json", "")
	if got := d.Line(); got != httpapitest.Yes {
		t.Error(got)
	}
	d.Write("\n")
	httpapitest.WantError(t, d.Line(), "unknown_op", "op")
	d.Write(httpapitest.ActivityLine("1", "hide", "p1", "remove")) // without a line feed
	_ = d.In.Close()
	if got := d.Line(); got != httpapitest.Yes {
		t.Error(got)
	}
	if err := d.End(); err != nil {
		t.Errorf("end: %v", err)
	}
}

// TestStreamGoesOn makes the store and then the ledger fail between lines.
func TestStreamGoesOn(t *testing.T) {
	s := httpapitest.Open(t)
	d := s.Duplex(t, s.Start(t))
	hide := func(post string) string { return httpapitest.ActivityLine("1", "hide", post, "add") + "\n" }
	d.Write(hide("a"))
	if got := d.Line(); got != httpapitest.Yes {
		t.Error(got)
	}
	for kind, dependency := range map[string]*httpapitest.Switched{"seen": &s.Store.Switched, "hide": &s.Ledger.Switched} {
		dependency.Set(httpapitest.Failing)
		d.Write(httpapitest.ActivityLine("1", kind, "b", "add") + "\nnonsense\n" + httpapitest.ActivityLine("1", kind, "c", "add") + "\n")
		httpapitest.WantError(t, d.Line(), "unavailable", "")
		httpapitest.WantError(t, d.Line(), "malformed_json", "")
		httpapitest.WantError(t, d.Line(), "unavailable", "")
		dependency.Set(httpapitest.Sound)
		d.Write(hide("a"))
		if got := d.Line(); got != httpapitest.No {
			t.Error(got)
		}
	}
	for _, post := range []string{"b", "c"} { // hidden or not, so far
		d.Write(hide(post))
		if got := d.Line(); got != httpapitest.Yes && got != httpapitest.No {
			t.Error(got)
		}
	}
	_ = d.In.Close()
	if err := d.End(); err != nil {
		t.Errorf("end: %v", err)
	}
	if got, _, _ := s.Items(t, "/v1/users/1/hides"); len(got) != 3 {
		t.Errorf("hides: %v", got)
	}
}

// TestStreamBroken: if a request ends inside a line, the line is not recorded, and the answer does
// not look complete.
func TestStreamBroken(t *testing.T) {
	s := httpapitest.Open(t)
	addr := s.Start(t)
	conn := httpapitest.Dial(t, addr)
	first, second := httpapitest.ActivityLine("1", "hide", "a", "add")+"\n", httpapitest.ActivityLine("1", "hide", "b", "add")
	_, err := fmt.Fprintf(conn, "POST /v1/activities HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s%s",
		len(first)+len(second)+1, first, second)
	httpapitest.Must(t, err)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	httpapitest.Must(t, err)
	defer res.Body.Close()
	body := bufio.NewReader(res.Body)
	if l, err := body.ReadString('\n'); err != nil || l != httpapitest.Yes+"\n" {
		t.Fatalf("%q, %v", l, err)
	}
	httpapitest.Must(t, conn.(*net.TCPConn).CloseWrite())
	if rest, err := io.ReadAll(body); err == nil || len(rest) > 0 {
		t.Errorf("got %q and a complete answer, want a broken one", rest)
	}
	if got, _, _ := s.Items(t, "/v1/users/1/hides"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("hides: %v", got)
	}
}

// TestStreamAndShutdown ends the context of all requests while a stream waits for its client on a
// real connection. The connection is closed.
func TestStreamAndShutdown(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{StreamIdle: time.Hour}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewUnstartedServer(s)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	defer server.Close()
	d := s.Duplex(t, server.Listener.Addr().String())
	d.Write(httpapitest.ActivityLine("1", "hide", "p", "add") + "\n")
	if got := d.Line(); got != httpapitest.Yes {
		t.Error(got)
	}
	cancel()
	if err := d.End(); err == nil {
		t.Error("the answer looks complete, although the request did not end")
	}
}

// TestStreamEndsWhileReading ends the context while a read of a stream is certain to wait.
func TestStreamEndsWhileReading(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{StreamIdle: time.Hour}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &controlled{ResponseRecorder: httptest.NewRecorder(), past: make(chan struct{})}
	r := httpapitest.StreamRequest(ctx, httpapitest.ReadFunc(func([]byte) (int, error) {
		cancel()
		<-w.past
		return 0, os.ErrDeadlineExceeded
	}))
	if !s.Aborted(w, r) {
		t.Error("the answer looks complete")
	}
}

// TestStreamEndsBeforeReading ends the context before the stream reads. The read must not wait.
func TestStreamEndsBeforeReading(t *testing.T) {
	s := httpapitest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httpapitest.StreamRequest(ctx, httpapitest.ReadFunc(func([]byte) (int, error) {
		t.Error("the stream still reads")
		return 0, io.EOF
	}))
	if !s.Aborted(httptest.NewRecorder(), r) {
		t.Error("the answer looks complete")
	}
}

// TestBrokenStreamStopsReading: after a stream breaks, the server does not wait for the rest of the
// request.
func TestBrokenStreamStopsReading(t *testing.T) {
	s := httpapitest.Open(t)
	for name, w := range map[string]*controlled{"read": {}, "flush": {broken: httpapitest.ErrInjected}} {
		w.ResponseRecorder, w.past = httptest.NewRecorder(), make(chan struct{})
		r := httpapitest.StreamRequest(t.Context(), httpapitest.Breaking("x\n", httpapitest.ErrInjected))
		if !s.Aborted(w, r) {
			t.Errorf("%s: the answer looks complete", name)
		}
		select {
		case <-w.past:
		default:
			t.Errorf("%s: read deadlines %v", name, w.read)
		}
	}
}

// TestStreamExpects waits for "100 Continue" before it sends a line, as curl does.
func TestStreamExpects(t *testing.T) {
	s := httpapitest.Open(t)
	conn := httpapitest.Dial(t, s.Start(t))
	l := httpapitest.ActivityLine("1", "hide", "p", "add") + "\n"
	if _, err := fmt.Fprintf(conn, "POST /v1/activities HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(l)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	goOn, err := http.ReadResponse(in, nil)
	if err != nil || goOn.StatusCode != http.StatusContinue {
		t.Fatalf("%v, %v", goOn, err)
	}
	_ = goOn.Body.Close()
	if _, err = io.WriteString(conn, l); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(in, nil)
	httpapitest.Must(t, err)
	defer res.Body.Close()
	if a := httpapitest.AnswerOf(t, &http.Response{StatusCode: res.StatusCode, Header: res.Header, Body: res.Body, Request: &http.Request{}}); a.Status != 200 || a.Body != httpapitest.Yes+"\n" {
		t.Errorf("%d %q", a.Status, a.Body)
	}
}

// controlled is a response writer that records what a stream requests of its connection.
type controlled struct {
	*httptest.ResponseRecorder

	duplex      bool
	read, write []time.Time
	flushed     []int // length of the answer at each flush
	broken      error // of flushes

	past chan struct{} // closed when a read deadline is in the past
	once sync.Once
}

func (c *controlled) EnableFullDuplex() error {
	c.duplex = true
	return nil
}

func (c *controlled) SetReadDeadline(at time.Time) error {
	if at.Before(time.Now()) {
		c.once.Do(func() { close(c.past) })
		return nil
	}
	c.read = append(c.read, at)
	return nil
}

func (c *controlled) SetWriteDeadline(at time.Time) error {
	c.write = append(c.write, at)
	return nil
}

func (c *controlled) FlushError() error {
	c.flushed = append(c.flushed, c.Body.Len())
	return c.broken
}

// pieces is a body that returns one piece for each read.
type pieces []string

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	*p = (*p)[1:]
	return n, nil
}

// TestStreamDeadlines checks the deadlines of each chunk, and that a chunk has at most 1,000 lines.
func TestStreamDeadlines(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{StreamIdle: time.Hour}, nil)
	l := httpapitest.ActivityLine("1", "hide", "p", "add") + "\n"
	r := httpapitest.StreamRequest(t.Context(), &pieces{l + l, l, strings.Repeat(l, 1200)})
	w := &controlled{ResponseRecorder: httptest.NewRecorder()}
	before := time.Now()
	s.ServeHTTP(w, r)
	if got := strings.Count(w.Body.String(), "\n"); got != 1203 || !w.duplex {
		t.Errorf("%d lines, full duplex %v", got, w.duplex)
	}
	size := func(lines int) int { return len(httpapitest.Yes+"\n") + (lines-1)*len(httpapitest.No+"\n") }
	if want := []int{0, size(2), size(3), size(1003), size(1203)}; !slices.Equal(w.flushed, want) {
		t.Errorf("flushed at %v, want %v", w.flushed, want)
	}
	if len(w.read) != 4 || len(w.write) != 4 {
		t.Errorf("%d read and %d write deadlines, want 4 of each", len(w.read), len(w.write))
	}
	for _, at := range append(w.read, w.write...) {
		if at.Before(before.Add(time.Hour)) || at.After(time.Now().Add(time.Hour)) {
			t.Errorf("deadline %v, started %v", at, before)
		}
	}
}
