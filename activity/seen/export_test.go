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
