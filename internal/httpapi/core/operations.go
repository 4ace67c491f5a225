package core

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// Operations are the calls that JSON and gRPC share, with what they need.
type Operations struct {
	Activities activity.Activities
	Recorder   *activity.Recorder // the activities; nil without a ledger
	Events     *follow.Receiver   // of the source whose events are taken; nil: there is none
	Sampler    *sampler.Sampler
	Access     *Access
	Limits     *Limits
	Reports    *Reports
	Feeds      *FeedCounts
	Candidates metrics.Candidates // counts those of each feed
	Sources    func() []follow.Status
}

// Load returns how much of each limit is in use, and how many requests were refused.
func (o *Operations) Load() metrics.Load {
	load := o.Limits.Load()
	load.Shed, load.NotYet = o.Reports.Shed.Load(), o.Reports.NotYet.Load()
	return load
}

// WithLedger returns what handles a route of a call that needs a ledger: without one, a refusal.
func (o *Operations) WithLedger(call string, handle Handler) Handler {
	if o.Recorder != nil {
		return handle
	}
	return func(k *Call) error {
		LeaveBody(k)
		return &activity.NoLedgerError{Call: call}
	}
}

// Feed filters a feed, and calls answer with the result, which it has counted. A share of the feeds
// is compared with the ledger after that.
func (o *Operations) Feed(ctx context.Context, k *Call, req feed.Request, answer func(*feed.Checked) error) error {
	if req.RecordSeen && k.Token != nil {
		if err := allowed(k.Token, "record_seen", access.ActivityWrite); err != nil {
			return err
		}
	}
	if err := o.Access.UserMay(req.Viewer, 1+len(req.Lists)); err != nil {
		return err
	}
	done, err := o.Limits.enlarge(k, len(req.Posts))
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

func (o *Operations) check(ctx context.Context, k *Call, req feed.Request) (*feed.Checked, *sampler.Sampled, error) {
	ctx, done, err := o.Limits.onProcessor(ctx)
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
func (o *Operations) recordSeen(ctx context.Context, k *Call, checked *feed.Checked) error {
	if !checked.Request.RecordSeen {
		return nil
	}
	if err := o.Access.Audit.Check(); err != nil {
		checked.SkipSeen(err)
	} else if err := checked.RecordSeen(ctx); err != nil {
		return err
	}
	o.Access.noteSeen(k, checked.Request.Viewer, checked.Answer)
	return nil
}

// Fanout checks a post's viewers, if the rate of its author allows it.
func (o *Operations) Fanout(ctx context.Context, k *Call, req feed.FanoutRequest) (feed.FanoutAnswer, error) {
	k.Note("fanout", "", req.Post.Author, req.Post.ID)
	if err := o.Access.UserMay(req.Post.Author, 1+len(req.Post.Actors)); err != nil {
		return feed.FanoutAnswer{}, err
	}
	ctx, done, err := o.Limits.onProcessor(ctx)
	if err != nil {
		return feed.FanoutAnswer{}, err
	}
	defer done()
	return feed.Fanout(ctx, o.Activities, req)
}

// Explain explains a post, if the rate of the viewer allows it.
func (o *Operations) Explain(
	ctx context.Context, k *Call, viewer string, p feed.Post, lists []string, want activity.Freshness,
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
	ctx context.Context, of *Call, user string, k activity.Kind, cursor string, limit int,
) (activity.Listing, error) {
	of.Note("list", k.Name, user, "")
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	return o.Recorder.List(ctx, user, k.Name, cursor, limit)
}

// Incoming returns one part of the list of others' activities of kind k with a user.
func (o *Operations) Incoming(
	ctx context.Context, of *Call, user string, k activity.Kind, cursor string, limit int,
) (activity.Listing, error) {
	of.Note("incoming", k.Name, user, "")
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	return o.Recorder.Incoming(ctx, user, k.Name, cursor, limit)
}

// Get returns a user's activity of kind k with a target; nil: there is none.
func (o *Operations) Get(ctx context.Context, of *Call, user string, k activity.Kind, target string) (*activity.Item, error) {
	of.Note("get", k.Name, user, target)
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	return o.Recorder.Get(ctx, user, k.Name, target)
}

// Counts returns the number of activities of a user, by kind.
func (o *Operations) Counts(ctx context.Context, k *Call, user string) (map[string]int, error) {
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

// counters are counters by name. The map does not change later.
type counters map[string]*atomic.Uint64

func (c counters) read() map[string]uint64 {
	counts := make(map[string]uint64, len(c))
	for name, n := range c {
		counts[name] = n.Load()
	}
	return counts
}

// FeedCounts holds the counters of [metrics.Feeds].
type FeedCounts struct {
	Unsure atomic.Uint64 // feeds with a kind that could not be checked

	answered, kept    atomic.Uint64
	dropped, degraded counters
}

// NewFeedCounts returns counters at 0.
func NewFeedCounts(kinds *activity.Kinds) *FeedCounts {
	c := &FeedCounts{dropped: make(counters), degraded: make(counters)}
	for _, k := range kinds.All() {
		if k.Effect == activity.Drop {
			c.dropped[k.Name] = new(atomic.Uint64)
		}
		c.degraded[k.Name] = new(atomic.Uint64)
	}
	return c
}

func (c *FeedCounts) count(a feed.Answer) {
	c.answered.Add(1)
	c.kept.Add(uint64(len(a.Kept)))
	for _, d := range a.Dropped {
		if n := c.dropped[d.Kind]; n != nil { // a feed drops a repeated post under a kind that annotates
			n.Add(1)
		}
	}
	if len(a.Degraded) > 0 {
		c.Unsure.Add(1)
	}
	for _, d := range a.Degraded {
		c.degraded[d.Kind].Add(1)
	}
}

// Stats returns the counts.
func (c *FeedCounts) Stats() metrics.Feeds {
	return metrics.Feeds{Answered: c.answered.Load(), Kept: c.kept.Load(), Dropped: c.dropped.read(), Degraded: c.degraded.read()}
}
