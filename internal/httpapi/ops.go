package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/inspect"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

const opsKeyPath = "/v1/ops/users/:user/keys/:kind/:target"

// operations answers the calls of operators, who inspect the service, repair pages and raise their
// number.
type operations struct{ *service }

func (o operations) routes() []route {
	read, write := []access.Scope{access.OpsRead}, []access.Scope{access.OpsWrite}
	return []route{
		{http.MethodGet, "/v1/stats", o.stats, read, true},
		{http.MethodGet, "/v1/pages", o.withLedger("the number of pages", o.pages), read, false},
		{http.MethodPut, "/v1/pages", o.withLedger("a reshape", o.reshape), write, false},
		{http.MethodGet, "/v1/ops/health", o.opsHealth, read, true},
		{http.MethodGet, "/v1/ops/history", o.opsHistory, read, true},
		{http.MethodGet, "/v1/ops/pages/:number", o.opsPage, read, false},
		{http.MethodPost, "/v1/ops/pages/:number/rebuild", o.withLedger("a rebuild", o.opsRebuild), write, false},
		{http.MethodGet, "/v1/ops/scrub", o.opsScrub, read, true},
		{http.MethodPost, "/v1/ops/scrub", o.withLedger("a scrub", o.opsStartScrub), write, false},
		{http.MethodGet, "/v1/ops/users/:user", o.opsUser, read, false},
		{http.MethodGet, opsKeyPath, o.opsKey, read, false},
	}
}

// pathNumber returns the page number in the path.
func pathNumber(c echo.Context) (uint32, error) {
	text := c.Param("number")
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != text {
		return 0, refuse(activity.CodeInvalidID, "number", fmt.Sprintf("%q is not a page number", clip(text, maxField)))
	}
	return uint32(n), nil
}

// opsPage answers with the state of a page.
func (o operations) opsPage(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	number, err := pathNumber(c)
	if err != nil {
		return err
	}
	ctx, cancel := o.bounded(c.Request().Context())
	defer cancel()
	page, err := inspect.ReadPage(ctx, o.activities, number, o.access.IDs.Hash)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, page)
}

// opsRebuild rebuilds a page.
func (o operations) opsRebuild(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	page, err := pathNumber(c)
	if err != nil {
		return err
	}
	ctx, cancel := o.bounded(c.Request().Context())
	defer cancel()
	rebuilt, err := o.recorder.RebuildPage(ctx, page)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, inspect.RebuiltOf(rebuilt))
}

// opsUser answers with the pages of a user.
func (o operations) opsUser(c echo.Context) error {
	user, err := bareUser(c)
	if err != nil {
		return err
	}
	callOf(c).note("inspect", "", user, "")
	ctx, cancel := o.bounded(c.Request().Context())
	defer cancel()
	state, err := inspect.ReadUser(ctx, o.activities, user)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, state)
}

// opsKey answers with the state of an activity, in the pages and in the ledger.
func (o operations) opsKey(c echo.Context) error {
	user, err := bareUser(c)
	if err != nil {
		return err
	}
	kind, err := pathID(c, "kind")
	if err != nil {
		return err
	}
	target, err := pathID(c, "target")
	if err != nil {
		return err
	}
	if k, ok := o.activities.Kinds().Named(kind); ok { // an unknown kind may be any text, and is not logged
		callOf(c).note("inspect", k.Name, user, target)
	}
	ctx, cancel := o.bounded(c.Request().Context())
	defer cancel()
	key, err := inspect.ReadKey(ctx, o.activities, o.recorder, kind, user, target)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, key)
}

// scrubStatus returns the progress of the scrub that was requested last.
func (o operations) scrubStatus() pages.ScrubProgress {
	if o.recorder == nil {
		return pages.ScrubProgress{}
	}
	return o.recorder.Scrubber().ScrubStatus()
}

type scrubRequest struct {
	Rate *int `json:"rate"` // pages a second; nil: not given
}

// opsScrub answers with the progress of the scrub that was requested last.
func (o operations) opsScrub(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	return respond(c, http.StatusOK, inspect.ScrubOf(o.scrubStatus()))
}

// opsStartScrub starts to compare every page with the ledger, in the background.
func (o operations) opsStartScrub(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	rate := 0
	if c.Request().ContentLength != 0 {
		var req scrubRequest
		done, err := o.decode(c, &req)
		if err != nil {
			return err
		}
		defer done()
		if req.Rate != nil {
			if rate = *req.Rate; rate < 1 || rate > pages.MaxScrubRate {
				return refuse(activity.CodeOutOfRange, "rate", fmt.Sprintf("%d is not in 1 to %d", rate, pages.MaxScrubRate))
			}
		}
	}
	started, err := o.recorder.Scrubber().StartScrub(rate)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if started {
		status = http.StatusAccepted
	}
	return respond(c, status, inspect.ScrubOf(o.scrubStatus()))
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
}

type opsPageTotals struct {
	Shared      int     `json:"shared"`
	Own         int     `json:"own"`
	LookedAt    int     `json:"looked_at"`
	Faulty      int     `json:"amiss"`
	Keys        uint64  `json:"keys"`
	Bytes       uint64  `json:"bytes"`
	KeysPerPage float64 `json:"keys_per_page"`
	Due         uint32  `json:"due"`
	DueFrom     int     `json:"due_from"`
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

// opsHealth answers with an overview of the state of the service.
func (o operations) opsHealth(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	ctx, cancel := o.readyContext(c.Request().Context())
	defer cancel()
	inProgress, limit := o.limits.requests.taken()
	a := opsHealthAnswer{
		Status: statusReady, Down: []down{}, Version: o.about.Version, Uptime: int64(time.Since(o.started).Seconds()),
		Ledger: o.about.Ledger, PageStore: o.about.PageStore, Rate: o.activities.FalsePositiveRate(),
		Requests: opsRequestUsage{inProgress, limit},
		Sampling: o.sampler.Stats(),
	}
	ready, errs := o.dependencies(ctx)
	for _, err := range errs {
		a.Down = append(a.Down, downOf(err))
	}
	switch {
	case !ready:
		a.Status = statusUnavailable
	case len(errs) > 0:
		a.Status = statusDegraded
	}
	stats, totals := o.activities.Stats(), o.surveyTotals()
	a.PollAge = stats.PollAge.Milliseconds()
	a.Pages = opsPageTotals{
		Shared: totals.Pages - totals.Dedicated, Own: totals.Dedicated, LookedAt: totals.Looked, Faulty: totals.Faulty, Keys: totals.Keys,
		Bytes: totals.Bytes, KeysPerPage: stats.KeysPerPage, Due: stats.ReshapeDue, DueFrom: pages.DuePage,
	}
	a.Scrub = opsScrubStatus{
		Position: stats.ScrubAt, Pages: stats.ScrubPages, Rounds: stats.ScrubRounds, Alarms: stats.Alarms, Found: stats.Found,
		Asked: inspect.ScrubOf(o.scrubStatus()),
	}
	if r := o.recorder; r != nil {
		a.Staleness, a.Reshape = r.StalenessBound().Milliseconds(), reshapeOf(ctx, r)
	}
	return respond(c, http.StatusOK, a)
}

// surveyTotals returns sums over all pages as last observed. Without a ledger, none are.
func (s *service) surveyTotals() pages.SurveyTotals {
	if s.recorder == nil {
		return pages.SurveyTotals{Pages: s.activities.Stats().SharedPages}
	}
	return s.recorder.SurveyTotals()
}

// reshapeOf returns the progress of a change of the number of pages, or nil if it cannot be read.
func reshapeOf(ctx context.Context, r *activity.Recorder) *opsReshape {
	layout, err := r.Grower().Layout(ctx)
	if err != nil {
		return nil
	}
	first := r.Inside().Identity().Pages
	o := &opsReshape{Pages: layout.Pages, Homes: first, Reshaped: reshapedHomes(layout, first), Running: layout.Growing}
	if layout.Err != nil {
		o.Trouble = describe(layout.Err).Message
	}
	return o
}
