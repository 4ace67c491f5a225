package httpapi_test

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
)

// duplex is a stream on a real connection, written to and read from in turns.
type duplex struct {
	t   testing.TB
	in  *io.PipeWriter
	res *http.Response
	out *bufio.Reader
}

func (s *service) duplex(t testing.TB, addr string, header ...string) *duplex {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return s.duplexOf(t, client, addr, header...)
}

func (*service) duplexOf(t testing.TB, client *http.Client, addr string, header ...string) *duplex {
	t.Helper()
	read, write := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/activities", read)
	must(t, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(r) // returns before a line is written
	must(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	return &duplex{t, write, res, bufio.NewReader(res.Body)}
}

func (d *duplex) write(text string) {
	d.t.Helper()
	if _, err := io.WriteString(d.in, text); err != nil {
		d.t.Fatalf("write %q: %v", text, err)
	}
}

func (d *duplex) line() string {
	d.t.Helper()
	l, err := d.out.ReadString('\n')
	if err != nil {
		d.t.Fatalf("after %q: %v", l, err)
	}
	return strings.TrimSuffix(l, "\n")
}

// end reads the end of the answer.
func (d *duplex) end() error {
	rest, err := io.ReadAll(d.out)
	if len(rest) > 0 {
		d.t.Errorf("unexpected rest: %q", rest)
	}
	return err
}

// TestFullDuplex sends each line after the result of the previous one, once in pieces, and checks
// that each result has taken effect.
func TestFullDuplex(t *testing.T) {
	for name, client := range map[string]*http.Client{"HTTP/1": {Transport: &http.Transport{}}, "HTTP/2": overHTTP2(t)} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(client.CloseIdleConnections)
			s := open(t)
			testFullDuplex(t, s, s.duplexOf(t, client, serveBoth(t, s)))
		})
	}
}

func testFullDuplex(t *testing.T, s *service, d *duplex) {
	t.Helper()
	for i := range 5 {
		post := fmt.Sprint("p", i)
		l := activityLine("1", "hide", post, "add")
		d.write(l[:10])
		d.write(l[10:] + "\n")
		if got := d.line(); got != yes {
			t.Errorf("line %d: %s", i, got)
		}
		if got, _, _ := s.items(t, "/v1/users/1/hides"); len(got) != i+1 || !slices.Contains(got, post) {
			t.Errorf("after line %d: %v", i, got)
		}
	}
	d.write("nonsense\n" + activityLine("1", "hide", "p0", "remove") + "\n" + activityLine("1", "hide", "p1", "rem"))
	wantError(t, d.line(), "malformed_json", "")
	if got := d.line(); got != yes {
		t.Error(got)
	}
	d.write("\n")
	wantError(t, d.line(), "unknown_op", "op")
	d.write(activityLine("1", "hide", "p1", "remove")) // without a line feed
	_ = d.in.Close()
	if got := d.line(); got != yes {
		t.Error(got)
	}
	if err := d.end(); err != nil {
		t.Errorf("end: %v", err)
	}
}

// TestStreamGoesOn makes the store and then the ledger fail between lines.
func TestStreamGoesOn(t *testing.T) {
	s := open(t)
	d := s.duplex(t, s.start(t))
	hide := func(post string) string { return activityLine("1", "hide", post, "add") + "\n" }
	d.write(hide("a"))
	if got := d.line(); got != yes {
		t.Error(got)
	}
	for kind, dependency := range map[string]*switched{"seen": &s.store.switched, "hide": &s.ledger.switched} {
		dependency.set(failing)
		d.write(activityLine("1", kind, "b", "add") + "\nnonsense\n" + activityLine("1", kind, "c", "add") + "\n")
		wantError(t, d.line(), "unavailable", "")
		wantError(t, d.line(), "malformed_json", "")
		wantError(t, d.line(), "unavailable", "")
		dependency.set(sound)
		d.write(hide("a"))
		if got := d.line(); got != no {
			t.Error(got)
		}
	}
	for _, post := range []string{"b", "c"} { // hidden or not, so far
		d.write(hide(post))
		if got := d.line(); got != yes && got != no {
			t.Error(got)
		}
	}
	_ = d.in.Close()
	if err := d.end(); err != nil {
		t.Errorf("end: %v", err)
	}
	if got, _, _ := s.items(t, "/v1/users/1/hides"); len(got) != 3 {
		t.Errorf("hides: %v", got)
	}
}

// TestStreamBroken: if a request ends inside a line, the line is not recorded, and the answer does
// not look complete.
func TestStreamBroken(t *testing.T) {
	s := open(t)
	addr := s.start(t)
	conn := dial(t, addr)
	first, second := activityLine("1", "hide", "a", "add")+"\n", activityLine("1", "hide", "b", "add")
	_, err := fmt.Fprintf(conn, "POST /v1/activities HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s%s",
		len(first)+len(second)+1, first, second)
	must(t, err)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	must(t, err)
	defer res.Body.Close()
	body := bufio.NewReader(res.Body)
	if l, err := body.ReadString('\n'); err != nil || l != yes+"\n" {
		t.Fatalf("%q, %v", l, err)
	}
	must(t, conn.(*net.TCPConn).CloseWrite())
	if rest, err := io.ReadAll(body); err == nil || len(rest) > 0 {
		t.Errorf("got %q and a complete answer, want a broken one", rest)
	}
	if got, _, _ := s.items(t, "/v1/users/1/hides"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("hides: %v", got)
	}
}

// TestStreamAndShutdown ends the context of all requests while a stream waits for its client on a
// real connection. The connection is closed.
func TestStreamAndShutdown(t *testing.T) {
	s := newService(t, httpapi.Config{StreamIdle: time.Hour}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewUnstartedServer(s)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	defer server.Close()
	d := s.duplex(t, server.Listener.Addr().String())
	d.write(activityLine("1", "hide", "p", "add") + "\n")
	if got := d.line(); got != yes {
		t.Error(got)
	}
	cancel()
	if err := d.end(); err == nil {
		t.Error("the answer looks complete, although the request did not end")
	}
}

// TestStreamEndsWhileReading ends the context while a read of a stream is certain to wait.
func TestStreamEndsWhileReading(t *testing.T) {
	s := newService(t, httpapi.Config{StreamIdle: time.Hour}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &controlled{ResponseRecorder: httptest.NewRecorder(), past: make(chan struct{})}
	r := streamRequest(ctx, readFunc(func([]byte) (int, error) {
		cancel()
		<-w.past
		return 0, os.ErrDeadlineExceeded
	}))
	if !s.aborted(w, r) {
		t.Error("the answer looks complete")
	}
}

// TestStreamEndsBeforeReading ends the context before the stream reads. The read must not wait.
func TestStreamEndsBeforeReading(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := streamRequest(ctx, readFunc(func([]byte) (int, error) {
		t.Error("the stream still reads")
		return 0, io.EOF
	}))
	if !s.aborted(httptest.NewRecorder(), r) {
		t.Error("the answer looks complete")
	}
}

// TestBrokenStreamStopsReading: after a stream breaks, the server does not wait for the rest of the
// request.
func TestBrokenStreamStopsReading(t *testing.T) {
	s := open(t)
	for name, w := range map[string]*controlled{"read": {}, "flush": {broken: errInjected}} {
		w.ResponseRecorder, w.past = httptest.NewRecorder(), make(chan struct{})
		r := streamRequest(t.Context(), breaking("x\n", errInjected))
		if !s.aborted(w, r) {
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
	s := open(t)
	conn := dial(t, s.start(t))
	l := activityLine("1", "hide", "p", "add") + "\n"
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
	must(t, err)
	defer res.Body.Close()
	if a := answerOf(t, &http.Response{StatusCode: res.StatusCode, Header: res.Header, Body: res.Body, Request: &http.Request{}}); a.Status != 200 || a.Body != yes+"\n" {
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
	s := newService(t, httpapi.Config{StreamIdle: time.Hour}, nil)
	l := activityLine("1", "hide", "p", "add") + "\n"
	r := streamRequest(t.Context(), &pieces{l + l, l, strings.Repeat(l, 1200)})
	w := &controlled{ResponseRecorder: httptest.NewRecorder()}
	before := time.Now()
	s.ServeHTTP(w, r)
	if got := strings.Count(w.Body.String(), "\n"); got != 1203 || !w.duplex {
		t.Errorf("%d lines, full duplex %v", got, w.duplex)
	}
	size := func(lines int) int { return len(yes+"\n") + (lines-1)*len(no+"\n") }
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
