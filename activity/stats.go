package activity

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// Stats holds the counts of a [Recorder] or [Plain] since it was opened, and some current values.
type Stats struct {
	pages.Stats

	Recorded map[string]uint64 `json:"recorded"` // activities that changed something, by kind

	// WindowEvicted counts activities that were forgotten before their window ended, because their
	// user had the most that a window keeps. WindowDamaged counts reads of damaged windows, which
	// count as empty. Both are by kind, and have each kind with a window.
	WindowEvicted map[string]uint64 `json:"window_evicted"`
	WindowDamaged map[string]uint64 `json:"window_damaged"`

	Confirmed      uint64 `json:"confirmed"`       // positives that the ledger was asked about
	FalsePositives uint64 `json:"false_positives"` // of these, the false ones
}

// tally holds the counts of Stats that are not those of the pages.
type tally struct {
	confirmed, falsePositives atomic.Uint64

	mu       sync.Mutex
	recorded map[string]uint64
}

// record counts the activities that changed something.
func (c *tally) record(activities []Activity, outcomes []Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recorded == nil {
		c.recorded = make(map[string]uint64)
	}
	for i, o := range outcomes {
		if o == Changed {
			c.recorded[activities[i].Kind]++
		}
	}
}

// Stats returns the current counts.
func (r *reader) Stats() Stats {
	evicted, damaged := make(map[string]uint64), make(map[string]uint64)
	for kind, windows := range r.windows {
		s := windows.Losses()
		evicted[kind], damaged[kind] = s.Evicted, s.Damaged
	}
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	return Stats{
		Stats:          r.source.Stats(),
		Recorded:       maps.Clone(r.tally.recorded),
		WindowEvicted:  evicted,
		WindowDamaged:  damaged,
		Confirmed:      r.tally.confirmed.Load(),
		FalsePositives: r.tally.falsePositives.Load(),
	}
}
