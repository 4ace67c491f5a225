package favfilter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	// DefaultParts is the default number of parts that the length of a [Window] is divided into.
	DefaultParts = 6
	// DefaultMost is the default number of newest keys of one owner that stay in a [Window].
	DefaultMost = 10_000

	maxParts      = 64
	maxMost       = 100_000
	minWindowRate = 1e-11
	minPart       = time.Millisecond // resolution of a store's time to live
	maxWindow     = 100 * 365 * 24 * time.Hour
	windowRounds  = 16 // attempts of one write while other writers keep changing the keys
	rateTolerance = 3  // factor by which stored keys may exceed the rate: see Recent
)

// WindowConfig configures a [Window]. Fields other than Length may be zero and then take the stated
// default.
type WindowConfig struct {
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

	// Seed is the seed of the key hashes, see [Config]. A Window with another seed does not find
	// the keys.
	Seed uint64
	// Pages is the number of hash slots that owners are distributed over in a cluster: a power of
	// two up to [MaxPages]. Owners are in the slots of the pages of a filter with as many pages.
	// Default 1024.
	Pages uint32
	// Now returns the current time. Default time.Now.
	Now func() time.Time
}

// Window is a set of keys for each of any number of owners, such as the posts that each user has
// seen. It forgets each key by itself: no earlier than Length after it was last added, and at most
// Length/Parts later than that. The keys of an owner are one string in the store, [Fingerprints],
// of 2 to 3 bytes a key. The store removes the string when the last key is forgotten, so an
// inactive owner costs nothing. Keys cannot be removed one by one.
//
// Writers compare and swap the string, so no writer loses the keys of another. The clocks of their
// processes must agree. A process whose clock is slow by d adds keys that are forgotten up to d
// early. A process whose clock is fast by d forgets keys up to d early, and what others add to the
// same owner afterwards may be kept up to d longer.
//
// A Window keeps no state in the process. It is safe for concurrent use, in any number of
// processes.
type Window struct {
	store  Store
	name   string
	seed   uint64
	slots  int   // log2 of Pages
	length int64 // ms
	part   int64 // ms
	runs   runRules
	now    func() time.Time
}

// OpenWindow opens the window in store, which may be empty. It fails if a value of c is out of
// range. A store may hold a [Filter] as well, and several windows.
func OpenWindow(store Store, c WindowConfig) (*Window, error) {
	c.setDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("open window: %w", err)
	}
	part := c.Length / time.Duration(c.Parts)
	if rest := part % minPart; rest > 0 {
		part += minPart - rest
	}
	return &Window{
		store: store, name: c.Name, seed: c.Seed, slots: int(log2(c.Pages)), now: c.Now,
		length: c.Length.Milliseconds(), part: part.Milliseconds(), runs: newRunRules(c.FalsePositiveRate, c.Most, c.Parts),
	}, nil
}

func (c *WindowConfig) setDefaults() {
	if c.Name == "" {
		c.Name = "window"
	}
	if c.Parts == 0 {
		c.Parts = DefaultParts
	}
	if c.Most == 0 {
		c.Most = DefaultMost
	}
	if c.FalsePositiveRate == 0 {
		c.FalsePositiveRate = 0.001
	}
	if c.Pages == 0 {
		c.Pages = 1024
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

func (c *WindowConfig) check() error {
	switch {
	case c.Length < time.Second || c.Length > maxWindow:
		return fmt.Errorf("length %v is not in 1 s to 100 years", c.Length)
	case c.Parts < 1 || c.Parts > maxParts:
		return fmt.Errorf("%d parts, not 1 to %d", c.Parts, maxParts)
	case c.Most < 1 || c.Most > maxMost:
		return fmt.Errorf("at most %d keys of an owner, not 1 to %d", c.Most, maxMost)
	case !(c.FalsePositiveRate >= minWindowRate && c.FalsePositiveRate <= maxRate):
		return fmt.Errorf("false-positive rate %g is not in %g to %g", c.FalsePositiveRate, minWindowRate, maxRate)
	}
	return checkPages(c.Pages)
}

// Add adds keys of an owner, or keeps those that are present for another Length. The outcomes are
// in the order of keys: [Added], or [Present] for a key that was added recently or looks so. If Add
// fails, the keys may or may not have been added; repeating the call is safe.
func (w *Window) Add(ctx context.Context, owner string, keys ...string) ([]Outcome, error) {
	start, id := w.owner(owner)
	recorded, err := w.Write(ctx, id, Writing{Keys: w.hash(start, keys), Now: w.now()})
	if err != nil {
		return nil, fmt.Errorf("add %d keys: %w", len(keys), err)
	}
	outcomes := make([]Outcome, len(keys))
	for i, fresh := range recorded.Fresh {
		outcomes[i] = Present
		if fresh {
			outcomes[i] = Added
		}
	}
	return outcomes, nil
}

// Contains reports for each key whether the owner may have it. It reports true for every key that
// was added within Length, unless Most other keys of the owner are newer. It reports true for other
// keys at the false-positive rate. It takes one round trip.
func (w *Window) Contains(ctx context.Context, owner string, keys ...string) ([]bool, error) {
	start, id := w.owner(owner)
	loaded, err := w.store.Load(ctx, []PageID{id})
	if err != nil {
		return nil, fmt.Errorf("look up %d keys: %w", len(keys), err)
	}
	recent := w.Recent(loaded[0], w.now())
	found := make([]bool, len(keys))
	for i, key := range w.hash(start, keys) {
		found[i] = recent.Contains(key)
	}
	return found, nil
}

// Forget removes all keys of an owner.
func (w *Window) Forget(ctx context.Context, owner string) error {
	_, id := w.owner(owner)
	return w.Remove(ctx, id)
}

func (w *Window) owner(owner string) (Start, PageID) {
	return HashStart(w.seed, owner), w.ID(HashKey(w.seed, owner).H1)
}

func (w *Window) hash(start Start, keys []string) []Hash {
	hashes := make([]Hash, len(keys))
	for i, key := range keys {
		hashes[i] = start.With(HashKey(w.seed, key))
	}
	return hashes
}

// ID returns the id under which a store keeps the keys of the owner with the given hash. Its number
// is that of the page of the hash, see [PageNumber].
func (w *Window) ID(owner uint64) PageID {
	const base = 36 // shorter than hexadecimal: stores keep the id of each owner
	return PageID{Number: uint32(owner >> (64 - w.slots)), Part: w.name + "." + strconv.FormatUint(owner, base)}
}

// Recent returns the keys in l that had not been forgotten at now. l is what [Store.Load] returned
// for the owner. Recent returns nil if there are none, or if they must not be used: they have
// another seed, are damaged, or report more than three times the false-positive rate. Keys that
// exceed the rate by less stay in use, because the rate may have been lowered, and forgetting them
// would be worse.
func (w *Window) Recent(l Loaded, now time.Time) *Recent {
	if l.Fingerprints == nil || l.Fingerprints.seed != w.seed {
		return nil
	}
	live := l.Fingerprints.runs
	for len(live) > 0 && live[0].before+w.length <= now.UnixMilli() {
		live = live[1:]
	}
	if len(live) == 0 || rateOf(live) > w.runs.rate*rateTolerance {
		return nil
	}
	return newRecent(live, w.length, w.part)
}

// Writing is what [Window.Write] writes.
type Writing struct {
	Keys []Hash
	// At has the time when each key was added; a key without a time was added now. A key whose part
	// is forgotten already is not added.
	At  []time.Time
	Now time.Time
	// Loaded is what Store.Load has just returned for the owner; with it, Write makes a single
	// write to the store. If it is nil, Write reads first.
	Loaded *Loaded
	// Recent is what Window.Recent returned for Loaded and Now. If it is nil, Write decodes Loaded.
	Recent *Recent
}

// Recorded is the result of [Window.Write].
type Recorded struct {
	// Fresh reports for each key whether it was new. A key is not new if its part or a later one
	// had it. At the false-positive rate, it is false for a new key, too.
	Fresh []bool
	// Evicted is the number of old keys removed because Most keys were newer.
	Evicted int
	// Damage is why the stored value could not be read and counted as empty; nil: it was readable.
	Damage error
}

// Write adds keys of an owner to those that the store keeps under id. After an error, it has added
// all of them or none.
func (w *Window) Write(ctx context.Context, id PageID, wr Writing) (Recorded, error) {
	for round := range windowRounds {
		recorded, done, err := w.try(ctx, id, &wr, round)
		if err != nil {
			return Recorded{}, fmt.Errorf("write %d keys of window %v: %w", len(wr.Keys), id, err)
		}
		if done {
			return recorded, nil
		}
		wr.Loaded = nil
	}
	return Recorded{}, fmt.Errorf("write %d keys of window %v: %w", len(wr.Keys), id, errContended)
}

var errContended = errors.New("other writers changed it each time")

func (w *Window) try(ctx context.Context, id PageID, wr *Writing, round int) (recorded Recorded, done bool, err error) {
	if err := yield(ctx, round); err != nil {
		return recorded, false, err
	}
	if wr.Loaded == nil {
		loaded, err := w.store.Load(ctx, []PageID{id})
		if err != nil {
			return recorded, false, err
		}
		wr.Loaded, wr.Recent = &loaded[0], nil
	}
	if wr.Recent == nil {
		wr.Recent = w.Recent(*wr.Loaded, wr.Now)
	}
	draft := w.runs.draft(wr.Recent)
	recorded = Recorded{Fresh: w.add(draft, wr), Damage: wr.Loaded.Damage}
	if !draft.changed {
		return recorded, true, nil
	}
	recorded.Evicted = draft.evict()
	draft.join()
	draft.shorten(w.partEnd(wr.Now))
	changes := uint32(0)
	if f := wr.Loaded.Fingerprints; f != nil {
		changes = f.changes
	}
	next := encodeFingerprints(w.seed, changes+1, draft.encode())
	last := next.runs[len(next.runs)-1].before + w.length
	done, err = w.store.Replace(ctx, Replacement{
		ID: id, Fingerprints: next, Seen: wr.Loaded.Version, Expire: time.UnixMilli(last).Sub(wr.Now),
	})
	return recorded, done, err
}

// add adds the keys to the draft, and reports for each whether it was new. Keys of the current part
// are the newest, even if the clock was set back since the last part began.
func (w *Window) add(d *draft, wr *Writing) []bool {
	fresh := make([]bool, len(wr.Keys))
	current := w.partEnd(wr.Now)
	newest := current
	if n := len(d.generations); n > 0 {
		newest = max(newest, d.generations[n-1].before)
	}
	for i, key := range wr.Keys {
		end := newest
		if i < len(wr.At) {
			if past := w.partEnd(wr.At[i]); past < current {
				end = past
			}
		}
		fresh[i] = end+w.length > wr.Now.UnixMilli() && d.add(key, end)
	}
	return fresh
}

// partEnd returns the end of the part that t is in.
func (w *Window) partEnd(t time.Time) int64 {
	ms := t.UnixMilli()
	number := ms / w.part
	if ms < number*w.part { // before 1970
		number--
	}
	return max(0, (number+1)*w.part)
}

// Remove removes all keys that the store keeps under id.
func (w *Window) Remove(ctx context.Context, id PageID) error {
	for round := range windowRounds {
		if err := yield(ctx, round); err != nil {
			return fmt.Errorf("forget window %v: %w", id, err)
		}
		loaded, err := w.store.Load(ctx, []PageID{id})
		if err != nil {
			return fmt.Errorf("forget window %v: %w", id, err)
		}
		if loaded[0].Version == "" {
			return nil
		}
		gone, err := w.store.Replace(ctx, Replacement{ID: id, Seen: loaded[0].Version})
		if err != nil {
			return fmt.Errorf("forget window %v: %w", id, err)
		}
		if gone {
			return nil
		}
	}
	return fmt.Errorf("forget window %v: %w", id, errContended)
}

// yield pauses before another attempt, so that the writers that overtook this one can finish.
// rounds is how often they did.
func yield(ctx context.Context, rounds int) error {
	if rounds == 0 {
		return nil
	}
	pause := time.Millisecond << min(rounds-1, 6)
	timer := time.NewTimer(rand.N(pause)) //nolint:gosec // no secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
