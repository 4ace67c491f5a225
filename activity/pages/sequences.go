package pages

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// sequences holds what this process knows of the sequence of each page. The sequence of a page that
// is read must be between required and known. It is safe for concurrent use.
type sequences struct {
	id ledger.Identity // only Pages is used
	// shared has the pages of each layout, by the logarithm of their number; nil until one is asked
	// for.
	shared    [bits.UintSize]atomic.Pointer[[]sequence]
	dedicated sync.Map // *sequence by number
}

// sequence describes the sequence of one page. Its numbers only rise.
type sequence struct {
	// required is the lowest sequence that a reader may accept. A page with a lower one is stale:
	// it has lost a write that was or may have been acknowledged. A write of this process raises it
	// once its page is changed or has failed. A poll raises it to the ledger's sequence.
	required rising
	// known is the highest sequence that the ledger is known to have had. A page with a
	// higher one is ahead of a ledger that was restored to an earlier state, unless the ledger says
	// otherwise.
	known rising
	// stored is the highest sequence that the page was seen to have in the store.
	stored rising
	// left is the sequence with which a user last left the page, as the last poll found it. The
	// process knows all users who left up to then. If the page has another value, its reader polls.
	left rising
}

func newSequences(pages uint32) *sequences {
	return &sequences{id: ledger.Identity{Pages: pages}}
}

func (s *sequences) of(page uint32) *sequence {
	pages := s.id.LayoutOf(page)
	if page >= ledger.DedicatedPages || pages == 0 {
		return s.ofDedicated(page)
	}
	shared := &s.shared[bits.TrailingZeros32(pages)]
	all := shared.Load()
	for all == nil {
		made := make([]sequence, pages)
		shared.CompareAndSwap(nil, &made)
		all = shared.Load()
	}
	return &(*all)[page-s.id.PageIn(pages, 0)]
}

func (s *sequences) ofDedicated(page uint32) *sequence {
	other, ok := s.dedicated.Load(page)
	if !ok {
		other, _ = s.dedicated.LoadOrStore(page, new(sequence))
	}
	one, _ := other.(*sequence) // no other type is stored
	return one
}

// forget frees the memory for layouts with fewer pages, which have left.
func (s *sequences) forget(pages uint32) {
	for i := range bits.TrailingZeros32(pages) {
		if s.shared[i].Load() != nil {
			s.shared[i].Store(nil)
		}
	}
}

// forgetReleased frees the memory for dedicated pages that their users have left, and returns their
// numbers. known reports whether the page may still be looked for.
func (s *sequences) forgetReleased(known func(page uint32) bool) (pages []uint32) {
	s.dedicated.Range(func(key, value any) bool {
		page, _ := key.(uint32)
		one, _ := value.(*sequence)
		if one.left.Load() > 0 && !known(page) {
			s.dedicated.Delete(page)
			pages = append(pages, page)
		}
		return true
	})
	return pages
}

// learn notes the ledger's sequence of the page, and reports whether another process raised it.
// Readers must require it at once, even while a write of this process with that sequence is in
// flight. The client may have repeated that write at another process, which may have acknowledged
// it.
func (s *sequence) learn(at uint64) (others bool) {
	others = at > s.known.Load()
	s.known.raise(at)
	s.required.raise(at)
	return others
}

// rising is a number that only rises.
type rising struct{ atomic.Uint64 }

// raise sets the number to at, if it is lower.
func (r *rising) raise(at uint64) {
	for {
		old := r.Load()
		if old >= at || r.CompareAndSwap(old, at) {
			return
		}
	}
}
