package pages

import (
	"time"

	"github.com/feedfilter/feedfilter/activity/pages/known"
)

// Stats holds the counts of [Pages] or [Alone] since they were opened, and some current values.
type Stats struct {
	Rebuilds map[string]uint64 `json:"rebuilds"` // rebuilt pages, by reason

	Scrubbed    uint64 `json:"scrubbed"`     // headers compared with the ledger
	ScrubRounds uint64 `json:"scrub_rounds"` // complete rounds: every page was compared
	// ScrubAge is the time since the end of the last complete round, or since Open.
	ScrubAge   time.Duration     `json:"scrub_age_ns"`
	ScrubRate  int               `json:"scrub_rate"`  // configured pages a second
	ScrubAt    uint32            `json:"scrub_at"`    // next page of the current round
	ScrubPages uint32            `json:"scrub_pages"` // number of pages in a round
	Found      map[string]uint64 `json:"found"`       // pages found at fault, by reason
	Verified   uint64            `json:"verified"`    // pages compared with the ledger key by key
	Alarms     uint64            `json:"alarms"`      // scrubs that sped up: many pages were lost

	Polls       uint64        `json:"polls"`
	PollsFailed uint64        `json:"polls_failed"`
	PollAge     time.Duration `json:"poll_age_ns"` // since the start of the last successful poll

	FromStore uint64 `json:"views_from_store"` // views read from the store
	// FromLedger counts views that were answered without the store, or for which a page was rebuilt.
	FromLedger  uint64 `json:"views_from_ledger"`
	FromReplica uint64 `json:"views_from_replica"` // views read from a replica
	PastReplica uint64 `json:"views_past_replica"` // after a replica failed or was stale
	FromHeld    uint64 `json:"views_from_held"`    // views of a held page, while the store answered
	HeldBytes   int    `json:"held_bytes"`         // memory of held pages

	SharedPages int     `json:"shared_pages"`  // pages that users share
	KeysPerPage float64 `json:"keys_per_page"` // their mean number of keys, by the last scrub round
	ReshapeDue  uint32  `json:"reshape_due"`   // number of shared pages that are due; 0: enough
	Reshaping   bool    `json:"reshaping"`     // a growth runs in the background of this process

	DedicatedPages int `json:"dedicated_pages"` // users with a dedicated page

	// WithoutPage counts writes that were acknowledged by the ledger and the staleness bound alone.
	WithoutPage uint64 `json:"writes_without_page"`
	Ended       uint64 `json:"ended"` // activities removed because they had ended
	Waiting     int64  `json:"writes_waiting"`
	Rebuilding  int    `json:"rebuilding"` // pages in rebuild or waiting for it

	PagesDown  bool `json:"pages_down"`  // the store did not answer the last call
	LedgerDown bool `json:"ledger_down"` // the last poll failed
}

// TakePollAge returns the largest PollAge since the previous call.
func (p *Pages) TakePollAge() time.Duration {
	return p.known.TakePeakAge()
}

// Stats returns the current counts.
func (p *Pages) Stats() Stats {
	s := p.storage.stats.counts()
	s.Waiting = p.committer.waiting.Load()
	s.PagesDown = p.storage.storeDown.Load()
	s.LedgerDown = p.known.Access() == known.Unreachable
	s.Polls, s.PollsFailed = p.known.Polls()
	s.PollAge = p.known.Age()
	s.ScrubAge = time.Duration(p.life.Elapsed() - p.storage.stats.roundEnd.Load())
	s.ScrubRate = int(p.scrubber.rate.Load())
	pages := p.layout.Pages()
	s.ScrubAt, s.ScrubPages = p.storage.stats.scrubAt.Load(), uint32(pages.Len())
	s.SharedPages, s.DedicatedPages = pages.Shared, len(pages.Dedicated)
	if l := p.storage.stats.load(pages.Shared); l.pages > 0 {
		s.KeysPerPage, s.ReshapeDue = float64(l.keys)/float64(l.pages), l.due()
	}
	_, s.HeldBytes = p.rebuilder.held.pages.Size()
	s.Rebuilds, s.Rebuilding = p.rebuilder.rebuilds.counts()
	target, _ := p.grower.state()
	s.Reshaping = target > 0
	return s
}
