package operations

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// Limits of requests with activities.
const (
	DefaultListed = 100    // items of a list, if the request sets no limit
	MaxPosts      = 1000   // of one request to a kind with a window
	MaxBatch      = 10_000 // activities of one batch
	MaxChunk      = 1000   // activities of a stream that are recorded at once
)

// Ops of an activity.
const (
	OpAdd    = "add"
	OpRemove = "remove"
)

// FieldUntil and FieldSince are the names of times in requests.
const (
	FieldUntil = "until"
	FieldSince = "since"
)

// Ended returns at; instead of the zero time, which means "no end", a later one that has passed.
func Ended(at time.Time) time.Time {
	if at.IsZero() {
		return at.Add(time.Microsecond)
	}
	return at
}

// CheckLine checks what a request says about an activity beside its ids and times.
func CheckLine(kind, op string, since, until bool) error {
	switch {
	case kind == "":
		return wire.Refuse(wire.CodeMissingField, "kind", "the kind is empty or missing")
	case op == "":
		return wire.Refuse(wire.CodeMissingField, "op", "the op is empty or missing")
	case op != OpAdd && op != OpRemove:
		return wire.Refuse(
			wire.CodeUnknownOp, "op", fmt.Sprintf("%q is neither add nor remove", wire.Clip(op)),
		)
	case until && op == OpRemove:
		return wire.Refuse(
			wire.CodeUnknownField, FieldUntil, "only an activity that is added may have an end",
		)
	case since && op == OpRemove:
		return wire.Refuse(
			wire.CodeUnknownField, FieldSince, "only an activity that is added may have a beginning",
		)
	default:
		return nil
	}
}

// CheckBatch refuses a number of activities outside 1 to most.
func CheckBatch(n, most int) error {
	if n < 1 || n > most {
		return wire.Refuse(
			activity.CodeOutOfRange, "activities",
			strconv.Itoa(n)+" activities, not 1 to "+strconv.Itoa(most),
		)
	}
	return nil
}

// refused returns why an activity of kind k was not recorded or undone; nil if it was.
func refused(k activity.Kind, o activity.Outcome) error {
	switch o {
	case activity.OverLimit:
		return &wire.Problem{
			Code:    wire.CodeLimitReached,
			Message: fmt.Sprintf("limit of %d %s reached", k.Limit, k.Plural),
			Limit:   k.Limit,
		}
	case activity.Stuck:
		return &wire.Problem{
			Code:    wire.CodeStuck,
			Message: "cannot be undone without a ledger: all bits of its key are shared with other keys",
		}
	case activity.Ended:
		return wire.Refuse(activity.CodeOutOfRange, FieldUntil, "not in the future")
	case activity.Early:
		return wire.Refuse(activity.CodeOutOfRange, FieldSince, "in the future")
	default:
		return nil
	}
}

// Record records or undoes one activity of kind k, and returns whether that changed anything.
func (o *Operations) Record(
	ctx context.Context, of *wire.Call, k activity.Kind, a activity.Activity,
) (changed bool, err error) {
	batch := o.Activities.NewBatch()
	if err := batch.Add(a); err != nil {
		return false, err
	}
	op := OpAdd
	if a.Remove {
		op = OpRemove
	}
	// As it is recorded, so that the additions and removals of one id have one hash.
	of.Note(op, k.Name, a.User, batch.Activities()[0].Target)
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	outcomes, err := batch.Record(ctx)
	if err != nil {
		return false, err
	}
	if err := refused(k, outcomes[0]); err != nil {
		return false, err
	}
	of.NoteOutcomes(outcomes)
	return outcomes[0] == activity.Changed, nil
}

// RecordWindow records posts of kind k, which has a window. It returns the number of distinct
// posts.
func (o *Operations) RecordWindow(
	ctx context.Context, of *wire.Call, user string, k activity.Kind, posts []string,
) (int, error) {
	batch, err := o.postActivities(user, k, posts)
	if err != nil {
		return 0, err
	}
	of.Note(OpAdd, k.Name, user, "")
	of.NoteBatch(batch.Activities())
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	outcomes, err := batch.Record(ctx)
	if err != nil {
		return 0, err
	}
	of.NoteOutcomes(outcomes)
	return len(outcomes), nil
}

// postActivities returns an activity for each distinct post.
func (o *Operations) postActivities(
	user string, k activity.Kind, posts []string,
) (*activity.Batch, error) {
	switch {
	case posts == nil:
		return nil, wire.Refuse(wire.CodeMissingField, "posts", "the field is missing")
	case len(posts) < 1 || len(posts) > MaxPosts:
		return nil, wire.Refuse(
			activity.CodeOutOfRange, "posts", fmt.Sprintf("%d posts, not 1 to %d", len(posts), MaxPosts),
		)
	}
	batch := o.Activities.NewBatch()
	known := make(map[string]bool, len(posts))
	for i, post := range posts {
		if known[post] {
			continue
		}
		known[post] = true
		err := batch.Add(activity.Activity{User: user, Kind: k.Name, Target: post})
		if invalid, ok := errors.AsType[*activity.InvalidError](err); ok {
			return nil, wire.Refuse(invalid.Code, "posts["+strconv.Itoa(i)+"]", invalid.Message)
		}
	}
	return batch, nil
}

// Result is the result of one activity: {"changed":true}, or {"error":{...}}.
type Result struct {
	Changed bool
	Problem wire.Problem // its code is "" if there was no error
}

// MarshalJSONTo writes the result.
func (r Result) MarshalJSONTo(enc *jsontext.Encoder) error {
	if r.Problem.Code != "" {
		return json.MarshalEncode(enc, errorAnswer{r.Problem})
	}
	return json.MarshalEncode(enc, Changed{r.Changed})
}

// Changed reports whether an activity changed anything.
type Changed struct {
	Changed bool `json:"changed"`
}

// RecordBatch records the n activities of a request, none of them if one is invalid. Only what
// depends on a clock or on earlier activities is checked later.
func (o *Operations) RecordBatch(
	ctx context.Context, k *wire.Call, n int, read func(i int) (activity.Activity, error),
) ([]Result, error) {
	if err := CheckBatch(n, MaxBatch); err != nil {
		return nil, err
	}
	batch := o.Activities.NewBatch()
	for i := range n {
		a, err := read(i)
		if err == nil {
			err = batch.Add(a)
		}
		if err != nil {
			return nil, activity.Within("activities["+strconv.Itoa(i)+"].", err)
		}
	}
	if k.Token != nil { // a batch is never refused itself, only later requests
		k.Token.Charge(time.Now(), n-1) // the first was counted as the request
	}
	ctx, cancel := o.Limits.Bound(ctx)
	defer cancel()
	return o.record(ctx, k, batch)
}

func (o *Operations) record(
	ctx context.Context, k *wire.Call, batch *activity.Batch,
) ([]Result, error) {
	activities := batch.Activities()
	k.NoteBatch(activities)
	outcomes, err := batch.Record(ctx)
	k.NoteOutcomes(outcomes)
	results := make([]Result, len(outcomes))
	for i, outcome := range outcomes {
		results[i].Changed = outcome == activity.Changed
		kind, _ := o.Activities.Kinds().Named(activities[i].Kind)
		if err := refused(kind, outcome); err != nil {
			results[i].Problem = wire.Describe(err)
		}
	}
	return results, err
}

// Chunk is a group of activities of a stream that are recorded together.
type Chunk struct {
	Results []Result

	batch *activity.Batch // of the valid activities
	lines []int           // index in Results, for each of them
}

// NewChunk returns an empty chunk.
func (o *Operations) NewChunk() *Chunk { return &Chunk{batch: o.Activities.NewBatch()} }

// Add adds an activity, or err as its result.
func (c *Chunk) Add(a activity.Activity, err error) {
	if err == nil {
		err = c.batch.Add(a)
	}
	if err != nil {
		c.Results = append(c.Results, Result{Problem: wire.Describe(err)})
		return
	}
	c.lines = append(c.lines, len(c.Results))
	c.Results = append(c.Results, Result{})
}

// RecordChunk records the valid activities at the rate of the token, and sets their results. It
// fails only if the stream must end.
func (o *Operations) RecordChunk(k *wire.Call, c *Chunk) error {
	err := o.Access.Pace(k, len(c.Results))
	if err == nil {
		err = o.Access.MayAudit()
	}
	var results []Result
	if err == nil {
		ctx, cancel := o.Limits.Bound(k.Request().Context())
		defer cancel()
		results, err = o.record(ctx, k, c.batch)
		gone := k.Request().Context().Err() != nil
		if err != nil && !gone && wire.Describe(err).Code != wire.CodeOverloaded {
			o.Reports.LogPart(k, o.Reports.faults, "record lines", err)
		}
	}
	if err != nil && k.Request().Context().Err() != nil {
		return fmt.Errorf("record %d lines: %w: %w", len(c.lines), wire.ErrGone, err)
	}
	for n, i := range c.lines {
		if err != nil {
			c.Results[i].Problem = wire.Describe(err)
		} else {
			c.Results[i] = results[n]
		}
	}
	return nil
}
