package known

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Sequences holds what this process knows of the sequence of each page. The sequence of a page that
// is read must be between Required and Known. It is safe for concurrent use.
type Sequences struct {
	id ledger.Identity // only Pages is used
	// shared has the pages of each layout, by the logarithm of their number; nil until one is asked
	// for.
	shared    [bits.UintSize]atomic.Pointer[[]Sequence]
	dedicated sync.Map // *Sequence by number
}

// Sequence describes the sequence of one page. Its numbers only rise.
type Sequence struct {
	// Required is the lowest sequence that a reader may accept. A page with a lower one is stale:
	// it has lost a write that was or may have been acknowledged. A write of this process raises it
	// once its page is changed, see [Sequence.Fail] for one that fails, and [Sequence.Receive] for
	// one that changes nothing. A poll raises it to the ledger's sequence.
	Required Rising
	// Known is the highest sequence that the ledger is known to have had. A page with a
	// higher one is ahead of a ledger that was restored to an earlier state, unless the ledger says
	// otherwise.
	Known Rising
	// Stored is the highest sequence that the page was seen to have in the store.
	Stored Rising
	// failed is the lowest sequence of the writes of this process that failed on the page, unless the
	// page has been seen with it since, or it is required.
	failed atomic.Uint64
	// left is the sequence with which a user last left the page, as the last poll found it. The
	// process knows all users who left up to then. If the page has another value, its reader polls.
	left Rising
}

func newSequences(pages uint32) *Sequences {
	return &Sequences{id: ledger.Identity{Pages: pages}}
}

// Of returns the sequence of a page, whatever its layout.
func (s *Sequences) Of(page uint32) *Sequence {
	pages := s.id.LayoutOf(page)
	if page >= ledger.DedicatedPages || pages == 0 {
		return s.ofDedicated(page)
	}
	shared := &s.shared[bits.TrailingZeros32(pages)]
	all := shared.Load()
	for all == nil {
		made := make([]Sequence, pages)
		shared.CompareAndSwap(nil, &made)
		all = shared.Load()
	}
	return &(*all)[page-s.id.PageIn(pages, 0)]
}

func (s *Sequences) ofDedicated(page uint32) *Sequence {
	other, ok := s.dedicated.Load(page)
	if !ok {
		other, _ = s.dedicated.LoadOrStore(page, new(Sequence))
	}
	one, _ := other.(*Sequence) // no other type is stored
	return one
}

// forget frees the memory for layouts with fewer pages, which have left.
func (s *Sequences) forget(pages uint32) {
	for i := range bits.TrailingZeros32(pages) {
		if s.shared[i].Load() != nil {
			s.shared[i].Store(nil)
		}
	}
}

// ForgetReleased frees the memory for dedicated pages that their users have left, and returns their
// numbers. known reports whether the page may still be looked for.
func (s *Sequences) ForgetReleased(known func(page uint32) bool) (pages []uint32) {
	s.dedicated.Range(func(key, value any) bool {
		page, _ := key.(uint32)
		one, _ := value.(*Sequence)
		if one.left.Load() > 0 && !known(page) {
			s.dedicated.Delete(page)
			pages = append(pages, page)
		}
		return true
	})
	return pages
}

// Learn notes the ledger's sequence of the page, and reports whether another process raised it.
// Readers must require it at once, even while a write of this process with that sequence is in
// flight. The client may have repeated that write at another process, which may have acknowledged
// it.
func (s *Sequence) Learn(at uint64) (others bool) {
	others = at > s.Known.Load()
	s.Known.Raise(at)
	s.Required.Raise(at)
	return others
}

// Receive notes the sequence of a page in the receipt of a transaction of this process. If the
// transaction did not change the page, and the sequence was not known, another process made it and
// may have acknowledged it. So readers must require it, as with [Sequence.Learn].
func (s *Sequence) Receive(at uint64, changed bool) {
	if !changed && at > s.Known.Load() {
		s.Required.Raise(at)
	}
	s.Known.Raise(at)
}

// Fail notes that a write of this process did not reach the page. Nobody has been told of it, and
// nobody will be before a poll requires it. So while the ledger cannot be read, readers may do
// without it. What came before it may have been acknowledged, unless it failed, too.
func (s *Sequence) Fail(at uint64) {
	for {
		lowest := s.failed.Load()
		if lowest > max(s.Stored.Load(), s.Required.Load()) && lowest < at {
			at = lowest
		}
		if s.failed.CompareAndSwap(lowest, at) {
			break
		}
	}
	s.Required.Raise(at - 1)
}

// Rising is a number that only rises. It is safe for concurrent use.
type Rising struct{ at atomic.Uint64 }

// Load returns the number.
func (r *Rising) Load() uint64 { return r.at.Load() }

// Raise sets the number to at, if it is lower.
func (r *Rising) Raise(at uint64) {
	for {
		old := r.at.Load()
		if old >= at || r.at.CompareAndSwap(old, at) {
			return
		}
	}
}
