package favfilter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	// DefaultParts is the default number of parts that the length of a [Ring] is divided into.
	DefaultParts = 6

	maxParts    = 64
	minRing     = 1e-9             // lowest rate of a ring; the rate of a part is lower
	minPart     = time.Millisecond // resolution of a store's time to live
	maxRing     = 100 * 365 * 24 * time.Hour
	ringRounds  = 16  // attempts of one write while other writers keep changing its part
	minPartKeys = 64  // lowest capacity of the first layer of a part
	maxPartKeys = 1e6 // highest such capacity, so that a busy part does not inflate the next one
	// ringHeadroom is the capacity of a part relative to the keys of the previous part. A second
	// layer would take twice the room of the first.
	ringHeadroom  = 1.25
	rateTolerance = 3 // factor by which a part may exceed its share of the rate: see Usable
)

// RingConfig configures a [Ring]. Fields other than Length may be zero and then take the stated
// default.
type RingConfig struct {
	_ struct{} // fields are named

	// Length is the minimum time that a key is kept after its last Add: 1 s to 100 years. The key
	// is forgotten at most Length/Parts later than that.
	Length time.Duration

	// Parts is the number of parts that Length is divided into, 1 to 64. With more parts, keys are
	// forgotten closer to their time. Each part costs one more string per read. It also costs a
	// little more memory per key, because each part gets a share of the false-positive rate.
	// Default [DefaultParts].
	Parts int

	// FalsePositiveRate is the highest share of absent keys that all parts together report: 1e-9 to
	// 0.5. Default 0.001.
	FalsePositiveRate float64
}

// Ring keeps keys for a limited time, in pages that the store expires by itself. No sweeper is
// needed, and an endless stream of keys takes bounded memory. Time is divided into parts, each with
// its own page that grows by layers. Add adds a key to the part of the current moment. A lookup
// reads all parts that may still hold a key: Parts+1, including the current one. A part expires as
// a whole, Length after its end.
//
// One Ring serves any number of sets of keys. The PageID given to its methods identifies one set,
// whose pages share a hash slot. A Ring keeps no state in the process and is safe for concurrent
// use.
//
// The clocks of the processes that share a store should agree. A process whose clock is slow by d
// adds keys that are forgotten up to d early. For d, it also misses the keys that others add in a
// part that has not begun by its own clock. A process whose clock is fast by d misses keys up to d
// early.
type Ring struct {
	store    Store
	identity Identity
	length   time.Duration
	part     time.Duration
	parts    int
	scaling  Scaling
}

// NewRing returns a ring whose pages have the given identity. It fails if a value is out of range.
func NewRing(store Store, identity Identity, c RingConfig) (*Ring, error) {
	if c.Parts == 0 {
		c.Parts = DefaultParts
	}
	if c.FalsePositiveRate == 0 {
		c.FalsePositiveRate = 0.001
	}
	switch {
	case c.Length < time.Second || c.Length > maxRing:
		return nil, fmt.Errorf("make a ring: length %v is not in 1 s to 100 years", c.Length)
	case c.Parts < 1 || c.Parts > maxParts:
		return nil, fmt.Errorf("make a ring: %d parts, not 1 to %d", c.Parts, maxParts)
	case !(c.FalsePositiveRate >= minRing && c.FalsePositiveRate <= maxRate):
		return nil, fmt.Errorf("make a ring: false-positive rate %g is not in %g to %g", c.FalsePositiveRate, minRing, maxRate)
	}
	if err := checkPages(identity.Pages); err != nil {
		return nil, fmt.Errorf("make a ring: %w", err)
	}
	part := c.Length / time.Duration(c.Parts)
	if rest := part % minPart; rest > 0 {
		part += minPart - rest
	}
	return &Ring{
		store:    store,
		identity: identity,
		length:   c.Length,
		part:     part,
		parts:    c.Parts,
		scaling:  Scaling{FalsePositiveRate: c.FalsePositiveRate / float64(c.Parts+1)},
	}, nil
}

// number returns the number of the part that is current at now.
func (r *Ring) number(now time.Time) int64 {
	ms, part := now.UnixMilli(), r.part.Milliseconds()
	n := ms / part
	if ms < n*part { // before 1970
		n--
	}
	return n
}

func (r *Ring) page(id PageID, number int64) PageID {
	id.Part += "-" + strconv.FormatInt(number, 10)
	return id
}

// Pages returns the IDs of the pages that hold the keys of id at now, the newest part first. The
// caller loads them, together with any other pages, for Contains and Add.
func (r *Ring) Pages(id PageID, now time.Time) []PageID {
	ids := make([]PageID, r.parts+1)
	number := r.number(now)
	// All names are substrings of one string, because every feed asks for them.
	var names strings.Builder
	names.Grow(len(ids) * (len(id.Part) + len("-00000")))
	var digits [20]byte
	for i := range ids {
		start := names.Len()
		names.WriteString(id.Part)
		names.WriteByte('-')
		names.Write(strconv.AppendInt(digits[:0], number-int64(i), 10))
		ids[i] = PageID{Number: id.Number, Part: names.String()[start:]}
	}
	return ids
}

// Span returns the time range of the i-th of the Pages at now. Every key of that page was added at
// from or later, and earlier than before.
func (r *Ring) Span(i int, now time.Time) (from, before time.Time) {
	from = time.UnixMilli((r.number(now) - int64(i)) * r.part.Milliseconds()).UTC()
	return from, from.Add(r.part)
}

// Usable returns the page of a loaded part, or nil if there is none or it must not be used. A page
// must not be used in these cases:
//
//   - It belongs to another filter.
//   - It has another format version.
//   - It reports more than three times its share of the false-positive rate.
//
// A page that exceeds its share by less stays in use. The rate may have been lowered, for one more
// kind for example, and forgetting the keys would be worse.
func (r *Ring) Usable(l Loaded) *Page {
	if l.Page == nil || l.Page.Header().Identity != r.identity ||
		l.Page.FalsePositiveRate() > r.scaling.FalsePositiveRate*rateTolerance {
		return nil
	}
	return l.Page
}

// Add adds keys to the part of now, and reports for each whether it was new to that part. A new key
// is reported as old at the false-positive rate.
//
// loaded is what Store.Load has just returned for Pages(id, now); with it, Add makes a single write
// to the store. If loaded is nil, Add reads first. Add adds all keys; after an error, it may have
// added all of them or none.
func (r *Ring) Add(ctx context.Context, id PageID, now time.Time, keys []Hash, loaded []Loaded) (fresh []bool, err error) {
	number := r.number(now)
	ids := []PageID{r.page(id, number), r.page(id, number-1)}
	expire := time.UnixMilli((number + 1) * r.part.Milliseconds()).Add(r.length).Sub(now)
	for round := range ringRounds {
		if err := yield(ctx, round); err != nil {
			return nil, fmt.Errorf("add %d keys to page %v: %w", len(keys), ids[0], err)
		}
		if loaded == nil {
			if loaded, err = r.store.Load(ctx, ids); err != nil {
				return nil, fmt.Errorf("add %d keys to page %v: %w", len(keys), ids[0], err)
			}
		}
		page, err := r.successor(id.Number, loaded, len(keys))
		if err != nil {
			return nil, fmt.Errorf("add %d keys to page %v: %w", len(keys), ids[0], err)
		}
		res := page.Apply(Batch{ID: ids[0], Identity: r.identity, Rate: r.scaling.FalsePositiveRate, Grow: true, Add: keys})
		if res.State != Applied {
			return nil, fmt.Errorf("add %d keys to page %v: it is %v", len(keys), ids[0], res.State)
		}
		fresh = make([]bool, len(keys))
		for i, outcome := range res.Outcomes {
			if outcome == Full {
				return nil, fmt.Errorf("add %d keys to page %v: %w", len(keys), ids[0], ErrFull)
			}
			fresh[i] = outcome == Added
		}
		done, err := r.store.Replace(ctx, Replacement{ID: ids[0], Page: page, Seen: loaded[0].Version, Expire: expire})
		if err != nil {
			return nil, fmt.Errorf("add %d keys to page %v: %w", len(keys), ids[0], err)
		}
		if done {
			return fresh, nil
		}
		loaded = nil
	}
	return nil, fmt.Errorf("add %d keys to page %v: other writers changed it each time", len(keys), ids[0])
}

// yield pauses before another attempt, so that the other writers, which were first in the given
// number of rounds, can finish.
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

// successor returns the page to add keys to: a copy of the newest part, or a new page if there is
// none. The new page is sized by the number of keys in the part before it.
func (r *Ring) successor(number uint32, loaded []Loaded, keys int) (*Page, error) {
	if page := r.Usable(loaded[0]); page != nil {
		return page.Clone(), nil
	}
	room := max(minPartKeys, keys)
	if len(loaded) > 1 {
		if before := r.Usable(loaded[1]); before != nil {
			room = max(room, min(maxPartKeys, int(ringHeadroom*float64(before.Header().Count))))
		}
	}
	shape, err := r.scaling.First(room)
	if err != nil {
		return nil, err
	}
	return NewPage(Header{Identity: r.identity, Shape: shape, Number: number, Sequence: 1, Build: RandomID()})
}

// Forget removes all parts of id that may exist at now.
func (r *Ring) Forget(ctx context.Context, id PageID, now time.Time) error {
	// Include the next part: the clock of another process may be fast.
	ids := append([]PageID{r.page(id, r.number(now)+1)}, r.Pages(id, now)...)
	for round := range ringRounds {
		if err := yield(ctx, round); err != nil {
			return fmt.Errorf("forget page %v: %w", id, err)
		}
		loaded, err := r.store.Load(ctx, ids)
		if err != nil {
			return fmt.Errorf("forget page %v: %w", id, err)
		}
		var again []PageID
		for i, l := range loaded {
			if l.Version == "" {
				continue
			}
			gone, err := r.store.Replace(ctx, Replacement{ID: ids[i], Seen: l.Version})
			if err != nil {
				return fmt.Errorf("forget page %v: %w", ids[i], err)
			}
			if !gone {
				again = append(again, ids[i])
			}
		}
		if ids = again; len(ids) == 0 {
			return nil
		}
	}
	return fmt.Errorf("forget page %v: %w", id, errors.New("other writers changed it each time"))
}
