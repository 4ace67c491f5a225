package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi"
)

var errInjected = errors.New("dial tcp 10.1.2.3:6379: password hunter2 refused")

// fault is a behavior of a dependency.
type fault int32

const (
	sound fault = iota
	failing
	hanging  // until the caller gives up or the test ends
	panicing // only in the calls of a feed
	aborting // likewise, with http.ErrAbortHandler
)

type switched struct {
	mode  atomic.Int32
	ended <-chan struct{}
}

func (s *switched) set(f fault) { s.mode.Store(int32(f)) }

func (s *switched) err(ctx context.Context) error {
	switch fault(s.mode.Load()) {
	case failing:
		return errInjected
	case hanging:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ended:
			return errInjected
		}
	default:
		return nil
	}
}

type faultyStore struct {
	favfilter.Store
	switched

	loads         gate         // holds loads while it is shut, whatever their timeout
	loading, most atomic.Int64 // loads in progress, and their maximum
}

func (s *faultyStore) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	now := s.loading.Add(1)
	defer s.loading.Add(-1)
	most := s.most.Load()
	for now > most && !s.most.CompareAndSwap(most, now) {
		most = s.most.Load()
	}
	if held := s.loads.closed.Load(); held != nil {
		<-*held
		ctx = context.WithoutCancel(ctx)
	}
	switch fault(s.mode.Load()) {
	case panicing:
		if len(ids) > 1 { // a page and windows; the scrub, whose panic ends the process, reads one page
			panic("the store is mad")
		}
	case aborting:
		panic(http.ErrAbortHandler)
	default:
	}
	if err := s.err(ctx); err != nil {
		return nil, nil, err
	}
	return s.Store.Load(ctx, ids, held...)
}

func (s *faultyStore) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	if err := s.err(ctx); err != nil {
		results := make([]favfilter.Result, len(batches))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	return s.Store.Apply(ctx, batches)
}

func (s *faultyStore) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	if err := s.err(ctx); err != nil {
		return false, err
	}
	return s.Store.Replace(ctx, r)
}

func (s *faultyStore) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	if err := s.err(ctx); err != nil {
		return nil, err
	}
	return s.Store.Peek(ctx, ids)
}

// faultyLedger makes calls of a ledger fail or wait.
type faultyLedger struct {
	switched

	lists, records, pings gate
	pinged                atomic.Int64
	pollsFail             atomic.Bool
	patient               atomic.Bool // a call may wait for its gate for longer than its context
}

// gate blocks calls while it is closed.
type gate struct{ closed atomic.Pointer[chan struct{}] }

// shut closes the gate, and returns a function that opens it.
func (g *gate) shut() (open func()) {
	c := make(chan struct{})
	g.closed.Store(&c)
	return sync.OnceFunc(func() {
		g.closed.Store(nil)
		close(c)
	})
}

func (g *gate) pass(ctx context.Context) error {
	c := g.closed.Load()
	if c == nil {
		return nil
	}
	select {
	case <-*c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *faultyLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	var wait *gate
	switch c.Operation {
	case "record":
		wait = &l.records
	case "list":
		wait = &l.lists
	case "ping":
		l.pinged.Add(1)
		wait = &l.pings
	case "keys":
		wait = &gate{}
	case "changed":
		if l.pollsFail.Load() {
			return errInjected
		}
		return next(ctx)
	default:
		return next(ctx)
	}
	if l.patient.Load() {
		ctx = context.WithoutCancel(ctx)
	}
	if err := errors.Join(l.err(ctx), wait.pass(ctx)); err != nil {
		return err
	}
	return next(ctx)
}

// service is a complete service, with a false-positive rate too low for any test to meet one.
type service struct {
	http.Handler

	whole      *ledger.Ledger // never fails
	ledger     *faultyLedger
	store      *faultyStore
	activities activity.Activities
	tokens     *access.Tokens // nil: no tokens are required
	ahead      atomic.Int64   // of the service's clock, in nanoseconds

	described sync.Once
	contract  *contract // see contractOf
}

func (s *service) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

func newService(t testing.TB, c httpapi.Config, kinds *activity.Kinds) *service {
	t.Helper()
	return newLogged(t, c, kinds, nil)
}

// newLogged is newService with a recorder that also logs, from its own goroutines.
func newLogged(t testing.TB, c httpapi.Config, kinds *activity.Kinds, log *slog.Logger) *service {
	t.Helper()
	return newOfPages(t, 16, c, kinds, log)
}

func open(t testing.TB) *service {
	t.Helper()
	return newService(t, httpapi.Config{}, nil)
}

// ownKinds returns kinds of each sort in addition to the built-in ones, with limits.
func ownKinds(t testing.TB) *activity.Kinds {
	t.Helper()
	kinds, err := activity.NewKinds(
		activity.Kind{Name: "block", Plural: "blocks", Target: activity.User, Effect: activity.Drop, Reverse: "blocked-by", Limit: 1},
		activity.Kind{Name: "hide", Plural: "hides", Target: activity.Post, Effect: activity.Drop},
		activity.Kind{Name: "like", Plural: "likes", Target: activity.Post, Effect: activity.Annotate},
		activity.Kind{Name: "seen", Plural: "seen", Target: activity.Post, Effect: activity.Drop, Window: time.Hour},
		activity.Kind{Name: "super-like", Plural: "super-likes", Target: activity.Post, Effect: activity.Annotate, Limit: 3},
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop, Limit: 2},
		activity.Kind{
			Name: "glimpse", Plural: "glimpses", Target: activity.Post, Effect: activity.Annotate, Window: time.Hour, Parts: 2, Most: 5000,
		},
	)
	must(t, err)
	return kinds
}

// answer is an answer. JSON holds the body if it is an object, Code and Field those of an error.
type answer struct {
	Status      int
	Header      http.Header
	Body        string
	JSON        map[string]any
	Code, Field string
}

func answerOf(t testing.TB, res *http.Response) answer {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read the body of %s: %v", res.Status, err)
	}
	a := answer{Status: res.StatusCode, Header: res.Header, Body: string(body)}
	if res.Header.Get("Content-Type") == "application/json" && res.Request.Method != http.MethodHead {
		if err := json.Unmarshal(body, &a.JSON); err != nil {
			t.Fatalf("body %q: %v", body, err)
		}
	}
	if e, ok := a.JSON["error"].(map[string]any); ok {
		a.Code, _ = e["code"].(string)
		a.Field, _ = e["field"].(string)
		if message, _ := e["message"].(string); message == "" || a.Code == "" || len(a.JSON) != 1 {
			t.Errorf("malformed error %s", body)
		}
	}
	if a.Code != "" && a.Status < 400 {
		t.Errorf("status %d with %s", a.Status, body)
	}
	return a
}

// exchange is a request and its answer.
type exchange struct {
	method, target, contentType, body string
	answer
}

// do sends a request in process, and checks it and its answer against the description. A body is
// sent as JSON unless header pairs say otherwise.
func (s *service) do(t testing.TB, method, target, body string, header ...string) answer {
	t.Helper()
	c := s.contractOf(t)
	r, a := ask(t, s.Handler, method, target, body, header...)
	if err := c.judge(exchange{method, target, r.Header.Get("Content-Type"), body, a}); err != nil {
		t.Errorf("%s %.100s %.200s\nanswered %d %.300s,\nwhich differs from /openapi.json: %v", method, target, body, a.Status, a.Body, err)
	}
	return a
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends a request in process.
func ask(t testing.TB, h http.Handler, method, target, body string, header ...string) (*http.Request, answer) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r, serve(t, h, r)
}

// serve answers a request in process.
func serve(t testing.TB, h http.Handler, r *http.Request) answer {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	return answerOf(t, res)
}

// streamRequest returns a request for a stream of activities.
func streamRequest(ctx context.Context, body io.Reader) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/activities", body)
	r.Header.Set("Content-Type", "application/x-ndjson")
	return r
}

// dial connects to a server until the test ends.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// want sends a request and asserts its answer.
func (s *service) want(t testing.TB, method, target, body string, status int, want string) {
	t.Helper()
	a := s.do(t, method, target, body)
	if a.Status != status || a.Body != want {
		t.Errorf("%s %s %.200s: %d %s, want %d %s", method, target, body, a.Status, a.Body, status, want)
	}
}

// start serves s on a real port, and returns its address.
func (s *service) start(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// raw sends the bytes of a request, valid or not, and reads the answer.
func raw(t testing.TB, addr, request string) answer {
	t.Helper()
	conn := dial(t, addr)
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may answer before its end
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.100q: %v", request, err)
	}
	defer res.Body.Close()
	return answerOf(t, res)
}

// state is everything that a service shows of its data.
type state struct {
	lists     map[string]string
	feeds     []string
	sequences map[uint32]uint64
}

func (s *service) state(t testing.TB, users ...string) state {
	t.Helper()
	st := state{lists: make(map[string]string)}
	for _, user := range users {
		for _, plural := range []string{"blocks", "hides", "likes"} {
			path := "/v1/users/" + user + "/" + plural
			a := s.do(t, "GET", path, "")
			if a.Status != http.StatusOK {
				t.Fatalf("GET %s: %d %s", path, a.Status, a.Body)
			}
			st.lists[path] = a.Body
		}
		a := s.do(t, "POST", "/v1/feed/filter", `{"viewer":"`+user+`","posts":[`+
			`{"id":"p1","author":"2"},{"id":"p2","author":"3"},{"id":"p3","author":"4"},{"id":"p4","author":"5"},{"id":"x","author":"5"}],"annotate":["like"]}`)
		if a.Status != http.StatusOK {
			t.Fatalf("feed: %d %s", a.Status, a.Body)
		}
		st.feeds = append(st.feeds, a.Body)
	}
	st.sequences = s.sequences(t)
	return st
}

func (s state) equal(o state) bool { return reflect.DeepEqual(s, o) }

// logs returns a logger and its buffer, for a handler that runs in the test's goroutine.
func logs() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})), &b
}

// isProcedure reports whether a path belongs to the gRPC API, which has its own schema.
func isProcedure(path string) bool {
	return strings.HasPrefix(path, "/feedfilter.v1.") || strings.HasPrefix(path, "/grpc.")
}
