package activity

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Stats is what a [Recorder] counted since it was opened.
type Stats struct {
	Rebuilds map[string]uint64 `json:"rebuilds"` // pages made anew, by what was wrong with them

	Scrubbed    uint64            `json:"scrubbed"`     // headers compared with the ledger
	ScrubRounds uint64            `json:"scrub_rounds"` // times that every page was, without one that could not be
	ScrubAge    time.Duration     `json:"scrub_age_ns"` // since the last of these ended, or since the Recorder was opened
	ScrubRate   int               `json:"scrub_rate"`   // pages a second that there should be
	ScrubAt     uint32            `json:"scrub_at"`     // where in its round the scrub is: a page
	ScrubPages  uint32            `json:"scrub_pages"`  // of how many
	Found       map[string]uint64 `json:"found"`        // pages that scrubs and polls found amiss, by what
	Verified    uint64            `json:"verified"`     // pages whose keys were compared with the ledger
	Alarms      uint64            `json:"alarms"`       // times that the store may have lost writes

	Polls       uint64        `json:"polls"`
	PollsFailed uint64        `json:"polls_failed"`
	PollAge     time.Duration `json:"poll_age_ns"` // since the last one that succeeded began

	FromStore   uint64 `json:"views_from_store"`   // views read from the store
	FromLedger  uint64 `json:"views_from_ledger"`  // views answered without the store
	FromImage   uint64 `json:"views_from_image"`   // those of them that needed not read the ledger either
	FromReplica uint64 `json:"views_from_replica"` // views read from a replica
	PastReplica uint64 `json:"views_past_replica"` // views read from the store after a replica failed or was behind
	ImageBytes  int    `json:"image_bytes"`        // held for that

	Recorded map[string]uint64 `json:"recorded"` // activities that changed something, by kind

	CacheHits   uint64 `json:"views_from_cache"` // views that needed not read the store
	CacheMisses uint64 `json:"views_past_cache"` // views that had to, with a cache
	CacheBytes  int    `json:"page_cache_bytes"` // held for that

	SharedPages int     `json:"shared_pages"`  // pages that users share
	KeysPerPage float64 `json:"keys_per_page"` // of these on average, as the last round of the scrub found them
	ReshapeDue  uint32  `json:"reshape_due"`   // how many there should be, as they have too many keys; 0: it is well
	Reshaping   bool    `json:"reshaping"`     // in the background of this Recorder

	OwnPages int    `json:"own_pages"`    // users who have a page of their own
	Probed   uint64 `json:"views_probed"` // views of pages too large to be read

	Confirmed      uint64 `json:"confirmed"`       // positives that the ledger was asked about
	FalsePositives uint64 `json:"false_positives"` // those of them that were false

	WithoutPage uint64 `json:"writes_without_page"` // acknowledged by the ledger and the staleness bound alone
	Ended       uint64 `json:"ended"`               // activities removed because their time was over
	Waiting     int64  `json:"writes_waiting"`
	Rebuilding  int    `json:"rebuilding"` // pages being made anew, or waiting for that

	PagesDown  bool `json:"pages_down"`  // the store did not answer when it was last asked
	LedgerDown bool `json:"ledger_down"` // the last poll failed
}

// counters are behind Stats.
type counters struct {
	scrubbed, scrubRounds, verified, alarms atomic.Uint64
	polls, pollsFailed                      atomic.Uint64
	fromStore, fromLedger, fromImage        atomic.Uint64
	fromReplica, pastReplica, probed        atomic.Uint64
	withoutPage, ended                      atomic.Uint64
	confirmed, falsePositives               atomic.Uint64

	load     atomic.Pointer[load] // of the last whole round of the scrub
	roundEnd atomic.Int64         // when that ended, as elapsed; 0: none has
	scrubAt  atomic.Uint32

	mu       sync.Mutex
	amiss    map[string]uint64
	recorded map[string]uint64
}

// record counts what changed something.
func (c *counters) record(activities []Activity, outcomes []Outcome) {
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

// found counts a page that is amiss.
func (c *counters) found(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.amiss == nil {
		c.amiss = make(map[string]uint64)
	}
	c.amiss[reason]++
}

// counts are the counters as they stand.
func (c *counters) counts() Stats {
	s := Stats{
		Scrubbed:    c.scrubbed.Load(),
		ScrubRounds: c.scrubRounds.Load(),
		Verified:    c.verified.Load(),
		Alarms:      c.alarms.Load(),
		Polls:       c.polls.Load(),
		PollsFailed: c.pollsFailed.Load(),

		FromStore:      c.fromStore.Load(),
		FromLedger:     c.fromLedger.Load(),
		FromImage:      c.fromImage.Load(),
		FromReplica:    c.fromReplica.Load(),
		PastReplica:    c.pastReplica.Load(),
		Probed:         c.probed.Load(),
		Confirmed:      c.confirmed.Load(),
		FalsePositives: c.falsePositives.Load(),
		WithoutPage:    c.withoutPage.Load(),
		Ended:          c.ended.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Found = maps.Clone(c.amiss)
	s.Recorded = maps.Clone(c.recorded)
	return s
}

// Stats returns the counts as they stand.
func (r *Recorder) Stats() Stats {
	s := r.stats.counts()
	s.Waiting = r.waiting.Load()
	s.PagesDown = r.storeDown.Load()
	s.LedgerDown = access(r.follow.access.Load()) == unreachable
	s.PollAge = time.Duration(r.elapsed() - r.follow.start.Load())
	s.ScrubAge = time.Duration(r.elapsed() - r.stats.roundEnd.Load())
	if r.scrubPace != nil {
		s.ScrubRate = int(r.scrubPace.rate.Load())
	}
	r.sizes(&s)
	return s
}

// sizes fills in how many pages there are, what is held of them, and which are under way.
func (r *Recorder) sizes(s *Stats) {
	pages := r.placements.census()
	s.ScrubAt, s.ScrubPages = r.stats.scrubAt.Load(), r.identity.Pages+uint32(pages.len())
	s.SharedPages, s.OwnPages = pages.homes+len(pages.shared), len(pages.own)
	if l := r.stats.load.Load(); l != nil && l.pages > 0 {
		s.KeysPerPage, s.ReshapeDue = float64(l.keys)/float64(l.pages), l.due()
	}
	_, s.ImageBytes = r.images.Size()
	if r.cache != nil {
		s.CacheHits, s.CacheMisses = r.cache.hits.Load(), r.cache.misses.Load()
		_, s.CacheBytes = r.cache.held.Size()
	}
	r.rebuilds.mu.Lock()
	s.Rebuilds = maps.Clone(r.rebuilds.reasons)
	s.Rebuilding = len(r.rebuilds.flights)
	r.rebuilds.mu.Unlock()
	r.reshaping.mu.Lock()
	s.Reshaping = r.reshaping.now != nil
	r.reshaping.mu.Unlock()
}
