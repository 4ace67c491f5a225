package httpapi

import (
	"cmp"
	"context"
	"fmt"
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
)

// limits bounds the work in progress, and counts refused requests.
type limits struct {
	requests budget // requests in progress
	streams  budget // requests in progress that are streams
	bodies   budget // bytes of the bodies of the other requests
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
	return in
}

// budget is an amount that requests take parts of and give back.
type budget struct {
	mu    sync.Mutex
	limit int64
	used  int64
}

// take takes n, and reports whether that much was left. It never waits: a waiting request holds
// memory, and its client may leave before its turn.
func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.limit-b.used {
		return false
	}
	b.used += n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
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
		if !s.limits.requests.take(1) {
			return turnAway(c, "requests in progress")
		}
		defer s.limits.requests.give(1)
		return next(c)
	}
}

// holdBody takes the length of the body from the budget of bodies. The caller calls release at the
// end of the request.
func (s *intake) holdBody(c echo.Context) (release func(), err error) {
	length := c.Request().ContentLength
	if length < 0 { // unknown
		length = s.maxBody
	}
	if !s.limits.bodies.take(length) {
		return nil, turnAway(c, "bytes of bodies in memory")
	}
	return func() { s.limits.bodies.give(length) }, nil
}

// turnAway returns the error of a request that is refused before its body is read.
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
