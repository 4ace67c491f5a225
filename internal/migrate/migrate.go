// Package migrate imports activities from an app's own store into a service, and compares the two,
// while the app keeps writing to both.
//
// An activity that the app has recorded in both must never be lost from the service. So this
// package never removes one: an activity that the source does not have gets an end a minute ahead,
// and a later recording of it removes that end. docs/MIGRATION.md has the argument.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/phrases"
	"github.com/feedfilter/feedfilter/client"
)

// Pair is an activity of the kind that is imported or compared.
type Pair struct{ User, Target string }

const (
	// batchSize is the number of activities in one request. With the longest ids, made of quotes
	// only, such a request is just below the service's limit of 1 MiB.
	batchSize = 900
	// grace is how far ahead the end is of an activity that the source lacks. It must be longer
	// than the next read of the source takes, and longer than a service's clock may be ahead.
	grace = time.Minute
	// soon is the time within which an end counts as one that settle has set.
	soon = 2 * grace
)

// settle makes the service follow the source in one pair, while others may change it, first in the
// source and then in the service.
func settle(ctx context.Context, source *Sets, to *Service, p Pair) error {
	has, err := source.Has(ctx, []Pair{p})
	for err == nil {
		line := client.Activity{User: p.User, Target: p.Target}
		if !has[0] {
			// An absent activity needs no end.
			ends, err := to.List(ctx, p.User)
			if _, there := ends[p.Target]; err != nil || !there {
				return err
			}
			line.Until = time.Now().Add(grace)
		}
		results, err := to.Record(ctx, []client.Activity{line})
		if err == nil && results[0].Err != nil && !errors.Is(results[0].Err, client.ErrLimitReached) {
			err = fmt.Errorf("user %q, target %q: %w", p.User, p.Target, results[0].Err)
		}
		if err != nil {
			return err
		}
		// The app may have added it to both after the source was read, and before it got the end:
		// read the source again.
		was := has[0]
		if has, err = source.Has(ctx, []Pair{p}); err == nil && has[0] == was {
			return nil
		}
	}
	return err
}

// check returns an error if an activity of the kind cannot be recorded.
func check(k client.Kind, p Pair) error {
	if err := activity.CheckID(p.User, "user"); err != nil {
		return err
	}
	if err := activity.CheckID(p.Target, "target"); err != nil {
		return err
	}
	if k.Text {
		if _, _, err := phrases.Canonical(p.Target); err != nil {
			return fmt.Errorf("target: not a phrase: %w", err)
		}
	}
	if k.Target == "user" && p.User == p.Target {
		return fmt.Errorf("%q cannot %s themselves", p.User, k.Name)
	}
	return nil
}
