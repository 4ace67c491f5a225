package migrate

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// firstLook is the first wait before suspects are checked again.
const firstLook = 50 * time.Millisecond

// lookAgain checks suspects again until source and service agree about all, or the time to settle
// is over.
func (c *Comparison) lookAgain(ctx context.Context) error {
	begun, wait := time.Now(), firstLook
	for len(c.suspects) > 0 {
		// The source is read first: whatever it has by then, the service must have.
		pairs := slices.SortedFunc(maps.Keys(c.suspects), Pair.compare)
		has, err := c.Source.Has(ctx, pairs)
		if err != nil {
			return err
		}
		for i, p := range pairs {
			there := !c.suspects[p].extra // the answer for a source that is read only once
			if has != nil {
				there = has[i]
			}
			s, err := c.look(ctx, p, there)
			if err != nil {
				return err
			}
			if *c.suspects[p] = s; s == (suspect{}) {
				delete(c.suspects, p)
			}
		}
		left := c.Settle - time.Since(begun)
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(min(wait, left)):
			wait *= 2
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// look compares one pair. has reports whether the source has it.
func (c *Comparison) look(ctx context.Context, p Pair, has bool) (suspect, error) {
	present, err := c.Service.Present(ctx, c.Kind, p)
	var until time.Time
	if err == nil && present {
		until, err = c.Service.Ends(ctx, c.Kind, p)
	}
	if err != nil || !has {
		return suspect{extra: present && !endsSoon(until)}, err
	}
	s := suspect{unlisted: !present, ending: endsSoon(until)}
	reported, err := c.Service.Reported(ctx, c.Kind, p.User, []string{p.Target}, false)
	if err != nil {
		return s, err
	}
	s.missed = !reported[0]
	if c.Kind.TwoWay && !s.missed {
		reported, err = c.Service.Reported(ctx, c.Kind, p.Target, []string{p.User}, false)
		s.missed = err == nil && !reported[0]
	}
	return s, err
}

// report counts and reports the remaining differences.
func (c *Comparison) report() {
	for _, p := range slices.SortedFunc(maps.Keys(c.suspects), Pair.compare) {
		switch s := c.suspects[p]; {
		case s.missed:
			c.sum.Missed++
			c.Found(Difference{p, Missed})
		case s.unlisted:
			c.sum.Unlisted++
			c.Found(Difference{p, Unlisted})
		case s.ending:
			c.sum.Ending++
			c.Found(Difference{p, Ending})
		default:
			c.sum.Extra++
			c.Found(Difference{p, Extra})
		}
	}
}

func (p Pair) compare(q Pair) int {
	if byUser := strings.Compare(p.User, q.User); byUser != 0 {
		return byUser
	}
	return strings.Compare(p.Target, q.Target)
}

// rate computes the false-positive rate and its Wilson interval at 99 % (E. B. Wilson, Probable
// inference, the law of succession, and statistical inference, 1927).
func (c *Compared) rate() {
	if c.Clean == 0 {
		c.RateHigh = 1
		return
	}
	const z = 2.5758
	n, p := float64(c.Clean), float64(c.FalsePositives)/float64(c.Clean)
	middle := p + z*z/(2*n)
	half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	c.Rate = p
	c.RateLow = max(0, (middle-half)/(1+z*z/n))
	c.RateHigh = min(1, (middle+half)/(1+z*z/n))
}
