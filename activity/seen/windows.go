// Package seen keeps keys that are forgotten in time, such as the posts that users have seen. Each
// user has a window of each kind, one string in the store; see [favfilter.Window]. No ledger keeps
// a copy.
package seen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lru"
)

// writers is the number of windows that one call of [Windows.Record] writes at once.
const writers = 16

// Kind is a kind of keys that are forgotten in time.
type Kind struct {
	Name   string
	Length time.Duration // how long a key is kept at least
	// Parts is the number of parts of the window; 0: [favfilter.DefaultParts]. A key is kept for at
	// most one part longer than Length.
	Parts int
	// Most is the number of newest keys of one user that stay; 0: [favfilter.DefaultMost]. See
	// [favfilter.WindowConfig].
	Most int
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
	kinds    map[string]*kind
	cache    *lru.Cache[favfilter.PageID, any]
	overlook time.Duration
	log      *slog.Logger

	mu sync.Mutex
	// written counts the writes to windows, in 256 groups. A window whose read began before the
	// last write to its group may lack that write, and is not cached.
	written [256]uint64
}

// kind is the windows of one kind.
type kind struct {
	*favfilter.Window

	name             string
	evicted, damaged atomic.Uint64
}

// Stats are counts of one kind since the windows were opened.
type Stats struct {
	Kind    string
	Evicted uint64 // keys that were forgotten early, because the most keys of their user were newer
	Damaged uint64 // reads of damaged windows, which count as empty
}

// Open returns the windows in c.Store, without a call to the store. An error names the kind whose
// configuration is invalid.
func Open(c Config) (*Windows, error) {
	ws := &Windows{kinds: make(map[string]*kind), cache: c.Cache, overlook: c.Overlook, log: c.Log}
	for _, k := range c.Kinds {
		window, err := favfilter.OpenWindow(c.Store, favfilter.WindowConfig{
			Name: k.Name, Length: k.Length, Parts: k.Parts, Most: k.Most, FalsePositiveRate: c.FalsePositiveRate,
			Seed: c.Identity.Seed, Pages: c.Identity.Pages,
		})
		if err != nil {
			return nil, fmt.Errorf("kind %q: %w", k.Name, err)
		}
		ws.kinds[k.Name] = &kind{Window: window, name: k.Name}
	}
	return ws, nil
}

// Stats returns the counts of each kind, in no order.
func (ws *Windows) Stats() []Stats {
	stats := make([]Stats, 0, len(ws.kinds))
	for name, k := range ws.kinds {
		stats = append(stats, Stats{Kind: name, Evicted: k.evicted.Load(), Damaged: k.damaged.Load()})
	}
	return stats
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

	keys  []favfilter.Hash
	times []time.Time
	at    []int
}

// Add adds a key to be recorded in a user's window, as of since; the zero time: now.
// [Windows.Record] returns at if the key is new.
func (b *Batch) Add(kind string, user uint64, key favfilter.Hash, since time.Time, at int) {
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
	w.times = append(w.times, since)
	w.at = append(w.at, at)
}

// Record records the keys of b with the time now, or with their own earlier time. It returns the at
// of each key that was new to its part of the window, in no order. At the false-positive rate, a
// new key's is missing. Errors are those of the store or of ctx; the keys of each window may or may
// not be recorded then.
func (ws *Windows) Record(ctx context.Context, b *Batch, now time.Time) (fresh []int, err error) {
	var mu sync.Mutex
	var group *errgroup.Group
	group, ctx = errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, w := range b.order {
		group.Go(func() error {
			for i, at := range w.times {
				if at.IsZero() {
					w.times[i] = now
				}
			}
			k := ws.kinds[w.kind]
			added, err := ws.write(ctx, k, k.ID(w.user), favfilter.Writing{Keys: w.keys, At: w.times, Now: now})
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

// write writes to one window.
func (ws *Windows) write(ctx context.Context, k *kind, id favfilter.PageID, w favfilter.Writing) (fresh []bool, err error) {
	recorded, err := k.Write(ctx, id, w)
	ws.wrote(id) // also where it failed: it may have taken effect
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", k.name, err)
	}
	if w.Loaded == nil { // otherwise Fill has counted it
		ws.noteDamage(ctx, k, recorded.Damage)
	}
	k.evicted.Add(uint64(recorded.Evicted))
	return recorded.Fresh, nil
}

// noteDamage logs and counts a damaged window; nil: it is not damaged. It ignores one of another
// format version, because after an upgrade each feed meets some.
func (ws *Windows) noteDamage(ctx context.Context, k *kind, damage error) {
	if damage != nil && !errors.Is(damage, favfilter.ErrFormat) {
		k.damaged.Add(1)
		ws.log.WarnContext(ctx, "a window is damaged and counts as empty", "kind", k.name, "error", damage)
	}
}

// Forget deletes a user's windows of all kinds. Errors are those of the store or of ctx.
func (ws *Windows) Forget(ctx context.Context, user uint64) error {
	for _, k := range ws.kinds {
		id := k.ID(user)
		err := k.Remove(ctx, id)
		ws.wrote(id)
		if err != nil {
			return fmt.Errorf("forget %s: %w", k.name, err)
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
