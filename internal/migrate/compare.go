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
	// maxSuspects is the maximum number of differences, some 100 bytes each, that are held until
	// the source and the service are asked again.
	maxSuspects = 100_000
	// rememberedTargets is how many targets of others are held, to be tried as clean candidates.
	rememberedTargets = 4096
)

// Comparison tells in what a service and a source differ, by real feed checks and by the lists of
// the ledger. Both may be written to meanwhile: what differs is looked at again until it agrees or
// Settle has passed.
type Comparison struct {
	Source  Source
	Service *Service
	Kind    client.Kind

	// All calls each for all that the ledger has of all kinds; nil: it is known of users alone whom
	// the source has.
	All func(ctx context.Context, each func(activity.Activity) error) error

	Sample int           // clean candidates that are tried for each user
	Settle time.Duration // how long what the app is writing may take to be in both places

	Found func(Difference)     // is told of each difference, one at a time
	Done  func(activities int) // is told how many more were compared; the same

	mu        sync.Mutex
	sum       Compared
	suspects  map[Pair]*suspect
	targets   []string // of any user, or, where owners are targets, users; a ring
	lastPlace int
}

// What a [Difference] may be.
const (
	// Missed: the source has it, and a feed does not show it. The worst there is.
	Missed = "missed"
	// Unlisted: the source has it, and the ledger does not. A feed shows it, for another reason:
	// the same between the same two the other way round, or by chance.
	Unlisted = "unlisted"
	// Ending: the source has it, and in the ledger it ends within minutes: an import did not come
	// to its end.
	Ending = "ending"
	// Extra: the ledger has it, and the source does not.
	Extra = "extra"
)

// Difference is a pair that is in one place alone.
type Difference struct {
	Pair

	What string // Missed, Unlisted, Ending or Extra
}

// Compared is what a comparison has come to.
type Compared struct {
	Groups     int64 `json:"groups"`     // sets, or users of a file
	Activities int64 `json:"activities"` // of the source that feeds were asked about
	Invalid    int64 `json:"invalid"`    // of the source, which can never be recorded

	Missed   int64 `json:"missed"`
	Unlisted int64 `json:"unlisted"`
	Ending   int64 `json:"ending"`
	Extra    int64 `json:"extra"`
	Leaving  int64 `json:"leaving"` // in the ledger alone, and at their end within minutes: no difference

	// Clean candidates that were tried, and how many of them were dropped by chance.
	Clean          int64   `json:"clean"`
	FalsePositives int64   `json:"false_positives"`
	Rate           float64 `json:"false_positive_rate"`
	RateLow        float64 `json:"false_positive_rate_low"` // the true rate is in low to high, with 99 % confidence
	RateHigh       float64 `json:"false_positive_rate_high"`
}

// Differences is how many pairs are in one place alone.
func (c *Compared) Differences() int64 { return c.Missed + c.Unlisted + c.Ending + c.Extra }

// suspect is a pair that differed when it was looked at.
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

// group compares what one user has.
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
			return c.otherSide(ctx, g.Owner, members[rand.IntN(len(members))]) //nolint:gosec // any will do
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

// unmet looks at what the ledger alone has of an owner.
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

// listed is what the ledger has of an owner.
type listed struct {
	known bool // not of a target
	items map[string]item
}

type item struct {
	met  bool // in the source, too
	ends bool // soon
}

// invalid counts the members of an owner whose id is not valid.
func (c *Comparison) invalid(g Group) error {
	return g.Members(func(some []Member) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sum.Invalid += int64(len(some))
		return nil
	})
}

// valid returns what of members can be recorded.
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

// members asks for feeds with what an owner has.
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

// reported returns which pairs the feeds show for one owner. It asks for feeds of the owner. If
// owners are targets, it asks for feeds of the other side if there is one, or else for a feed of
// each.
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

// otherSide asks for a feed of the other one of a two-way pair.
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

// clean tries targets of others on a viewer, who has nothing to do with most of them.
func (c *Comparison) clean(ctx context.Context, viewer string, l *listed) error {
	if c.Source.Reversed() && !c.Kind.TwoWay {
		return nil // it may be a post, and has no feed
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

// others are remembered targets that a viewer does not have, each once.
func (c *Comparison) others(viewer string, l *listed) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	picked := make(map[string]bool)
	targets := make([]string, 0, c.Sample)
	for range c.Sample {
		if len(c.targets) == 0 {
			break
		}
		t := c.targets[rand.IntN(len(c.targets))] //nolint:gosec // any will do
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

// all looks for activities in the ledger of which the source knows nothing, not even the user.
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
			return fmt.Errorf("more than %d activities differ: is the import done?", maxSuspects)
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
