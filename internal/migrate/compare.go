package migrate

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
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

	Settle time.Duration        // how long a write of the app may take to reach both sides
	Done   func(activities int) // called with the number of further activities compared, one call at a time

	mu       sync.Mutex
	sum      Compared
	suspects map[Pair]bool // pairs to check again
}

// Differences.
const (
	// Missing: the set has the activity, and the ledger does not, or ends it within minutes.
	Missing = "missing"
	// Extra: the ledger has the activity, and the set does not.
	Extra = "extra"
)

// Difference is a pair in which set and ledger differ.
type Difference struct {
	Pair

	What string // Missing or Extra
}

// Compared is the result of a comparison.
type Compared struct {
	Groups     int64 `json:"groups"`     // sets
	Activities int64 `json:"activities"` // members, looked up in the ledger
	Invalid    int64 `json:"invalid"`    // members that cannot be recorded

	Missing int64 `json:"missing"`
	Extra   int64 `json:"extra"`
}

// Run compares the users who have a set. The differences are in the order of users and targets.
func (c *Comparison) Run(ctx context.Context) (Compared, []Difference, error) {
	c.suspects = make(map[Pair]bool)
	err := c.Sets.Users(ctx, func(user string, members iter.Seq2[[]Member, error]) error { return c.user(ctx, user, members) })
	var found []Difference
	if err == nil {
		found, err = c.settle(ctx)
	}
	for _, d := range found {
		if d.What == Missing {
			c.sum.Missing++
		} else {
			c.sum.Extra++
		}
	}
	return c.sum, found, err
}

// verdict compares a pair. ends has what the ledger lists for its user. "": there is no difference.
// An activity that ends within minutes is none: settle has set its end, or the app will.
func verdict(has bool, ends map[string]time.Time, target string) string {
	until, listed := ends[target]
	stays := listed && !endsSoon(until)
	switch {
	case has && !stays:
		return Missing
	case !has && stays:
		return Extra
	default:
		return ""
	}
}

// user compares the set of one user.
func (c *Comparison) user(ctx context.Context, user string, members iter.Seq2[[]Member, error]) (err error) {
	var ends map[string]time.Time
	if activity.CheckID(user, "user") == nil {
		if ends, err = c.Service.List(ctx, user); err != nil {
			return err
		}
	}
	met := make(map[string]bool)
	for some, err := range members {
		if err != nil {
			return err
		}
		var missing []Pair
		for _, p := range c.valid(some) {
			met[p.Target] = true
			if verdict(true, ends, p.Target) != "" {
				missing = append(missing, p)
			}
		}
		if err := c.suspect(missing); err != nil {
			return err
		}
	}
	var extra []Pair
	for target := range ends {
		if !met[target] && verdict(false, ends, target) != "" {
			extra = append(extra, Pair{user, target})
		}
	}
	c.mu.Lock()
	c.sum.Groups++
	c.mu.Unlock()
	return c.suspect(extra)
}

// valid returns the members that can be recorded, and counts all.
func (c *Comparison) valid(members []Member) []Pair {
	pairs := make([]Pair, 0, len(members))
	for _, m := range members {
		if check(c.Service.Kind, m.Pair) == nil {
			pairs = append(pairs, m.Pair)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Invalid += int64(len(members) - len(pairs))
	c.sum.Activities += int64(len(pairs))
	c.Done(len(pairs))
	return pairs
}

// suspect notes pairs to check again.
func (c *Comparison) suspect(pairs []Pair) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range pairs {
		c.suspects[p] = true
	}
	if len(c.suspects) > maxSuspects {
		return fmt.Errorf("more than %d activities differ: complete the import first", maxSuspects)
	}
	return nil
}

// settle checks suspects again until sets and service agree about all, or the time to settle is
// over, and returns the remaining differences.
func (c *Comparison) settle(ctx context.Context) (found []Difference, err error) {
	for begun, wait := time.Now(), firstLook; len(c.suspects) > 0; wait *= 2 {
		if found, err = c.look(ctx); err != nil {
			return nil, err
		}
		left := c.Settle - time.Since(begun)
		if left <= 0 {
			break
		}
		select {
		case <-time.After(min(wait, left)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return found, nil
}

// look checks all suspects. It returns the differences, and forgets the other pairs.
func (c *Comparison) look(ctx context.Context) (found []Difference, err error) {
	pairs := slices.SortedFunc(maps.Keys(c.suspects), func(p, q Pair) int {
		return cmp.Or(strings.Compare(p.User, q.User), strings.Compare(p.Target, q.Target))
	})
	// The sets are read first: whatever they have by then, the service must have.
	has, err := c.Sets.Has(ctx, pairs)
	if err != nil {
		return nil, err
	}
	var ends map[string]time.Time
	for i, p := range pairs {
		if i == 0 || p.User != pairs[i-1].User {
			if ends, err = c.Service.List(ctx, p.User); err != nil {
				return nil, err
			}
		}
		if what := verdict(has[i], ends, p.Target); what != "" {
			found = append(found, Difference{p, what})
		} else {
			delete(c.suspects, p)
		}
	}
	return found, nil
}
