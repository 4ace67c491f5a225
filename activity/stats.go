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
	Found       map[string]uint64 `json:"found"`        // pages that scrubs and polls found amiss, by what
	Verified    uint64            `json:"verified"`     // pages whose keys were compared with the ledger
	Alarms      uint64            `json:"alarms"`       // times that the store may have lost writes

	Polls       uint64        `json:"polls"`
	PollsFailed uint64        `json:"polls_failed"`
	PollAge     time.Duration `json:"poll_age_ns"` // since the last one that succeeded began

	FromLedger uint64 `json:"views_from_ledger"` // views answered without the store
	FromImage  uint64 `json:"views_from_image"`  // those of them that needed not read the ledger either
	ImageBytes int    `json:"image_bytes"`       // held for that

	WithoutPage uint64 `json:"writes_without_page"` // acknowledged by the ledger and the staleness bound alone
	Ended       uint64 `json:"ended"`               // activities removed because their time was over
	Waiting     int64  `json:"writes_waiting"`
}

// counters are behind Stats.
type counters struct {
	scrubbed, scrubRounds, verified, alarms atomic.Uint64
	polls, pollsFailed                      atomic.Uint64
	fromLedger, fromImage                   atomic.Uint64
	withoutPage, ended                      atomic.Uint64

	mu    sync.Mutex
	amiss map[string]uint64
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

// Stats returns the counts as they stand.
func (r *Recorder) Stats() Stats {
	c := &r.stats
	s := Stats{
		Scrubbed:    c.scrubbed.Load(),
		ScrubRounds: c.scrubRounds.Load(),
		Verified:    c.verified.Load(),
		Alarms:      c.alarms.Load(),
		Polls:       c.polls.Load(),
		PollsFailed: c.pollsFailed.Load(),
		PollAge:     time.Duration(r.elapsed() - r.follow.start.Load()),
		FromLedger:  c.fromLedger.Load(),
		FromImage:   c.fromImage.Load(),
		WithoutPage: c.withoutPage.Load(),
		Ended:       c.ended.Load(),
		Waiting:     r.waiting.Load(),
	}
	r.images.mu.Lock()
	s.ImageBytes = r.images.bytes
	r.images.mu.Unlock()
	c.mu.Lock()
	s.Found = maps.Clone(c.amiss)
	c.mu.Unlock()
	r.rebuilds.mu.Lock()
	s.Rebuilds = maps.Clone(r.rebuilds.reasons)
	r.rebuilds.mu.Unlock()
	return s
}
