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

// compare orders keys like the primary key of the table entries.
func (k key) compare(other key) int {
	if k.hash != other.hash {
		return cmp.Compare(k.hash, other.hash)
	}
	// Most keys of one hash share an owner, and few kinds. Equal strings compare fast.
	if k.owner != other.owner {
		return cmp.Compare(k.owner, other.owner)
	}
	if k.kind != other.kind {
		return cmp.Compare(k.kind, other.kind)
	}
	return cmp.Compare(k.target, other.target)
}

func (r Row) key() key { return key{r.Hash, r.Owner, r.Kind, r.Target} }

// entry is a row that a plan names. was and before are its state in the ledger, is and after its
// state after the changes. An ended row still exists in the ledger.
type entry struct {
	key
	was    bool
	before times
	state
	targetHash *int64 // in the form of the database; nil: the row names no user
	tally      *tally // tally of the owner and kind, if a change limits them
}

// state is the state of an entry after the changes so far.
type state struct {
	is    bool
	after times
}

// live reports whether the row exists and has not ended.
func (s state) live(now time.Time) bool { return s.is && !s.after.endedAt(now) }

// times are the times of a row, in microseconds.
type times struct{ since, until time.Time }

// endedAt reports whether a row with these times has ended.
func (t times) endedAt(now time.Time) bool { return !t.until.IsZero() && !t.until.After(now) }

func (e *entry) row(t times) Row {
	return Row{
		Hash:   e.hash,
		Owner:  e.owner,
		Kind:   e.kind,
		Target: e.target,
		Since:  t.since,
		Until:  t.until,
	}
}

// plan computes the effect of changes in process. A transaction then needs one round of reads, one
// round of writes, and the commit.
type plan struct {
	id      Identity
	changes []Change
	named   []*entry // one for each row of each change, in their order
	entries []*entry // each once, in key order: neighbours share database pages
	tallies []*tally // in key order
	// most is the number at which the database may stop counting rows of a tally: the highest
	// limit, plus one for each entry. With that many rows, every added row exceeds the limit,
	// whatever was removed before.
	most    int64
	layouts Layouts           // read in the transaction, like owners
	owners  map[uint64]uint32 // dedicated pages of the plan's users, by hash
	clock   time.Time         // of the database, read in the transaction; zero: none of its own
	step    *Step             // by which a source makes the changes; nil: callers of Record do
	// followed are the changes of a source; changes then has their rows alone.
	followed []SourceChange
	repeats  map[key][]Span // rows of a source that give one activity, if there are several
}

// newPlan validates the changes and collects their rows. step is that of a source; nil: callers of
// Record make them.
func newPlan(id Identity, changes []Change, step *Step) (*plan, error) {
	total := 0
	for i, c := range changes {
		if len(c.Rows) == 0 {
			return nil, fmt.Errorf("change %d: no rows", i)
		}
		if c.Ended && !c.Remove {
			return nil, fmt.Errorf("change %d: ended: only valid with remove", i)
		}
		for j, r := range c.Rows {
			if err := r.validate(c.Remove); err != nil {
				return nil, fmt.Errorf("change %d: row %d: %w", i, j, err)
			}
		}
		total += len(c.Rows)
	}
	p := &plan{id: id, changes: changes, step: step}
	p.collect(total)
	p.tally()
	return p, nil
}

// rowIndex is the index of a row of the changes, with the hash, which mostly decides the order.
type rowIndex struct {
	hash   uint64
	number int
}

// collect sorts the rows of the changes, and creates one entry for each distinct key. For
// hundreds of thousands of rows, sorting them avoids a map, which would be most of the work.
func (p *plan) collect(total int) {
	all, order := make([]entry, 0, total), make([]rowIndex, 0, total)
	for _, c := range p.changes {
		for _, r := range c.Rows {
			order = append(order, rowIndex{r.Hash, len(all)})
			all = append(all, entry{key: r.key()})
		}
	}
	slices.SortFunc(order, func(a, b rowIndex) int {
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
			if r.Names && (!c.Remove || p.step != nil) {
				p.named[number].targetHash = new(stored(r.TargetHash))
			}
			number++
		}
	}
}

// forget clears what was read, before a retry.
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

// found records that the ledger has the row r, which the plan names.
func (p *plan) found(r Row) {
	compare := func(e *entry, k key) int { return e.compare(k) }
	i, _ := slices.BinarySearchFunc(p.entries, r.key(), compare)
	e := p.entries[i]
	e.was, e.before = true, times{r.Since, r.Until}
}

// decide applies the changes to the entries, one after another, at the time now. It reports
// which of them altered anything and which were refused. It starts from what was read, so it can
// be called again.
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

// apply applies the change to its entries and reports whether it altered any.
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

// change applies c to the entry. It reports whether that changed the row's end, or the set of rows
// that have not ended.
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

// writes returns the entries to write: upserts are new or have new times.
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

// users returns the hashes of the plan's users in the form of the database, each once, in ascending
// order.
func (p *plan) users() (hashes []int64) {
	for _, e := range p.entries {
		hashes = append(hashes, stored(e.hash))
	}
	return slices.Compact(hashes)
}

// sharedPages returns the pages of the plan's users in the layouts that writers raise, in
// ascending order.
func (p *plan) sharedPages(l Layouts) (pages []int64) {
	// Pages of the building layout have the greater numbers.
	for _, of := range []uint32{l.Current, l.Building} {
		for _, e := range p.entries {
			if of > 0 {
				pages = append(pages, int64(p.id.PageIn(of, e.hash)))
			}
		}
	}
	return slices.Compact(pages)
}

// effect is the effect of a plan on pages.
type effect struct {
	pages  []PageChange // for the receipt
	raised []raisedPage // in ascending order
}

// effect returns the net effect on each page. states has the states of all pages of the plan's
// users.
func (p *plan) effect(states map[uint32]PageState) (f effect) {
	f.pages = make([]PageChange, 0, min(len(p.entries), len(states)))
	dedicated := make(map[uint32]*PageChange)
	var building []raisedPage
	used := false // whether a user of the plan is on the last page of f.pages
	for _, e := range p.entries {
		number := p.id.PageIn(p.layouts.Current, e.hash)
		if n := len(f.pages); n == 0 || f.pages[n-1].Page != number {
			f.pages = append(f.pages, PageChange{Page: number, Sequence: states[number].Left})
			used = false
		}
		page := &f.pages[len(f.pages)-1]
		if owned := p.owners[e.hash]; owned > 0 {
			if page = dedicated[owned]; page == nil {
				page = &PageChange{Page: owned, Sequence: states[owned].Sequence}
				dedicated[owned] = page
			}
		} else if !used {
			page.Sequence, used = states[number].Sequence, true
		}
		if !e.alter(page) || p.layouts.Building == 0 || page.Page >= DedicatedPages {
			continue
		}
		next := p.id.PageIn(p.layouts.Building, e.hash)
		if n := len(building); n == 0 || building[n-1].page != next {
			building = append(building, raisedPage{next, p.id.pageState(states, p.layouts, next, e.hash)})
		}
	}
	for _, page := range slices.Sorted(maps.Keys(dedicated)) {
		f.pages = append(f.pages, *dedicated[page])
	}
	for i := range f.pages { // each changed page gets the next sequence
		if p := &f.pages[i]; p.Changed() {
			p.Sequence++
			f.raised = append(f.raised, raisedPage{p.Page, PageState{p.Sequence, states[p.Page].Left}})
		}
	}
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

// microseconds returns t with the precision of the ledger.
func microseconds(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{} // comparable by ==, whatever its location was
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

func (r Row) validate(removal bool) error {
	err := cmp.Or(
		validateID("owner", r.Owner), validateID("kind", r.Kind), validateID("target", r.Target),
	)
	if err != nil || removal {
		return err
	}
	if r.TargetHash != 0 && !r.Names {
		return errors.New("target hash: only valid with names")
	}
	return times{r.Since, r.Until}.validate()
}

func (t times) validate() error {
	if year := t.since.UTC().Year(); year < 1 || year > 9999 {
		return fmt.Errorf("since: year %d, want 1 to 9999", year)
	}
	if year := t.until.UTC().Year(); !t.until.IsZero() && (year < 2 || year > 9999) {
		return fmt.Errorf("until: year %d, want 2 to 9999", year)
	}
	return nil
}

// tally counts the rows of one owner and kind that have not ended. A plan has one for each owner
// and kind that a change limits.
type tally struct {
	key         // target is empty
	found int64 // in the ledger
	live  int64 // after the changes so far
}

// group returns the key without the target: a limit applies to all rows of one group.
func (k key) group() key {
	k.target = ""
	return k
}

// tally creates a tally for each owner and kind that a change limits. The plan has a row of the
// owner, so the owner's page is locked during the count.
func (p *plan) tally() {
	limited := make(map[key]*tally)
	for _, c := range p.changes {
		if c.Limit > 0 && !c.Remove {
			of := c.Rows[0].key().group()
			limited[of] = &tally{key: of}
			p.most = max(p.most, int64(c.Limit)+int64(len(p.entries)))
		}
	}
	if len(limited) == 0 {
		return
	}
	for _, e := range p.entries {
		t := limited[e.group()]
		if t == nil {
			continue
		}
		if n := len(p.tallies); n == 0 || p.tallies[n-1] != t {
			p.tallies = append(p.tallies, t)
		}
		e.tally = t
	}
}

// applyLimited applies the change unless its limit refuses it.
func (c Change) applyLimited(named []*entry, now time.Time) (changed, refused bool) {
	t := named[0].tally
	before := t.live
	states := make([]state, len(named))
	for i, e := range named {
		states[i] = e.state
	}
	changed = c.apply(named, now)
	if t.live <= before || t.live <= int64(c.Limit) {
		return changed, false
	}
	for i, e := range named {
		live := e.live(now)
		e.state = states[i]
		e.count(live, now)
	}
	return false, true
}

// count updates the tally after a change of the entry. was reports whether the entry was live
// before.
func (e *entry) count(was bool, now time.Time) {
	if e.tally == nil {
		return
	}
	if was {
		e.tally.live--
	}
	if e.live(now) {
		e.tally.live++
	}
}
