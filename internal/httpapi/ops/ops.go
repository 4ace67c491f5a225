// Package ops answers operators and probes: figures, pages, the history, documents and metrics.
package ops

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/inspect"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// About describes the service for people. It must not contain addresses or secrets.
type About struct {
	Version   string // of the program
	Ledger    string // "sqlite", "postgres" or "none"
	PageStore string // "memory", "redis", "redis+cluster", ...
}

// ops answers the calls of operators, who inspect the service, repair pages and raise their number.
type ops struct {
	operations *operations.Operations
	activities activity.Activities
	recorder   *activity.Recorder // the activities; nil without a ledger
	limits     *limits.Limits
	downs      *access.Throttle // throttles log lines of failed readiness checks
	started    time.Time
	about      About
}

// Routes returns the routes of operators and of probes. The history has one of its own.
func Routes(c *operations.Operations, about About) []wire.Route {
	o := &ops{
		operations: c,
		activities: c.Activities,
		recorder:   c.Recorder,
		limits:     c.Limits,
		downs:      access.NewThrottle(),
		started:    time.Now(),
		about:      about,
	}
	strict := wire.Strict(wire.NotNull[pagesRequest](), wire.NotNull[scrubRequest]())
	reshape := limits.Requested(o.limits, strict, o.reshape)
	scrub := limits.Requested(o.limits, strict, o.startScrub)
	return slices.Concat(o.stateRoutes(), o.pageRoutes(reshape, scrub), o.userRoutes())
}

func readers() []access.Scope { return []access.Scope{access.OpsRead} }

func writers() []access.Scope { return []access.Scope{access.OpsWrite} }

// stateRoutes returns the routes of the state of the service.
func (o *ops) stateRoutes() []wire.Route {
	return []wire.Route{
		{Method: http.MethodGet, Path: "/healthz", Handle: wire.Answer(o.alive), Free: true},
		{Method: http.MethodGet, Path: "/readyz", Handle: o.ready, Free: true},
		{
			Method: http.MethodGet, Path: "/v1/stats",
			Handle: wire.Answer(o.stats), Scopes: readers(), Free: true,
		},
		{
			Method: http.MethodGet, Path: "/v1/ops/health",
			Handle: wire.Bare(o.overview), Scopes: readers(), Free: true,
		},
	}
}

// pageRoutes returns the routes of pages, and of the scrub, with the handlers of those with a body.
func (o *ops) pageRoutes(reshape, scrub wire.Handler) []wire.Route {
	with := o.operations.WithLedger
	return []wire.Route{
		{
			Method: http.MethodGet, Path: "/v1/pages",
			Handle: with("the number of pages", o.bare(o.pages)), Scopes: readers(),
		},
		{
			Method: http.MethodPut, Path: "/v1/pages",
			Handle: with("a reshape", reshape), Scopes: writers(),
		},
		{
			Method: http.MethodGet, Path: "/v1/ops/pages/:number",
			Handle: o.bare(o.page), Scopes: readers(),
		},
		{
			Method: http.MethodPost, Path: "/v1/ops/pages/:number/rebuild",
			Handle: with("a rebuild", o.bare(o.rebuild)), Scopes: writers(),
		},
		{
			Method: http.MethodGet, Path: "/v1/ops/scrub",
			Handle: wire.Bare(o.scrub), Scopes: readers(), Free: true,
		},
		{
			Method: http.MethodPost, Path: "/v1/ops/scrub",
			Handle: with("a scrub", o.orWithout(scrub)), Scopes: writers(),
		},
	}
}

// userRoutes returns the routes of a user's page and keys.
func (o *ops) userRoutes() []wire.Route {
	return []wire.Route{
		{
			Method: http.MethodGet, Path: "/v1/ops/users/:user",
			Handle: wire.BareUser(o.user), Scopes: readers(),
		},
		{
			Method: http.MethodGet, Path: KeyPath,
			Handle: wire.BareUser(o.key), Scopes: readers(), Audit: wire.AuditAlways,
		},
	}
}

// orWithout returns scrub for requests with a body. Without one, a scrub starts at its usual rate.
func (o *ops) orWithout(scrub wire.Handler) wire.Handler {
	without := wire.Answer(func(ctx context.Context, k *wire.Call) (any, error) {
		return o.startScrub(ctx, k, "", scrubRequest{})
	})
	return func(k *wire.Call) error {
		if k.Request().ContentLength == 0 {
			return without(k)
		}
		return scrub(k)
	}
}

// KeyPath is the path of the state of an activity.
const KeyPath = "/v1/ops/users/:user/keys/:kind/:target"

// bare is wire.Bare for a call that reads or writes pages.
func (o *ops) bare(do func(ctx context.Context, k *wire.Call) (any, error)) wire.Handler {
	return wire.Bare(func(ctx context.Context, k *wire.Call) (any, error) {
		ctx, cancel := o.limits.Bound(ctx)
		defer cancel()
		return do(ctx, k)
	})
}

// pathNumber returns the page number in the path.
func pathNumber(k *wire.Call) (uint32, error) {
	text := k.Param("number")
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != text {
		return 0, wire.Refuse(
			activity.CodeInvalidID, "number", fmt.Sprintf("%q is not a page number", wire.Clip(text)),
		)
	}
	return uint32(n), nil
}

// page answers with the state of a page.
func (o *ops) page(ctx context.Context, k *wire.Call) (any, error) {
	number, err := pathNumber(k)
	if err != nil {
		return nil, err
	}
	return inspect.ReadPage(ctx, o.activities, number, o.operations.Access.IDs.Hash)
}

// rebuild rebuilds a page.
func (o *ops) rebuild(ctx context.Context, k *wire.Call) (any, error) {
	number, err := pathNumber(k)
	if err != nil {
		return nil, err
	}
	rebuilt, err := o.recorder.RebuildPage(ctx, number)
	if err != nil {
		return nil, err
	}
	return inspect.RebuiltOf(rebuilt), nil
}

// user answers with the pages of a user.
func (o *ops) user(ctx context.Context, k *wire.Call, user string) (any, error) {
	k.Note("inspect", "", user, "")
	ctx, cancel := o.limits.Bound(ctx)
	defer cancel()
	return inspect.ReadUser(ctx, o.activities, user)
}

// key answers with the state of an activity, in the pages and in the ledger.
func (o *ops) key(ctx context.Context, k *wire.Call, user string) (any, error) {
	kind, err := wire.PathID(k, "kind")
	if err != nil {
		return nil, err
	}
	target, err := wire.PathID(k, "target")
	if err != nil {
		return nil, err
	}
	// an unknown kind may be any text, and is not logged
	if known, ok := o.activities.Kinds().Named(kind); ok {
		k.Note("inspect", known.Name, user, target)
	}
	ctx, cancel := o.limits.Bound(ctx)
	defer cancel()
	return inspect.ReadKey(ctx, o.activities, o.recorder, kind, user, target)
}

type scrubRequest struct {
	Rate *int `json:"rate"` // pages a second; nil: not given
}

// scrub answers with the progress of the scrub that was requested last.
func (o *ops) scrub(context.Context, *wire.Call) (any, error) { return o.scrubStatus(), nil }

func (o *ops) scrubStatus() inspect.Scrub {
	if o.recorder == nil {
		return inspect.ScrubOf(pages.ScrubProgress{})
	}
	return inspect.ScrubOf(o.recorder.Scrubber().ScrubStatus())
}

// startScrub starts to compare every page with the ledger, in the background.
func (o *ops) startScrub(_ context.Context, _ *wire.Call, _ string, req scrubRequest) (any, error) {
	rate := 0
	if req.Rate != nil {
		if rate = *req.Rate; rate < 1 || rate > pages.MaxScrubRate {
			return nil, wire.Refuse(
				activity.CodeOutOfRange, "rate",
				fmt.Sprintf("%d is not in 1 to %d", rate, pages.MaxScrubRate),
			)
		}
	}
	//nolint:contextcheck // continues in the background
	started, err := o.recorder.Scrubber().Scrub(rate)
	if err != nil {
		return nil, err
	}
	if started {
		return wire.Accepted{Answer: o.scrubStatus()}, nil
	}
	return o.scrubStatus(), nil
}

// opsHealthAnswer is an overview of the state of the service.
type opsHealthAnswer struct {
	Status    string `json:"status"`
	Down      []down `json:"down"`
	Version   string `json:"version"`
	Uptime    int64  `json:"uptime_seconds"`
	Ledger    string `json:"ledger"`
	PageStore string `json:"page_store"`

	Rate      float64 `json:"false_positive_rate"`
	PollAge   int64   `json:"poll_age_ms"`
	Staleness int64   `json:"staleness_bound_ms"`

	Pages    opsPageTotals   `json:"pages"`
	Reshape  *opsReshape     `json:"reshape"`
	Scrub    opsScrubStatus  `json:"scrub"`
	Requests opsRequestUsage `json:"requests"`

	Sampling sampler.Stats `json:"sampling"`

	Sources []follow.Status `json:"sources"`
}

type opsPageTotals struct {
	Shared      int     `json:"shared"`
	Dedicated   int     `json:"dedicated"`
	LookedAt    int     `json:"looked_at"`
	Faulty      int     `json:"faulty"`
	Keys        uint64  `json:"keys"`
	Bytes       uint64  `json:"bytes"`
	KeysPerPage float64 `json:"keys_per_page"`
	Due         uint32  `json:"due"`
	DueFrom     int     `json:"due_from"`

	CountedAt time.Time `json:"counted_at,omitzero"`
}

type opsReshape struct {
	Pages    uint32 `json:"pages"`
	Homes    uint32 `json:"homes"`
	Reshaped int    `json:"reshaped"`
	Running  bool   `json:"running"`
	Trouble  string `json:"trouble,omitzero"`
}

type opsScrubStatus struct {
	Position uint32            `json:"position"`
	Pages    uint32            `json:"pages"`
	Rounds   uint64            `json:"rounds"`
	Alarms   uint64            `json:"alarms"`
	Found    map[string]uint64 `json:"found"`
	Asked    inspect.Scrub     `json:"asked"`
}

type opsRequestUsage struct {
	InProgress int64 `json:"in_progress"`
	Limit      int64 `json:"limit"`
}

// overview answers with an overview of the state of the service.
func (o *ops) overview(ctx context.Context, _ *wire.Call) (any, error) {
	ctx, cancel := o.operations.Health.Bound(ctx)
	defer cancel()
	ready, errs := o.operations.Health.Ask(ctx)
	load := o.limits.Load()
	a := opsHealthAnswer{
		Status:    statusOf(ready, errs),
		Down:      downsOf(errs),
		Version:   o.about.Version,
		Uptime:    int64(time.Since(o.started).Seconds()),
		Ledger:    o.about.Ledger,
		PageStore: o.about.PageStore,
		Rate:      o.activities.FalsePositiveRate(),
		Requests:  opsRequestUsage{load.Requests, load.RequestsLimit},
		Sampling:  o.operations.Sampler.Stats(),
		Sources:   o.operations.Sources(),
	}
	stats, survey := o.activities.Stats(), surveyOf(o.recorder)
	a.PollAge = stats.PollAge.Milliseconds()
	a.Pages = opsPageTotals{
		Shared:      stats.SharedPages,
		Dedicated:   stats.DedicatedPages,
		LookedAt:    survey.Looked,
		Faulty:      survey.Faulty,
		Keys:        survey.Keys(),
		Bytes:       survey.Bytes(),
		KeysPerPage: stats.KeysPerPage,
		Due:         stats.ReshapeDue,
		DueFrom:     pages.DuePage,
		CountedAt:   survey.Ended.UTC(),
	}
	a.Scrub = opsScrubStatus{
		Position: stats.ScrubAt,
		Pages:    stats.ScrubPages,
		Rounds:   stats.ScrubRounds,
		Alarms:   stats.Alarms,
		Found:    stats.Found,
		Asked:    o.scrubStatus(),
	}
	if r := o.recorder; r != nil {
		a.Staleness, a.Reshape = r.StalenessBound().Milliseconds(), reshapeOf(ctx, r)
	}
	return a, nil
}

// surveyOf returns the survey of the pages. Without a ledger, none are surveyed.
func surveyOf(r *activity.Recorder) *pages.Survey {
	if r == nil {
		return &pages.Survey{}
	}
	return r.Survey()
}

// reshapeOf returns the progress of a change of the number of pages, or nil if it cannot be read.
func reshapeOf(ctx context.Context, r *activity.Recorder) *opsReshape {
	layout, err := r.Grower().Layout(ctx)
	if err != nil {
		return nil
	}
	first := r.Inside().Identity().Pages
	o := &opsReshape{
		Pages:    layout.Pages,
		Homes:    first,
		Reshaped: reshapedHomes(layout, first),
		Running:  layout.Growing,
	}
	if layout.Err != nil {
		o.Trouble = wire.Describe(layout.Err).Message
	}
	return o
}
