package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
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

// Comparison finds the differences between a service and a source, by real feed checks and by the
// lists of the ledger. Both may change meanwhile: each difference is checked again until it is gone
// or Settle has passed.
type Comparison struct {
	Source  Source
	Service *Service

	// All calls each for every activity of the ledger, of all kinds. nil: only users of the source
	// are compared.
	All func(ctx context.Context, each func(activity.Activity) error) error

	Settle time.Duration        // how long a write of the app may take to reach both sides
	Done   func(activities int) // called with the number of further activities compared, one call at a time

	mu       sync.Mutex
	sum      Compared
	suspects map[Pair]bool // pairs to check again; the value is whether the source has it
}

// Differences.
const (
	// Missed: the source has the activity, but feeds do not drop or annotate it. The most serious
	// difference.
	Missed = "missed"
	// Unlisted: the source has the activity, and the ledger does not. Feeds drop or annotate it for
	// another reason: the opposite direction of a two-way kind, or a false positive.
	Unlisted = "unlisted"
	// Ending: the source has the activity, but it ends in the ledger within minutes: an import was
	// interrupted.
	Ending = "ending"
	// Extra: the ledger has the activity, and the source does not.
	Extra = "extra"

	// leaving: only the ledger has the activity, but it ends within minutes: not a difference.
	leaving = "leaving"
)

// Difference is a pair in which source and service differ.
type Difference struct {
	Pair

	What string // Missed, Unlisted, Ending or Extra
}

// Compared is the result of a comparison.
type Compared struct {
	Groups     int64 `json:"groups"`     // sets, or users of a file
	Activities int64 `json:"activities"` // of the source, checked by feeds
	Invalid    int64 `json:"invalid"`    // of the source, that cannot be recorded

	Missed   int64 `json:"missed"`
	Unlisted int64 `json:"unlisted"`
	Ending   int64 `json:"ending"`
	Extra    int64 `json:"extra"`
	Leaving  int64 `json:"leaving"` // only in the ledger, but end within minutes: not a difference
}

// Run compares. The differences are in the order of users and targets.
func (c *Comparison) Run(ctx context.Context) (Compared, []Difference, error) {
	c.suspects = make(map[Pair]bool)
	err := c.Source.Groups(ctx, func(g Group) error { return c.group(ctx, g) })
	if err == nil && c.All != nil {
		err = c.all(ctx)
	}
	var found []Difference
	if err == nil {
		found, err = c.settle(ctx)
	}
	count := map[string]*int64{Missed: &c.sum.Missed, Unlisted: &c.sum.Unlisted, Ending: &c.sum.Ending, Extra: &c.sum.Extra}
	for _, d := range found {
		*count[d.What]++
	}
	return c.sum, found, err
}

// verdict compares a pair. ends has what the ledger lists for its user; reported is whether feeds
// drop or annotate it. "": there is no difference.
func verdict(has, reported bool, ends map[string]time.Time, target string) string {
	until, listed := ends[target]
	switch {
	case has && !reported:
		return Missed
	case has && !listed:
		return Unlisted
	case has && endsSoon(until):
		return Ending
	case has || !listed:
		return ""
	case endsSoon(until):
		return leaving
	default:
		return Extra
	}
}

// group compares one group of the source.
func (c *Comparison) group(ctx context.Context, g Group) (err error) {
	var ends map[string]time.Time
	if !g.Reversed && activity.CheckID(g.Owner, "user") == nil {
		if ends, err = c.Service.List(ctx, g.Owner); err != nil {
			return err
		}
	}
	met := make(map[string]bool)
	for members, err := range g.Members {
		if err != nil {
			return err
		}
		pairs := c.valid(members)
		doubtful, err := c.doubtful(ctx, g.Reversed, pairs, len(met) == 0)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			met[p.Target] = true
			if !g.Reversed && verdict(true, true, ends, p.Target) != "" {
				doubtful = append(doubtful, p)
			}
		}
		if err := c.suspect(true, doubtful...); err != nil {
			return err
		}
	}
	var extra []Pair
	left := int64(0)
	for target := range ends {
		switch {
		case met[target]:
		case verdict(false, false, ends, target) == leaving:
			left++
		default:
			extra = append(extra, Pair{g.Owner, target})
		}
	}
	c.mu.Lock()
	c.sum.Groups++
	c.sum.Leaving += left
	c.mu.Unlock()
	return c.suspect(false, extra...)
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

// doubtful returns the pairs of a group that feeds neither drop nor annotate. It asks for a feed of
// the owner if it can, and else for one of each user. With sample, it also asks for a feed of the
// other user of one two-way pair.
func (c *Comparison) doubtful(ctx context.Context, reversed bool, pairs []Pair, sample bool) ([]Pair, error) {
	views := slices.Clone(pairs) // users who view targets
	if c.Service.Kind.TwoWay && reversed {
		for i, p := range views {
			views[i] = p.flipped()
		}
	}
	if sample = sample && c.Service.Kind.TwoWay && len(pairs) > 0; sample {
		p := pairs[rand.IntN(len(pairs))] //nolint:gosec // a sample
		pairs, views = append(pairs, p), append(views, p)
		if !reversed {
			views[len(pairs)-1] = p.flipped()
		}
	}
	reported, err := c.Service.Reported(ctx, views...)
	var doubtful []Pair
	for i, r := range reported {
		if !r {
			doubtful = append(doubtful, pairs[i])
		}
	}
	return doubtful, err
}

func (p Pair) flipped() Pair { return Pair{p.Target, p.User} }

// all looks for activities in the ledger that the source lacks, also of users whom the source does
// not have.
func (c *Comparison) all(ctx context.Context) error {
	var some batch[Pair]
	look := func(pairs []Pair) error {
		has, err := c.Source.Has(ctx, pairs)
		var extra []Pair
		for i, there := range has {
			if !there {
				extra = append(extra, pairs[i])
			}
		}
		return cmp.Or(err, c.suspect(false, extra...))
	}
	err := c.All(ctx, func(a activity.Activity) error {
		if a.Kind != c.Service.Kind.Name {
			return nil
		}
		return some.add(Pair{a.User, a.Target}, look)
	})
	if err != nil {
		return err
	}
	return look(some.items)
}

// suspect notes pairs to check again.
func (c *Comparison) suspect(has bool, pairs ...Pair) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range pairs {
		c.suspects[p] = has
	}
	if len(c.suspects) > maxSuspects {
		return fmt.Errorf("more than %d activities differ: complete the import first", maxSuspects)
	}
	return nil
}

// settle checks suspects again until source and service agree about all, or the time to settle is
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
	// The source is read first: whatever it has by then, the service must have.
	has, err := c.Source.Has(ctx, pairs)
	for i, there := range has {
		c.suspects[pairs[i]] = there
	}
	for some := range feeds(pairs) {
		if err != nil {
			return nil, err
		}
		var ends map[string]time.Time
		var reported, others []bool
		if ends, err = c.Service.List(ctx, some[0].User); err == nil {
			reported, err = c.Service.Reported(ctx, some...)
		}
		for i := range reported {
			p := some[i]
			if c.Service.Kind.TwoWay && c.suspects[p] && reported[i] && err == nil {
				if others, err = c.Service.Reported(ctx, p.flipped()); err == nil {
					reported[i] = others[0]
				}
			}
			if what := verdict(c.suspects[p], reported[i], ends, p.Target); what != "" && what != leaving {
				found = append(found, Difference{p, what})
			} else {
				delete(c.suspects, p)
			}
		}
	}
	return found, err
}
