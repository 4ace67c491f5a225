package activity

import "sync/atomic"

// watermarks are what is known of the sequence of every page. What is read has to
// stand between required and committed.
type watermarks struct {
	// required is the highest sequence of a write that readers have to see: one that
	// was acknowledged, or that may have been. A page read below it has lost writes.
	required []atomic.Uint64
	// committed is the highest sequence that the ledger is known to have given out.
	// A page read above it is ahead of a ledger that was set back, unless the ledger
	// says otherwise.
	committed []atomic.Uint64
	// stood is the highest sequence at which the page was seen to stand in the store.
	stood []atomic.Uint64
}

func newWatermarks(pages uint32) watermarks {
	return watermarks{make([]atomic.Uint64, pages), make([]atomic.Uint64, pages), make([]atomic.Uint64, pages)}
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
