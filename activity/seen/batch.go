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
	entries map[owned][]entry
}

// owned names a window.
type owned struct {
	windows *Windows
	owner   uint64
}

// entry is a key to be added to a window.
type entry struct {
	key   favfilter.Hash
	since time.Time // zero: when the window is written
	index int       // what the caller calls it
}

// Add adds a key to the batch, for the window of the owner with the given hash, see [Windows.ID].
// The key counts as added at since; the zero time: when the batch is written. [Batch.Write] returns
// index if the key is new.
func (b *Batch) Add(windows *Windows, owner uint64, key favfilter.Hash, since time.Time, index int) {
	if b.entries == nil {
		b.entries = make(map[owned][]entry)
	}
	of := owned{windows, owner}
	b.entries[of] = append(b.entries[of], entry{key, since, index})
}

// Write adds the keys of b to their windows, at the time now. It returns the index of each key that
// was new to its part of the window, in no order. At the false-positive rate, a new key's is
// missing. Errors are those of a store or of ctx; the keys of each window may or may not be added
// then.
func (b *Batch) Write(ctx context.Context, now time.Time) (fresh []int, err error) {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for of, entries := range b.entries {
		group.Go(func() error {
			added, err := of.windows.write(ctx, of.windows.ID(of.owner), entries, now, nil)
			mu.Lock()
			defer mu.Unlock()
			fresh = append(fresh, added...)
			return err
		})
	}
	err = group.Wait() // before fresh is read
	return fresh, err
}
