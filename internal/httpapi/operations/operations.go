package operations

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// Operations are the calls that JSON and gRPC share, with what they need. [New] sets all fields.
type Operations struct {
	Activities activity.Activities
	Recorder   *activity.Recorder // the activities; nil without a ledger
	Events     *follow.Receiver   // of the source whose events are taken; nil: there is none
	Sampler    *sampler.Sampler
	Access     *limits.Access
	Limits     *limits.Limits
	Reports    *Reports
	Health     *Health
	Feeds      *FeedCounts
	Candidates metrics.Candidates // counts those of each feed
	Sources    func() []follow.Status
}

// Config configures operations.
type Config struct {
	_ struct{} // fields are named

	Logger  *slog.Logger           // default: discards
	Sampler *sampler.Sampler       // default: samples none
	Sources func() []follow.Status // what the process knows of sources; default: nothing
	Events  *follow.Receiver       // nil: no source sends events

	Access limits.Access
	Limits limits.Config
}

// New returns the calls on the activities. It adds the metrics of feeds to the registry.
func New(activities activity.Activities, registry *metrics.Registry, c Config) *Operations {
	kinds := activities.Kinds()
	o := &Operations{
		Activities: activities, Events: c.Events, Sampler: c.Sampler, Sources: c.Sources,
		Access: &c.Access, Limits: limits.New(c.Limits), Feeds: newFeedCounts(kinds),
	}
	o.Recorder, _ = activities.(*activity.Recorder) // nothing else asks for the type
	o.Access.Prepare()
	if o.Sampler == nil {
		// A rate of 0 is always valid.
		o.Sampler, _ = sampler.New(nil, sampler.Config{})
	}
	if o.Sources == nil {
		o.Sources = func() []follow.Status { return []follow.Status{} }
	}
	o.Reports = newReports(cmp.Or(c.Logger, slog.New(slog.DiscardHandler)), o.Access.Tokens != nil)
	o.Health = newHealth(activities, o.Limits.Timeout)
	o.Candidates = registry.Feeds(o.Feeds.Stats)
	return o
}

// Load returns how much of each limit is in use, and how many requests were refused.
func (o *Operations) Load() metrics.Load {
	load := o.Limits.Load()
	load.Shed, load.NotYet = o.Reports.Shed.Load(), o.Reports.NotYet.Load()
	return load
}

// WithLedger returns what handles a route of a call that needs a ledger: without one, a refusal.
func (o *Operations) WithLedger(call string, handle wire.Handler) wire.Handler {
	if o.Recorder != nil {
		return handle
	}
	return func(k *wire.Call) error {
		wire.LeaveBody(k)
		return &activity.NoLedgerError{Call: call}
	}
}

// Feed filters a feed, and calls answer with the result, which it has counted. A share of the feeds
// is compared with the ledger after that.
func (o *Operations) Feed(ctx context.Context, k *wire.Call, req feed.Request, answer func(*feed.Checked) error) error {
	if req.RecordSeen && k.Token != nil {
		if err := limits.Allowed(k.Token, "record_seen", access.ActivityWrite); err != nil {
			return err
		}
	}
	if err := o.Access.UserMay(req.Viewer, 1+len(req.Lists)); err != nil {
		return err
	}
	done, err := o.Limits.Enlarge(k, len(req.Posts))
	if err != nil {
		return err
	}
	defer done()
	checked, sampled, err := o.check(ctx, k, req)
	if err != nil {
		return err
	}
	err = answer(checked)
	if sampled != nil { // most feeds are not, and need no attributes
		sampled.Compare(ctx, slog.String("request_id", k.RequestID()))
	}
	return err
}

func (o *Operations) check(ctx context.Context, k *wire.Call, req feed.Request) (*feed.Checked, *sampler.Sampled, error) {
	ctx, done, err := o.Limits.OnProcessor(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	sampled := o.Sampler.Choose()
	checked, err := feed.Check(ctx, o.Activities, req)
	if err != nil {
		return nil, nil, err
	}
	if err := o.recordSeen(ctx, k, checked); err != nil {
		return nil, nil, err
	}
	sampled.Answered(checked)
	o.Feeds.count(checked.Answer)
	o.Candidates.Looked(len(checked.Answer.Kept) + len(checked.Answer.Dropped))
	return checked, sampled, nil
}

// recordSeen records what a feed keeps as seen, if the request asks for it and the audit log can
// take its line.
func (o *Operations) recordSeen(ctx context.Context, k *wire.Call, checked *feed.Checked) error {
	if !checked.Request.RecordSeen {
		return nil
	}
	if err := o.Access.Audit.Check(); err != nil {
		checked.SkipSeen(err)
	} else if err := checked.RecordSeen(ctx); err != nil {
		return err
	}
	if o.Access.Audit != nil {
		noteSeen(k, checked.Request.Viewer, checked.Answer)
	}
	return nil
}

// noteSeen makes a feed that records the posts it keeps as seen an audited request.
func noteSeen(k *wire.Call, viewer string, answer feed.Answer) {
	k.StartAudit()
	k.Note(OpAdd, "", viewer, "")
	k.NoteAdded(activity.Seen, len(answer.Kept))
	degraded := func(d activity.Degraded) bool { return d.Kind == activity.Seen }
	if !slices.ContainsFunc(answer.Degraded, degraded) {
		k.NoteChanged(len(answer.Kept))
	}
}

// Fanout checks a post's viewers, if the rate of its author allows it.
func (o *Operations) Fanout(ctx context.Context, k *wire.Call, req feed.FanoutRequest) (feed.FanoutAnswer, error) {
	k.Note("fanout", "", req.Post.Author, req.Post.ID)
	if err := o.Access.UserMay(req.Post.Author, 1+len(req.Post.Actors)); err != nil {
		return feed.FanoutAnswer{}, err
	}
	ctx, done, err := o.Limits.OnProcessor(ctx)
	if err != nil {
		return feed.FanoutAnswer{}, err
	}
	defer done()
	return feed.Fanout(ctx, o.Activities, req)
}

// Explain explains a post, if the rate of the viewer allows it.
func (o *Operations) Explain(
	ctx context.Context, k *wire.Call, viewer string, p feed.Post, lists []string, want activity.Freshness,
) (feed.Explanation, error) {
	if err := o.Access.UserMay(viewer, 1+len(lists)); err != nil {
		return feed.Explanation{}, err
	}
	k.Note("explain", "", viewer, cmp.Or(p.ID, p.Author))
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	if err := o.Activities.Await(ctx, want); err != nil {
		return feed.Explanation{}, err
	}
	return feed.Explain(ctx, o.Activities, viewer, p, lists...)
}

// List returns one part of the list of a user's activities of kind k.
func (o *Operations) List(
	ctx context.Context, of *wire.Call, user string, k activity.Kind, cursor string, limit int,
) (activity.Listing, error) {
	of.Note("list", k.Name, user, "")
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	return o.Recorder.List(ctx, user, k.Name, cursor, limit)
}

// Incoming returns one part of the list of others' activities of kind k with a user.
func (o *Operations) Incoming(
	ctx context.Context, of *wire.Call, user string, k activity.Kind, cursor string, limit int,
) (activity.Listing, error) {
	of.Note("incoming", k.Name, user, "")
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	return o.Recorder.Incoming(ctx, user, k.Name, cursor, limit)
}

// Get returns a user's activity of kind k with a target; nil: there is none.
func (o *Operations) Get(ctx context.Context, of *wire.Call, user string, k activity.Kind, target string) (*activity.Item, error) {
	of.Note("get", k.Name, user, target)
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	return o.Recorder.Get(ctx, user, k.Name, target)
}

// Counts returns the number of activities of a user, by kind.
func (o *Operations) Counts(ctx context.Context, k *wire.Call, user string) (map[string]int, error) {
	k.Note("count", "", user, "")
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	return o.Recorder.Counts(ctx, user)
}

// Direction returns the name of a direction in the API.
func Direction(m activity.Match) string {
	if m == activity.Reverse {
		return "by_actor"
	}
	return "by_viewer"
}
