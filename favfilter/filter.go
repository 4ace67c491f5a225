package favfilter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

var (
	// ErrFull is wrapped by errors about keys that no longer fit.
	ErrFull = errors.New("page is full")
	// ErrMismatch is wrapped by errors about a filter that was created with other settings than it
	// is opened with.
	ErrMismatch = errors.New("filter was made with other settings")
)

// Config configures a [Filter]. Fields other than Capacity may be zero and then take the stated
// default.
type Config struct {
	_ struct{} // fields are named

	// Capacity is the expected number of keys, 1 or more. The filter takes more keys, but is
	// smaller and faster if the number is right.
	Capacity int

	// FalsePositiveRate is the highest share of absent keys that are reported as present,
	// regardless of the number of keys: 1e-11 to 0.5. Default 0.001.
	FalsePositiveRate float64

	// Pages is the number of pages, a power of two up to [MaxPages]. The default gives each page
	// 2,000 to 4,000 keys, or all keys one page if there are fewer.
	Pages uint32

	// Seed is the seed of the key hashes. A random seed prevents strangers from choosing keys that
	// collide. Default 0.
	Seed uint64

	// PageBy returns the part of a key that selects its page. Keys that are looked up together,
	// such as all keys of one user, can then share a page. A lookup of any number of them takes one
	// round trip and one read. Every page has the same room, so the keys must be distributed evenly
	// over the values of PageBy. Default: the whole key.
	PageBy func(key string) string

	// Hash returns the hash of a key under seed. A filter finds a key only by the hash with which
	// it was added. Default: [HashKey].
	Hash func(seed uint64, key string) Hash

	// Marks returns the marks that go with a key, see [Page.Mark]. They are on its page once it is
	// added, and stay when it is removed. Default: none.
	Marks func(seed uint64, key string) []Hash
}

// Filter is a set of keys kept in a [Store], without a ledger. Contains reports false positives at
// the configured rate, and keys can be removed.
//
// Add, Remove and Contains take any number of keys and handle them in one call of the store. Add
// and Remove may be retried. Each page changes atomically, so concurrent writers, in this process
// or in others, lose no keys.
//
// # Growth
//
// A Filter takes more keys than its Capacity. A full page gets another layer: a Bloom filter for
// twice as many keys as its newest layer. The false-positive rate is divided between the layers,
// see [Batch]. No key is moved, and the rate stays below the configured one. It is half of the
// configured rate when the filter holds Capacity keys, and 88 % of it with 16 times as many.
//
// Growth has a cost:
//
//   - Memory: with 2 to 64 times its capacity, a filter takes 1.5 to 2.5 times as much as one
//     configured for that many keys.
//   - Lookups: each layer makes them slower. With 16 times the capacity, a page has 4 layers.
//   - A page of several layers is written by reading it, changing it and putting it back. In Redis
//     this takes two round trips and transfers the whole page.
//
// A page may have [MaxLayers] layers and [MaxBits] bits, which is room for millions of keys.
//
// # Limits
//
// A filter alone cannot know whether a key was really added. The figures below were measured on
// pages of 2,010 keys at a false-positive rate of 0.1 %. The tests of the package assert them
// (limits_test.go):
//
//   - Add of a key that looks present is a no-op. On a page that becomes full for the first time, 1
//     in 2,000 new keys is such a false positive; on any page, at most 1 in 1/rate. Such a key is
//     reported like any other, but depends on bits of other keys. When half of those keys are
//     removed, 87 % of such keys are lost.
//   - Remove of a key that was never added is a no-op, except for the same share of false
//     positives. Each of those clears bits of keys that were added, and loses 4.9 of them.
//   - A key whose bits are all in regions shared with other keys is [Stuck]: it stays reported. The
//     share of stuck keys depends on how full the page was. It is 0.01 % on a page filled once to
//     half of its capacity, 0.1 % at three quarters and 1 % on a full page.
//   - A page whose keys are replaced over and over grows even if its number of keys stays the same.
//     Collision bits are never cleared, stuck keys take up room, and only the newest layer takes
//     new keys. The bits of a page kept half full take 4 KiB at first. Until all keys have been
//     replaced once, 0.1 % of the removals are stuck; until they have been replaced twice, 0.5 %.
//     By the time they have been replaced 4 times, the page has two layers and takes 14 KiB. After
//     16 times it still takes 14 KiB, and 0.6 % of its removals are stuck. The false-positive rate
//     never exceeds the configured one.
//   - A page that the store loses is empty.
//
// Where losing a key would do harm, keep a ledger and use package activity, which has none of these
// limits.
//
// A Filter is safe for concurrent use.
type Filter struct {
	store    Store
	identity Identity
	shape    Shape // shape of the first layer of each page
	rate     float64
	pageBy   func(string) string
	hash     func(seed uint64, key string) Hash
	marks    func(seed uint64, key string) []Hash
}

// Open opens the filter in store, or creates it if there is none. It fails with an error that
// wraps:
//
//   - [ErrMismatch] if the filter was created with other settings.
//   - [ErrFormat] if its pages have another format version.
//
// A filter of another format version cannot be converted, because it does not store its keys.
// Create a new filter in a store with another name, and add the keys again.
func Open(ctx context.Context, store Store, c Config) (*Filter, error) {
	c.FalsePositiveRate = cmp.Or(c.FalsePositiveRate, 0.001)
	c.Pages = cmp.Or(c.Pages, defaultPages(c.Capacity))
	if c.PageBy == nil {
		c.PageBy = func(key string) string { return key }
	}
	if c.Hash == nil {
		c.Hash = HashKey
	}
	if c.Marks == nil {
		c.Marks = func(uint64, string) []Hash { return nil }
	}
	if c.Capacity < 1 {
		return nil, fmt.Errorf("open filter: capacity %d is not positive", c.Capacity)
	}
	if err := checkPages(c.Pages); err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	shape, err := firstShape(pageCapacity(c.Capacity, c.Pages), c.FalsePositiveRate, layerRate(1, 0))
	if err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	f := &Filter{
		store:    store,
		identity: Identity{Seed: c.Seed, Pages: c.Pages},
		shape:    shape,
		rate:     c.FalsePositiveRate,
		pageBy:   c.PageBy,
		hash:     c.Hash,
		marks:    c.Marks,
	}
	if err := f.adopt(ctx); err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	if err := f.Keep(ctx); err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	return f, nil
}

// Keep ensures that the store records the settings of the filter. They are recorded in page 0 on
// behalf of all pages; Keep creates that page again if the store has lost it. Open calls Keep. A
// long-running process should call it from time to time. Otherwise another process could, after a
// loss, open the filter as a new one with other settings. If that has happened, Keep fails with an
// error that wraps [ErrMismatch].
func (f *Filter) Keep(ctx context.Context) error {
	if err := f.create(ctx, 0); err != nil {
		return err
	}
	_, err := f.load(ctx, []PageID{{Number: 0}})
	return err
}

// adopt makes new pages have the format version of those in the store, so that processes that read
// no later version can use them.
func (f *Filter) adopt(ctx context.Context) error {
	loaded, _, err := f.store.Load(ctx, []PageID{{Number: 0}})
	if err == nil && loaded[0].Page != nil {
		f.shape.Uniform = loaded[0].Page.Header().Shape.Uniform
	}
	return err
}

func defaultPages(capacity int) uint32 {
	const keysPerPage = 2000
	n := min(MaxPages, max(1, capacity/keysPerPage))
	return 1 << (bits.Len(uint(n)) - 1)
}

// pageCapacity returns the capacity of a page. It leaves room for five standard deviations above
// the page's share of the keys, which is Poisson distributed.
func pageCapacity(capacity int, pages uint32) int {
	share := float64(capacity) / float64(pages)
	deviations := 5.0
	if pages == 1 {
		deviations = 1 // the number of keys is exact; the number of bits they set varies less
	}
	return int(math.Ceil(share + deviations*math.Sqrt(share)))
}

// Add adds keys. The outcomes are in the order of keys: [Added], [Present] or [Full]. A key is Full
// if its page can grow no further; it then changed nothing, and the error wraps [ErrFull]. After
// any other error, outcome 0 means that the key may or may not have been added.
func (f *Filter) Add(ctx context.Context, keys ...string) ([]Outcome, error) {
	outcomes, err := f.change(ctx, keys, f.add)
	if err != nil {
		return outcomes, fmt.Errorf("add %d keys: %w", len(keys), err)
	}
	if slices.Contains(outcomes, Full) {
		full := 0
		for _, o := range outcomes {
			if o == Full {
				full++
			}
		}
		return outcomes, fmt.Errorf("add %d keys: %d do not fit: %w", len(keys), full, ErrFull)
	}
	return outcomes, nil
}

// Remove removes keys. The outcomes are in the order of keys: [Removed], [Absent] or [Stuck]. After
// an error, outcome 0 means that the key may or may not have been removed.
func (f *Filter) Remove(ctx context.Context, keys ...string) ([]Outcome, error) {
	outcomes, err := f.change(ctx, keys, f.remove)
	if err != nil {
		return outcomes, fmt.Errorf("remove %d keys: %w", len(keys), err)
	}
	return outcomes, nil
}

// Contains reports for each key whether the filter may hold it. It reports true for every key that
// was added and not removed, and for other keys at the false-positive rate.
func (f *Filter) Contains(ctx context.Context, keys ...string) ([]bool, error) {
	groups, ids := f.group(keys)
	loaded, err := f.load(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look up %d keys: %w", len(keys), err)
	}
	found := make([]bool, len(keys))
	for i, id := range ids {
		page := loaded[i].Page
		if page == nil {
			continue
		}
		for _, k := range groups[id] {
			found[k] = page.Contains(f.hash(f.identity.Seed, keys[k]))
		}
	}
	return found, nil
}

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
	var ids []PageID
	for number := range f.identity.Pages {
		ids = append(ids, PageID{Number: number})
		if len(ids) < countChunk && number+1 < f.identity.Pages {
			continue
		}
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
		ids = ids[:0]
	}
	return total, nil
}

// add adds a key to those that a batch adds.
func (f *Filter) add(b *Batch, key string) {
	b.Add = append(b.Add, f.hash(f.identity.Seed, key))
	b.Marks = append(b.Marks, f.marks(f.identity.Seed, key)...)
}

// remove adds a key to those that a batch removes.
func (f *Filter) remove(b *Batch, key string) {
	b.Remove = append(b.Remove, f.hash(f.identity.Seed, key))
}

// change applies one batch to each page of keys. to adds a key to a batch.
func (f *Filter) change(
	ctx context.Context, keys []string, to func(b *Batch, key string),
) ([]Outcome, error) {
	groups, ids := f.group(keys)
	batches := make([]Batch, len(ids))
	for i, id := range ids {
		batches[i] = Batch{ID: id, Identity: f.identity, Rate: f.rate}
		for _, k := range groups[id] {
			to(&batches[i], keys[k])
		}
	}
	outcomes := make([]Outcome, len(keys))
	var errs []error
	for range 3 { // a page lost again as soon as it was created: no store does that for long
		var again []Batch
		for i, res := range f.store.Apply(ctx, batches) {
			id := batches[i].ID
			if res.State == Missing && len(batches[i].Add) == 0 {
				for _, k := range groups[id] {
					outcomes[k] = Absent
				}
				continue
			}
			switch err := f.settle(ctx, id, res); {
			case err != nil:
				errs = append(errs, err)
			case res.State == Missing:
				again = append(again, batches[i])
			default:
				for j, k := range groups[id] {
					outcomes[k] = res.Outcomes[j]
				}
			}
		}
		if batches = again; len(batches) == 0 {
			return outcomes, errors.Join(errs...)
		}
	}
	errs = append(errs, fmt.Errorf("page %v: missing again as soon as it was made", batches[0].ID))
	return outcomes, errors.Join(errs...)
}

// settle creates the page if it was missing, and returns an error for any other failure.
func (f *Filter) settle(ctx context.Context, id PageID, res Result) error {
	switch {
	case res.Err != nil:
		return res.Err
	case res.State == Missing:
		return f.create(ctx, id.Number)
	case res.State == Applied && f.hasShape(res.Header):
		return nil
	case res.State == Torn:
		return fmt.Errorf("page %v: %w", id, ErrDamaged)
	default:
		return f.mismatch(id.Number, res.Header)
	}
}

// create stores an empty page if there is none.
func (f *Filter) create(ctx context.Context, number uint32) error {
	page, err := NewPage(Header{
		Identity: f.identity,
		Shape:    f.shape,
		Number:   number,
		Build:    RandomID(),
	})
	if err != nil {
		return err
	}
	_, err = f.store.Replace(ctx, Replacement{ID: PageID{Number: number}, Page: page})
	return err
}

// group groups keys by page. It returns the indices of the keys of each page, and the pages.
func (f *Filter) group(keys []string) (map[PageID][]int, []PageID) {
	groups := make(map[PageID][]int)
	var ids []PageID
	for i, key := range keys {
		id := PageID{Number: PageNumber(HashKey(f.identity.Seed, f.pageBy(key)).H1, f.identity.Pages)}
		if groups[id] == nil {
			ids = append(ids, id)
		}
		groups[id] = append(groups[id], i)
	}
	return groups, ids
}

// load reads pages by a call of the store. It fails if one is damaged or belongs to another filter.
func (f *Filter) load(ctx context.Context, ids []PageID) ([]Loaded, error) {
	loaded, _, err := f.store.Load(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, l := range loaded {
		var h Header
		if l.Page != nil {
			h = l.Page.Header()
		}
		if err := f.check(ids[i], h, l.Damage); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// check returns damage, or an error if the page with header h belongs to another filter. h is zero
// for a missing page.
func (f *Filter) check(id PageID, h Header, damage error) error {
	if damage == nil && h != (Header{}) && (h.Identity != f.identity || !f.hasShape(h)) {
		return f.mismatch(id.Number, h)
	}
	return damage
}

// hasShape reports whether a page has the shape of the filter's pages. A page of several layers has
// that of the first. Pages of both format versions are the filter's: each says what it is.
func (f *Filter) hasShape(h Header) bool {
	shape := h.Shape
	shape.Uniform = f.shape.Uniform
	return shape == f.shape
}

func (f *Filter) mismatch(number uint32, h Header) error {
	return fmt.Errorf("page %d: %w: stored %+v %+v, opened with %+v %+v",
		number, ErrMismatch, h.Identity, h.Shape, f.identity, f.shape)
}
