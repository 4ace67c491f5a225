package activity

import "sync/atomic"

// watermarks hold, for every page, two sequence numbers between which what is read
// may stand.
type watermarks struct {
	// required is where the page stood at some acknowledged moment, or must stand
	// by what the ledger said. A page read below it has lost writes.
	required []atomic.Uint64
	// committed is the highest sequence that the ledger is known to have given out. A page read above it
	// was written by another instance, or is ahead of a ledger that was set back.
	committed []atomic.Uint64
}

func newWatermarks(pages uint32) watermarks {
	return watermarks{make([]atomic.Uint64, pages), make([]atomic.Uint64, pages)}
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
