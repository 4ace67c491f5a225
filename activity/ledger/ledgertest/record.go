package ledgertest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

func (s suite) recordNothing(t *testing.T) {
	l := s.make(t, 16)
	checkReceipt(t, record(t, l), ledger.Receipt{})
	newModel(l.Identity()).check(t, l)
}

// recordNoEffect removes rows that do not exist, from pages that never changed. The pages must
// count as unchanged until a row is recorded.
func (s suite) recordNoEffect(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 16})
	m := newModel(l.Identity())
	nothing := []ledger.Change{remove(block(3, "a")), remove(block(5, "a"))}
	for range 2 {
		checkReceipt(t, record(t, l, nothing...), m.record(nothing))
		m.check(t, l)
	}
	shut(t, l)
	for _, restored := range []bool{true, false} {
		l = open(t, url, ledger.Options{Restored: restored})
		m.check(t, l)
		for page := range uint32(16) {
			checkPage(t, l, page, nil, 0)
		}
		got, progress := changes(t, l, "")
		later, _ := changes(t, l, progress.Next)
		if len(got)+len(later) > 0 {
			t.Errorf("changed: %v, then %v, want no page", got, later)
		}
		if !restored {
			break
		}
		shut(t, l)
	}
	recorded := []ledger.Change{remove(block(5, "a")), add(block(3, "a"))}
	checkReceipt(t, record(t, l, recorded...), m.record(recorded))
	m.check(t, l)
	if got, _ := changes(t, l, ""); !maps.Equal(got, map[uint32]uint64{3: 1}) {
		t.Errorf("changed: %v, want page 3 at 1", got)
	}
}

// recordCombined records all combinations of up to three changes in one call. They are of one row,
// and of two rows on two pages, some of which exist and some of which do not. The order is random,
// so that each combination meets other rows.
func (s suite) recordCombined(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	one, two := block(9, "a"), block(2, "b")
	later := one
	later.Since = at(1)
	some := []ledger.Change{add(one), add(later, two, two), remove(one), remove(one, two, one)}
	var combinations [][]ledger.Change
	for _, first := range some {
		combinations = append(combinations, []ledger.Change{first})
		for _, second := range some {
			combinations = append(combinations, []ledger.Change{first, second})
			for _, third := range some {
				combinations = append(combinations, []ledger.Change{first, second, third})
			}
		}
	}
	seed := rand.Uint64()
	t.Logf("order of seed %d", seed)
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(combinations)) {
		recordAt(t, l, m, at(0), combinations[i]...)
		m.check(t, l)
	}
}

func (s suite) recordSince(t *testing.T) {
	l := s.make(t, 16)
	first := block(1, "a")
	first.Since = time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.FixedZone("", 3600))
	kept := first
	kept.Since = time.Date(2026, 3, 1, 11, 0, 0, 123_456_000, time.UTC)
	receipt := record(t, l, add(first))
	checkReceipt(t, receipt, ledger.Receipt{
		Changed: []bool{true},
		Pages:   []ledger.PageChange{{Page: 1, Sequence: 1, Added: []ledger.Row{kept}}},
	})
	later := first
	later.Since = later.Since.Add(time.Hour)
	record(t, l, add(later))
	checkPage(t, l, 1, []ledger.Row{kept}, 1)

	ignored := first
	ignored.Since = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	receipt = record(t, l, remove(ignored))
	checkReceipt(t, receipt, ledger.Receipt{
		Changed: []bool{true},
		Pages:   []ledger.PageChange{{Page: 1, Sequence: 2, Removed: []ledger.Row{kept}}},
	})
	for i, moment := range []time.Time{{}, time.Unix(-1, 999_999_999), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)} {
		row := block(2, "x")
		row.Since = moment
		record(t, l, add(row))
		row.Since = moment.UTC().Truncate(time.Microsecond)
		checkPage(t, l, 2, []ledger.Row{row}, uint64(2*i+1))
		record(t, l, remove(row))
	}
}

// recordManySizes records and removes numbers of rows around the sizes of batches.
func (s suite) recordManySizes(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	for _, n := range []int{1, 2, 3, 5, 8, 9, 15, 16, 17, 32, 33, 63, 64, 65, 127, 129, 1000, 2500} {
		var adds, removes []ledger.Change
		for i := range n {
			row := block(i%16, fmt.Sprint("n", i))
			adds = append(adds, add(row))
			if i%3 != 0 {
				removes = append(removes, remove(row))
			}
		}
		checkReceipt(t, record(t, l, adds...), m.record(adds))
		m.check(t, l)
		checkReceipt(t, record(t, l, removes...), m.record(removes))
		m.check(t, l)
	}
}

func (s suite) recordInvalid(t *testing.T) {
	l := s.make(t, 16)
	valid := block(1, "a")
	with := func(change func(*ledger.Row)) ledger.Change {
		row := valid
		change(&row)
		return add(valid, row)
	}
	for name, c := range map[string]struct {
		change ledger.Change
		names  string
	}{
		"no rows":    {ledger.Change{}, "rows"},
		"no owner":   {with(func(r *ledger.Row) { r.Owner = "" }), "owner"},
		"no kind":    {with(func(r *ledger.Row) { r.Kind = "" }), "kind"},
		"no target":  {with(func(r *ledger.Row) { r.Target = "" }), "target"},
		"long owner": {with(func(r *ledger.Row) { r.Owner = strings.Repeat("ä", 128) + "x" }), "owner"},
		"NUL":        {with(func(r *ledger.Row) { r.Target = "a\x00b" }), "target"},
		"newline":    {with(func(r *ledger.Row) { r.Kind = "a\n" }), "kind"},
		"C1 control": {with(func(r *ledger.Row) { r.Target = "a\u0085" }), "target"},
		"not UTF-8":  {with(func(r *ledger.Row) { r.Owner = "a\xff" }), "owner"},
		"year 0":     {with(func(r *ledger.Row) { r.Since = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) }), "since"},
		"year 10000": {with(func(r *ledger.Row) { r.Since = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), "since"},
		"no names":   {with(func(r *ledger.Row) { r.TargetHash = 1 }), "target hash"},
		"removal":    {remove(ledger.Row{Owner: "u1", Kind: "block"}), "target"},
	} {
		_, err := l.Record(t.Context(), at(0), []ledger.Change{add(block(2, "b")), c.change})
		if err == nil || !strings.Contains(err.Error(), "change 1") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: error %v, want one naming change 1 and %s", name, err, c.names)
		}
	}
	newModel(l.Identity()).check(t, l)
}

// recordOddIDs records rows that a collation, a pattern or a separator might confuse.
func (s suite) recordOddIDs(t *testing.T) {
	l := s.make(t, 1)
	m := newModel(l.Identity())
	ids := []string{
		"a", "A", "a ", " a", "ä", "a\u0308", "%", "_", "'", `"`, `\`, "a'b--", "?1", "1", "01", "1.0", "1e0",
		"U1_P2", "U1", "_P2", "NULL", "x'00'", "2026-01-01 00:00:00", "\U0001f600", "\ufeff", "\uffff",
		strings.Repeat("x", 256), strings.Repeat("x", 255), strings.Repeat("ä", 128),
	}
	var changes []ledger.Change
	for i, id := range ids {
		changes = append(changes,
			add(ledger.Row{Owner: id, Kind: "block", Target: "t", Since: at(int64(i))}),
			add(ledger.Row{Owner: "o", Kind: id, Target: "t", Since: at(int64(i))}),
			add(ledger.Row{Owner: "o", Kind: "block", Target: id, Since: at(int64(i))}))
	}
	receipt := record(t, l, changes...)
	checkReceipt(t, receipt, m.record(changes))
	if n := len(receipt.Pages[0].Added); n != 3*len(ids) {
		t.Fatalf("%d rows added, want %d", n, 3*len(ids))
	}
	m.check(t, l)
	for _, id := range ids {
		change := []ledger.Change{remove(ledger.Row{Owner: "o", Kind: "block", Target: id})}
		checkReceipt(t, record(t, l, change...), m.record(change))
		q := ledger.ListQuery{Owner: id, Kind: "block", Limit: len(ids)}
		rows, err := l.List(t.Context(), q)
		if want := m.list(q); err != nil || len(rows) != len(want) || len(want) > 0 && rows[0] != want[0] {
			t.Errorf("list of %q: %v, %v, want %v", id, rows, err, want)
		}
	}
	m.check(t, l)
}

// countdown is a context that ends after a number of checks.
type countdown struct {
	context.Context
	mu   sync.Mutex
	left int
	done chan struct{}
}

func countDown(looks int) *countdown {
	return &countdown{Context: context.Background(), left: looks, done: make(chan struct{})}
}

func (c *countdown) Done() <-chan struct{} { return c.done }

func (c *countdown) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left--
	if c.left == -1 {
		close(c.done)
	}
	if c.left < 0 {
		return context.Canceled
	}
	return nil
}

// recordCancelledAnywhere ends the context at each check of it, until Record succeeds.
func (s suite) recordCancelledAnywhere(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	var first, changes []ledger.Change
	for i := range 300 {
		row := block(i%16, fmt.Sprint("n", i))
		first = append(first, add(row))
		if i%2 == 0 {
			changes = append(changes, remove(row))
		} else {
			changes = append(changes, add(block(i%16, fmt.Sprint("m", i))))
		}
	}
	checkReceipt(t, record(t, l, first...), m.record(first))
	anywhere(t, func(ctx context.Context) error {
		receipt, err := l.Record(ctx, at(0), changes)
		if err == nil {
			checkReceipt(t, receipt, m.record(changes))
		}
		return err
	}, func() { m.check(t, l) })
	m.check(t, l)
}
