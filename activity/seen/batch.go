package seen

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/favfilter"
)

// writers is the number of windows that one call of [Batch.Write] writes at once.
const writers = 16

// Batch holds keys to be added to any number of windows. The zero value is empty.
type Batch struct {
	writes map[owned]*batchWrite
}

// owned names a window.
type owned struct {
	windows *Windows
	owner   uint64
}

// batchWrite holds the keys of one window.
type batchWrite struct {
	keys    []favfilter.Hash
	times   []time.Time
	indexes []int
}

// Add adds a key to the batch, for the window of the owner with the given hash, see [Windows.ID].
// The key counts as added at since; the zero time: when the batch is written. [Batch.Write] returns
// index if the key is new.
func (b *Batch) Add(windows *Windows, owner uint64, key favfilter.Hash, since time.Time, index int) {
	if b.writes == nil {
		b.writes = make(map[owned]*batchWrite)
	}
	of := owned{windows, owner}
	w := b.writes[of]
	if w == nil {
		w = &batchWrite{}
		b.writes[of] = w
	}
	w.keys = append(w.keys, key)
	w.times = append(w.times, since)
	w.indexes = append(w.indexes, index)
}

// Write adds the keys of b to their windows, at the time now. It returns the index of each key that
// was new to its part of the window, in no order. At the false-positive rate, a new key's is
// missing. Errors are those of a store or of ctx; the keys of each window may or may not be added
// then.
func (b *Batch) Write(ctx context.Context, now time.Time) (fresh []int, err error) {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for of, w := range b.writes {
		group.Go(func() error {
			added, err := of.windows.write(ctx, of.windows.ID(of.owner), writing{keys: w.keys, at: w.times, now: now})
			mu.Lock()
			defer mu.Unlock()
			for n, isNew := range added {
				if isNew {
					fresh = append(fresh, w.indexes[n])
				}
			}
			return err
		})
	}
	err = group.Wait() // before fresh is read
	return fresh, err
}
