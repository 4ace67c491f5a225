package activity

import (
	"sync"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// sequences holds what this process knows of the sequence of each page. A page that is read must
// stand between required and known. Safe for concurrent use.
type sequences struct {
	homes  []sequence
	others sync.Map // *sequence by number: of pages that are no home pages
}

// sequence is that of one page. Its numbers only rise.
type sequence struct {
	// required is the lowest sequence that a reader may accept. A page read below it is stale: it has
	// lost a write that was acknowledged, or may have been. A write of this process raises it when its
	// page stands or has failed. A poll raises it to whatever the ledger has.
	required atomic.Uint64
	// known is the highest sequence that the ledger is known to have given out. A page read above it
	// is ahead of a ledger that was set back, unless the ledger says otherwise.
	known atomic.Uint64
	// stood is the highest sequence at which the page was seen to stand in the store.
	stood atomic.Uint64
	// moves is how often users are known to have moved out of the page or into it. A page read with
	// fewer is stale.
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
	one, _ := other.(*sequence) // nothing else is put in
	return one
}

// learn notes that the ledger has the page at the sequence, and reports whether another process has
// taken it there. Readers have to see it, even while a write of this process is in flight to that
// sequence: the client may have repeated the write at another process, which may have acknowledged it.
func (s *sequence) learn(at uint64) (others bool) {
	others = at > s.known.Load()
	s.giveOut(at)
	s.require(at)
	return others
}

// require has readers accept nothing below the sequence.
func (s *sequence) require(at uint64) { raise(&s.required, at) }

// giveOut notes that the ledger has given out the sequence.
func (s *sequence) giveOut(at uint64) { raise(&s.known, at) }

// standAt notes that the page stands at the sequence in the store, or stood there.
func (s *sequence) standAt(at uint64) { raise(&s.stood, at) }

// learnMoves notes that users moved so often.
func (s *sequence) learnMoves(moves uint32) { raise(&s.moves, moves) }

// raise lifts a number to at, if it is lower.
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
