// Package seen keeps keys that expire, such as the posts that users have seen. Each user has a
// window of each kind: a ring of pages for that user alone, one for each part of the window's
// length. When the oldest part expires, its keys go with it. No ledger keeps a copy.
package seen

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lru"
)

// writers is the number of windows that one call of [Windows.Record] writes at once.
const writers = 16

// Kind is a kind of keys that expire.
type Kind struct {
	Name   string
	Length time.Duration // how long a key is kept at least
	// Parts is the number of parts of the window; 0: [favfilter.DefaultParts]. A key is kept for at
	// most one part longer than Length.
	Parts int
}

// Config configures windows.
type Config struct {
	Store favfilter.Store
	// Identity is that of the filter. Its number of pages determines the hash slot of a user's
	// windows.
	Identity favfilter.Identity
	Kinds    []Kind

	// FalsePositiveRate is that of one key in one window, between 0 and 1, both excluded.
	FalsePositiveRate float64

	// Cache holds windows that were read, so that not every feed reads them again; nil: no cache.
	// It may be shared with users that cache pages under ids without a part.
	Cache *lru.Cache[favfilter.PageID, any]
	// Overlook is how long a cached window may lack what other processes record; 0: no other
	// process writes.
	Overlook time.Duration

	Log *slog.Logger
}

// Windows are the windows of all users. A Windows is safe for concurrent use.
type Windows struct {
	rings    map[string]ring // by kind
	pages    uint32
	cache    *lru.Cache[favfilter.PageID, any]
	overlook time.Duration
	log      *slog.Logger

	mu sync.Mutex
	// written counts the writes to windows, in 256 groups. A window whose read began before the
	// last write to its group may lack that write, and is not cached.
	written [256]uint64
}

// ring is the ring of a kind.
type ring struct {
	*favfilter.Ring

	length time.Duration
	parts  int // number of parts read: those of the length, and the current one
}

// Open returns the windows in c.Store, without a call to the store. An error names the kind whose
// configuration is invalid.
func Open(c Config) (*Windows, error) {
	ws := &Windows{
		rings: make(map[string]ring), pages: c.Identity.Pages, cache: c.Cache, overlook: c.Overlook, log: c.Log,
	}
	c.Identity.Incarnation = 0 // windows outlive a restored ledger
	for _, k := range c.Kinds {
		pages, err := favfilter.NewRing(c.Store, c.Identity, favfilter.RingConfig{
			Length: k.Length, Parts: k.Parts, FalsePositiveRate: c.FalsePositiveRate,
		})
		if err != nil {
			return nil, fmt.Errorf("kind %q: %w", k.Name, err)
		}
		ws.rings[k.Name] = ring{pages, k.Length, cmp.Or(k.Parts, favfilter.DefaultParts) + 1}
	}
	return ws, nil
}

// id returns the id of the pages of a user's window. Its number is that of the user's home page, so
// that both are in one hash slot and are read with one command.
func (ws *Windows) id(kind string, user uint64) favfilter.PageID {
	number := uint32(user >> (65 - bits.Len32(ws.pages))) // the top bits: a power of two of pages
	return favfilter.PageID{Number: number, Part: kind + "-" + strconv.FormatUint(user, 16)}
}

// Batch holds keys to be recorded in any number of windows. The zero value is empty.
type Batch struct {
	writes map[owned]*write
	order  []*write
}

// owned names a window: one user's of one kind.
type owned struct {
	kind string
	user uint64
}

// write holds the keys of one window.
type write struct {
	owned

	keys []favfilter.Hash
	at   []int
}

// Add adds a key to be recorded in a user's window. [Windows.Record] returns at if the key is new.
func (b *Batch) Add(kind string, user uint64, key favfilter.Hash, at int) {
	if b.writes == nil {
		b.writes = make(map[owned]*write)
	}
	of := owned{kind, user}
	w := b.writes[of]
	if w == nil {
		w = &write{owned: of}
		b.writes[of] = w
		b.order = append(b.order, w)
	}
	w.keys = append(w.keys, key)
	w.at = append(w.at, at)
}

// Record records the keys of b with the time now. It returns the at of each key that was new to its
// part of the window, in no order. At the false-positive rate, a new key's is missing. Errors are
// those of the store or of ctx; the keys of each window may or may not be recorded then.
func (ws *Windows) Record(ctx context.Context, b *Batch, now time.Time) (fresh []int, err error) {
	var mu sync.Mutex
	var group *errgroup.Group
	group, ctx = errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, w := range b.order {
		group.Go(func() error {
			added, err := ws.add(ctx, w.kind, ws.id(w.kind, w.user), now, w.keys, nil)
			mu.Lock()
			defer mu.Unlock()
			for n, isNew := range added {
				if isNew {
					fresh = append(fresh, w.at[n])
				}
			}
			return err
		})
	}
	err = group.Wait() // before fresh is read
	return fresh, err
}

// add writes to one window. loaded is what was just read of it, or nil.
func (ws *Windows) add(
	ctx context.Context, kind string, id favfilter.PageID, now time.Time, keys []favfilter.Hash, loaded []favfilter.Loaded,
) (fresh []bool, err error) {
	fresh, err = ws.rings[kind].Add(ctx, id, now, keys, loaded)
	ws.wrote(id) // also where it failed: it may have taken effect
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", kind, err)
	}
	return fresh, nil
}

// Forget deletes a user's windows of all kinds. Errors are those of the store or of ctx.
func (ws *Windows) Forget(ctx context.Context, user uint64, now time.Time) error {
	for kind, ring := range ws.rings {
		id := ws.id(kind, user)
		err := ring.Forget(ctx, id, now)
		ws.wrote(id)
		if err != nil {
			return fmt.Errorf("forget %s: %w", kind, err)
		}
	}
	return nil
}

// group returns the group of a window, one of 256. Their ids end in a hash.
func group(id favfilter.PageID) uint8 {
	n := len(id.Part)
	return id.Part[n-1]<<4 ^ id.Part[n-2]
}

// wrote evicts a window after a write to it.
func (ws *Windows) wrote(id favfilter.PageID) {
	if ws.cache == nil {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.written[group(id)]++
	ws.cache.Drop(id)
}
