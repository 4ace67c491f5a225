package favfilter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

var (
	// ErrFull is wrapped by errors about keys that no longer fit.
	ErrFull = errors.New("page is full")
	// ErrMismatch is wrapped by errors about a filter that was made with other
	// settings than it is opened with.
	ErrMismatch = errors.New("filter was made with other settings")
)

// Config says what a [Filter] is to hold. Zero values other than Capacity take
// the defaults stated.
type Config struct {
	_ struct{} // fields are named

	// Capacity is the number of keys the filter is to hold, 1 or more. It takes more, but is
	// smaller and faster if the number is right.
	Capacity int

	// FalsePositiveRate is the share of absent keys reported as present, at
	// most, however many keys there are: 1e-11 to 0.5. Default 0.001.
	FalsePositiveRate float64

	// Pages is the number of pages, a power of two up to [MaxPages]. Default: as many as
	// make some 2,000 keys a page.
	Pages uint32

	// Seed of the hashes. A random one keeps strangers from choosing keys that
	// collide. Default 0.
	Seed uint64

	// PageBy returns the part of a key that decides on its page, so that keys
	// that are looked up together, all those of one user, share one: a lookup then
	// takes one round trip and one read, whatever their number. Default: the whole
	// key. The keys must be spread evenly over its values, since every page has
	// the same room.
	PageBy func(key string) string

	// Hash returns the hash of a key under Seed. A filter finds its keys only by the one that they were added by.
	// Default: [HashKey].
	Hash func(seed uint64, key string) Hash
}

// Filter is a set of keys kept in a [Store], without a ledger beside it. It
// answers Contains with false positives at the configured rate, and keys can be
// removed again.
//
// Add, Remove and Contains take any number of keys and make one call of the store for all
// of them. Add and Remove may be retried; racing writers, in this process or others,
// lose nothing, since each page changes in one step.
//
// # Growth
//
// The filter is made for Capacity keys and takes more: a page that is full gets another
// layer, a Bloom filter for twice as many keys as its last one, and the rate is shared out
// between them, see [Scaling]. Nothing is moved, and the rate stays below the one
// configured: half of it when the filter holds what it was made for, 88 % of it with 16
// times as many keys. A filter that has grown to 2 to 64 times its capacity takes 1.5 to 2.5 times
// the memory of one made for its keys; each layer, 4 for 16 times the keys, makes lookups
// slower, and pages of more than one layer are written by reading them and putting them
// back: in Redis two round trips and the whole page. A page may have [MaxLayers] layers and
// [MaxBits] bits, which is room for millions of keys.
//
// # Limits
//
// A filter alone cannot know whether a key was really added. The figures are
// measured in pages of 2,010 keys at a false-positive rate of 0.1 %, and asserted
// by the package's tests (limits_test.go):
//
//   - Add of a key that looks present is a no-op. One in 2,000 new keys of a
//     page that is full for the first time is such a false positive, and one in 1/rate at
//     most of any: it is reported like any other, but rests
//     on bits of other keys. When half of these are removed, 87 % of such keys are
//     lost.
//   - Remove of a key that was never added is a no-op, but for the same share of
//     false positives: each of these takes bits from keys that were, and loses 4.9
//     of them.
//   - A key whose bits all lie in regions shared with other keys is [Stuck]:
//     it stays reported. With the shapes of [Scaling] that is 0.01 % of the keys
//     of a page filled once to half of its capacity, 0.1 % at three quarters and
//     1 % of a full one.
//   - Marks of regions never go away, keys that are stuck take up room, and only the newest
//     layer takes new keys. So a page whose keys are replaced over and over grows, though it
//     holds no more of them. Of one kept half full, 0.1 % of the removals are stuck until all keys
//     have been replaced once, 0.5 % until they have been twice; its bits take 4 KiB. By the
//     time they have been replaced 4 times it has two layers and takes 14 KiB, and by 16 times
//     it still does, with 0.6 % of the removals stuck. The rate does not rise past the one
//     configured.
//   - A page that the store loses is empty.
//
// Where a lost key would do harm, keep a ledger and use package activity, which
// has none of these limits.
//
// A Filter is safe for concurrent use.
type Filter struct {
	store    Store
	identity Identity
	shape    Shape // of the first layer of each page
	rate     float64
	pageBy   func(string) string
	hash     func(seed uint64, key string) Hash
}

// Open opens the filter that store holds, or makes it. It fails, wrapping
// [ErrMismatch], if the filter was made with other settings, and wrapping [ErrFormat] if
// its pages are of another format version. Such a filter cannot be converted, because
// it does not know its keys: make another one, in a store of another name, and add them again.
func Open(ctx context.Context, store Store, c Config) (*Filter, error) {
	if c.FalsePositiveRate == 0 {
		c.FalsePositiveRate = 0.001
	}
	if c.Pages == 0 {
		c.Pages = defaultPages(c.Capacity)
	}
	if c.PageBy == nil {
		c.PageBy = func(key string) string { return key }
	}
	if c.Hash == nil {
		c.Hash = HashKey
	}
	if c.Capacity < 1 {
		return nil, fmt.Errorf("open filter: capacity %d is not positive", c.Capacity)
	}
	if err := checkPages(c.Pages); err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	scaling := Scaling{FalsePositiveRate: c.FalsePositiveRate, Region: DefaultRegion}
	shape, err := scaling.First(pageCapacity(c.Capacity, c.Pages))
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
	}
	if err := f.Keep(ctx); err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	return f, nil
}

// Keep makes sure that the store says how the filter was made: page 0 speaks for the others, and is made
// again where the store has lost it. Open does so; a process that goes on for long should, now and then,
// lest another opens the filter as a new one after a loss. It fails, wrapping [ErrMismatch], if that has happened.
func (f *Filter) Keep(ctx context.Context) error {
	if err := f.create(ctx, 0); err != nil {
		return err
	}
	_, err := f.load(ctx, []PageID{{Number: 0}})
	return err
}

func defaultPages(capacity int) uint32 {
	const keysPerPage = 2000
	n := min(MaxPages, max(1, capacity/keysPerPage))
	return 1 << (bits.Len(uint(n)) - 1)
}

// pageCapacity leaves each page room for five standard deviations over its share
// of the keys, which is Poisson distributed.
func pageCapacity(capacity int, pages uint32) int {
	share := float64(capacity) / float64(pages)
	deviations := 5.0
	if pages == 1 {
		deviations = 1 // the number of keys is sure; how many bits they set varies less
	}
	return int(math.Ceil(share + deviations*math.Sqrt(share)))
}

// Add puts keys in. The outcomes are in the order of keys: [Added], [Present] or
// [Full]; a key is full, and has changed nothing, where its page can grow no further, which
// makes the error wrap [ErrFull]. After another error the outcome 0 stands for a key that may or may not be in.
func (f *Filter) Add(ctx context.Context, keys ...string) ([]Outcome, error) {
	outcomes, err := f.change(ctx, keys, func(b *Batch) *[]Hash { return &b.Add })
	if err != nil {
		return outcomes, fmt.Errorf("add %d keys: %w", len(keys), err)
	}
	full := 0
	for _, o := range outcomes {
		if o == Full {
			full++
		}
	}
	if full > 0 {
		return outcomes, fmt.Errorf("add %d keys: %d do not fit: %w", len(keys), full, ErrFull)
	}
	return outcomes, nil
}

// Remove takes keys out. The outcomes are in the order of keys: [Removed],
// [Absent] or [Stuck]. After an error the outcome 0 stands for a key that may or may
// not be out.
func (f *Filter) Remove(ctx context.Context, keys ...string) ([]Outcome, error) {
	outcomes, err := f.change(ctx, keys, func(b *Batch) *[]Hash { return &b.Remove })
	if err != nil {
		return outcomes, fmt.Errorf("remove %d keys: %w", len(keys), err)
	}
	return outcomes, nil
}

// Contains reports for each key whether the filter may hold it: true for every
// key that was added and not removed, and for other keys at the false-positive
// rate.
func (f *Filter) Contains(ctx context.Context, keys ...string) ([]bool, error) {
	groups, ids := f.group(keys)
	pages, err := f.load(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look up %d keys: %w", len(keys), err)
	}
	found := make([]bool, len(keys))
	for i, id := range ids {
		if pages[i] == nil {
			continue
		}
		for _, k := range groups[id] {
			found[k] = pages[i].Contains(f.hash(f.identity.Seed, keys[k]))
		}
	}
	return found, nil
}

// change applies one batch for each page touched. list picks which of its lists
// the keys go to.
func (f *Filter) change(ctx context.Context, keys []string, list func(*Batch) *[]Hash) ([]Outcome, error) {
	groups, ids := f.group(keys)
	batches := make([]Batch, len(ids))
	for i, id := range ids {
		batches[i] = Batch{ID: id, Identity: f.identity, Rate: f.rate, Grow: true}
		hashes := list(&batches[i])
		for _, k := range groups[id] {
			*hashes = append(*hashes, f.hash(f.identity.Seed, keys[k]))
		}
	}
	outcomes := make([]Outcome, len(keys))
	var errs []error
	for range 3 { // missing, made, and lost again at once: no store does that for long
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

// settle makes the page that was missing, and turns what else went wrong into an
// error.
func (f *Filter) settle(ctx context.Context, id PageID, res Result) error {
	switch {
	case res.Err != nil:
		return res.Err
	case res.State == Missing:
		return f.create(ctx, id.Number)
	case res.State == Applied && res.Header.Shape == f.shape:
		return nil
	case res.State == Torn:
		return fmt.Errorf("page %v: %w", id, ErrDamaged)
	default:
		return f.mismatch(id.Number, res.Header)
	}
}

// create puts an empty page in an empty place.
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

// group sorts keys by page: the indices of the keys of each, and the pages.
func (f *Filter) group(keys []string) (map[PageID][]int, []PageID) {
	return group(keys, func(key string) PageID {
		return PageID{Number: PageNumber(HashKey(f.identity.Seed, f.pageBy(key)).H1, f.identity.Pages)}
	})
}

func group(keys []string, page func(key string) PageID) (map[PageID][]int, []PageID) {
	groups := make(map[PageID][]int)
	var ids []PageID
	for i, key := range keys {
		id := page(key)
		if groups[id] == nil {
			ids = append(ids, id)
		}
		groups[id] = append(groups[id], i)
	}
	return groups, ids
}

func (f *Filter) load(ctx context.Context, ids []PageID) ([]*Page, error) {
	loaded, err := f.store.Load(ctx, ids)
	if err != nil {
		return nil, err
	}
	return f.checkLoaded(ids, loaded)
}

// checkLoaded returns the pages, nil where one is missing, unless one is damaged or of another
// filter.
func (f *Filter) checkLoaded(ids []PageID, loaded []Loaded) ([]*Page, error) {
	pages := make([]*Page, len(ids))
	for i, l := range loaded {
		switch {
		case l.Damage != nil:
			return nil, l.Damage
		case l.Page != nil && !f.made(l.Page.Header()):
			return nil, f.mismatch(ids[i].Number, l.Page.Header())
		}
		pages[i] = l.Page
	}
	return pages, nil
}

// made tells whether a page with header h is one of the filter's.
func (f *Filter) made(h Header) bool {
	return h.Identity == f.identity && h.Shape == f.shape
}

func (f *Filter) mismatch(number uint32, h Header) error {
	return fmt.Errorf("page %d: %w: stored %+v %+v, opened with %+v %+v",
		number, ErrMismatch, h.Identity, h.Shape, f.identity, f.shape)
}
