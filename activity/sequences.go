package activity

import (
	"sync"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// sequences holds what this process knows of the sequence of each page. The sequence of a page that
// is read must be between required and known. It is safe for concurrent use.
type sequences struct {
	homes  []sequence
	others sync.Map // *sequence by number: of pages that are no home pages
}

// sequence describes the sequence of one page. Its numbers only rise.
type sequence struct {
	// required is the lowest sequence that a reader may accept. A page with a lower one is stale:
	// it has lost a write that was or may have been acknowledged. A write of this process raises it
	// once its page is changed or has failed. A poll raises it to the ledger's sequence.
	required atomic.Uint64
	// known is the highest sequence that the ledger is known to have given out. A page with a
	// higher one is ahead of a ledger that was restored to an earlier state, unless the ledger says
	// otherwise.
	known atomic.Uint64
	// stood is the highest sequence that the page was seen to have in the store.
	stood atomic.Uint64
	// moves is how often users are known to have moved out of the page or into it. A page with a
	// lower count is stale.
	moves atomic.Uint32
}

func newSequences(pages uint32) *sequences {
	return &sequences{homes: make([]sequence, pages)}
}

func (s *sequences) of(page uint32) *sequence {
	if page < ledger.OwnPages {
		return &s.homes[page]
	}
	other, ok := s.others.Load(page)
	if !ok {
		other, _ = s.others.LoadOrStore(page, new(sequence))
	}
	one, _ := other.(*sequence) // no other type is stored
	return one
}

// learn notes the ledger's sequence of the page, and reports whether another process raised it.
// Readers must require it at once, even while a write of this process with that sequence is in
// flight. The client may have repeated that write at another process, which may have acknowledged
// it.
func (s *sequence) learn(at uint64) (others bool) {
	others = at > s.known.Load()
	s.giveOut(at)
	s.require(at)
	return others
}

// require makes readers refuse lower sequences.
func (s *sequence) require(at uint64) { raise(&s.required, at) }

// giveOut notes that the ledger has given out the sequence.
func (s *sequence) giveOut(at uint64) { raise(&s.known, at) }

// standAt notes that the page has, or had, the sequence in the store.
func (s *sequence) standAt(at uint64) { raise(&s.stood, at) }

// learnMoves notes the number of moves.
func (s *sequence) learnMoves(moves uint32) { raise(&s.moves, moves) }

// raise sets a number to at, if it is lower.
func raise[N uint32 | uint64](number interface {
	Load() N
	CompareAndSwap(from, to N) bool
}, at N,
) {
	for {
		old := number.Load()
		if old >= at || number.CompareAndSwap(old, at) {
			return
		}
	}
}
