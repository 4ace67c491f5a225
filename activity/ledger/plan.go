package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// key identifies a row.
type key struct {
	hash                uint64
	owner, kind, target string
}

// compare orders keys as the primary key of the entries does.
func (k key) compare(other key) int {
	if k.hash != other.hash {
		return cmp.Compare(k.hash, other.hash)
	}
	// Most keys of one hash are one owner's and of few kinds: equal texts are told in no time.
	if k.owner != other.owner {
		return cmp.Compare(k.owner, other.owner)
	}
	if k.kind != other.kind {
		return cmp.Compare(k.kind, other.kind)
	}
	return cmp.Compare(k.target, other.target)
}

func (r Row) key() key { return key{r.Hash, r.Owner, r.Kind, r.Target} }

// entry is a row that a plan names: as the ledger has it (was, before) and as
// the changes leave it (is, after). A row that has ended is in the ledger, too.
type entry struct {
	key
	was    bool
	before times
	state
	targetHash *int64 // as stored; nil: it names nobody
	tally      *tally // of its owner and kind, if a change limits them
}

// state is what changes make of an entry.
type state struct {
	is    bool
	after times
}

// live reports whether the row is there for somebody who does not see rows that
// have ended.
func (s state) live(now time.Time) bool { return s.is && !s.after.endedAt(now) }

// times are what a row carries, in microseconds.
type times struct{ since, until time.Time }

// endedAt reports whether a row of these times has ended.
func (t times) endedAt(now time.Time) bool { return !t.until.IsZero() && !t.until.After(now) }

func (e *entry) row(t times) Row {
	return Row{Hash: e.hash, Owner: e.owner, Kind: e.kind, Target: e.target, Since: t.since, Until: t.until}
}

// plan works out in process what changes come to, so that a transaction is
// one round of reading, one of writing, and the commit.
type plan struct {
	id      Identity
	changes []Change
	named   []*entry          // one for every row of every change, in their order
	entries []*entry          // each once, in key order: neighbours share database pages
	tallies []*tally          // in key order
	layouts Layouts           // read in the transaction, as are owners
	owners  map[uint64]uint32 // dedicated pages of users of the plan, by hash
	clock   time.Time         // of the database, read in the transaction; zero: it has none of its own
}

// hasEnded reports whether any change removes rows because they have ended.
func (p *plan) hasEnded() bool {
	return slices.ContainsFunc(p.changes, func(c Change) bool { return c.Ended })
}

// newPlan checks the changes and collects the rows that they name.
func newPlan(id Identity, changes []Change) (*plan, error) {
	total := 0
	for i, c := range changes {
		if len(c.Rows) == 0 {
			return nil, fmt.Errorf("change %d: no rows", i)
		}
		if c.Ended && !c.Remove {
			return nil, fmt.Errorf("change %d: ended: only for a removal", i)
		}
		for j, r := range c.Rows {
			if err := r.validate(c.Remove); err != nil {
				return nil, fmt.Errorf("change %d: row %d: %w", i, j, err)
			}
		}
		total += len(c.Rows)
	}
	p := &plan{id: id, changes: changes}
	p.collect(total)
	p.tally()
	return p, nil
}

// place is a row of the changes by its number, with what mostly tells where it stands in key order.
type place struct {
	hash   uint64
	number int
}

// collect sorts the rows of the changes and makes one entry of those that are alike. Sorted they are
// found without a map, which is most of the work where they are hundreds of thousands.
func (p *plan) collect(total int) {
	all, order := make([]entry, 0, total), make([]place, 0, total)
	for _, c := range p.changes {
		for _, r := range c.Rows {
			order = append(order, place{r.Hash, len(all)})
			all = append(all, entry{key: r.key()})
		}
	}
	slices.SortFunc(order, func(a, b place) int {
		if a.hash != b.hash {
			return cmp.Compare(a.hash, b.hash)
		}
		return all[a.number].compare(all[b.number].key)
	})
	p.named, p.entries = make([]*entry, total), make([]*entry, 0, total)
	for _, at := range order {
		e := &all[at.number]
		if n := len(p.entries); n == 0 || p.entries[n-1].key != e.key {
			p.entries = append(p.entries, e)
		}
		p.named[at.number] = p.entries[len(p.entries)-1]
	}
	number := 0
	for _, c := range p.changes {
		for _, r := range c.Rows {
			if r.Names && !c.Remove {
				h := stored(r.TargetHash)
				p.named[number].targetHash = &h
			}
			number++
		}
	}
}

// entry returns the plan's entry for k, nil if there is none.
func (p *plan) entry(k key) *entry {
	if i, found := slices.BinarySearchFunc(p.entries, k, func(e *entry, k key) int { return e.compare(k) }); found {
		return p.entries[i]
	}
	return nil
}

// forget takes back what was found, for another look.
func (p *plan) forget() {
	for _, e := range p.entries {
		e.was = false
		e.before = times{}
	}
	for _, t := range p.tallies {
		t.found = 0
	}
	p.layouts, p.owners = Layouts{}, make(map[uint64]uint32)
}

// found notes that the ledger has the row r, one of the plan's.
func (p *plan) found(r Row) {
	e := p.entry(r.key())
	e.was, e.before = true, times{r.Since, r.Until}
}

// decide makes the changes one after another on the entries, as of now, and
// says which of them altered anything and which were refused. It begins with what
// was found, so it can be called again.
func (p *plan) decide(now time.Time) (changed, refused []bool) {
	for _, e := range p.entries {
		e.state = state{e.was, e.before}
	}
	for _, t := range p.tallies {
		t.live = t.found
	}
	changed, refused = make([]bool, len(p.changes)), make([]bool, len(p.changes))
	named := p.named
	for i, c := range p.changes {
		mine := named[:len(c.Rows)]
		named = named[len(c.Rows):]
		switch {
		case c.Limit > 0 && !c.Remove:
			changed[i], refused[i] = c.applyLimited(mine, now)
		case c.Ended && !p.clock.IsZero() && p.clock.Before(now):
			changed[i] = c.apply(mine, p.clock)
		default:
			changed[i] = c.apply(mine, now)
		}
	}
	return changed, refused
}

// apply makes the change of its entries and reports whether it is one.
func (c Change) apply(named []*entry, now time.Time) (changed bool) {
	for i, r := range c.Rows {
		e := named[i]
		live := e.live(now)
		if e.change(c, times{microseconds(r.Since), microseconds(r.Until)}, now) {
			changed = true
		}
		e.count(live, now)
	}
	return changed
}

// change makes c's change of the entry and reports whether that is one to
// somebody who does not see rows that have ended.
func (e *entry) change(c Change, t times, now time.Time) bool {
	ended := e.is && e.after.endedAt(now)
	live := e.is && !ended
	switch {
	case c.Remove && c.Ended:
		e.is = live
		return ended
	case c.Remove:
		e.is = false
		return live
	case !live:
		e.is, e.after = true, t
		return true
	case !e.after.until.Equal(t.until):
		e.after.until = t.until
		return true
	default:
		return false
	}
}

// writes returns the entries that have to be written: upserted (new, or with
// new times) and removed.
func (p *plan) writes() (upserts, removals []*entry) {
	for _, e := range p.entries {
		switch {
		case e.is && (!e.was || e.after != e.before):
			upserts = append(upserts, e)
		case e.was && !e.is:
			removals = append(removals, e)
		}
	}
	return upserts, removals
}

// users are the hashes of the plan's users, each once, in ascending order.
func (p *plan) users() (hashes []uint64) {
	for _, e := range p.entries {
		if n := len(hashes); n == 0 || hashes[n-1] != e.hash {
			hashes = append(hashes, e.hash)
		}
	}
	return hashes
}

// sharedPages are the pages of the plan's users in the layouts that writers raise, in ascending order.
func (p *plan) sharedPages(l Layouts) (pages []int64) {
	for _, of := range []uint32{l.Current, l.Building} { // its pages have the greater numbers
		for _, e := range p.entries {
			if of == 0 {
				break
			}
			page := int64(p.id.PageIn(of, e.hash))
			if n := len(pages); n == 0 || pages[n-1] != page {
				pages = append(pages, page)
			}
		}
	}
	return pages
}

// effect is what a plan does to pages.
type effect struct {
	pages  []PageChange // of the receipt
	raised []raisedPage // in ascending order
}

// effect returns the net effect on each page. standing is the ledger's state of all pages of the
// plan's users.
func (p *plan) effect(standing map[uint32]Standing) (f effect) {
	dedicated := make(map[uint32]*PageChange)
	var building []raisedPage
	used := false // by a user of the plan: the last page of f
	for _, e := range p.entries {
		number := p.id.PageIn(p.layouts.Current, e.hash)
		if n := len(f.pages); n == 0 || f.pages[n-1].Page != number {
			f.pages, used = append(f.pages, PageChange{Page: number, Sequence: standing[number].Left}), false
		}
		page := &f.pages[len(f.pages)-1]
		if owned := p.owners[e.hash]; owned > 0 {
			if page = dedicated[owned]; page == nil {
				page = &PageChange{Page: owned, Sequence: standing[owned].Sequence}
				dedicated[owned] = page
			}
		} else if !used {
			page.Sequence, used = standing[number].Sequence, true
		}
		if !e.alter(page) || p.layouts.Building == 0 || page.Page >= DedicatedPages {
			continue
		}
		next := p.id.PageIn(p.layouts.Building, e.hash)
		if n := len(building); n == 0 || building[n-1].page != next {
			building = append(building, raisedPage{next, p.id.standing(standing, p.layouts, next, e.hash)})
		}
	}
	for _, page := range slices.Sorted(maps.Keys(dedicated)) {
		f.pages = append(f.pages, *dedicated[page])
	}
	f.raise(standing)
	for _, r := range building {
		r.Sequence++
		f.raised = append(f.raised, r)
	}
	slices.SortFunc(f.raised, func(a, b raisedPage) int { return cmp.Compare(a.page, b.page) })
	return f
}

// alter adds the net effect on a row to its page, and reports whether there is any.
func (e *entry) alter(page *PageChange) bool {
	switch {
	case e.is && !e.was:
		page.Added = append(page.Added, e.row(e.after))
	case e.was && !e.is:
		page.Removed = append(page.Removed, e.row(e.before))
	default:
		return false
	}
	return true
}

// raise gives each page that changes the next sequence.
func (f *effect) raise(standing map[uint32]Standing) {
	for i := range f.pages {
		if p := &f.pages[i]; len(p.Added)+len(p.Removed) > 0 {
			p.Sequence++
			f.raised = append(f.raised, raisedPage{p.Page, Standing{p.Sequence, standing[p.Page].Left}})
		}
	}
}

// receipt is what the plan's transaction returns.
func (p *plan) receipt(changed, refused []bool, f effect) Receipt {
	return Receipt{Changed: changed, Refused: refused, Pages: f.pages, Layouts: p.layouts, Owners: p.owners}
}

// microseconds returns t as the ledger keeps it.
func microseconds(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{} // equal by ==, whatever its location was
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

func (r Row) validate(removal bool) error {
	if err := validateID("owner", r.Owner); err != nil {
		return err
	}
	if err := validateID("kind", r.Kind); err != nil {
		return err
	}
	if err := validateID("target", r.Target); err != nil {
		return err
	}
	if removal {
		return nil
	}
	if r.TargetHash != 0 && !r.Names {
		return errors.New("target hash: of a row that names nobody")
	}
	if year := r.Since.UTC().Year(); year < 1 || year > 9999 {
		return fmt.Errorf("since: year %d is not one of 1 to 9999", year)
	}
	if year := r.Until.UTC().Year(); !r.Until.IsZero() && (year < 2 || year > 9999) {
		return fmt.Errorf("until: year %d is not one of 2 to 9999", year)
	}
	return nil
}
