// Package seen keeps keys that are forgotten in time, such as the posts that users have seen, in a
// [favfilter.Store]. No ledger keeps a copy.
//
// Most callers want [Windows]: [Open] them on a store, then call Add, Contains and Forget. A caller
// that reads windows together with pages, and hashes keys itself, calls [Windows.ID] and
// [Windows.Decode], and writes with [Window.Add] or a [Batch].
package seen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/pause"
)

const (
	// DefaultParts is the default number of parts that the length of a window is divided into.
	DefaultParts = 6
	// DefaultMost is the default number of newest keys of one owner that stay.
	DefaultMost = 10_000

	maxParts  = 64
	maxMost   = 100_000
	minRate   = 1e-11
	maxRate   = 0.5
	minPart   = time.Millisecond // resolution of a store's time to live
	maxLength = 100 * 365 * 24 * time.Hour
	rounds    = 16 // attempts of one write while other writers keep changing the window
)

// Config configures [Windows]. Fields other than Length may be zero and then take the stated
// default.
type Config struct {
	_ struct{} // fields are named

	// Name distinguishes the windows of one store: lower-case letters and dashes. Default "window".
	Name string

	// Length is the minimum time that a key is kept after it was last added: 1 s to 100 years.
	Length time.Duration
	// Parts is the number of parts that Length is divided into, 1 to 64. A key is kept for at most
	// Length/Parts longer than Length. More parts take a little more memory for each key: log2 of
	// Parts, in bits. Default [DefaultParts].
	Parts int
	// Most is the number of newest keys of one owner that stay, 1 to 100,000. A key is newer than
	// another if it was last added in a later part, or later in the same part. Older keys
	// are evicted in groups, so an owner has up to an eighth more. A lookup reads all keys of an
	// owner, some 2 bytes each. Default [DefaultMost].
	Most int
	// FalsePositiveRate is the highest share of absent keys that are reported: 1e-11 to 0.5. Default
	// 0.001.
	FalsePositiveRate float64
	// MostTolerated is the share up to which a window is used that was written with a higher
	// FalsePositiveRate. Default: three times FalsePositiveRate.
	MostTolerated float64

	// Seed is the seed of the key hashes, see [favfilter.Config]. Windows with another seed do not
	// find the keys.
	Seed uint64
	// Pages is the number of hash slots that owners are distributed over in a cluster: a power of
	// two up to [favfilter.MaxPages]. Owners are in the slots of the pages of a filter with as many
	// pages. Default 1024.
	Pages uint32
	// Now returns the current time. Default time.Now.
	Now func() time.Time
	// Log gets a warning for each read of a damaged window. Default: discards.
	Log *slog.Logger
}

// Windows are sets of keys, one for each of any number of owners, such as the posts that each user
// has seen. Windows forget each key by themselves: no earlier than Length after it was last added,
// and at most Length/Parts later than that. The [Window] of an owner is one string in the store, of
// 2 to 3 bytes a key. The store removes the string when the last key is forgotten, so an inactive
// owner costs nothing. Keys cannot be removed one by one. A damaged string counts as empty.
//
// Writers compare and swap the string, so no writer loses the keys of another. The clocks of their
// processes must agree. A process whose clock is slow by d adds keys that are forgotten up to d
// early. A process whose clock is fast by d forgets keys up to d early, and what others add to the
// same owner afterwards may be kept up to d longer.
//
// Windows keep no keys in the process. They are safe for concurrent use, in any number of
// processes.
type Windows struct {
	store  favfilter.Store
	c      Config // with defaults
	length int64  // ms
	part   int64  // ms
	rules  rules

	evicted, damaged atomic.Uint64
}

// Losses are counts since the windows were opened.
type Losses struct {
	Evicted uint64 // keys forgotten early, because the most keys of their owner were newer
	Damaged uint64 // reads of damaged windows, which count as empty
}

// Open opens the windows in store, which may be empty, without a call to it. It fails if a value of
// c is out of range. A store may hold a [favfilter.Filter] as well, and several sorts of windows.
func Open(store favfilter.Store, c Config) (*Windows, error) {
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("open windows: %w", err)
	}
	part := (c.Length/time.Duration(c.Parts) + minPart - 1).Truncate(minPart) // rounded up
	return &Windows{
		store: store, c: c, length: c.Length.Milliseconds(), part: part.Milliseconds(),
		rules: newRules(c.FalsePositiveRate, c.Most, c.Parts),
	}, nil
}

// complete sets the defaults. It returns an error if a value is out of range.
func (c *Config) complete() error {
	c.Name = cmp.Or(c.Name, "window")
	c.Parts = cmp.Or(c.Parts, DefaultParts)
	c.Most = cmp.Or(c.Most, DefaultMost)
	c.FalsePositiveRate = cmp.Or(c.FalsePositiveRate, 0.001)
	c.MostTolerated = cmp.Or(c.MostTolerated, rateTolerance*c.FalsePositiveRate)
	c.Pages = cmp.Or(c.Pages, 1024)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Length < time.Second || c.Length > maxLength:
		return fmt.Errorf("length %v is not in 1 s to 100 years", c.Length)
	case c.Parts < 1 || c.Parts > maxParts:
		return fmt.Errorf("%d parts, not 1 to %d", c.Parts, maxParts)
	case c.Most < 1 || c.Most > maxMost:
		return fmt.Errorf("at most %d keys of an owner, not 1 to %d", c.Most, maxMost)
	case !(c.FalsePositiveRate >= minRate && c.FalsePositiveRate <= maxRate):
		return fmt.Errorf(
			"false-positive rate %g is not in %g to %g", c.FalsePositiveRate, minRate, maxRate,
		)
	case c.Pages&(c.Pages-1) != 0 || c.Pages > favfilter.MaxPages:
		return fmt.Errorf("%d pages: not a power of two in 1 to %d", c.Pages, favfilter.MaxPages)
	}
	return nil
}

// Add adds keys of an owner, or keeps those that are present for another Length. The outcomes are
// in the order of keys: [favfilter.Added], or [favfilter.Present] for a key that was added recently
// or looks so. If Add fails, the keys may or may not have been added; repeating the call is safe.
func (ws *Windows) Add(
	ctx context.Context, owner string, keys ...string,
) ([]favfilter.Outcome, error) {
	var b Batch
	start, hash := favfilter.HashStart(ws.c.Seed, owner), favfilter.HashKey(ws.c.Seed, owner).H1
	for i, key := range ws.hash(keys) {
		b.Add(ws, hash, start.With(key), time.Time{}, i)
	}
	fresh, err := b.Write(ctx, ws.c.Now())
	if err != nil {
		return nil, err
	}
	outcomes := slices.Repeat([]favfilter.Outcome{favfilter.Present}, len(keys))
	for _, i := range fresh {
		outcomes[i] = favfilter.Added
	}
	return outcomes, nil
}

// Contains reports for each key whether the owner may have it. It reports true for every key that
// was added within Length, unless Most other keys of the owner are newer. It reports true for other
// keys at the false-positive rate. It takes one round trip.
func (ws *Windows) Contains(ctx context.Context, owner string, keys ...string) ([]bool, error) {
	w, err := ws.load(ctx, ws.idOf(owner), ws.c.Now())
	if err != nil {
		return nil, fmt.Errorf("look up %d keys: %w", len(keys), err)
	}
	found := make([]bool, len(keys))
	w.ContainsAll(favfilter.HashStart(ws.c.Seed, owner), ws.hash(keys), found)
	return found, nil
}

// Forget removes all keys of an owner.
func (ws *Windows) Forget(ctx context.Context, owner string) error {
	id := ws.idOf(owner)
	err := ws.swap(ctx, id, ws.c.Now(), nil, func(w *Window) (favfilter.Replacement, bool) {
		return favfilter.Replacement{}, w.version != ""
	})
	if err != nil {
		return fmt.Errorf("forget window %v: %w", id, err)
	}
	return nil
}

// Losses returns the current counts.
func (ws *Windows) Losses() Losses {
	return Losses{Evicted: ws.evicted.Load(), Damaged: ws.damaged.Load()}
}

// ID returns the id under which a store keeps the window of the owner with the given hash, the H1
// of [favfilter.HashKey]. Its number is that of the page of the hash, see [favfilter.PageNumber].
func (ws *Windows) ID(owner uint64) favfilter.PageID {
	const base = 36 // shorter than hexadecimal: stores keep the id of each owner
	return favfilter.PageID{
		Number: favfilter.PageNumber(owner, ws.c.Pages),
		Part:   ws.c.Name + "." + strconv.FormatUint(owner, base),
	}
}

func (ws *Windows) idOf(owner string) favfilter.PageID {
	return ws.ID(favfilter.HashKey(ws.c.Seed, owner).H1)
}

func (ws *Windows) hash(keys []string) []favfilter.Hash {
	hashes := make([]favfilter.Hash, len(keys))
	for i, key := range keys {
		hashes[i] = favfilter.HashKey(ws.c.Seed, key)
	}
	return hashes
}

func (ws *Windows) load(ctx context.Context, id favfilter.PageID, now time.Time) (*Window, error) {
	loaded, _, err := ws.store.Load(ctx, []favfilter.PageID{id})
	if err != nil {
		return nil, err
	}
	return ws.Decode(ctx, id, loaded[0], now), nil
}

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
func (b *Batch) Add(
	windows *Windows, owner uint64, key favfilter.Hash, since time.Time, index int,
) {
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

// write adds keys to the window under id, at the time now. It returns the index of each key that
// was new: neither its part nor a later one had it. At the false-positive rate, a new key's is
// missing. A key whose part is forgotten already is not added. read is the window as it was just
// read: then write makes a single call to the store; nil: it reads first. After an error, it has
// added all of the keys or none.
func (ws *Windows) write(
	ctx context.Context, id favfilter.PageID, entries []entry, now time.Time, read *Window,
) (fresh []int, err error) {
	evicted := 0
	err = ws.swap(ctx, id, now, read, func(w *Window) (favfilter.Replacement, bool) {
		d := ws.rules.draft(w)
		if fresh, evicted = ws.add(d, entries, now), 0; !d.changed {
			return favfilter.Replacement{}, false
		}
		evicted = d.evict()
		d.join()
		d.shorten(ws.partEnd(now))
		d.finish()
		last := time.UnixMilli(d.generations[len(d.generations)-1].before + ws.length)
		return favfilter.Replacement{
			Value:  encode(ws.c.Seed, w.changes+1, d.generations),
			Expire: last.Sub(now),
		}, true
	})
	if err != nil {
		return nil, fmt.Errorf("write %d keys to window %v: %w", len(entries), id, err)
	}
	ws.evicted.Add(uint64(evicted))
	return fresh, nil
}

// Pauses of a writer that others have overtaken.
const (
	firstPause   = time.Millisecond / 2
	longestPause = 32 * time.Millisecond
)

var errContended = errors.New("other writers changed it each time")

// swap replaces the window under id by what change makes of it. It begins again if another writer
// has changed the window since it was read. w is the window as it was just read; nil: swap reads
// first. If change reports false, swap leaves the window as it is.
func (ws *Windows) swap(
	ctx context.Context, id favfilter.PageID, now time.Time, w *Window,
	change func(*Window) (next favfilter.Replacement, changed bool),
) (err error) {
	for round := range rounds {
		// A pause lets the writers that overtook this one finish.
		if round > 0 && !pause.Sleep(ctx, pause.About(pause.Doubled(firstPause, longestPause, round))) {
			return cmp.Or(ctx.Err(), context.DeadlineExceeded)
		}
		if w == nil {
			if w, err = ws.load(ctx, id, now); err != nil {
				return err
			}
		}
		next, changed := change(w)
		if !changed {
			return nil
		}
		next.ID, next.Seen = id, w.version
		if done, err := ws.store.Replace(ctx, next); done || err != nil {
			return err
		}
		w = nil
	}
	return errContended
}

// add adds the keys to the draft, and returns the indexes of those that were new. Keys of the
// current part are the newest, even if the clock was set back since the last part began.
func (ws *Windows) add(d *draft, entries []entry, now time.Time) []int {
	fresh := make([]int, 0, len(entries))
	current := ws.partEnd(now)
	newest := current
	if n := len(d.generations); n > 0 {
		newest = max(newest, d.generations[n-1].before)
	}
	for _, e := range entries {
		end := newest
		if !e.since.IsZero() {
			if past := ws.partEnd(e.since); past < current {
				end = past
			}
		}
		if end+ws.length > now.UnixMilli() && d.add(e.key, end) {
			fresh = append(fresh, e.index)
		}
	}
	return fresh
}

// partEnd returns the end of the part that t is in.
func (ws *Windows) partEnd(t time.Time) int64 {
	ms := t.UnixMilli()
	if ms < 0 { // before 1970
		return 0
	}
	return (ms/ws.part + 1) * ws.part
}
