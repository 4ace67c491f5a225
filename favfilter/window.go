package favfilter

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// WindowConfig configures a [Window]. Fields other than Length may be zero and then take the stated
// default.
type WindowConfig struct {
	_ struct{} // fields are named

	Length            time.Duration // see [RingConfig]
	Parts             int           // see [RingConfig]
	FalsePositiveRate float64       // see [RingConfig]

	// Pages is the number of places that keys are distributed over: a power of two up to
	// [MaxPages]. Each place is a separate set of keys in a [Ring]. A lookup reads the whole place
	// of a key, so a place should hold a few thousand keys at most. Default 1024.
	Pages uint32
	// Seed is the seed of the key hashes, see [Config].
	Seed uint64
	// PageBy returns the part of a key that selects its place, see [Config].
	PageBy func(key string) string
	// Now returns the current time. Default time.Now.
	Now func() time.Time
}

// Window is a set that forgets each key automatically: no earlier than Length after it was last
// added, and at most Length/Parts later than that. It takes any number of keys at its
// false-positive rate. The keys added within one Length bound its memory, and no sweeper is needed.
// Keys cannot be removed.
//
// A Window opened with other settings, or by a version of the program with another format version
// (see [ErrFormat]), does not find the earlier keys: it starts empty. A Window is safe for
// concurrent use, in any number of processes.
type Window struct {
	ring     *Ring
	store    Store
	identity Identity
	pageBy   func(string) string
	now      func() time.Time
}

// windowPart begins the part names of a Window's pages.
const windowPart = "window"

// windowWriters is the number of places that one call writes concurrently.
const windowWriters = 16

// OpenWindow opens the window in store, which may be empty. It fails if a value of c is out of
// range. A store may hold both a Window and a [Filter].
func OpenWindow(store Store, c WindowConfig) (*Window, error) {
	if c.Pages == 0 {
		c.Pages = 1024
	}
	if c.PageBy == nil {
		c.PageBy = func(key string) string { return key }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	identity := Identity{Seed: c.Seed, Pages: c.Pages}
	ring, err := NewRing(store, identity, RingConfig{Length: c.Length, Parts: c.Parts, FalsePositiveRate: c.FalsePositiveRate})
	if err != nil {
		return nil, fmt.Errorf("open window: %w", err)
	}
	return &Window{ring: ring, store: store, identity: identity, pageBy: c.PageBy, now: c.Now}, nil
}

// Add adds keys, or keeps those that are present for another Length. The outcomes are in the order
// of keys: [Added], or [Present] for a key that was added recently or looks so. If Add fails, each
// key may or may not have been added; repeating the call is safe.
func (w *Window) Add(ctx context.Context, keys ...string) ([]Outcome, error) {
	now := w.now()
	groups, ids := w.group(keys)
	outcomes := make([]Outcome, len(keys))
	writers, ctx := errgroup.WithContext(ctx)
	writers.SetLimit(windowWriters)
	for _, id := range ids {
		writers.Go(func() error {
			hashes := make([]Hash, len(groups[id]))
			for i, k := range groups[id] {
				hashes[i] = HashKey(w.identity.Seed, keys[k])
			}
			fresh, err := w.ring.Add(ctx, id, now, hashes, nil)
			if err != nil {
				return err
			}
			for i, k := range groups[id] { // each key is of one place
				outcomes[k] = Present
				if fresh[i] {
					outcomes[k] = Added
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		return nil, fmt.Errorf("add %d keys: %w", len(keys), err)
	}
	return outcomes, nil
}

// Contains reports for each key whether it may have been added within Length. It reports true for
// every key that was, and for other keys at the false-positive rate. It reads the store once.
func (w *Window) Contains(ctx context.Context, keys ...string) ([]bool, error) {
	now := w.now()
	groups, ids := w.group(keys)
	pages := make([]PageID, 0, len(ids)*(w.ring.parts+1))
	for _, id := range ids {
		pages = append(pages, w.ring.Pages(id, now)...)
	}
	loaded, err := w.store.Load(ctx, pages)
	if err != nil {
		return nil, fmt.Errorf("look up %d keys: %w", len(keys), err)
	}
	hashes := make([]Hash, len(keys))
	for i, key := range keys {
		hashes[i] = HashKey(w.identity.Seed, key)
	}
	found := make([]bool, len(keys))
	for n, l := range loaded {
		page := w.ring.Usable(l)
		if page == nil {
			continue
		}
		for _, k := range groups[ids[n/(w.ring.parts+1)]] {
			found[k] = found[k] || page.Contains(hashes[k])
		}
	}
	return found, nil
}

// Count returns the number of keys in all parts. It counts a key once for each part that it was
// added in, and some keys up to Length/Parts past their time. It reads the header of every page,
// about 1,024 at a time.
func (w *Window) Count(ctx context.Context) (int, error) {
	now := w.now()
	total := 0
	var ids []PageID
	for number := range w.identity.Pages {
		ids = append(ids, w.ring.Pages(PageID{Number: number, Part: windowPart}, now)...)
		if len(ids) < countChunk && number+1 < w.identity.Pages {
			continue
		}
		statuses, err := w.store.Peek(ctx, ids)
		if err != nil {
			return 0, fmt.Errorf("count keys: %w", err)
		}
		for _, s := range statuses {
			switch {
			case s.Err != nil:
				return 0, fmt.Errorf("count keys: %w", s.Err)
			case s.Header.Identity == w.identity:
				total += int(s.Header.Count)
			}
		}
		ids = ids[:0]
	}
	return total, nil
}

// group groups keys by place. It returns the indices of the keys of each place, and the places.
func (w *Window) group(keys []string) (map[PageID][]int, []PageID) {
	return group(keys, func(key string) PageID {
		number := PageNumber(HashKey(w.identity.Seed, w.pageBy(key)).H1, w.identity.Pages)
		return PageID{Number: number, Part: windowPart}
	})
}
