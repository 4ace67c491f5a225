package limits

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/admission"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

// largeFeed is the number of candidates above which a feed counts as two requests. So feeds of the
// most candidates take no more memory together than twice as many of half their size.
const largeFeed = feed.MaxPosts / 2

// Limits bounds the work in progress.
type Limits struct {
	MaxBody int64         // bytes of a JSON body or a message
	Timeout time.Duration // of the work of a request
	Idle    time.Duration // how long a stream may stall

	guests   *Guests // requests that no budget counts
	requests Budget  // requests in progress
	streams  Budget  // requests in progress that are streams
	bodies   Budget  // bytes of bodies and messages that have arrived
	work     *admission.Limiter
}

// Config configures limits. A limit of 0 is its default.
type Config struct {
	_ struct{} // fields are named

	MaxBody int64         // bytes of a JSON body or a message; default 1 MiB
	Timeout time.Duration // of the work of a request; default 10 s
	Idle    time.Duration // how long a stream may stall; default 1 min

	Requests int   // requests in progress; default 512
	Streams  int   // requests in progress that are streams; default 64
	Bodies   int64 // bytes of all bodies and messages; default 64 MiB, at least MaxBody
}

// New returns limits with nothing in progress.
func New(c Config) *Limits {
	l := &Limits{
		MaxBody: cmp.Or(c.MaxBody, 1<<20),
		Timeout: cmp.Or(c.Timeout, 10*time.Second),
		Idle:    cmp.Or(c.Idle, time.Minute),
		guests:  NewGuests(maxGuests),
		work:    admission.NewLimiter(),
	}
	l.BoundRequests(cmp.Or(c.Requests, 512))
	l.streams.Limit = int64(cmp.Or(c.Streams, 64))
	l.bodies.Limit = max(cmp.Or(c.Bodies, 64<<20), l.MaxBody)
	return l
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

// OnProcessor is Bound for a feed or a fan-out, which wait for a processor first. The caller calls
// done at the end.
func (l *Limits) OnProcessor(ctx context.Context) (of context.Context, done func(), err error) {
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
func (l *Limits) Limited(r wire.Route, k *wire.Call) error {
	if r.Free {
		l.Visit(k)
		return r.Handle(k)
	}
	by := k.TokenName()
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

// Enlarge counts the request of a large feed once more. The caller calls done at its end.
func (l *Limits) Enlarge(k *wire.Call, candidates int) (done func(), err error) {
	by := k.TokenName()
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
func (l *Limits) Stream(k *wire.Call, do func() error) error {
	by := k.TokenName()
	if !l.streams.Take(by, 1) {
		return turnAway(k, "streams in progress")
	}
	defer l.streams.Give(by, 1)
	return do()
}

// Visit makes a request a guest until [Limits.Leave].
func (l *Limits) Visit(k *wire.Call) {
	if k.Guest == nil {
		k.Guest = l.guests.Enter(k.Response().Writer)
	}
}

// Leave ends the visit of a request, if it is a guest.
func (l *Limits) Leave(k *wire.Call) { l.guests.Leave(k.Guest) }

// turnAway returns the error of a request that is refused, and leaves the rest of its body.
func turnAway(k *wire.Call, tooMany string) error {
	wire.LeaveBody(k)
	return fmt.Errorf("too many %s: %w", tooMany, activity.ErrOverloaded)
}
