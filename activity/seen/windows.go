// Package seen keeps what is forgotten in time, such as the posts that users have seen. Each user has
// a window of each kind: a ring of pages of their own, one for each part of the window's length. What
// is in the oldest part goes with it. There is no ledger of it.
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

// writers is how many windows one call of [Windows.Record] writes at a time.
const writers = 16

// Kind is a kind of keys that are forgotten.
type Kind struct {
	Name   string
	Length time.Duration // how long a key is kept at least
	Parts  int           // of the window, or 0 for [favfilter.DefaultParts]: a key is kept for one more at most
}

// Config says how windows are kept.
type Config struct {
	Store    favfilter.Store
	Identity favfilter.Identity // its number of pages says in which hash slot a user's windows are
	Kinds    []Kind

	FalsePositiveRate float64 // of one key in one window, 0 to 1, both excluded

	// Cache holds windows that were read, so that they are not read again with each feed; nil: nothing
	// does. It may be shared with others, who keep pages in it under names without a part.
	Cache *lru.Cache[favfilter.PageID, any]
	// Overlook is how long what other processes record may be missing from a window that Cache holds;
	// 0: no other process writes.
	Overlook time.Duration

	Log *slog.Logger
}

// Windows are the windows of all users. Their methods may be called concurrently.
type Windows struct {
	rings    map[string]ring // by kind
	pages    uint32
	cache    *lru.Cache[favfilter.PageID, any]
	overlook time.Duration
	log      *slog.Logger

	mu sync.Mutex
	// written counts writes to windows, in 256 groups of them: a window that began to be read before the
	// last write to its group may lack it, and is not held.
	written [256]uint64
}

// ring is that of a kind.
type ring struct {
	*favfilter.Ring

	length time.Duration
	parts  int // that are read: of the length, and the one under way
}

// Open returns the windows in c.Store. It asks the store nothing. An error names a kind of which no ring
// can be made.
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

// id is that of the pages of a user's window. The number is the one of the user's first shared page, so
// that both are in one hash slot and are read with one command.
func (ws *Windows) id(kind string, user uint64) favfilter.PageID {
	number := uint32(user >> (65 - bits.Len32(ws.pages))) // the top bits: a power of two of pages
	return favfilter.PageID{Number: number, Part: kind + "-" + strconv.FormatUint(user, 16)}
}

// Batch is keys to be recorded in any number of windows. The zero value is an empty one.
type Batch struct {
	byID  map[favfilter.PageID]*write
	order []*write
}

// write is the keys of one window.
type write struct {
	kind string
	user uint64
	keys []favfilter.Hash
	at   []int
}

// Add has a key recorded in a user's window. at is what Record returns if the key was new.
func (b *Batch) Add(kind string, user uint64, key favfilter.Hash, at int) {
	id := favfilter.PageID{Part: kind + "-" + strconv.FormatUint(user, 16)}
	if b.byID == nil {
		b.byID = make(map[favfilter.PageID]*write)
	}
	w := b.byID[id]
	if w == nil {
		w = &write{kind: kind, user: user}
		b.byID[id] = w
		b.order = append(b.order, w)
	}
	w.keys = append(w.keys, key)
	w.at = append(w.at, at)
}

// Record records the keys of b as of now, and returns, in no order, where those are that were new to
// their part of the window; one may be missing from these at the false-positive rate. An error is
// that of the store or of ctx: the keys of each window are recorded or not.
func (ws *Windows) Record(ctx context.Context, b *Batch, now time.Time) (fresh []int, err error) {
	var mu sync.Mutex
	var group *errgroup.Group
	group, ctx = errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, w := range b.order {
		group.Go(func() error {
			added, err := ws.add(ctx, w.kind, w.user, now, w.keys, nil)
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
	return fresh, group.Wait()
}

// add writes to one window. loaded is what was read of it a moment ago, or nil.
func (ws *Windows) add(
	ctx context.Context, kind string, user uint64, now time.Time, keys []favfilter.Hash, loaded []favfilter.Loaded,
) (fresh []bool, err error) {
	id := ws.id(kind, user)
	fresh, err = ws.rings[kind].Add(ctx, id, now, keys, loaded)
	ws.wrote(id) // also where it failed: it may have taken effect
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", kind, err)
	}
	return fresh, nil
}

// Forget deletes the windows of a user, of all kinds. An error is that of the store or of ctx.
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

// group is one of 256 that windows are in: their names end in a hash.
func group(id favfilter.PageID) uint8 {
	n := len(id.Part)
	return id.Part[n-1]<<4 ^ id.Part[n-2]
}

// wrote forgets a held window that was written to.
func (ws *Windows) wrote(id favfilter.PageID) {
	if ws.cache == nil {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.written[group(id)]++
	ws.cache.Drop(id)
}
