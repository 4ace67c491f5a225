package ledgertest

import (
	"cmp"
	"context"
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

// model is a ledger as one would write it without a database: a map.
type model struct {
	id        ledger.Identity
	rows      map[key]times // those that have ended, too
	sequences map[uint32]uint64
	moves     map[uint32]uint32
	own       map[uint64]uint32 // by hash
	numbers   uint32            // from OwnPages on that were ever given to pages, or reserved for some
	places
}

func newModel(id ledger.Identity) *model {
	return &model{
		id: id, rows: map[key]times{}, sequences: map[uint32]uint64{}, moves: map[uint32]uint32{}, own: map[uint64]uint32{},
		places: newPlaces(id),
	}
}

// record makes the changes one by one and then compares before and after.
func (m *model) record(changes []ledger.Change) ledger.Receipt { return m.recordAt(at(0), changes) }

func (m *model) recordAt(now time.Time, changes []ledger.Change) ledger.Receipt {
	before := maps.Clone(m.rows)
	touched := map[key]bool{}
	var receipt ledger.Receipt
	for _, c := range changes {
		for _, r := range c.Rows {
			touched[keyOf(r)] = true
		}
		changed, refused := m.limited(now, c)
		receipt.Changed = append(receipt.Changed, changed)
		receipt.Refused = append(receipt.Refused, refused)
	}
	receipt.Pages = m.pages(before, touched)
	receipt.Placed = map[uint64]ledger.Placed{}
	for k := range touched {
		m.placed(&receipt, k.hash)
	}
	return receipt
}

// limited makes a change, looks at what it has come to, and takes it back if that is
// too much.
func (m *model) limited(now time.Time, c ledger.Change) (changed, refused bool) {
	if c.Remove || c.Limit == 0 {
		return m.rowByRow(now, c), false // without a copy of all there is
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

// count is how many rows of the row's kind its owner has.
func (m *model) count(of ledger.Row, now time.Time) (n int) {
	for k, times := range m.rows {
		if k.hash == of.Hash && k.owner == of.Owner && k.kind == of.Kind && !times.ended(now) {
			n++
		}
	}
	return n
}

// move moves a user, if that is not where they are.
func (m *model) move(hash uint64, out bool) (receipt ledger.Receipt) {
	home, shared := m.id.Page(hash), m.sharedPage(m.now, hash)
	own, has := m.own[hash]
	var gone []uint32
	if out != has {
		if out {
			own = ledger.OwnPages + m.numbers
			m.numbers++
			m.own[hash] = own
		} else {
			delete(m.own, hash)
			m.moves[own]++
			gone = []uint32{own}
		}
		m.sequences[own]++
		for page := range map[uint32]bool{home: true, shared: true} {
			m.moves[page]++
			m.sequences[page]++
		}
	}
	pages := m.others(hash)
	pages[home] = true
	for _, page := range gone {
		pages[page] = true
	}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		receipt.Pages = append(receipt.Pages, m.standsAs(page, hash))
	}
	m.placed(&receipt, hash, gone...)
	return receipt
}

// pageOf is the page that has the rows of a hash.
func (m *model) pageOf(hash uint64) uint32 {
	if page, moved := m.own[hash]; moved {
		return page
	}
	return m.sharedPage(m.now, hash)
}

// owners asks every user who has moved.
func (m *model) owners(home uint32) (owners []ledger.Owner) {
	for hash, page := range m.own {
		if m.id.Page(hash) == home {
			owners = append(owners, ledger.Owner{Hash: hash, Page: page})
		}
	}
	slices.SortFunc(owners, func(a, b ledger.Owner) int { return cmp.Compare(a.Hash, b.Hash) })
	return owners
}

// owned sorts what an owner has.
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

// naming asks every row whom it names.
func (m *model) naming(targetHash uint64, target string, limit int) (rows []ledger.Row) {
	for k, times := range m.rows {
		if times.names && times.targetHash == targetHash && k.target == target {
			rows = append(rows, k.row(times))
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows[:min(limit, len(rows))]
}

// lookup tries every row there is.
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

// change makes one change of one row, and says whether it is one.
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

// pages says what happened to the pages of the keys touched, and raises their
// sequences.
func (m *model) pages(before map[key]times, touched map[key]bool) []ledger.PageChange {
	changes := map[uint32]*ledger.PageChange{}
	for k := range touched {
		home, page := m.id.Page(k.hash), m.pageOf(k.hash)
		others := m.others(k.hash)
		others[home] = true
		for other := range others {
			if changes[other] == nil {
				as := m.standsAs(other, k.hash)
				changes[other] = &as
			}
		}
		old, was := before[k]
		now, is := m.rows[k]
		if is && !was {
			changes[page].Added = append(changes[page].Added, k.row(now))
		}
		if was && !is {
			changes[page].Removed = append(changes[page].Removed, k.row(old))
		}
	}
	var pages []ledger.PageChange
	for _, page := range slices.Sorted(maps.Keys(changes)) {
		c := changes[page]
		if len(c.Added)+len(c.Removed) > 0 {
			m.sequences[page]++
		}
		c.Sequence = m.sequences[page]
		slices.SortFunc(c.Added, compareRows)
		slices.SortFunc(c.Removed, compareRows)
		pages = append(pages, *c)
	}
	return pages
}

func (m *model) page(page uint32) []ledger.Row {
	var rows []ledger.Row
	for k, times := range m.rows {
		if m.pageOf(k.hash) == page {
			rows = append(rows, k.row(times))
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows
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

func follows(target string, since time.Time, p *ledger.Position) bool {
	return p == nil || since.Before(p.Since) || since.Equal(p.Since) && target > p.Target
}

// ended are the rows that have ended by now, in the order in which they did.
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

// check compares the whole ledger with the model. It must have few pages.
func (m *model) check(t tester, l *ledger.Ledger) {
	t.Helper()
	all := map[uint32]ledger.Standing{}
	for _, page := range m.all() {
		want := ledger.Standing{Sequence: m.sequences[page], Moves: m.moves[page]}
		if got := checkPage(t, l, page, m.page(page), want.Sequence); got.Moves != want.Moves {
			t.Errorf("page %d was moved out of %d times, want %d", page, got.Moves, want.Moves)
		}
		if want.Sequence > 0 {
			all[page] = want
		}
	}
	for n := range m.numbers + 1 {
		if page := ledger.OwnPages + n; m.sequences[page] == 0 && second(l.Sequence(context.Background(), page)) == nil {
			t.Errorf("there is a page %d, which nobody had", page)
		}
	}
	if got, _ := standings(t, l, ""); !maps.Equal(got, all) {
		t.Errorf("changed %v, want %v", got, all)
	}
	m.checkHomes(t, l)
}

func second[T any](_ T, err error) error { return err }

// all are the numbers of all pages.
func (m *model) all() (pages []uint32) {
	for page := range m.id.Pages {
		pages = append(pages, page)
	}
	for n := range m.numbers {
		if page := ledger.OwnPages + n; m.sequences[page] > 0 {
			pages = append(pages, page)
		}
	}
	return pages
}
