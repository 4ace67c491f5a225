package httpapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/semaphore"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// maxDiscarded is the length of the longest refused body that is read, and thrown
	// away, so that its connection can be used again. In bytes.
	maxDiscarded = 64 << 10
	// discardTimeout is how long a refused body may take to arrive.
	discardTimeout = time.Second
	// shedWarnings is the least time between two warnings that requests are refused.
	shedWarnings = 10 * time.Second
	// feedTurns is the number of feeds that are checked at once for each processor. With a processor
	// time of 0.2 ms for each, a processor is busy up to 6 ms of waiting for Redis.
	feedTurns = 32
	// maxRetryAfter is the most seconds that a client is told to wait. Each is told
	// another number, or those refused together would come back together.
	maxRetryAfter = 3
)

// limits bound what the service works on at a time, and count what it refuses.
type limits struct {
	requests budget // number in progress
	streams  budget // number of those that are streams of NDJSON
	bodies   budget // bytes held of bodies of the others
	// turns are the feeds that are checked at once. The others in progress wait for their turn, before
	// the time begins that Redis has to answer: or many that wait for a processor would each take Redis
	// to be down.
	turns *semaphore.Weighted

	total  atomic.Uint64 // requests that came
	shed   atomic.Uint64 // requests refused for overload
	warned atomic.Int64  // when that was logged last, in Unix nanoseconds
}

// budget is an amount that requests take parts of, and give back.
type budget struct {
	mu    sync.Mutex
	limit int64
	used  int64
}

// take reports whether n was left. It never waits: who waited would hold memory, and
// could be gone by the time it is its turn.
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

// bound changes the limit. If more are taken, none is to be had until enough are given back.
func (b *budget) bound(limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
}

// taken is how much is in use, and how much may be.
func (b *budget) taken() (used, limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.limit
}

// limited lets a request in if not too many are in progress. Probes go without: they
// have to be answered then above all.
func (s *service) limited(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !s.limits.requests.take(1) {
			return turnAway(c, "requests are in progress")
		}
		defer s.limits.requests.give(1)
		return next(c)
	}
}

// holdBody takes from the budget what the body may come to, and returns how to give it
// back when the request is done.
func (s *service) holdBody(c echo.Context) (release func(), err error) {
	length := c.Request().ContentLength
	if length < 0 { // not known
		length = s.maxBody
	}
	if !s.limits.bodies.take(length) {
		return nil, turnAway(c, "bytes of bodies are held")
	}
	return func() { s.limits.bodies.give(length) }, nil
}

// turnAway returns the error of a request that is refused before its body is read.
func turnAway(c echo.Context, tooMany string) error {
	leaveBody(c)
	return fmt.Errorf("as many %s as may be: %w", tooMany, activity.ErrOverloaded)
}

// leaveBody sees to it that the body of a request that is refused before it is read does not keep the
// answer waiting: net/http reads one before it answers, unless the connection is to be closed.
func leaveBody(c echo.Context) {
	res, length := c.Response(), c.Request().ContentLength
	// Over HTTP/2, the header would close the connection of other requests, too.
	if (length < 0 || length > maxDiscarded) && c.Request().ProtoMajor < 2 {
		res.Header().Set(echo.HeaderConnection, "close")
	}
	if length != 0 {
		// Where it cannot be set, there is no connection to wait for.
		_ = http.NewResponseController(res.Writer).SetReadDeadline(time.Now().Add(discardTimeout))
	}
}

// retryAfter is the number of seconds that a client is told to wait.
func retryAfter() int {
	return 1 + rand.IntN(maxRetryAfter) //nolint:gosec // spreads load, guards nothing
}

// countShed counts a request that was refused because of err, and logs it now and then: a
// line for each would add to the load.
func (s *service) countShed(ctx context.Context, err error) {
	shed := s.limits.shed.Add(1)
	now, last := time.Now().UnixNano(), s.limits.warned.Load()
	if now-last < int64(shedWarnings) || !s.limits.warned.CompareAndSwap(last, now) {
		return
	}
	s.log.WarnContext(ctx, "requests are refused: the service is overloaded", "error", err, "shed", shed)
}
