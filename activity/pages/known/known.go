// Package known holds what this process knows of a ledger that other processes change, too. That is
// the sequence of each page, on which page each user is, and whether the ledger answers.
//
// A process learns what others write by polls for pages that changed. If what it knows is older
// than the staleness bound, it polls or asks the ledger before it answers. So every process that
// can reach the ledger sees a write once the bound has passed since its commit, whatever happens to
// the pages in the store.
//
// # Order
//
// Reader and poll share no lock. A reader that takes a page without a user's keys for the user's
// shows what the user must not see. So the order in which a poll applies what it found matters:
//
//  1. The sequences that pages must have ([Sequence.Required]), while the answer comes in. A reader
//     that looks for a user on a page requires all that was known before it was told of the page.
//     For the same reason, the answer to a question teaches the sequence before the page.
//  2. The users on dedicated pages, and the layout ([Layout]). All who left a page are known before
//     the next rule says so.
//  3. The sequence with which a user last left each page. A reader takes a page for its user's if
//     the page in the store has the same one. It looks up the user's page, this sequence, and then
//     the page again. With the old page and the new sequence, it would trust a page that the user
//     has left.
//  4. The sequences of a layout that has left, which are forgotten one poll late: a reader may just
//     have looked up a page of it.
//  5. The time of the poll. Until then, the poll counts as not done: a reader that needs it waits.
package known

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
)

// Options configure a [Ledger].
type Options struct {
	// Bound is the staleness bound. 0: each reader polls.
	Bound time.Duration
	// Now is used in place of the ledger's clock; nil: not.
	Now func() time.Time
	Log *slog.Logger

	// Changed is called after each poll but the first, with the pages that other processes have
	// changed since the one before.
	Changed func(pages []uint32)
	// Recovered is called when the ledger can be read again, or better than before.
	Recovered func()
}

// Ledger is what this process knows of a ledger. It is safe for concurrent use.
type Ledger struct {
	options   Options
	life      *lifecycle.Lifecycle
	ledger    *ledger.Ledger
	sequences *Sequences
	layout    *Layout

	poller    *poller
	available *availability
	clock     *clock
	steps     steps
}

// New returns a Ledger that knows nothing yet: see [Ledger.FirstPoll].
func New(life *lifecycle.Lifecycle, l *ledger.Ledger, o Options) *Ledger {
	pages := l.Identity().Pages
	o.Bound = max(0, o.Bound)
	k := &Ledger{
		options:   o,
		life:      life,
		ledger:    l,
		sequences: newSequences(pages),
		layout:    newLayout(pages),
		clock:     &clock{},
		available: &availability{life: life, ledger: l, log: o.Log, recovered: o.Recovered},
	}
	k.poller = &poller{
		life:      life,
		ledger:    l,
		sequences: k.sequences,
		layout:    k.layout,
		available: k.available,
		clock:     k.clock,
		bound:     o.Bound,
		changed:   o.Changed,
	}
	return k
}

// Sequences returns what is known of the pages' sequences.
func (k *Ledger) Sequences() *Sequences { return k.sequences }

// Layout returns what is known of the users' pages.
func (k *Ledger) Layout() *Layout { return k.layout }

// Access returns how the ledger can be read.
func (k *Ledger) Access() Access { return k.available.now() }

// Bound returns the staleness bound.
func (k *Ledger) Bound() time.Duration { return k.options.Bound }

// Now returns the time by the ledger's clock, or by that of the [Options].
func (k *Ledger) Now() time.Time {
	if k.options.Now != nil {
		return k.options.Now()
	}
	return k.clock.now()
}

// Bounds returns the bounds between which the ledger's clock is now.
func (k *Ledger) Bounds() (earliest, latest time.Time) {
	if k.options.Now != nil {
		now := k.options.Now()
		return now, now
	}
	return k.clock.bounds()
}

// Sources returns the ledger's sources at the last successful poll, in order of name; nil before
// it.
func (k *Ledger) Sources() []ledger.Source {
	if known := k.poller.polls.sources.Load(); known != nil {
		return slices.Clone(*known)
	}
	return nil
}

// Agreed returns an error if another process has other settings. With a longer staleness bound, it
// may lack a write that this process acknowledges late.
func (k *Ledger) Agreed() error {
	if differ := k.poller.polls.differ.Load(); differ != nil {
		return Unavailable("ledger", *differ)
	}
	return nil
}

// Above reports whether the sequence is above what the ledger is known to have. [Ledger.Ahead] then
// asks the ledger.
func (k *Ledger) Above(page uint32, sequence uint64) bool {
	return sequence > k.sequences.Of(page).Known.Load()
}

// steps tells those who wait for a source when this process records changes of one.
type steps struct {
	mu   sync.Mutex
	next chan struct{} // closed with the next step; nil: nobody waits for it
}

// wait returns a channel that is closed with the next step.
func (s *steps) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

func (s *steps) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
