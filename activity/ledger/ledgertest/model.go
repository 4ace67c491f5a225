package ledgertest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// key is a row without its times.
type key struct {
	hash                uint64
	owner, kind, target string
}

// times are a row without its key.
type times struct {
	since, until time.Time
	names        bool
	targetHash   uint64
}

func (t times) ended(now time.Time) bool { return !t.until.IsZero() && !now.Before(t.until) }

func keyOf(r ledger.Row) key { return key{r.Hash, r.Owner, r.Kind, r.Target} }

func (k key) row(t times) ledger.Row {
	return ledger.Row{Hash: k.hash, Owner: k.owner, Kind: k.kind, Target: k.target, Since: t.since, Until: t.until}
}

// model is a ledger without a database.
type model struct {
	id      ledger.Identity
	rows    map[key]times // including ended ones
	layouts ledger.Layouts
	states  map[uint32]ledger.PageState
	owners  map[uint64]uint32 // dedicated pages by hash
	numbers uint32            // how many dedicated pages there ever were
}

func newModel(id ledger.Identity) *model {
	return &model{
		id: id, rows: map[key]times{}, layouts: ledger.Layouts{Current: id.Pages},
		states: map[uint32]ledger.PageState{}, owners: map[uint64]uint32{},
	}
}

// record applies the changes one by one, then compares the states before and after.
func (m *model) record(changes []ledger.Change) ledger.Receipt { return m.recordAt(at(0), changes) }

func (m *model) recordAt(now time.Time, changes []ledger.Change) ledger.Receipt {
	var receipt ledger.Receipt
	if len(changes) == 0 {
		return receipt
	}
	before := maps.Clone(m.rows)
	touched := map[key]bool{}
	for _, c := range changes {
		for _, r := range c.Rows {
			touched[keyOf(r)] = true
		}
		changed, refused := m.limited(now, c)
		receipt.Changed = append(receipt.Changed, changed)
		receipt.Refused = append(receipt.Refused, refused)
	}
	receipt.Pages = m.pages(before, touched)
	receipt.Layouts, receipt.Owners = m.layouts, map[uint64]uint32{}
	for k := range touched {
		if page, has := m.owners[k.hash]; has {
			receipt.Owners[k.hash] = page
		}
	}
	return receipt
}

// limited applies a change, and undoes it if the result exceeds the limit.
func (m *model) limited(now time.Time, c ledger.Change) (changed, refused bool) {
	if c.Remove || c.Limit == 0 {
		return m.rowByRow(now, c), false // without copying the whole model
	}
	was := maps.Clone(m.rows)
	before := m.count(c.Rows[0], now)
	changed = m.rowByRow(now, c)
	after := m.count(c.Rows[0], now)
	if after > before && after > int(c.Limit) {
		m.rows = was
		return false, true
	}
	return changed, false
}

func (m *model) rowByRow(now time.Time, c ledger.Change) (changed bool) {
	for _, r := range c.Rows {
		if m.change(now, c, r) {
			changed = true
		}
	}
	return changed
}

// count returns the number of rows of the row's kind and owner.
func (m *model) count(of ledger.Row, now time.Time) (n int) {
	for k, times := range m.rows {
		if k.hash == of.Hash && k.owner == of.Owner && k.kind == of.Kind && !times.ended(now) {
			n++
		}
	}
	return n
}

// owned returns rows of an owner, in order.
func (m *model) owned(hash uint64, owner string, after ledger.Item, limit int) (rows []ledger.Row) {
	for k, times := range m.rows {
		follows := cmp.Or(strings.Compare(k.kind, after.Kind), strings.Compare(k.target, after.Target)) > 0
		if k.hash == hash && k.owner == owner && follows {
			rows = append(rows, k.row(times))
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows[:min(limit, len(rows))]
}

// naming returns rows that name a user, in order.
func (m *model) naming(targetHash uint64, target string, limit int) (rows []ledger.Row) {
	for k, times := range m.rows {
		if times.names && times.targetHash == targetHash && k.target == target {
			rows = append(rows, k.row(times))
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows[:min(limit, len(rows))]
}

// lookup returns the rows of the items, in order.
func (m *model) lookup(q ledger.LookupQuery) (rows []ledger.Row) {
	for k, times := range m.rows {
		mine := k.hash == q.Hash && k.owner == q.Owner && slices.Contains(q.Items, ledger.Item{Kind: k.kind, Target: k.target})
		if mine && !times.ended(q.Now) {
			rows = append(rows, k.row(times))
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

// change applies one change to one row, and reports whether it altered anything.
func (m *model) change(now time.Time, c ledger.Change, r ledger.Row) bool {
	k := keyOf(r)
	old, there := m.rows[k]
	ended := there && old.ended(now)
	switch {
	case c.Remove && c.Ended && !ended:
		return false
	case c.Remove:
		delete(m.rows, k)
		return there && !ended || c.Ended
	case !there || ended:
		m.rows[k] = times{r.Since.Truncate(time.Microsecond).UTC(), r.Until, r.Names, r.TargetHash}
		return true
	default:
		m.rows[k] = times{old.since, r.Until, r.Names, r.TargetHash}
		return !old.until.Equal(r.Until)
	}
}

// pages returns the effect on the pages of the touched keys, and raises these pages, also those
// of the building layout.
func (m *model) pages(before map[key]times, touched map[key]bool) []ledger.PageChange {
	changes := map[uint32]*ledger.PageChange{}
	named := func(page uint32) *ledger.PageChange {
		if changes[page] == nil {
			changes[page] = &ledger.PageChange{Page: page}
		}
		return changes[page]
	}
	stays := map[uint32]bool{} // pages that users of the changes are on
	raised := map[uint32]bool{}
	for k := range touched {
		named(m.shared(m.layouts.Current, k.hash))
		page := m.pageOf(k.hash)
		c := named(page)
		stays[page] = true
		old, was := before[k]
		now, is := m.rows[k]
		if is && !was {
			c.Added = append(c.Added, k.row(now))
		}
		if was && !is {
			c.Removed = append(c.Removed, k.row(old))
		}
		if is != was {
			for _, page := range m.raises(k.hash) {
				raised[page] = true
			}
		}
	}
	m.raise(slices.Collect(maps.Keys(raised)), false)
	var pages []ledger.PageChange
	for _, page := range slices.Sorted(maps.Keys(changes)) {
		c := changes[page]
		if c.Sequence = m.states[page].Left; stays[page] {
			c.Sequence = m.states[page].Sequence
		}
		slices.SortFunc(c.Added, compareRows)
		slices.SortFunc(c.Removed, compareRows)
		pages = append(pages, *c)
	}
	return pages
}

func (m *model) list(q ledger.ListQuery) []ledger.Row {
	var rows []ledger.Row
	for k, times := range m.rows {
		mine := k.hash == q.Hash && k.owner == q.Owner && k.kind == q.Kind
		if mine && !times.ended(q.Now) && follows(k.target, times.since, q.Before) {
			rows = append(rows, k.row(times))
		}
	}
	slices.SortFunc(rows, func(a, b ledger.Row) int {
		if c := b.Since.Compare(a.Since); c != 0 {
			return c
		}
		return strings.Compare(a.Target, b.Target)
	})
	return rows[:min(q.Limit, len(rows))]
}

func follows(target string, since time.Time, p *ledger.Row) bool {
	return p == nil || since.Before(p.Since) || since.Equal(p.Since) && target > p.Target
}

// ended returns the rows that have ended by now, in order of their ends.
func (m *model) ended(now time.Time, limit int) []ledger.Row {
	var rows []ledger.Row
	for k, times := range m.rows {
		if times.ended(now) {
			rows = append(rows, k.row(times))
		}
	}
	slices.SortFunc(rows, func(a, b ledger.Row) int {
		return cmp.Or(a.Until.Compare(b.Until), compareRows(a, b))
	})
	return rows[:min(limit, len(rows))]
}
