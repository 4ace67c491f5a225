package httpapitest

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
	"path/filepath"
	"runtime"
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
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// ErrInjected is the error of a faulty dependency. No answer may have any part of its text.
var ErrInjected = errors.New("dial tcp 10.1.2.3:6379: password hunter2 refused")

// Fault is a behavior of a dependency.
type Fault int32

// Faults of a dependency. They begin with the next call.
const (
	Sound Fault = iota
	Failing
	Hanging  // until the caller gives up or the test ends
	Panicing // only in the calls of a feed
	Aborting // likewise, with http.ErrAbortHandler
)

// Switched makes calls fail or wait, as it was set last. It is sound at first.
type Switched struct {
	mode  atomic.Int32
	ended <-chan struct{}
}

// Set changes the fault. It is safe for concurrent use.
func (s *Switched) Set(f Fault) { s.mode.Store(int32(f)) }

func (s *Switched) err(ctx context.Context) error {
	switch Fault(s.mode.Load()) {
	case Failing:
		return ErrInjected
	case Hanging:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ended:
			return ErrInjected
		}
	default:
		return nil
	}
}

// FaultyStore makes calls of a store fail or wait.
type FaultyStore struct {
	favfilter.Store
	Switched

	Loads         Gate         // holds loads while it is shut, whatever their timeout
	Loading, Most atomic.Int64 // loads in progress, and their maximum
}

// Load implements [favfilter.Store].
func (s *FaultyStore) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	now := s.Loading.Add(1)
	defer s.Loading.Add(-1)
	most := s.Most.Load()
	for now > most && !s.Most.CompareAndSwap(most, now) {
		most = s.Most.Load()
	}
	if held := s.Loads.closed.Load(); held != nil {
		<-*held
		ctx = context.WithoutCancel(ctx)
	}
	switch Fault(s.mode.Load()) {
	case Panicing:
		if len(ids) > 1 { // a page and windows; the scrub, whose panic ends the process, reads one page
			panic("the store is mad")
		}
	case Aborting:
		panic(http.ErrAbortHandler)
	default:
	}
	if err := s.err(ctx); err != nil {
		return nil, nil, err
	}
	return s.Store.Load(ctx, ids, held...)
}

// Apply implements [favfilter.Store].
func (s *FaultyStore) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	if err := s.err(ctx); err != nil {
		results := make([]favfilter.Result, len(batches))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	return s.Store.Apply(ctx, batches)
}

// Replace implements [favfilter.Store].
func (s *FaultyStore) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	if err := s.err(ctx); err != nil {
		return false, err
	}
	return s.Store.Replace(ctx, r)
}

// Peek implements [favfilter.Store].
func (s *FaultyStore) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	if err := s.err(ctx); err != nil {
		return nil, err
	}
	return s.Store.Peek(ctx, ids)
}

// FaultyLedger makes calls of a ledger fail or wait.
type FaultyLedger struct {
	Switched

	Lists, Records, Pings Gate
	Pinged                atomic.Int64
	PollsFail             atomic.Bool
	Patient               atomic.Bool // a call may wait for its gate for longer than its context
}

// Gate blocks calls while it is closed.
type Gate struct{ closed atomic.Pointer[chan struct{}] }

// Shut closes the gate, and returns a function that opens it.
func (g *Gate) Shut() (open func()) {
	c := make(chan struct{})
	g.closed.Store(&c)
	return sync.OnceFunc(func() {
		g.closed.Store(nil)
		close(c)
	})
}

func (g *Gate) pass(ctx context.Context) error {
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

// Around is for [ledger.Ledger.Around].
func (l *FaultyLedger) Around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	var wait *Gate
	switch c.Operation {
	case "record":
		wait = &l.Records
	case "list":
		wait = &l.Lists
	case "ping":
		l.Pinged.Add(1)
		wait = &l.Pings
	case "keys":
		wait = &Gate{}
	case "changed":
		if l.PollsFail.Load() {
			return ErrInjected
		}
		return next(ctx)
	default:
		return next(ctx)
	}
	if l.Patient.Load() {
		ctx = context.WithoutCancel(ctx)
	}
	if err := errors.Join(l.err(ctx), wait.pass(ctx)); err != nil {
		return err
	}
	return next(ctx)
}

// Service is a complete service, with a false-positive rate too low for any test to meet one.
type Service struct {
	http.Handler

	Whole      *ledger.Ledger // never fails
	Ledger     *FaultyLedger
	Store      *FaultyStore
	Activities activity.Activities
	Tokens     *access.Tokens // nil: no tokens are required
	Ahead      atomic.Int64   // of the service's clock, in nanoseconds

	Described sync.Once
	Contract  *Contract // see ContractOf
}

// Now returns the time of the service.
func (s *Service) Now() time.Time { return time.Now().Add(time.Duration(s.Ahead.Load())) }

// NewService returns a service with a ledger, in memory except for the ledger. Nil kinds: the
// built-in ones.
func NewService(t testing.TB, c httpapi.Config, kinds *activity.Kinds) *Service {
	t.Helper()
	return newLogged(t, c, kinds, nil)
}

// newLogged is NewService with a recorder that also logs, from its own goroutines.
func newLogged(t testing.TB, c httpapi.Config, kinds *activity.Kinds, log *slog.Logger) *Service {
	t.Helper()
	return NewOfPages(t, 16, c, kinds, log)
}

// Open returns a service with the defaults.
func Open(t testing.TB) *Service {
	t.Helper()
	return NewService(t, httpapi.Config{}, nil)
}

// OwnKinds returns kinds of each sort in addition to the built-in ones, with limits.
func OwnKinds(t testing.TB) *activity.Kinds {
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
	Must(t, err)
	return kinds
}

// Answer is an answer. JSON holds the body if it is an object, Code and Field those of an error.
type Answer struct {
	Status      int
	Header      http.Header
	Body        string
	JSON        map[string]any
	Code, Field string
}

// AnswerOf reads an answer, and fails t if it is malformed.
func AnswerOf(t testing.TB, res *http.Response) Answer {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read the body of %s: %v", res.Status, err)
	}
	a := Answer{Status: res.StatusCode, Header: res.Header, Body: string(body)}
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

// Exchange is a request, whose body was sent, and its answer.
type Exchange struct {
	Method, Target, ContentType, Sent string
	Answer
}

// Do sends a request in process, and checks it and its answer against the description. A body is
// sent as JSON unless header pairs say otherwise.
func (s *Service) Do(t testing.TB, method, target, body string, header ...string) Answer {
	t.Helper()
	c := s.ContractOf(t)
	r, a := Ask(t, s.Handler, method, target, body, header...)
	if err := c.Judge(Exchange{method, target, r.Header.Get("Content-Type"), body, a}); err != nil {
		t.Errorf("%s %.100s %.200s\nanswered %d %.300s,\nwhich differs from /openapi.json: %v", method, target, body, a.Status, a.Body, err)
	}
	return a
}

// Must fails t if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Ask sends a request in process.
func Ask(t testing.TB, h http.Handler, method, target, body string, header ...string) (*http.Request, Answer) {
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
	return r, Serve(t, h, r)
}

// Serve answers a request in process.
func Serve(t testing.TB, h http.Handler, r *http.Request) Answer {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	return AnswerOf(t, res)
}

// StreamRequest returns a request for a stream of activities.
func StreamRequest(ctx context.Context, body io.Reader) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/activities", body)
	r.Header.Set("Content-Type", "application/x-ndjson")
	return r
}

// Dial connects to a server until the test ends.
func Dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Want sends a request and asserts its answer.
func (s *Service) Want(t testing.TB, method, target, body string, status int, want string) {
	t.Helper()
	a := s.Do(t, method, target, body)
	if a.Status != status || a.Body != want {
		t.Errorf("%s %s %.200s: %d %s, want %d %s", method, target, body, a.Status, a.Body, status, want)
	}
}

// Start serves s on a real port, and returns its address.
func (s *Service) Start(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// Raw sends the bytes of a request, valid or not, and reads the answer.
func Raw(t testing.TB, addr, request string) Answer {
	t.Helper()
	conn := Dial(t, addr)
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may answer before its end
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.100q: %v", request, err)
	}
	defer res.Body.Close()
	return AnswerOf(t, res)
}

// Logs returns a logger and its buffer, for a handler that runs in the test's goroutine.
func Logs() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})), &b
}

// IsProcedure reports whether a path belongs to the gRPC API, which has its own schema.
func IsProcedure(path string) bool {
	return strings.HasPrefix(path, "/feedfilter.v1.") || strings.HasPrefix(path, "/grpc.")
}

// Answers to a request that records or undoes one activity.
const (
	Yes = `{"changed":true}`
	No  = `{"changed":false}`
)

// Items returns one part of a list: its targets, its cursor and their times.
func (s *Service) Items(t testing.TB, target string) (targets []string, next string, since []string) {
	t.Helper()
	a := s.Do(t, "GET", target, "")
	var part struct {
		Items []struct {
			Target string `json:"target"`
			Since  string `json:"since"`
		} `json:"items"`
		Next *string `json:"next"`
	}
	if err := json.Unmarshal([]byte(a.Body), &part); err != nil || a.Status != http.StatusOK || part.Items == nil {
		t.Fatalf("GET %s: %d %s", target, a.Status, a.Body)
	}
	for _, item := range part.Items {
		targets = append(targets, item.Target)
		since = append(since, item.Since)
	}
	if part.Next != nil {
		if *part.Next == "" {
			t.Error("the field next is empty instead of missing")
		}
		next = *part.Next
	}
	return targets, next, since
}

// KindsWith returns the built-in kinds and more.
func KindsWith(t *testing.T, more ...activity.Kind) *activity.Kinds {
	t.Helper()
	kinds, err := activity.NewKinds(append(activity.BuiltinKinds().All(), more...)...)
	Must(t, err)
	return kinds
}

// Live returns the size of the live heap.
func Live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// OpenWithoutLedger returns a service without a ledger.
func OpenWithoutLedger(t *testing.T) *Service {
	t.Helper()
	return PlainService(t, 0)
}

// PlainService is a service without a ledger; a rate of 0 is the default.
func PlainService(t *testing.T, falsePositiveRate float64) *Service {
	t.Helper()
	r, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: &favfilter.Memory{}, Pages: 1, FalsePositiveRate: falsePositiveRate})
	Must(t, err)
	t.Cleanup(r.Close)
	return &Service{Handler: httpapi.New(httpapi.Config{Activities: r}), Activities: r}
}

// NewOfPages is newLogged with a number of pages.
func NewOfPages(t testing.TB, pages uint32, c httpapi.Config, kinds *activity.Kinds, log *slog.Logger) *Service {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: pages})
	Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	ended := make(chan struct{})
	s := &Service{
		Whole:  l,
		Ledger: &FaultyLedger{Switched: Switched{ended: ended}},
		Store:  &FaultyStore{Store: &favfilter.Memory{}, Switched: Switched{ended: ended}},
	}
	s.Activities, err = activity.Open(t.Context(), activity.Config{
		Ledger: l.Around(s.Ledger.Around), Store: s.Store, Kinds: kinds, FalsePositiveRate: 1e-8,
		Now:            s.Now,
		Logger:         log,
		StalenessBound: 100 * time.Millisecond, // how long a write takes while the store is down
	})
	Must(t, err)
	t.Cleanup(s.Activities.Close)
	t.Cleanup(func() { close(ended) })
	c.Activities = s.Activities
	s.Tokens = c.Access.Tokens
	s.Handler = httpapi.New(c)
	return s
}

// Await calls check until it returns nil, and fails t if that takes too long.
func (s *Service) Await(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := servertest.Await(t.Context(), what, func(context.Context) error { return check() }); err != nil {
		t.Error(err)
	}
}

// EndLong ends what calls wait for, as a shutdown does, so that a profile ends at once.
func (s *Service) EndLong(t testing.TB) {
	t.Helper()
	handler, ok := s.Handler.(*httpapi.Handler)
	if !ok {
		t.Fatalf("the service is a %T", s.Handler)
	}
	handler.EndWatches()
}
