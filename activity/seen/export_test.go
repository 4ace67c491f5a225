package seen

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Writing is what [Windows.Write] adds.
type Writing struct {
	Keys []favfilter.Hash
	At   []time.Time
	Now  time.Time
	Read *Window // nil: Write reads
}

// Recorded is the result of [Windows.Write].
type Recorded struct {
	Fresh   []bool
	Evicted int
}

// Write adds keys to the window under id.
func (ws *Windows) Write(ctx context.Context, id favfilter.PageID, w Writing) (Recorded, error) {
	before := ws.Stats().Evicted
	fresh, err := ws.write(ctx, id, writing{keys: w.Keys, at: w.At, now: w.Now, read: w.Read})
	return Recorded{fresh, int(ws.Stats().Evicted - before)}, err
}

// AppendRice appends the codes of a run, for the representations that windows are compared with.
func AppendRice(dst []byte, numbers []uint64, k uint8) []byte { return appendRice(dst, numbers, k) }

// DecodeRice decodes what AppendRice appended.
func DecodeRice(numbers []uint64, data []byte, width, k uint8) bool {
	return decodeRice(numbers, data, width, k)
}

// RiceParameter returns the best parameter of the codes.
func RiceParameter(width uint8, count int) uint8 { return riceParameter(width, count) }
