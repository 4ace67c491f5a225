package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/admission"
)

const (
	// maxDiscarded is the length, in bytes, up to which the body of a refused request is read and
	// discarded. After a longer one, an HTTP/1 connection is closed.
	maxDiscarded = 64 << 10
	// discardTimeout is how long the body of a refused request may take to arrive.
	discardTimeout = time.Second
	// shedWarnings is the minimum time between two warnings that requests are refused.
	shedWarnings = 10 * time.Second
	// maxRetryAfter is the maximum of Retry-After, in seconds. Each client gets a random value, so
	// that refused clients do not all return at the same time.
	maxRetryAfter = 3
	// maxShare is how many times what is left of a budget one token may hold.
	maxShare = 7
)

// limits bounds the work in progress, and counts refused requests.
type limits struct {
	requests budget // requests in progress
	streams  budget // requests in progress that are streams
	bodies   budget // bytes of bodies and messages that have arrived
	guests   guests // requests that no budget counts
	work     *admission.Limiter

	total  atomic.Uint64 // all requests
	shed   atomic.Uint64 // requests refused for overload
	warned atomic.Int64  // time of the last warning about shed requests, in Unix nanoseconds
}

// intake admits requests within limits, and reads their bodies.
type intake struct {
	limits  limits
	maxBody int64
	strict  json.Options
	rooms   rooms
}

func newIntake(c Config) *intake {
	in := &intake{maxBody: cmp.Or(c.MaxBodyBytes, 1<<20), strict: strict()}
	in.limits.work = admission.NewLimiter()
	in.limits.boundRequests(cmp.Or(c.MaxRequests, 512))
	in.limits.streams.limit = int64(cmp.Or(c.MaxStreams, 64))
	in.limits.bodies.limit = max(cmp.Or(c.MaxBodiesBytes, 64<<20), in.maxBody)
	in.limits.guests.limit = maxGuests
	return in
}

// budget is an amount that requests take parts of and give back.
type budget struct {
	mu    sync.Mutex
	limit int64
	used  int64
	by    map[string]int64 // used by each token, by its name
}

// take takes n for a token, and reports whether that much was left for it. A token may hold up to
// maxShare times what is left. So one token gets seven eighths of the budget at most, and some is
// left however many tokens take what they can. Requests without a token (by is "") share all of it.
//
// take never waits: a waiting request holds memory, and its client may leave before its turn.
func (b *budget) take(by string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.limit - b.used
	if n > left || by != "" && b.by[by]+n > maxShare*left {
		return false
	}
	b.add(by, n)
	return true
}

func (b *budget) give(by string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(by, -n)
}

func (b *budget) add(by string, n int64) {
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

// bound changes the limit. If more than the new limit is in use, take fails until enough is given
// back.
func (b *budget) bound(limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
}

// taken returns how much is in use, and the limit.
func (b *budget) taken() (used, limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.limit
}

// boundRequests changes the number of requests in progress. Three quarters of them may wait for the
// ledger, so that a ledger that hangs leaves room for feeds that do not need it.
func (l *limits) boundRequests(limit int) {
	l.requests.bound(int64(limit))
	l.work.SetMaxWaiting(limit - limit/4)
}

// onProcessor is bounded for a feed or a fan-out, which wait for a processor first. The caller
// calls done at the end.
func (s *service) onProcessor(ctx context.Context) (of context.Context, done func(), err error) {
	of, cancel := s.bounded(ctx)
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

// limited refuses a request if too many are in progress. Routes such as probes do not use it,
// because they matter most under overload.
func (s *intake) limited(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		by := callOf(c).by()
		if !s.limits.requests.take(by, 1) {
			return turnAway(c, "requests in progress")
		}
		noteWork(c.Request().Context(), 1)
		defer func() {
			noteWork(c.Request().Context(), -1)
			s.limits.requests.give(by, 1)
		}()
		return next(c)
	}
}

// unlimited counts a request among the guests, which give way to others.
func (s *intake) unlimited(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		callOf(c).guest = s.limits.guests.enter(c.Response().Writer)
		return next(c)
	}
}

// connectionKey is the key of a connection in the context of its requests.
type connectionKey struct{}

// WithConnection returns a context for the requests of a connection, for [http.Server.ConnContext].
// The handler calls work when a request begins, with 0. It calls work with 1 when the request has
// been admitted, and with -1 at its end.
func WithConnection(ctx context.Context, work func(n int)) context.Context {
	return context.WithValue(ctx, connectionKey{}, work)
}

func noteWork(ctx context.Context, n int) {
	if work, ok := ctx.Value(connectionKey{}).(func(n int)); ok {
		work(n)
	}
}

// heldBody is a body whose bytes count in the budget of bodies as they arrive.
type heldBody struct {
	io.ReadCloser

	of   *intake
	c    echo.Context
	by   string
	held int64
	full error // why the body was refused; nil: it was not
}

// hold makes the bytes of the body count. The caller calls release when it no longer needs them.
func (s *intake) hold(c echo.Context, body io.ReadCloser) *heldBody {
	return &heldBody{ReadCloser: body, of: s, c: c, by: callOf(c).by()}
}

// Read implements [io.Reader].
func (b *heldBody) Read(p []byte) (int, error) {
	if b.full != nil { // some decoders read on after an error
		return 0, b.full
	}
	n, err := b.ReadCloser.Read(p)
	if !b.of.limits.bodies.take(b.by, int64(n)) {
		b.full = turnAway(b.c, "bytes of bodies in memory")
		return 0, b.full
	}
	b.held += int64(n)
	return n, err
}

// release gives back what the body has taken so far.
func (b *heldBody) release() {
	b.of.limits.bodies.give(b.by, b.held)
	b.held = 0
}

// turnAway returns the error of a request that is refused, and leaves the rest of its body.
func turnAway(c echo.Context, tooMany string) error {
	leaveBody(c)
	return fmt.Errorf("too many %s: %w", tooMany, activity.ErrOverloaded)
}

// leaveBody keeps the unread body of a refused request from delaying the answer. net/http reads the
// rest of a body before it answers, unless it will close the connection.
func leaveBody(c echo.Context) {
	res, length := c.Response(), c.Request().ContentLength
	// Over HTTP/2, this header would also close the connection of other requests.
	if (length < 0 || length > maxDiscarded) && c.Request().ProtoMajor < 2 {
		res.Header().Set(echo.HeaderConnection, "close")
	}
	if length != 0 {
		// An error means that there is no connection, as in a test, so nothing waits.
		_ = http.NewResponseController(res.Writer).SetReadDeadline(time.Now().Add(discardTimeout))
	}
}

// retryAfter returns a random number of seconds for the client to wait.
func retryAfter() int {
	return 1 + rand.IntN(maxRetryAfter) //nolint:gosec // spreads load, guards nothing
}

// countShed counts a request that was refused because of err. It logs at most one warning in
// shedWarnings: a line for each request would add to the load.
func (s *service) countShed(ctx context.Context, err error) {
	shed := s.limits.shed.Add(1)
	now, last := time.Now().UnixNano(), s.limits.warned.Load()
	if now-last < int64(shedWarnings) || !s.limits.warned.CompareAndSwap(last, now) {
		return
	}
	s.log.WarnContext(ctx, "overloaded, requests refused", "error", err, "shed", shed)
}
