package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// maxSuspects is how many differences are held in memory, about 100 bytes each, until they are
	// checked again.
	maxSuspects = 100_000
	// firstLook is the first wait before suspects are checked again.
	firstLook = 50 * time.Millisecond
)

// Comparison finds the differences between sets and the lists of a service's ledger. Both may
// change meanwhile: each difference is checked again until it is gone or Settle has passed.
type Comparison struct {
	Sets    *Sets
	Service *Service

	Settle time.Duration  // how long a write of the app may take to reach both sides
	Done   func(more int) // called with the number of further members compared

	sum      Compared
	suspects map[Pair]bool // pairs to check again
}

// Compared is the result of a comparison.
type Compared struct {
	Groups     int64 // sets
	Activities int64 // members, looked up in the ledger
	Invalid    int64 // members that cannot be recorded

	Missing int64 // the set has them; the ledger does not, or ends them within minutes
	Extra   int64 // the ledger has them, and the set does not
}

// Run compares the users who have a set. It also returns the activities that make the ledger match
// the sets, in the order of users and targets: it adds what is missing, and removes what is extra.
func (c *Comparison) Run(ctx context.Context) (Compared, []activity.Activity, error) {
	c.suspects = make(map[Pair]bool)
	err := c.Sets.Users(ctx, func(user string) error { return c.user(ctx, user) })
	var corrections []activity.Activity
	if err == nil {
		corrections, err = c.settle(ctx)
	}
	for _, a := range corrections {
		if a.Remove {
			c.sum.Extra++
		} else {
			c.sum.Missing++
		}
	}
	return c.sum, corrections, err
}

// list is what the ledger lists for a user, and when each activity ends.
type list map[string]time.Time

// keeps reports whether the ledger has the activity, and does not end it within minutes: settle has
// set such an end, or the app will.
func (l list) keeps(target string) bool {
	until, listed := l[target]
	return listed && (until.IsZero() || time.Until(until) >= soon)
}

// user compares the set of one user.
func (c *Comparison) user(ctx context.Context, user string) error {
	var ledger list
	if activity.CheckID(user, "user") == nil {
		var err error
		if ledger, err = c.Service.List(ctx, user); err != nil {
			return err
		}
	}
	c.sum.Groups++
	met := make(map[string]bool)
	err := c.Sets.Members(ctx, user, func(members []Member) error {
		for _, m := range members {
			if check(c.Service.Kind, m.Pair) != nil {
				c.sum.Invalid++
				continue
			}
			c.sum.Activities++
			met[m.Target] = true
			if !ledger.keeps(m.Target) {
				c.suspects[m.Pair] = true
			}
		}
		c.Done(len(members))
		return nil
	})
	for target := range ledger {
		if !met[target] && ledger.keeps(target) {
			c.suspects[Pair{user, target}] = true
		}
	}
	if err == nil && len(c.suspects) > maxSuspects {
		err = fmt.Errorf("more than %d activities differ: complete the import first", maxSuspects)
	}
	return err
}

// settle checks suspects again until sets and service agree about all, or the time to settle is
// over. It returns what corrects the remaining differences.
func (c *Comparison) settle(ctx context.Context) ([]activity.Activity, error) {
	end := time.Now().Add(c.Settle)
	for wait := firstLook; ; wait *= 2 {
		corrections, err := c.look(ctx)
		left := time.Until(end)
		if err != nil || len(corrections) == 0 || left <= 0 {
			return corrections, err
		}
		select {
		case <-time.After(min(wait, left)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// look checks all suspects. It returns what corrects the differences, and forgets the other pairs.
func (c *Comparison) look(ctx context.Context) (corrections []activity.Activity, err error) {
	pairs := slices.SortedFunc(maps.Keys(c.suspects), func(p, q Pair) int {
		return cmp.Or(strings.Compare(p.User, q.User), strings.Compare(p.Target, q.Target))
	})
	// The sets are read first: whatever they have by then, the service must have.
	has, err := c.Sets.Has(ctx, pairs)
	if err != nil {
		return nil, err
	}
	var ledger list
	for i, p := range pairs {
		if i == 0 || p.User != pairs[i-1].User {
			if ledger, err = c.Service.List(ctx, p.User); err != nil {
				return nil, err
			}
		}
		extra := ledger.keeps(p.Target)
		if extra == has[i] {
			delete(c.suspects, p)
			continue
		}
		corrections = append(corrections, activity.Activity{
			User: p.User, Kind: c.Service.Kind.Name, Target: p.Target, Remove: extra,
		})
	}
	return corrections, nil
}
