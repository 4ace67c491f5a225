package pages

import (
	"maps"
	"sync"
	"sync/atomic"
)

// counters holds the counts of Stats.
type counters struct {
	scrubbed, scrubRounds, verified, alarms atomic.Uint64
	fromStore, fromLedger, fromHeld         atomic.Uint64
	fromReplica, pastReplica                atomic.Uint64
	withoutPage, ended                      atomic.Uint64

	survey   atomic.Pointer[Survey] // of the last round of the scrub; nil without a ledger
	roundEnd atomic.Int64           // when that round ended, as elapsed; 0: none has
	scrubAt  atomic.Uint32

	mu     sync.Mutex
	faults map[string]uint64
}

// load returns the load of the last complete round of the scrub; zero before its end. shared is the
// number of shared pages now: a reshape since then has spread the same keys over more.
func (c *counters) load(shared int) load {
	s := c.survey.Load()
	if !s.Whole || s.load.pages == 0 {
		return load{}
	}
	return load{pages: s.load.pages * shared / s.load.shared, shared: shared, keys: s.load.keys}
}

// found counts a page at fault.
func (c *counters) found(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults == nil {
		c.faults = make(map[string]uint64)
	}
	c.faults[reason]++
}

// count counts a view from a source, or from the ledger if the store failed.
func (c *counters) count(source *atomic.Uint64, err error) {
	if err != nil {
		source = &c.fromLedger
	}
	source.Add(1)
}

// counts returns the current counts.
func (c *counters) counts() Stats {
	s := Stats{
		Scrubbed:    c.scrubbed.Load(),
		ScrubRounds: c.scrubRounds.Load(),
		Verified:    c.verified.Load(),
		Alarms:      c.alarms.Load(),
		FromStore:   c.fromStore.Load(),
		FromLedger:  c.fromLedger.Load(),
		FromReplica: c.fromReplica.Load(),
		PastReplica: c.pastReplica.Load(),
		FromHeld:    c.fromHeld.Load(),
		WithoutPage: c.withoutPage.Load(),
		Ended:       c.ended.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Found = maps.Clone(c.faults)
	return s
}
