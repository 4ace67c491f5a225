package activity

import (
	"sync"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// watermark is what is known of the sequence of one page. What is read has to
// stand between required and committed.
type watermark struct {
	// required is the highest sequence of a write that readers have to see: one that
	// was acknowledged, or that may have been. A page read below it has lost writes.
	required atomic.Uint64
	// committed is the highest sequence that the ledger is known to have given out.
	// A page read above it is ahead of a ledger that was set back, unless the ledger
	// says otherwise.
	committed atomic.Uint64
	// stood is the highest sequence at which the page was seen to stand in the store.
	stood atomic.Uint64
	// moves is how often users are known to have moved out of the page or into it. A page read with fewer is of before.
	moves atomic.Uint32
	// large is the header that a page was met with which is too large to be read with each feed; nil for others.
	large atomic.Pointer[favfilter.Header]
}

// watermarks are those of every page.
type watermarks struct {
	homes  []watermark
	others sync.Map // *watermark by number: of pages that are no home pages
}

func newWatermarks(pages uint32) *watermarks {
	return &watermarks{homes: make([]watermark, pages)}
}

func (w *watermarks) of(page uint32) *watermark {
	if page < ledger.OwnPages {
		return &w.homes[page]
	}
	m, ok := w.others.Load(page)
	if !ok {
		m, _ = w.others.LoadOrStore(page, new(watermark))
	}
	mark, _ := m.(*watermark) // nothing else is put in
	return mark
}

// raiseMoves lifts mark to moves, if it is lower.
func raiseMoves(mark *atomic.Uint32, moves uint32) {
	for {
		old := mark.Load()
		if old >= moves || mark.CompareAndSwap(old, moves) {
			return
		}
	}
}

// raise lifts mark to sequence, if it is lower.
func raise(mark *atomic.Uint64, sequence uint64) {
	for {
		old := mark.Load()
		if old >= sequence || mark.CompareAndSwap(old, sequence) {
			return
		}
	}
}
