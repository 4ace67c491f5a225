package importer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/activityfile"
)

const (
	// ServiceBatch is the number of activities that a service records at a time. Undos make it
	// rebuild the page of a long list, once for each request.
	ServiceBatch = 5000
	// requestBytes bounds a request, of which the service takes 1 MiB.
	requestBytes = 1<<20 - 1<<10
)

// LedgerTarget is what a user has of a kind in a ledger.
type LedgerTarget struct {
	list activityfile.List
	from *activity.Recorder
	bulk *activity.Bulk
}

// NewLedgerTarget returns what the user of a list has in the ledger. It returns an error if a
// source alone writes the kind, even if there is nothing to write.
func NewLedgerTarget(r *activity.Recorder, list activityfile.List) (*LedgerTarget, error) {
	kind := list.Kind.Name
	for _, source := range r.Sources() {
		if slices.Contains(source.Kinds, kind) {
			return nil, fmt.Errorf("%s is followed: source %q alone writes it", kind, source.Name)
		}
	}
	return &LedgerTarget{list, r, r.NewBulk()}, nil
}

// All implements [Target]. Newest activities come first.
func (t *LedgerTarget) All(
	ctx context.Context, each func(target string, until time.Time) error,
) error {
	for cursor := ""; ; {
		part, err := t.from.List(ctx, t.list.User, t.list.Kind.Name, cursor, activity.MaxListed)
		if err != nil {
			return err
		}
		for _, item := range part.Items {
			if err := each(item.Target, item.Until); err != nil {
				return err
			}
		}
		if cursor = part.Next; cursor == "" {
			return nil
		}
	}
}

// Record implements [Target]. It completes a transaction that has begun when ctx ends.
func (t *LedgerTarget) Record(
	ctx context.Context, activities []activity.Activity,
) ([]activity.Outcome, error) {
	batch := t.from.NewBatch()
	if err := batch.AddAll(activities); err != nil {
		return nil, err
	}
	outcomes, err := t.bulk.Record(context.WithoutCancel(ctx), batch)
	if err == nil {
		err = checkEarly(activities, outcomes)
	}
	return outcomes, err
}

// Finish implements [Target].
func (t *LedgerTarget) Finish(ctx context.Context) error { return t.bulk.Finish(ctx) }

// ServiceTarget is what a user has of a kind in the ledger of a running service.
type ServiceTarget struct {
	Client *client.Client // should retry: a Sync may take minutes
	User   string
	Kind   client.Kind
}

// Kinds returns the kind alone, as far as a [Sync] needs to know it.
func (t *ServiceTarget) Kinds() (*activity.Kinds, error) {
	fold := activity.Fold(t.Kind.Fold)
	if t.Kind.Text {
		fold = activity.FoldText
	}
	return activity.NewKinds(activity.Kind{
		Name:   t.Kind.Name,
		Plural: t.Kind.Plural,
		Target: activity.Facet(t.Kind.Target),
		Fold:   fold,
		Effect: activity.Drop, // has no meaning here
	})
}

// All implements [Target].
func (t *ServiceTarget) All(
	ctx context.Context, each func(target string, until time.Time) error,
) error {
	for item, err := range t.Client.List(ctx, t.User, t.Kind.Plural) {
		if err != nil {
			return fmt.Errorf("list %s: %w", t.Kind.Plural, err)
		}
		if err := each(item.Target, item.Until); err != nil {
			return err
		}
	}
	return nil
}

// Record implements [Target].
func (t *ServiceTarget) Record(
	ctx context.Context, activities []activity.Activity,
) (outcomes []activity.Outcome, err error) {
	for len(activities) > 0 {
		n, bytes := 0, 0
		lines := make([]client.Activity, 0, len(activities))
		for ; n < len(activities); n++ {
			a := &activities[n]
			// A quote in an id takes two bytes. The rest are names of fields, op and times.
			if bytes += 160 + 2*(len(a.User)+len(a.Target)) + len(a.Kind); bytes > requestBytes {
				break
			}
			lines = append(lines, lineOf(a))
		}
		some, err := t.request(ctx, lines)
		outcomes = append(outcomes, some...)
		if err != nil {
			return outcomes, err
		}
		activities = activities[n:]
	}
	return outcomes, nil
}

func lineOf(a *activity.Activity) client.Activity {
	op := client.Add
	if a.Remove {
		op = client.Remove
	}
	return client.Activity{
		User:   a.User,
		Kind:   a.Kind,
		Target: a.Target,
		Op:     op,
		Since:  a.Since,
		Until:  a.Until,
	}
}

// request makes one request, and returns the outcomes up to the first error.
func (t *ServiceTarget) request(
	ctx context.Context, lines []client.Activity,
) ([]activity.Outcome, error) {
	results, err := t.Client.Batch(ctx, lines)
	if err != nil {
		return nil, fmt.Errorf("record activities: %w", err)
	}
	outcomes := make([]activity.Outcome, len(results))
	for i, r := range results {
		if outcomes[i], err = outcomeOf(r); err != nil {
			return outcomes[:i], fmt.Errorf("target %.300q: %w", lines[i].Target, err)
		}
	}
	return outcomes, nil
}

// outcomeOf returns the outcome of an activity of a batch.
func outcomeOf(r client.Result) (activity.Outcome, error) {
	switch {
	case r.Err == nil && r.Changed:
		return activity.Changed, nil
	case r.Err == nil:
		return activity.Unchanged, nil
	case r.Err.Is(client.ErrLimitReached):
		return activity.OverLimit, nil
	case r.Err.Code == activity.CodeOutOfRange && strings.HasSuffix(r.Err.Field, "until"):
		return activity.Ended, nil
	default:
		return activity.Unchanged, r.Err
	}
}

// Finish implements [Target]. A service answers when feeds have what it recorded.
func (*ServiceTarget) Finish(context.Context) error { return nil }
