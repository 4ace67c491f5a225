package favfilter

import (
	"context"
	"crypto/rand"
	"encoding/binary"
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

	// Capacity is the number of keys the filter is to hold, 1 or more.
	Capacity int

	// FalsePositiveRate is the share of absent keys reported as present, at
	// most, in a full page: 1e-9 to 0.5. Default 0.001.
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
}

// Filter is a set of keys kept in a [Store], without a ledger beside it. It
// answers Contains with false positives at the configured rate, and keys can be
// removed again.
//
// Every method takes any number of keys and makes one call of the store for all
// of them. Add and Remove may be retried; racing writers, in this process or others,
// lose nothing, since each page changes in one step.
//
// # Limits
//
// A filter alone cannot know whether a key was really added. The figures are
// measured in pages of 2,146 keys at a false-positive rate of 0.1 %, and asserted
// by the package's tests (limits_test.go):
//
//   - Add of a key that looks present is a no-op. One in 1/rate new keys of a
//     full page is such a false positive: it is reported like any other, but rests
//     on bits of other keys. When half of these are removed, 80 % of such keys are
//     lost.
//   - Remove of a key that was never added is a no-op, but for the same share of
//     false positives: each of these takes bits from keys that were, and loses 3.1
//     of them.
//   - A key whose bits all lie in regions shared with other keys is [Stuck]:
//     it stays reported. With the shapes of [ShapeFor] that is 0.05 % of the keys
//     of a page filled once to half of its capacity, 0.8 % at three quarters and
//     5 % of a full one.
//   - Marks of regions never go away, and keys that are stuck take up room. In a
//     page that is kept half full, 0.7 % of the removals are stuck until all keys
//     have been replaced once, 2.7 % until they have been twice, 7 % until they
//     have been four times. The false-positive rate rises from 0.0017 % to
//     0.0085 %, 0.052 % and the 0.1 % configured. It rises no further: Add answers
//     [Full] instead, to 23 % of the new keys by then, and in a full page to 57 %
//     while its keys are replaced once.
//   - A page that the store loses is empty.
//
// Where a lost key would do harm, keep a ledger and use package activity, which
// has none of these limits.
//
// A Filter is safe for concurrent use.
type Filter struct {
	store    Store
	identity Identity
	shape    Shape
	limit    uint32
	pageBy   func(string) string
}

// Open opens the filter that store holds, or makes it. It fails, wrapping
// [ErrMismatch], if the filter was made with other settings.
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
	if c.Capacity < 1 {
		return nil, fmt.Errorf("open filter: capacity %d is not positive", c.Capacity)
	}
	if err := checkPages(c.Pages); err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	shape, err := ShapeFor(pageCapacity(c.Capacity, c.Pages), c.FalsePositiveRate)
	if err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	f := &Filter{
		store:    store,
		identity: Identity{Seed: c.Seed, Pages: c.Pages},
		shape:    shape,
		limit:    shape.Limit(c.FalsePositiveRate) - uint32(shape.Hashes), // the last key may set as many
		pageBy:   c.PageBy,
	}
	// Page 0 always exists and speaks for the others.
	if err := f.create(ctx, 0); err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	if _, err := f.load(ctx, []PageID{{Number: 0}}); err != nil {
		return nil, fmt.Errorf("open filter: %w", err)
	}
	return f, nil
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
// [Full]; a key that is full has changed nothing, and makes the error wrap
// [ErrFull]. After another error the outcome 0 stands for a key that may or may not be in.
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
			found[k] = pages[i].Contains(HashKey(f.identity.Seed, keys[k]))
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
		batches[i] = Batch{ID: id, Identity: f.identity, Limit: f.limit}
		hashes := list(&batches[i])
		for _, k := range groups[id] {
			*hashes = append(*hashes, HashKey(f.identity.Seed, keys[k]))
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
	var build [8]byte
	_, _ = rand.Read(build[:]) // never fails
	page, err := NewPage(Header{
		Identity: f.identity,
		Shape:    f.shape,
		Number:   number,
		Build:    binary.BigEndian.Uint64(build[:]),
	})
	if err != nil {
		return err
	}
	_, err = f.store.Replace(ctx, Replacement{ID: PageID{Number: number}, Page: page})
	return err
}

// group sorts keys by page: the indices of the keys of each, and the pages.
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

func (f *Filter) load(ctx context.Context, ids []PageID) ([]*Page, error) {
	loaded, err := f.store.Load(ctx, ids)
	if err != nil {
		return nil, err
	}
	pages := make([]*Page, len(ids))
	for i, l := range loaded {
		if l.Damage != nil {
			return nil, l.Damage
		}
		if l.Page != nil {
			if h := l.Page.Header(); h.Identity != f.identity || h.Shape != f.shape {
				return nil, f.mismatch(ids[i].Number, h)
			}
		}
		pages[i] = l.Page
	}
	return pages, nil
}

func (f *Filter) mismatch(number uint32, h Header) error {
	return fmt.Errorf("page %d: %w: stored %+v %+v, opened with %+v %+v",
		number, ErrMismatch, h.Identity, h.Shape, f.identity, f.shape)
}
