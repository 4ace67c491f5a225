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
	// DefaultParts is how many parts the length of a [Ring] is cut into.
	DefaultParts = 6

	maxParts      = 64
	minRing       = 1e-9             // the least rate; a part's is less
	minPart       = time.Millisecond // the resolution of a store's time to live
	maxRing       = 100 * 365 * 24 * time.Hour
	ringRounds    = 16   // tries of one write whose part others change each time
	minPartKeys   = 64   // that the first layer of a part has room for
	maxPartKeys   = 1e6  // the same, at most: a busy time is no reason to begin the next with so much
	ringHeadroom  = 1.25 // of a part over the one before: a second layer takes twice the room of the first
	rateTolerance = 3    // of a part over its share: see Usable
)

// RingConfig says how long a [Ring] keeps keys. Zero values other than Length take the
// defaults stated.
type RingConfig struct {
	_ struct{} // fields are named

	// Length is how long a key is kept at least, from its last Add on: 1 s to 100 years.
	// It is forgotten Length/Parts later than that at most.
	Length time.Duration

	// Parts is how many parts Length is cut into, 1 to 64. More parts forget more
	// punctually, cost a string more to read each, and a little more memory a key,
	// since every part gets a share of the false-positive rate. Default [DefaultParts].
	Parts int

	// FalsePositiveRate is the share of absent keys reported at most, by all parts
	// together: 1e-9 to 0.5. Default 0.001.
	FalsePositiveRate float64
}

// Ring keeps keys for a time, in pages that the store drops by themselves: nothing
// sweeps, and an endless stream of keys takes bounded memory. Time is cut into parts,
// each with a page of its own that grows by layers. A key is added to the part of
// its moment, and looked up in all parts that may still hold it: Parts+1, the one under way
// included. A part goes as a whole, Length after its end.
//
// One Ring serves any number of places: the id given to its methods is that of pages that
// belong together, in one hash slot. It keeps nothing in process and is safe for concurrent use.
//
// The clocks of the processes that share a store should agree: one that is behind by d
// adds keys that are forgotten up to d early, and overlooks, for d, those that others add in a part that has not
// begun for it; one ahead by d overlooks keys up to d early.
type Ring struct {
	store    Store
	identity Identity
	length   time.Duration
	part     time.Duration
	parts    int
	scaling  Scaling
}

// NewRing returns a ring whose pages have the given identity. It fails where a
// value is out of range.
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

// number is that of the part under way at now.
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

// Pages are the pages that hold the keys of id at now, the newest part first: what to
// load, with whatever else, for Contains and Add.
func (r *Ring) Pages(id PageID, now time.Time) []PageID {
	ids := make([]PageID, r.parts+1)
	number := r.number(now)
	// All names are parts of one string: a feed asks for them each time.
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

// Span is the time that the i-th of the Pages at now is for: a key that it holds was
// added from then until before.
func (r *Ring) Span(i int, now time.Time) (from, before time.Time) {
	from = time.UnixMilli((r.number(now) - int64(i)) * r.part.Milliseconds()).UTC()
	return from, from.Add(r.part)
}

// Usable returns the page of a part as loaded, nil if there is none or it must not be
// used: it is of another filter, of another format version, or reports more than three times its
// share of the rate. (Up to
// that it is used: where the rate was lowered, as for one more kind, to forget what there is would be worse.)
func (r *Ring) Usable(l Loaded) *Page {
	if l.Page == nil || l.Page.Header().Identity != r.identity ||
		l.Page.FalsePositiveRate() > r.scaling.FalsePositiveRate*rateTolerance {
		return nil
	}
	return l.Page
}

// Add puts keys into the part of now, and reports for each whether it was new to that
// part; new keys are reported as old at the false-positive rate. loaded is what
// Store.Load returned a moment ago for Pages(id, now), and makes Add one write to the store; with nil
// it reads first. All keys are added or, with an error, perhaps none.
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

// yield lets other writers finish who were first in so many rounds.
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

// successor is a page to go on with: a copy of the newest part, or where there is none a
// new one, made for as many keys as the part before it got.
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

// Forget removes all parts of id that there may be at now.
func (r *Ring) Forget(ctx context.Context, id PageID, now time.Time) error {
	// Also the part after this one: another process's clock may be ahead.
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
