// Package migrate moves activities from an app's own storage to a service, and shows where the two
// differ, while the app goes on writing to both.
//
// The service must never lose an activity that the app has recorded in both places. So the package
// never removes one. An activity that the source does not have, or no longer has, gets an end a
// minute away. A write that records it again meanwhile removes that end. See docs/MIGRATION.md for
// the argument.
package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/client"
)

// Pair is an activity of the kind that is moved.
type Pair struct{ User, Target string }

// Member is a pair with what else the source knows of it.
type Member struct {
	Pair

	Since time.Time // when it was done; zero: not known
}

// Group is what a source has under one key.
type Group struct {
	Owner string // a user; with a reversed source, the target

	// Members calls each with the group's members, some at a time; a member may be met twice. It
	// returns what each returned, or why the source could not be read. It may be called once.
	Members func(each func([]Member) error) error
}

// Source is where the app keeps its activities today.
type Source interface {
	// Groups calls each for all that is there from the beginning to the end of the call, from
	// several goroutines, and returns when all of those have. What comes or goes meanwhile may be
	// met or not. An error of each ends the call and is returned.
	Groups(ctx context.Context, each func(Group) error) error

	// Has tells which pairs the source has at this moment; nil: it can be read only once.
	Has(ctx context.Context, pairs []Pair) ([]bool, error)

	// Reversed tells that owners are targets, not users.
	Reversed() bool
}

const (
	// batchSize is how many activities are recorded, or candidates asked for, in one request. With
	// the longest ids, all of quotes, that is just below a service's limit of 1 MiB.
	batchSize = 900
	// grace is how far away the end is that an activity gets if the source does not have it. The
	// source is read again at once, so grace must be longer than that takes. The end must not be in
	// the past for a service whose clock is ahead.
	grace = time.Minute
	// soon is within which an end is taken for one that was given for this reason.
	soon = 2 * grace
	// maxTurns is how often a pair may change while it is being settled.
	maxTurns = 20
)

// settle has the service follow the source in a pair that others may be changing, in both, in this
// order.
func settle(ctx context.Context, source Source, to *Service, kind client.Kind, p Pair) error {
	has, err := hasOne(ctx, source, p)
	for range maxTurns {
		if err != nil {
			return err
		}
		if !has {
			// What is not there needs no end.
			if there, err := to.Present(ctx, kind, p); err != nil || !there {
				return err
			}
		}
		line := client.Activity{User: p.User, Kind: kind.Name, Target: p.Target}
		if !has {
			line.Until = time.Now().Add(grace)
		}
		if _, err := to.Record(ctx, []client.Activity{line}); err != nil {
			return err
		}
		// Who has added it since the source was read may have told the service before it was given
		// an end.
		was := has
		if has, err = hasOne(ctx, source, p); err == nil && has == was {
			return nil
		}
	}
	return fmt.Errorf("%q of %q changed %d times while it was looked at", p.Target, p.User, maxTurns)
}

// endsSoon tells whether an activity has an end that it was given by settle.
func endsSoon(until time.Time) bool { return !until.IsZero() && time.Until(until) < soon }

func hasOne(ctx context.Context, source Source, p Pair) (bool, error) {
	has, err := source.Has(ctx, []Pair{p})
	return err == nil && has[0], err
}

// check returns why an activity of the kind can never be recorded; nil: it can.
func check(k client.Kind, p Pair) error {
	if err := activity.CheckID(p.User, "user"); err != nil {
		return err
	}
	if err := activity.CheckID(p.Target, "target"); err != nil {
		return err
	}
	if ofUsers(k) && p.User == p.Target {
		return fmt.Errorf("%q cannot %s themselves", p.User, k.Name)
	}
	return nil
}
