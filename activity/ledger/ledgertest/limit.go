package ledgertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// limit covers what a limit may refuse. There are two rows, "a" and "b", and "old", which ended
// at 10. Now is 20.
func (s suite) limit(t *testing.T) {
	a, b, c, d := block(3, "a"), block(3, "b"), block(3, "c"), block(3, "d")
	old := until(block(3, "old"), at(10))
	longer := until(a, at(1000))
	over := until(c, at(15))
	l := s.make(t, 16)
	m := newModel(l.Identity())
	type outcome struct{ changed, refused bool }
	done, same, no := outcome{true, false}, outcome{}, outcome{false, true}
	for name, step := range map[string]struct {
		changes []ledger.Change
		want    []outcome
		raised  bool // whether the page is raised
	}{
		"no limit":                   {[]ledger.Change{upTo(0, c)}, []outcome{done}, true},
		"room":                       {[]ledger.Change{upTo(3, c)}, []outcome{done}, true},
		"no room":                    {[]ledger.Change{upTo(2, c)}, []outcome{no}, false},
		"much room":                  {[]ledger.Change{upTo(math.MaxUint32, c)}, []outcome{done}, true},
		"too many by far":            {[]ledger.Change{upTo(1, c)}, []outcome{no}, false},
		"added up":                   {[]ledger.Change{upTo(3, c), upTo(3, d), upTo(4, d)}, []outcome{done, no, done}, true},
		"added up without a limit":   {[]ledger.Change{add(c), upTo(3, d)}, []outcome{done, no}, true},
		"as a whole":                 {[]ledger.Change{upTo(3, c, d)}, []outcome{no}, false},
		"one twice":                  {[]ledger.Change{upTo(3, c, c)}, []outcome{done}, true},
		"refused one twice":          {[]ledger.Change{upTo(2, c, c), upTo(3, c)}, []outcome{no, done}, true},
		"there already":              {[]ledger.Change{upTo(1, a)}, []outcome{same}, false},
		"there already, longer":      {[]ledger.Change{upTo(1, longer)}, []outcome{done}, false},
		"there already, and another": {[]ledger.Change{upTo(2, a, c), upTo(3, a, c)}, []outcome{no, done}, true},
		"refused as a whole":         {[]ledger.Change{upTo(2, longer, c), upTo(2, a)}, []outcome{no, same}, false},
		"room made":                  {[]ledger.Change{remove(a), upTo(2, c)}, []outcome{done, done}, true},
		"room made too late":         {[]ledger.Change{upTo(2, c), remove(a)}, []outcome{no, done}, true},
		"room made and used":         {[]ledger.Change{remove(a), upTo(2, a), upTo(2, c)}, []outcome{done, done, no}, false},
		"room made by an end":        {[]ledger.Change{add(until(a, at(15))), upTo(2, c)}, []outcome{done, done}, true},
		"no room made by no-ops":     {[]ledger.Change{remove(d), removeEnded(old), upTo(2, c)}, []outcome{same, done, no}, true},
		"all room made":              {[]ledger.Change{remove(a, b), upTo(1, c), upTo(1, d)}, []outcome{done, done, no}, true},
		"ended, again":               {[]ledger.Change{upTo(2, until(old, at(30)))}, []outcome{no}, false},
		"ended, again, with room":    {[]ledger.Change{upTo(3, until(old, at(30)))}, []outcome{done}, false},
		"ended before":               {[]ledger.Change{upTo(2, over), upTo(3, d)}, []outcome{done, done}, true},
		"lowered, removed":           {[]ledger.Change{{Rows: []ledger.Row{a}, Remove: true, Limit: 1}}, []outcome{done}, true},
		"lowered, still too many":    {[]ledger.Change{remove(a), upTo(1, c), remove(b), upTo(1, d)}, []outcome{done, no, done, done}, true},
		"different limits":           {[]ledger.Change{upTo(2, c), upTo(4, c), upTo(3, d), upTo(4, d)}, []outcome{no, done, no, done}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := recordAt(t, l, m, at(0), add(a), add(b), add(old)).Pages[0].Sequence
			receipt := recordAt(t, l, m, at(20), step.changes...)
			for i, want := range step.want {
				if got := (outcome{receipt.Changed[i], receipt.Refused[i]}); got != want {
					t.Errorf("change %d: changed and refused are %v, want %v", i, got, want)
				}
			}
			if got := receipt.Pages[0].Sequence == before+1; got != step.raised {
				t.Errorf("page raised: %v, want %v", got, step.raised)
			}
			m.check(t, l)
			counted(t, l, m, a, at(20), 100)
			m.clear(t, l)
		})
	}
}

// limitOthers has rows that a limit must not count: of another kind, and of another owner. A
// limit must also refuse the other side of a two-way change.
func (s suite) limitOthers(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	mine := func(target int) []ledger.Row {
		row, theirs := block(3, fmt.Sprint("u", target)), block(target, "u3")
		theirs.Kind = "blocked-by"
		return []ledger.Row{row, theirs}
	}
	hide, neighbour, twin := block(3, "p"), block(3, "u5"), block(3, "u5")
	hide.Kind = "hide"
	neighbour.Owner = "u"
	twin.Hash++
	recordAt(t, l, m, at(0), add(hide), add(neighbour), add(twin), upTo(1, mine(5)...))
	blockedBy := block(3, "u9")
	blockedBy.Kind = "blocked-by"
	receipt := recordAt(t, l, m, at(0), upTo(1, mine(6)...), upTo(1, twin), upTo(1, block(7, "x")), upTo(1, mine(7)...), upTo(1, blockedBy))
	if want := []bool{true, false, false, true, false}; !slices.Equal(receipt.Refused, want) {
		t.Errorf("refused %v, want %v", receipt.Refused, want)
	}
	checkPage(t, l, 6, nil, 0)
	// The second page is full, but its row is not Rows[0].
	record(t, l, add(mine(8)[1]))
	m.record([]ledger.Change{add(mine(8)[1])})
	receipt = recordAt(t, l, m, at(0), upTo(1, mine(8)...), remove(mine(5)...), upTo(1, mine(8)...))
	if want := []bool{true, false, false}; !slices.Equal(receipt.Refused, want) {
		t.Errorf("refused %v, want %v", receipt.Refused, want)
	}
	m.check(t, l)
}

// limitMany limits more owners and kinds at once than fit a batch.
func (s suite) limitMany(t *testing.T) {
	l := s.make(t, 4)
	m := newModel(l.Identity())
	for round := range 4 {
		var changes []ledger.Change
		for i := range 150 {
			row := block(i%16, fmt.Sprint("r", round))
			row.Owner, row.Kind = fmt.Sprint("o", i), []string{"block", "hide"}[i%2]
			changes = append(changes, upTo(uint32(1+i%3), row))
		}
		receipt := recordAt(t, l, m, at(0), changes...)
		for i, refused := range receipt.Refused {
			if want := round > i%3; refused != want {
				t.Errorf("round %d: change %d refused: %v, want %v", round, i, refused, want)
			}
		}
	}
	m.check(t, l)
}

// limitPrepared limits prepared changes beside changes without a limit that repeat rows. Only rows
// that are new count.
func (s suite) limitPrepared(t *testing.T) {
	l := s.make(t, 4)
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(3, "a")))
	recordAt(t, l, m, at(0), add(block(3, "a")), upTo(2, block(3, "b"), block(4, "b")), upTo(2, block(3, "c")))
	m.check(t, l)
	checkPage(t, l, 0, []ledger.Row{block(3, "a"), block(3, "b")}, 2)
}

// concurrentLimit adds more rows of one owner than the limit, from 32 writers. Exactly as many
// as the limit must remain.
func (s suite) concurrentLimit(t *testing.T) {
	const writers, each, limit = 32, 6, 100
	handles := s.handles(t, 16)
	var receipts [writers][]ledger.Receipt
	together(handles, writers, func(l *ledger.Ledger, w int) {
		for i := range each {
			row, other := block(3, fmt.Sprintf("w%d-%d", w, i)), block(3, fmt.Sprintf("w%d-%d-2", w, i))
			receipt, err := l.Record(t.Context(), at(0), []ledger.Change{upTo(limit, row), upTo(limit, other)})
			if err != nil {
				t.Error(err)
				return
			}
			receipts[w] = append(receipts[w], receipt)
		}
	})
	changed, refused, raised := 0, 0, uint64(0)
	for _, receipt := range slices.Concat(receipts[:]...) {
		for i := range receipt.Changed {
			if receipt.Changed[i] {
				changed++
			}
			if receipt.Refused[i] {
				refused++
			}
		}
		if slices.Contains(receipt.Changed, true) {
			raised++
		}
	}
	if changed != limit || refused != 2*writers*each-limit {
		t.Errorf("%d changed and %d refused, want %d and %d", changed, refused, limit, 2*writers*each-limit)
	}
	n, err := handles[0].Counts(t.Context(), ledger.CountQuery{Hash: 3 << 60, Owner: "u3", Kinds: []string{"block"}, Now: at(0), Most: 2 * limit})
	if err != nil || n["block"] != limit {
		t.Errorf("%d rows, %v, want %d", n["block"], err, limit)
	}
	rows, states := snapshot(t, handles[0], 3)
	if len(rows) != limit || states.Sequence != raised {
		t.Errorf("%d rows at sequence %d, want %d at %d", len(rows), states.Sequence, limit, raised)
	}
}

// concurrentLimitChurn adds and removes rows of one owner from several writers. In order of the
// sequences, there must never be more rows than the limit, and no refusal while there is room.
func (s suite) concurrentLimitChurn(t *testing.T) {
	const writers, each, limit = 8, 40, 5
	handles := s.handles(t, 16)
	var mu sync.Mutex
	var story []ledger.PageChange
	var refusals []uint64 // the sequences at which a change was refused
	together(handles, writers, func(l *ledger.Ledger, w int) {
		random := rand.New(rand.NewPCG(4, uint64(w)))
		for range each {
			change := upTo(limit, block(3, fmt.Sprint("t", random.IntN(10))))
			change.Remove = random.IntN(3) == 0
			receipt, err := l.Record(t.Context(), at(0), []ledger.Change{change})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if receipt.Changed[0] {
				story = append(story, receipt.Pages[0])
			}
			if receipt.Refused[0] {
				refusals = append(refusals, receipt.Pages[0].Sequence)
			}
			mu.Unlock()
		}
	})
	checkPageKeys(t, handles[0], 3, tell(t, story), uint64(len(story)))
	rows := []int{0} // by sequence
	for _, p := range story {
		n := rows[len(rows)-1] + len(p.Added) - len(p.Removed)
		if n > limit {
			t.Errorf("%d rows at sequence %d, want at most %d", n, p.Sequence, limit)
		}
		rows = append(rows, n)
	}
	for _, sequence := range refusals {
		if rows[sequence] != limit {
			t.Errorf("refused at %d rows, want only at %d", rows[sequence], limit)
		}
	}
	if len(refusals) == 0 {
		t.Error("nothing was refused")
	}
}
