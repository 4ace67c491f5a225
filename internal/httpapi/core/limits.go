package core

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/admission"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

const (
	// maxDiscarded is the length, in bytes, up to which the body of a refused request is read and
	// discarded. After a longer one, an HTTP/1 connection is closed.
	maxDiscarded = 64 << 10
	// discardTimeout is how long the body of a refused request may take to arrive.
	discardTimeout = time.Second
	// largeFeed is the number of candidates above which a feed counts as two requests. So feeds of
	// the most candidates take no more memory together than twice as many of half their size.
	largeFeed = feed.MaxPosts / 2
	// maxShare is how many times what is left of a budget one token may hold.
	maxShare = 7
)

// Limits bounds the work in progress.
type Limits struct {
	MaxBody int64         // bytes of a JSON body or a message
	Timeout time.Duration // of the work of a request
	Idle    time.Duration // how long a stream may stall

	Guests Guests // requests that no budget counts

	requests Budget // requests in progress
	streams  Budget // requests in progress that are streams
	bodies   Budget // bytes of bodies and messages that have arrived
	work     *admission.Limiter
}

// NewLimits returns limits with nothing in progress. MaxBody, Timeout and Idle are the caller's to
// set.
func NewLimits(requests, streams int, bodies int64) *Limits {
	l := &Limits{work: admission.NewLimiter(), Guests: Guests{Limit: maxGuests}}
	l.BoundRequests(requests)
	l.streams.Limit, l.bodies.Limit = int64(streams), bodies
	return l
}

// Budget is an amount that requests take parts of and give back.
type Budget struct {
	Limit int64 // changed by bound alone, once the budget is in use

	mu   sync.Mutex
	used int64
	by   map[string]int64 // used by each token, by its name
}

// Take takes n for a token, and reports whether that much was left for it. A token may hold up to
// maxShare times what is left. So one token gets seven eighths of the budget at most, and some is
// left however many tokens take what they can. Requests without a token (by is "") share all of it.
//
// Take never waits: a waiting request holds memory, and its client may leave before its turn.
func (b *Budget) Take(by string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.Limit - b.used
	if n > left || by != "" && b.by[by]+n > maxShare*left {
		return false
	}
	b.add(by, n)
	return true
}

// Give gives n back.
func (b *Budget) Give(by string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(by, -n)
}

func (b *Budget) add(by string, n int64) {
	b.used += n
	if by == "" {
		return
	}
	if b.by == nil {
		b.by = make(map[string]int64)
	}
	if b.by[by] += n; b.by[by] == 0 {
		delete(b.by, by)
	}
}

// bound changes the limit. If more than the new limit is in use, Take fails until enough is given
// back.
func (b *Budget) bound(limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Limit = limit
}

// taken returns how much is in use, and the limit.
func (b *Budget) taken() (used, limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.Limit
}

// BoundRequests changes the number of requests in progress. Three quarters of them may wait for the
// ledger, so that a ledger that hangs leaves room for feeds that do not need it.
func (l *Limits) BoundRequests(limit int) {
	l.requests.bound(int64(limit))
	l.work.SetMaxWaiting(limit - limit/4)
}

// MaxEvents returns the limit of a body with events, in bytes: sixteen times that of others by
// default. Their rows have columns that nobody needs. Several bodies fit into the budget.
func (l *Limits) MaxEvents() int64 { return max(l.MaxBody, min(16<<20, l.bodies.Limit/4)) }

// Load returns how much of each limit is in use.
func (l *Limits) Load() (load metrics.Load) {
	load.Requests, load.RequestsLimit = l.requests.taken()
	load.Streams, load.StreamsLimit = l.streams.taken()
	load.Bodies, load.BodiesLimit = l.bodies.taken()
	return load
}

// Bound returns a context for the work of a request, which ends after the timeout.
func (l *Limits) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.work.Begin(ctx), l.Timeout)
}

// onProcessor is Bound for a feed or a fan-out, which wait for a processor first. The caller calls
// done at the end.
func (l *Limits) onProcessor(ctx context.Context) (of context.Context, done func(), err error) {
	of, cancel := l.Bound(ctx)
	leave, ok := admission.Run(of)
	if !ok {
		cancel()
		return nil, nil, cmp.Or(ctx.Err(), fmt.Errorf("no processor: %w", activity.ErrOverloaded))
	}
	return of, func() {
		leave()
		cancel()
	}, nil
}

// Limited calls the handler of a route. It refuses the request if too many are in progress. A
// request of a free route is a guest, which gives way to others.
func (l *Limits) Limited(r Route, k *Call) error {
	if r.Free {
		l.Visit(k)
		return r.Handle(k)
	}
	by := k.by()
	if !l.requests.Take(by, 1) {
		return turnAway(k, "requests in progress")
	}
	NoteWork(k.Request().Context(), 1)
	defer func() {
		NoteWork(k.Request().Context(), -1)
		l.requests.Give(by, 1)
	}()
	return r.Handle(k)
}

// enlarge counts the request of a large feed once more. The caller calls done at its end.
func (l *Limits) enlarge(k *Call, candidates int) (done func(), err error) {
	by := k.by()
	switch {
	case candidates <= largeFeed:
		return func() {}, nil
	case !l.requests.Take(by, 1):
		return nil, fmt.Errorf("too many requests in progress: %w", activity.ErrOverloaded)
	default:
		return func() { l.requests.Give(by, 1) }, nil
	}
}

// Stream calls do if there are not too many streams.
func (l *Limits) Stream(k *Call, do func() error) error {
	by := k.by()
	if !l.streams.Take(by, 1) {
		return turnAway(k, "streams in progress")
	}
	defer l.streams.Give(by, 1)
	return do()
}

// Visit makes a request a guest until [Limits.Leave].
func (l *Limits) Visit(k *Call) {
	if k.guest == nil {
		k.guest = l.Guests.Enter(k.Response().Writer)
	}
}

// Leave ends the visit of a request, if it is a guest.
func (l *Limits) Leave(k *Call) { l.Guests.Leave(k.guest) }

// connectionKey is the key of a connection in the context of its requests.
type connectionKey struct{}

// WithConnection returns a context for the requests of a connection, for [http.Server.ConnContext].
// The handler calls work when a request begins, with 0. It calls work with 1 when the request has
// been admitted, and with -1 at its end.
func WithConnection(ctx context.Context, work func(n int)) context.Context {
	return context.WithValue(ctx, connectionKey{}, work)
}

// NoteWork tells the connection of a request that n more requests of it have been admitted.
func NoteWork(ctx context.Context, n int) {
	if work, ok := ctx.Value(connectionKey{}).(func(n int)); ok {
		work(n)
	}
}

// Body is a body whose bytes count in the budget of bodies as they arrive.
type Body struct {
	io.ReadCloser

	of   *Budget
	call *Call
	by   string
	held int64
	full error // why the body was refused; nil: it was not
}

// Hold makes the bytes of the body count. The caller calls Release when it no longer needs them.
func (l *Limits) Hold(k *Call, body io.ReadCloser) *Body {
	return &Body{ReadCloser: body, of: &l.bodies, call: k, by: k.by()}
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (int, error) {
	if b.full != nil { // some decoders read on after an error
		return 0, b.full
	}
	n, err := b.ReadCloser.Read(p)
	if !b.of.Take(b.by, int64(n)) {
		b.full = turnAway(b.call, "bytes of bodies in memory")
		return 0, b.full
	}
	b.held += int64(n)
	return n, err
}

// Release gives back what the body has taken so far.
func (b *Body) Release() {
	b.of.Give(b.by, b.held)
	b.held = 0
}

// turnAway returns the error of a request that is refused, and leaves the rest of its body.
func turnAway(k *Call, tooMany string) error {
	LeaveBody(k)
	return fmt.Errorf("too many %s: %w", tooMany, activity.ErrOverloaded)
}

// LeaveBody keeps the unread body of a refused request from delaying the answer. net/http reads the
// rest of a body before it answers, unless it will close the connection.
func LeaveBody(k *Call) {
	res, length := k.Response(), k.Request().ContentLength
	// Over HTTP/2, this header would also close the connection of other requests.
	if (length < 0 || length > maxDiscarded) && k.Request().ProtoMajor < 2 {
		res.Header().Set(echo.HeaderConnection, "close")
	}
	if length != 0 {
		// An error means that there is no connection, as in a test, so nothing waits.
		_ = http.NewResponseController(res.Writer).SetReadDeadline(time.Now().Add(discardTimeout))
	}
}
