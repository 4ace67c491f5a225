package follow

import (
	"context"
	"errors"
	"hash/maphash"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// comparing is a comparison of rows in part 5 with activities of the ledger. It returns the
// changes that it passed on, by target.
func comparing(
	t *testing.T, touched *touched, rows map[side]given, has map[side]ledger.Span,
) (*comparison, map[string]activity.SourceChange, error) {
	t.Helper()
	a := openLedger(t, appTables, activity.BuiltinKinds())
	changes := make(map[string]activity.SourceChange)
	c := &comparison{
		f: &Follower{recorder: a.recorder}, spill: new(spill), part: 5, rows: rows, seed: maphash.MakeSeed(), passed: make(map[uint64]struct{}),
		reading: &reading{touched: touched, mirrors: true, found: newFindings(), size: 2, record: func(_ context.Context, group []finding) error {
			for _, one := range group {
				changes[one.change.Target] = one.change
			}
			return nil
		}},
	}
	for of, span := range has {
		must(t, c.take(t.Context(), of, span))
	}
	err := c.advance(t.Context(), 6)
	must(t, c.flush(t.Context()))
	return c, changes, err
}

// What differs is recorded as the rows give it. An activity that has ended is the same as none.
func TestComparison(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	past, future, later := now.Add(-time.Hour), now.Add(time.Hour), now.Add(2*time.Hour)
	rows, has := make(map[side]given), make(map[side]ledger.Span)
	for target, spans := range map[string][]ledger.Span{
		"same": {{Since: past}}, "since the commit": {{}}, "other since": {{Since: past}}, "other end": {{Since: past, Until: later}}, "no end": {{Since: past}},
		"missing": {{Since: past, Until: future}}, "missing and ended": {{Until: past}}, "ended in the source": {{Until: past}}, "ended in both": {{Until: past}},
		"ended in the ledger": {{Since: past}}, "two rows": {{Since: past, Until: future}, {Since: past}}, "two rows, other end": {{Since: past, Until: future}, {Since: past}},
		"two rows, one ended": {{Since: past, Until: past}, {Since: past}}, "touched": {{Since: past}},
	} {
		rows[side{item{"hide", "5", target}, false}] = given{"hides", spans}
	}
	for target, span := range map[string]ledger.Span{
		"same": {Since: past}, "since the commit": {Since: past}, "other since": {Since: now}, "other end": {Since: past, Until: future}, "no end": {Since: past, Until: future},
		"ended in the source": {Since: past}, "ended in both": {Since: past, Until: past}, "ended in the ledger": {Since: past, Until: past}, "stray": {Since: past},
		"stray and ended": {Since: past, Until: past}, "two rows": {Since: past}, "two rows, other end": {Since: past, Until: future}, "two rows, one ended": {Since: past},
		"touched stray": {Since: past},
	} {
		has[side{item{"hide", "5", target}, false}] = span
	}
	// Blocks of others with user 5.
	for user, sides := range map[string][2]bool{"lacks the mirror": {true, false}, "has a stray mirror": {false, true}, "same mirror": {true, true}} {
		of := side{item{"block", user, "5"}, true}
		if sides[0] {
			rows[of] = given{"blocks", []ledger.Span{{Since: past, Until: future}, {Since: past}}}
		}
		if sides[1] {
			has[of] = ledger.Span{Since: past}
		}
	}
	touched := touchedOf(10)
	touched.begin(5)
	touched.add(item{"hide", "5", "touched"}, 1)
	touched.add(item{"hide", "5", "touched stray"}, 1)
	c, changes, err := comparing(t, touched, rows, has)
	must(t, err)
	want := map[string]int{ // the number of rows that give it
		"other since": 1, "other end": 1, "no end": 1, "missing": 1, "ended in the source": 0, "ended in the ledger": 1, "stray": 0, "two rows": 2, "two rows, other end": 2,
	}
	for target, n := range want {
		change, found := changes[target]
		if !found || len(change.Added) != n || !change.Whole || change.User != "5" {
			t.Errorf("%s: %+v", target, change)
		}
	}
	if len(changes) != len(want)+1 { // those of blocks have the same target
		t.Errorf("%d changes, want %d: %v", len(changes), len(want), changes)
	}
	hides, blocks := c.found.kinds["hide"], c.found.kinds["block"]
	if hides.counts != [sorts]int{2, 2, 4} || blocks.counts != [sorts]int{1, 1, 0} || c.found.equal != 5 || c.part != 6 {
		t.Errorf("hides %v, blocks %v, %d the same, at part %d", hides.counts, blocks.counts, c.found.equal, c.part)
	}
}

// A part for which there was no room while it was compared is not one that was compared.
func TestComparisonWithoutRoom(t *testing.T) {
	touched := touchedOf(0)
	touched.begin(5)
	touched.add(item{"hide", "5", "1"}, 1)
	c, changes, err := comparing(t, touched, map[side]given{{item{"hide", "5", "2"}, false}: {"hides", []ledger.Span{{}}}}, nil)
	if !errors.Is(err, errSlice) || c.part != 5 || len(changes) > 0 {
		t.Errorf("%v, at part %d, %v", err, c.part, changes)
	}
}
