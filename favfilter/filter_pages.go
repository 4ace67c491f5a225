package favfilter

import (
	"cmp"
	"context"
	"fmt"
	"iter"
)

// countChunk is the number of headers that Count reads at a time.
const countChunk = 1024

// Count returns the number of keys that the filter holds as far as it knows: the keys that were
// added less those that were removed.
//
//   - A key that looked present when it was added is not counted; [Filter.Add] reported it as
//     [Present].
//   - A key that was never added is subtracted if its removal was not [Absent]; see Limits.
//   - Stuck keys are counted.
//
// Count reads the header of every page, 1,024 at a time, each at its own instant. A key that is
// added or removed during the call may be counted or not. Count fails if a header cannot be read or
// a page is damaged.
func (f *Filter) Count(ctx context.Context) (int, error) {
	total := 0
	for ids := range f.chunks(countChunk) {
		statuses, err := f.store.Peek(ctx, ids)
		if err != nil {
			return 0, fmt.Errorf("count keys: %w", err)
		}
		for i, s := range statuses {
			if err := f.check(ids[i], s.Header, cmp.Or(s.Err, s.Damage)); err != nil {
				return 0, fmt.Errorf("count keys: %w", err)
			}
			total += int(s.Header.Count)
		}
	}
	return total, nil
}

// chunks yields the IDs of all pages, n at a time, in a slice that it reuses.
func (f *Filter) chunks(n uint32) iter.Seq[[]PageID] {
	return func(yield func([]PageID) bool) {
		ids := make([]PageID, 0, min(n, f.identity.Pages))
		for from := uint32(0); from < f.identity.Pages; from += n {
			ids = ids[:0]
			for number := from; number < min(from+n, f.identity.Pages); number++ {
				ids = append(ids, PageID{Number: number})
			}
			if !yield(ids) {
				return
			}
		}
	}
}
