package migrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/client"
)

const (
	// maxSuspects is how many differences are held in memory, about 100 bytes each, until they are
	// checked again.
	maxSuspects = 100_000
	// rememberedTargets is how many targets of other users are held, to use as clean candidates.
	rememberedTargets = 4096
)

// Comparison finds the differences between a service and a source, by real feed checks and by the
// lists of the ledger. Both may change meanwhile: each difference is checked again until it is gone
// or Settle has passed.
type Comparison struct {
	Source  Source
	Service *Service
	Kind    client.Kind

	// All calls each for every activity of the ledger, of all kinds. nil: only users of the source
	// are compared.
	All func(ctx context.Context, each func(activity.Activity) error) error

	Sample int           // clean candidates to try for each user
	Settle time.Duration // how long a write of the app may take to reach both sides

	Found func(Difference)     // called for each difference, one at a time
	Done  func(activities int) // called with the number of further activities compared, one call at a time

	mu        sync.Mutex
	sum       Compared
	suspects  map[Pair]*suspect
	targets   []string // a ring of targets of any user; with a reversed source, of users
	lastPlace int
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

	// Clean candidates that were tried, and how many of them were false positives.
	Clean          int64   `json:"clean"`
	FalsePositives int64   `json:"false_positives"`
	Rate           float64 `json:"false_positive_rate"`
	RateLow        float64 `json:"false_positive_rate_low"` // the true rate is in low to high, with 99 % confidence
	RateHigh       float64 `json:"false_positive_rate_high"`
}

// Differences returns the number of differences.
func (c *Compared) Differences() int64 { return c.Missed + c.Unlisted + c.Ending + c.Extra }

// suspect is the difference of a pair when it was last checked.
type suspect struct{ missed, unlisted, ending, extra bool }

// Run compares.
func (c *Comparison) Run(ctx context.Context) (Compared, error) {
	c.suspects = make(map[Pair]*suspect)
	err := c.Source.Groups(ctx, func(g Group) error { return c.group(ctx, g) })
	if err == nil && c.All != nil {
		err = c.all(ctx)
	}
	if err == nil {
		err = c.lookAgain(ctx)
	}
	c.sum.rate()
	if err == nil {
		c.report()
	}
	return c.sum, err
}

// group compares one group of the source.
func (c *Comparison) group(ctx context.Context, g Group) error {
	if err := activity.CheckID(g.Owner, "user"); err != nil {
		return c.invalid(g)
	}
	l := listed{known: !c.Source.Reversed(), items: make(map[string]item)}
	if l.known {
		items, err := c.Service.List(ctx, c.Kind, g.Owner)
		if err != nil {
			return err
		}
		for _, has := range items {
			l.items[has.Target] = item{ends: endsSoon(has.Until)}
		}
	}
	first := true
	err := g.Members(func(some []Member) error {
		members := c.valid(some)
		if err := c.members(ctx, g.Owner, members, &l); err != nil || !first || len(members) == 0 {
			return err
		}
		first = false
		if c.Kind.TwoWay {
			return c.otherSide(ctx, g.Owner, members[rand.IntN(len(members))]) //nolint:gosec // a sample
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.clean(ctx, g.Owner, &l); err != nil {
		return err
	}
	return c.unmet(g.Owner, &l)
}

// unmet notes the activities of an owner that only the ledger has.
func (c *Comparison) unmet(owner string, l *listed) error {
	leaving := int64(0)
	for target, it := range l.items {
		switch {
		case it.met:
		case it.ends:
			leaving++
		default:
			if err := c.suspect(Pair{owner, target}, suspect{extra: true}); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Groups++
	c.sum.Leaving += leaving
	return nil
}

// listed holds the activities of an owner in the ledger.
type listed struct {
	known bool // false if the owner is a target
	items map[string]item
}

type item struct {
	met  bool // the source has it, too
	ends bool // ends soon
}

// invalid counts the members of an owner whose id is invalid.
func (c *Comparison) invalid(g Group) error {
	return g.Members(func(some []Member) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sum.Invalid += int64(len(some))
		return nil
	})
}

// valid returns the members that can be recorded, and counts the others.
func (c *Comparison) valid(members []Member) []Pair {
	pairs := make([]Pair, 0, len(members))
	for _, m := range members {
		if check(c.Kind, m.Pair) == nil {
			pairs = append(pairs, m.Pair)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Invalid += int64(len(members) - len(pairs))
	return pairs
}

// members checks the pairs of an owner by feeds.
func (c *Comparison) members(ctx context.Context, owner string, pairs []Pair, l *listed) error {
	reported, err := c.reported(ctx, owner, pairs)
	if err != nil {
		return err
	}
	for i, p := range pairs {
		s := suspect{missed: !reported[i]}
		if l.known {
			it, there := l.items[p.Target]
			s.unlisted, s.ending = !there, it.ends
			l.items[p.Target] = item{true, it.ends}
		}
		if s != (suspect{}) {
			if err := c.suspect(p, s); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range pairs {
		if c.Source.Reversed() {
			p.Target = p.User
		}
		c.remember(p.Target)
	}
	c.sum.Activities += int64(len(pairs))
	c.Done(len(pairs))
	return nil
}

// reported reports which pairs feeds drop or annotate. It asks for feeds of the owner. With a
// reversed source, where the owner is a target, it uses the other side of a two-way kind, or else a
// feed of each user.
func (c *Comparison) reported(ctx context.Context, owner string, pairs []Pair) ([]bool, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	if c.Source.Reversed() && !c.Kind.TwoWay {
		reported := make([]bool, len(pairs))
		for i, p := range pairs {
			r, err := c.Service.Reported(ctx, c.Kind, p.User, []string{p.Target}, false)
			if err != nil {
				return nil, err
			}
			reported[i] = r[0]
		}
		return reported, nil
	}
	others := make([]string, len(pairs))
	for i, p := range pairs {
		if others[i] = p.Target; c.Source.Reversed() {
			others[i] = p.User
		}
	}
	return c.Service.Reported(ctx, c.Kind, owner, others, false)
}

// otherSide checks a two-way pair by a feed of the other user.
func (c *Comparison) otherSide(ctx context.Context, owner string, p Pair) error {
	viewer, other := p.Target, p.User
	if c.Source.Reversed() {
		viewer, other = p.User, owner
	}
	reported, err := c.Service.Reported(ctx, c.Kind, viewer, []string{other}, false)
	if err == nil && !reported[0] {
		err = c.suspect(p, suspect{missed: true})
	}
	return err
}

// clean measures the false-positive rate: it checks a feed of the viewer with targets of other
// users, most of which are unrelated to the viewer.
func (c *Comparison) clean(ctx context.Context, viewer string, l *listed) error {
	if c.Source.Reversed() && !c.Kind.TwoWay {
		return nil // the viewer may be a post, which has no feed
	}
	targets := c.others(viewer, l)
	if len(targets) == 0 {
		return nil
	}
	reported, err := c.Service.Reported(ctx, c.Kind, viewer, targets, false)
	if err != nil {
		return err
	}
	var doubtful []string
	for i, r := range reported {
		if r {
			doubtful = append(doubtful, targets[i])
		}
	}
	wrong := 0
	if len(doubtful) > 0 {
		certain, err := c.Service.Reported(ctx, c.Kind, viewer, doubtful, true)
		if err != nil {
			return err
		}
		for _, there := range certain {
			if !there {
				wrong++
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Clean += int64(len(targets) - len(doubtful) + wrong)
	c.sum.FalsePositives += int64(wrong)
	return nil
}

// others returns distinct remembered targets that the viewer does not have.
func (c *Comparison) others(viewer string, l *listed) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	picked := make(map[string]bool)
	targets := make([]string, 0, c.Sample)
	for range c.Sample {
		if len(c.targets) == 0 {
			break
		}
		t := c.targets[rand.IntN(len(c.targets))] //nolint:gosec // a sample
		if _, has := l.items[t]; !has && !picked[t] && t != viewer {
			picked[t] = true
			targets = append(targets, t)
		}
	}
	return targets
}

func (c *Comparison) remember(target string) {
	if len(c.targets) < rememberedTargets {
		c.targets = append(c.targets, target)
		return
	}
	c.lastPlace = (c.lastPlace + 1) % rememberedTargets
	c.targets[c.lastPlace] = target
}

// all looks for activities in the ledger that the source lacks, also of users whom the source does
// not have.
func (c *Comparison) all(ctx context.Context) error {
	some := make([]Pair, 0, batchSize)
	look := func() error {
		has, err := c.Source.Has(ctx, some)
		if err != nil {
			return err
		}
		for i, there := range has {
			if !there {
				if err := c.suspect(some[i], suspect{extra: true}); err != nil {
					return err
				}
			}
		}
		some = some[:0]
		return nil
	}
	err := c.All(ctx, func(a activity.Activity) error {
		if a.Kind == c.Kind.Name {
			some = append(some, Pair{a.User, a.Target})
		}
		if len(some) == batchSize {
			return look()
		}
		return nil
	})
	if err == nil {
		err = look()
	}
	return err
}

func (c *Comparison) suspect(p Pair, s suspect) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.suspects[p]
	if known == nil {
		if len(c.suspects) == maxSuspects {
			return fmt.Errorf("more than %d activities differ: complete the import first", maxSuspects)
		}
		known = &suspect{}
		c.suspects[p] = known
	}
	known.missed = known.missed || s.missed
	known.unlisted = known.unlisted || s.unlisted
	known.ending = known.ending || s.ending
	known.extra = known.extra || s.extra
	return nil
}
