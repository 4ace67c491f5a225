package operations

import (
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

// counters are counters by name. The map does not change later.
type counters map[string]*atomic.Uint64

func (c counters) read() map[string]uint64 {
	counts := make(map[string]uint64, len(c))
	for name, n := range c {
		counts[name] = n.Load()
	}
	return counts
}

// FeedCounts holds the counters of [metrics.Feeds].
type FeedCounts struct {
	Unsure atomic.Uint64 // feeds with a kind that could not be checked

	answered, kept    atomic.Uint64
	dropped, degraded counters
}

// newFeedCounts returns counters at 0.
func newFeedCounts(kinds *activity.Kinds) *FeedCounts {
	c := &FeedCounts{dropped: make(counters), degraded: make(counters)}
	for _, k := range kinds.All() {
		if k.Effect == activity.Drop {
			c.dropped[k.Name] = new(atomic.Uint64)
		}
		c.degraded[k.Name] = new(atomic.Uint64)
	}
	return c
}

func (c *FeedCounts) count(a feed.Answer) {
	c.answered.Add(1)
	c.kept.Add(uint64(len(a.Kept)))
	for _, d := range a.Dropped {
		if n := c.dropped[d.Kind]; n != nil { // a feed drops a repeated post under a kind that annotates
			n.Add(1)
		}
	}
	if len(a.Degraded) > 0 {
		c.Unsure.Add(1)
	}
	for _, d := range a.Degraded {
		c.degraded[d.Kind].Add(1)
	}
}

// Stats returns the counts.
func (c *FeedCounts) Stats() metrics.Feeds {
	return metrics.Feeds{Answered: c.answered.Load(), Kept: c.kept.Load(), Dropped: c.dropped.read(), Degraded: c.degraded.read()}
}
