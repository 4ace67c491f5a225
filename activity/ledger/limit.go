package ledger

import "time"

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
