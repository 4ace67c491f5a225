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
	entries := make([]entry, len(w.Keys))
	for i, key := range w.Keys {
		entries[i] = entry{key: key, index: i}
		if i < len(w.At) {
			entries[i].since = w.At[i]
		}
	}
	fresh, err := ws.write(ctx, id, entries, w.Now, w.Read)
	recorded := Recorded{make([]bool, len(entries)), int(ws.Stats().Evicted - before)}
	for _, i := range fresh {
		recorded.Fresh[i] = true
	}
	return recorded, err
}
