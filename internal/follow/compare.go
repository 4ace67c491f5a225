package follow

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// errSlice ends a comparison after the last part that it can compare.
var errSlice = errors.New("all parts of the slice are compared")

// sort is how the ledger differs from the tables in an activity.
type sort int

const (
	missing sort = iota // the ledger lacks it
	stray               // no row gives it
	changed             // it begins or ends at another time
	sorts               // how many there are
)

func (s sort) String() string { return [...]string{"missing", "stray", "changed"}[s] }

// findings are what a comparison has found.
type findings struct {
	equal int
	kinds map[string]*difference
}

// difference is how the ledger differed from the tables in a kind.
type difference struct {
	counts [sorts]int
	tables map[string]bool // whose rows were missing or changed
}

func newFindings() *findings { return &findings{kinds: make(map[string]*difference)} }

// add adds a difference. table is "" if no row gives the activity.
func (all *findings) add(kind, table string, how sort) {
	d := all.kinds[kind]
	if d == nil {
		d = &difference{tables: make(map[string]bool)}
		all.kinds[kind] = d
	}
	d.counts[how]++
	if table != "" {
		d.tables[table] = true
	}
}

// differences is how many there are.
func (all *findings) differences() (n int) {
	for _, d := range all.kinds {
		for _, count := range d.counts {
			n += count
		}
	}
	return n
}

func (d *difference) attributes() []any {
	var all []any
	if len(d.tables) > 0 {
		all = append(all, "tables", strings.Join(slices.Sorted(maps.Keys(d.tables)), ","))
	}
	for how := range sorts {
		all = append(all, how.String(), d.counts[how])
	}
	return all
}

// side is an activity on one of the places where the ledger has it: with its user, or a mirror with
// its target. Each is compared. An activity that differs on either is recorded whole.
type side struct {
	item

	mirror bool
}

// parts tells in which part a side is, by the hash of the user whom the ledger has it with.
type parts struct {
	hash     func(user string) uint64
	mirrored func(kind string) bool // the kind has mirrors
}

func partsOf(src *activity.Source) parts { return parts{src.HashOf, src.Mirrored} }

func (p parts) of(s side) int {
	owner := s.user
	if s.mirror {
		owner = s.target
	}
	return int(p.hash(owner) >> spillShift)
}

// comparison compares the rows of a snapshot with the ledger, part by part, and passes on what has
// to be recorded, but for what is touched.
//
// Activities end while it runs. Whether one counts is judged for the row and the ledger at the same
// time, once both are known.
type comparison struct {
	*reading

	f     *Follower
	spill *spill

	part  int            // of rows
	rows  map[side]given // of the part, which the ledger has not shown yet
	group []finding
	// passed are the activities with mirrors that were recorded, by hash: they count once.
	seed   maphash.Seed
	passed map[uint64]struct{}
}

// finding is an activity that has to be recorded, and the side that was compared.
type finding struct {
	side

	change activity.SourceChange
}

// given are the rows that give an activity.
type given struct {
	table string // that of the first
	spans []ledger.Span
}

// compare compares the parts from r.from on with the ledger, and sets r.end.
func (f *Follower) compare(ctx context.Context, src *activity.Source, r *reading, s *spill) error {
	c := &comparison{
		reading: r,
		f:       f,
		spill:   s,
		part:    r.from - 1,
		seed:    maphash.MakeSeed(),
		passed:  make(map[uint64]struct{}),
	}
	kinds, in := f.options.Tables.Kinds(), partsOf(src)
	err := src.Export(ctx, uint64(r.from)<<spillShift, func(a activity.Activity, mirror bool) error {
		if err := r.pace.row(ctx); err != nil {
			return err
		}
		if !slices.Contains(kinds, a.Kind) || mirror && !(r.mirrors && src.Mirrored(a.Kind)) {
			return nil
		}
		of := side{item{a.Kind, a.User, a.Target}, mirror}
		if err := c.advance(ctx, in.of(of)); err != nil {
			return err
		}
		return c.take(ctx, of, ledger.Span{Since: a.Since, Until: a.Until})
	})
	if err == nil {
		err = c.advance(ctx, spillParts)
	}
	if errors.Is(err, errSlice) {
		err = nil
	}
	if err == nil {
		err = c.flush(ctx)
	}
	r.end = c.part
	return err
}

// advance ends the parts before a part, and loads the rows of that one. The ledger lacks what is
// left of the parts before.
func (c *comparison) advance(ctx context.Context, to int) (err error) {
	for c.part < to {
		for of, rows := range c.rows {
			if err := c.lacks(ctx, of, rows); err != nil {
				return err
			}
		}
		c.rows = nil
		if c.touched != nil {
			if err := c.flush(ctx); err != nil { // before the part is forgotten
				return err
			}
		}
		if !c.touched.compared(c.part) {
			return errSlice
		}
		c.part++
		if c.part >= c.touched.limit() {
			return errSlice
		}
		if c.rows, err = c.spill.load(c.part); err != nil {
			return err
		}
	}
	return nil
}

// take compares an activity that the ledger has for some time.
func (c *comparison) take(ctx context.Context, of side, has ledger.Span) error {
	now := c.f.recorder.Now()
	if ended(has.Until, now) {
		return nil // as if the ledger had not shown it
	}
	rows := c.rows[of]
	delete(c.rows, of)
	rows.spans = live(rows.spans, now)
	if len(rows.spans) == 0 {
		return c.pass(ctx, of, rows, func() { c.found.add(of.kind, "", stray) })
	}
	last := slices.MaxFunc(rows.spans, ledger.Span.Compare) // which the activity ends with
	switch {
	case !last.Until.Equal(has.Until) || !last.Since.IsZero() && !last.Since.Equal(has.Since):
		return c.pass(ctx, of, rows, func() { c.found.add(of.kind, rows.table, changed) })
	case len(rows.spans) > 1 && !of.mirror: // the ledger may not know that there are several
		return c.pass(ctx, of, rows, func() { c.found.equal++ })
	default:
		c.found.equal++
		return nil
	}
}

// lacks takes an activity that the ledger has not shown.
func (c *comparison) lacks(ctx context.Context, of side, rows given) error {
	if rows.spans = live(rows.spans, c.f.recorder.Now()); len(rows.spans) == 0 {
		return nil
	}
	return c.pass(ctx, of, rows, func() { c.found.add(of.kind, rows.table, missing) })
}

// pass has an activity recorded as the rows give it, and counts it, unless it is touched.
func (c *comparison) pass(ctx context.Context, of side, rows given, count func()) error {
	if c.touched.has(of) {
		return nil
	}
	if c.mirrors {
		key := maphash.Comparable(c.seed, of.item)
		if _, found := c.passed[key]; found {
			return nil
		}
		c.passed[key] = struct{}{}
	}
	count()
	c.group = append(c.group, finding{of, activity.SourceChange{
		User:   of.user,
		Kind:   of.kind,
		Target: of.target,
		At:     c.f.recorder.Now(),
		Added:  rows.spans,
		Whole:  true,
	}})
	if len(c.group) < c.size {
		return nil
	}
	return c.flush(ctx)
}

// flush has the group recorded.
func (c *comparison) flush(ctx context.Context) error {
	group := c.group
	if c.group = nil; len(group) == 0 {
		return nil
	}
	return c.record(ctx, group)
}

func changesOf(group []finding) []activity.SourceChange {
	changes := make([]activity.SourceChange, len(group))
	for i := range group {
		changes[i] = group[i].change
	}
	return changes
}

// live returns the spans that have not ended.
func live(spans []ledger.Span, now time.Time) []ledger.Span {
	return slices.DeleteFunc(spans, func(s ledger.Span) bool { return ended(s.Until, now) })
}

func ended(until, now time.Time) bool { return !until.IsZero() && !until.After(now) }
