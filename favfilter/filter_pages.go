package favfilter

import (
	"context"
	"fmt"
	"iter"
)

const (
	// countChunk is how many headers Count has at a time.
	countChunk = 1024
	// snapshotChunk is how many pages Snapshot reads at a time.
	snapshotChunk = 64
)

// Count returns the number of keys that the filter holds as far as it knows: those that
// were added, less those that were removed. A key that was taken for present when it was
// added is not counted, as [Filter.Add] said, and one that was never added is taken off
// where its removal was not [Absent]: see Limits. Keys that are stuck are counted.
//
// It reads the header of every page, some at a time, each of an instant of its own: keys
// that are added or removed meanwhile may be counted or not. Where one cannot be read, or is
// damaged, it fails.
func (f *Filter) Count(ctx context.Context) (int, error) {
	total := 0
	for ids := range f.chunks(countChunk) {
		standings, err := f.store.Peek(ctx, ids)
		if err != nil {
			return 0, fmt.Errorf("count keys: %w", err)
		}
		for i, s := range standings {
			if err := f.checkStanding(ids[i], s); err != nil {
				return 0, fmt.Errorf("count keys: %w", err)
			}
			total += int(s.Header.Count)
		}
	}
	return total, nil
}

func (f *Filter) checkStanding(id PageID, s Standing) error {
	switch {
	case s.Err != nil:
		return s.Err
	case s.Damage != nil:
		return s.Damage
	case !s.Missing && !f.made(s.Header):
		return f.mismatch(id.Number, s.Header)
	}
	return nil
}

// Snapshot returns a copy of the filter that is held in memory, with a [Memory] of its own:
// what is done to it does not change the original, nor the other way round. Keys can be
// added to the copy and removed from it.
//
// Each page is copied as it stands at an instant of its own, some at a time. So the copy has
// every key that was in the filter from the call's beginning to its end, and none that was not in
// it at any time meanwhile; of keys added or removed meanwhile, also by one call, it may have
// some. Where a page cannot be read, or is damaged, there is no copy.
func (f *Filter) Snapshot(ctx context.Context) (*Filter, error) {
	memory := &Memory{pages: make(map[PageID]held)}
	for ids := range f.chunks(snapshotChunk) {
		loaded, err := f.store.LoadWhole(ctx, ids)
		if err != nil {
			return nil, fmt.Errorf("copy filter: %w", err)
		}
		pages, err := f.checkLoaded(ids, loaded)
		if err != nil {
			return nil, fmt.Errorf("copy filter: %w", err)
		}
		for i, page := range pages {
			if page != nil {
				memory.pages[ids[i]] = held{page: page, version: loaded[i].Version} // neither store changes it
			}
		}
	}
	snapshot := *f
	snapshot.store = memory
	return &snapshot, nil
}

// chunks yields the ids of all pages, n at a time, in a slice that is used again.
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
