// Package ledgertest specifies a ledger as a test suite, which every kind of ledger must pass.
package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

type suite struct {
	fresh func(t *testing.T) (url string)
	empty func(t *testing.T, url string) bool // nil: ledgers are not used again
	spare map[uint32]*place                   // empty ledgers by number of pages
	whole *testing.T                          // spare ledgers are closed when it ends
}

type subtest struct {
	name string
	test func(suite, *testing.T)
}

// Run tests all promises of package ledger, except those that [RunLong] tests. Each call of
// fresh returns the URL of another place without a ledger. fresh cleans up with t.Cleanup.
//
// If creating a ledger is expensive, empty saves most of that. empty deletes the rows of all tables
// that describe no more than what was recorded: all tables but those of the schema's version, the
// identity and the layouts. Open ledgers at url see an empty ledger afterwards. empty returns false
// if it cannot do so, or if a new ledger costs less. The ledger of one test then serves the next
// one, unless a test tests Open. empty may be nil.
func Run(t *testing.T, fresh func(t *testing.T) (url string), empty func(t *testing.T, url string) bool) {
	t.Helper()
	suite{fresh: fresh, empty: empty, spare: make(map[uint32]*place), whole: t}.run(t, []subtest{
		{"Identity", suite.identity},
		{"Restored", suite.restored},
		{"PagesInvalid", suite.pagesInvalid},
		{"Closed", suite.closed},
		{"ContextEnded", suite.contextEnded},
		{"Checkpoint", suite.checkpoint},
		{"Follow", suite.follow},
		{"Begins", suite.begins},
		{"Followed", suite.followed},
		{"FollowedAnywhere", suite.followedAnywhere},
		{"SnapshotInParts", suite.snapshotInParts},
		{"StartsOver", suite.startsOver},
		{"Stray", suite.stray},
		{"RecordNothing", suite.recordNothing},
		{"RecordNoEffect", suite.recordNoEffect},
		{"RecordCombined", suite.recordCombined},
		{"RecordSince", suite.recordSince},
		{"RecordUntil", suite.recordUntil},
		{"RecordUntilOdd", suite.recordUntilOdd},
		{"RecordManySizes", suite.recordManySizes},
		{"RecordInvalid", suite.recordInvalid},
		{"RecordOddIDs", suite.recordOddIDs},
		{"RecordCancelledAnywhere", suite.recordCancelledAnywhere},
		{"Hashes", suite.hashes},
		{"LargePage", suite.largePage},
		{"Ended", suite.ended},
		{"EndedSwept", suite.endedSwept},
		{"Changed", suite.changed},
		{"ChangedSince", suite.changedSince},
		{"ChangedSetBack", suite.changedSetBack},
		{"ChangedAhead", suite.changedAhead},
		{"NoSuchPage", suite.noSuchPage},
		{"DedicateAgain", suite.dedicateAgain},
		{"DedicateCancelledAnywhere", suite.dedicateCancelledAnywhere},
		{"DedicateMany", suite.dedicateMany},
		{"DedicateDuringLayouts", suite.dedicateDuringLayouts},
		{"LayoutsBegunAgain", suite.layoutsBegunAgain},
		{"LayoutsOpen", suite.layoutsOpen},
		{"LayoutsRestored", suite.layoutsRestored},
		{"LayoutsManyPages", suite.layoutsManyPages},
		{"LayoutsEnds", suite.layoutsEnds},
		{"LayoutsPolled", suite.layoutsPolled},
		{"LayoutsCancelledAnywhere", suite.layoutsCancelledAnywhere},
		{"LayoutsMany", suite.layoutsMany},
		{"All", suite.all},
		{"List", suite.list},
		{"Lookup", suite.lookup},
		{"LookupMany", suite.lookupMany},
		{"ReadInvalid", suite.readInvalid},
		{"LookupInvalid", suite.lookupInvalid},
		{"Count", suite.count},
		{"Owned", suite.owned},
		{"Naming", suite.naming},
		{"NamingMany", suite.namingMany},
		{"Kinds", suite.kinds},
		{"KindWeights", suite.kindWeights},
		{"KindsInUse", suite.kindsInUse},
		{"KindsInvalid", suite.kindsInvalid},
		{"KindsConcurrent", suite.kindsConcurrent},
		{"KindsDiffer", suite.kindsDiffer},
		{"Limit", suite.limit},
		{"LimitOthers", suite.limitOthers},
		{"LimitMany", suite.limitMany},
		{"LimitPrepared", suite.limitPrepared},
		{"ConcurrentLimit", suite.concurrentLimit},
		{"ConcurrentLimitChurn", suite.concurrentLimitChurn},
		{"ConcurrentMovesTogether", suite.concurrentMovesTogether},
		{"ConcurrentLayouts", suite.concurrentLayouts},
		{"ConcurrentLayoutsTogether", suite.concurrentLayoutsTogether},
		{"ConcurrentPolls", suite.concurrentPolls},
		{"ConcurrentRecords", suite.concurrentRecords},
		{"ConcurrentSnapshots", suite.concurrentSnapshots},
		{"ConcurrentChanged", suite.concurrentChanged},
	})
}

// RunLong runs the tests that [Run] leaves out because they take long. It has the same argument.
// Call it from a test whose name begins with TestLong.
func RunLong(t *testing.T, fresh func(t *testing.T) (url string)) {
	t.Helper()
	suite{fresh: fresh, whole: t}.run(t, []subtest{
		{"Random", suite.random},
		{"ForgetsMany", suite.forgetsMany},
		{"ConcurrentSnapshots", suite.concurrentSnapshotsLong},
		{"ConcurrentChanged", suite.concurrentChangedLong},
	})
}

func (s suite) run(t *testing.T, tests []subtest) {
	t.Helper()
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) { c.test(s, t) })
	}
}

// place is a ledger with its open handles.
type place struct {
	url     string
	handles []*ledger.Ledger
}

// make returns an empty ledger. It belongs to t until t ends.
func (s suite) make(t *testing.T, pages uint32) *ledger.Ledger {
	t.Helper()
	return s.take(t, pages).handles[0]
}

// take returns an empty ledger with at least one handle: a spare one, or else a new one. When t
// ends, the ledger becomes a spare one, or is closed.
func (s suite) take(t *testing.T, pages uint32) *place {
	t.Helper()
	p := s.spare[pages]
	delete(s.spare, pages)
	if p == nil {
		p = &place{url: s.fresh(s.owner(t))}
		p.open(t, s.owner(t), ledger.Options{Pages: pages})
	}
	t.Cleanup(func() {
		if s.empty != nil && !t.Failed() && p.unchanged(t, pages) && s.empty(t, p.url) {
			s.spare[pages] = p
			return
		}
		for _, l := range p.handles {
			shut(t, l)
		}
	})
	return p
}

// owner returns the test with which a ledger ends at the latest.
func (s suite) owner(t *testing.T) *testing.T {
	if s.empty == nil {
		return t
	}
	return s.whole
}

// open adds a handle, which is closed at the latest when owner ends.
func (p *place) open(t, owner *testing.T, o ledger.Options) {
	t.Helper()
	l, err := ledger.Open(context.Background(), p.url, o)
	if err != nil {
		t.Fatal(err)
	}
	owner.Cleanup(func() { shut(owner, l) })
	p.handles = append(p.handles, l)
}

// unchanged reports whether all handles are open, and the layouts are those of a new ledger.
func (p *place) unchanged(t *testing.T, pages uint32) bool {
	for _, l := range p.handles {
		is, err := l.Layouts(context.Background())
		switch {
		case errors.Is(err, fs.ErrClosed):
			return false
		case err != nil:
			t.Error(err)
			return false
		case is != ledger.Layouts{Current: pages}:
			return false
		}
	}
	return true
}

func open(t *testing.T, url string, o ledger.Options) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, l) })
	return l
}

func shut(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// tester is the part of testing.T and rapid.T that checks use.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func record(t tester, l *ledger.Ledger, changes ...ledger.Change) ledger.Receipt {
	t.Helper()
	return recordOn(t, l, at(0), changes...)
}

// recordOn records changes at the time now.
func recordOn(t tester, l *ledger.Ledger, now time.Time, changes ...ledger.Change) ledger.Receipt {
	t.Helper()
	receipt, err := l.Record(context.Background(), now, changes)
	if err != nil {
		t.Fatalf("Record: %v", err)
	}
	return receipt
}

// recordAt records changes at the time now in a ledger and its model, and compares the receipts.
func recordAt(t tester, l *ledger.Ledger, m *model, now time.Time, changes ...ledger.Change) ledger.Receipt {
	t.Helper()
	receipt := recordOn(t, l, now, changes...)
	checkReceipt(t, receipt, m.recordAt(now, changes))
	return receipt
}

func add(rows ...ledger.Row) ledger.Change { return ledger.Change{Rows: rows} }

// upTo adds the rows unless the owner then has more than limit.
func upTo(limit uint32, rows ...ledger.Row) ledger.Change {
	return ledger.Change{Rows: rows, Limit: limit}
}

func remove(rows ...ledger.Row) ledger.Change { return ledger.Change{Rows: rows, Remove: true} }

// removeEnded removes those of the rows that have ended.
func removeEnded(rows ...ledger.Row) ledger.Change {
	return ledger.Change{Rows: rows, Remove: true, Ended: true}
}

// at returns a time, given in microseconds.
func at(us int64) time.Time { return time.UnixMicro(1_750_000_000_000_000 + us).UTC() }

// block returns a row of user number owner. With 16 pages, owner is also the page. The hash of
// the last owner is the greatest one.
func block(owner int, target string) ledger.Row {
	hash := uint64(owner) << 60
	if owner == 15 {
		hash = math.MaxUint64
	}
	return ledger.Row{
		Hash: hash, Owner: fmt.Sprintf("u%d", owner), Kind: "block",
		Target: target, Since: at(0),
	}
}

// snapshot returns a page's rows, which must be in key order.
func snapshot(t tester, l *ledger.Ledger, page uint32) ([]ledger.Row, ledger.PageState) {
	t.Helper()
	rows, s := eachRow(t, l, page, nil)
	keys, at, err := l.Keys(context.Background(), page)
	if err != nil {
		t.Fatalf("Keys: %v", err)
	}
	if at != s {
		return rows, s // another writer raised the page in between
	}
	timeless := slices.Clone(rows)
	for i := range timeless {
		timeless[i].Since, timeless[i].Until = time.Time{}, time.Time{}
	}
	if !slices.Equal(keys, timeless) {
		t.Errorf("page %d has keys %v, want %v", page, keys, timeless)
	}
	return rows, s
}

func compareRows(a, b ledger.Row) int {
	return cmp.Or(
		cmp.Compare(a.Hash, b.Hash), cmp.Compare(a.Owner, b.Owner),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Target, b.Target),
	)
}

// checkPage compares a page with the wanted rows, in key order, and the wanted sequence.
func checkPage(t tester, l *ledger.Ledger, page uint32, rows []ledger.Row, sequence uint64) ledger.PageState {
	t.Helper()
	got, s := snapshot(t, l, page)
	if !slices.Equal(got, rows) {
		t.Errorf("page %d holds %v, want %v", page, got, rows)
	}
	if s.Sequence != sequence {
		t.Errorf("page %d at sequence %d, want %d", page, s.Sequence, sequence)
	}
	alone, err := l.Sequence(context.Background(), page)
	if err != nil || alone != sequence {
		t.Errorf("Sequence(%d) = %d, %v, want %d", page, alone, err, sequence)
	}
	return s
}

// checkReceipt compares receipts. Without Refused in want, nothing may be refused. Without
// Layouts or Owners in want, got may have any.
func checkReceipt(t tester, got, want ledger.Receipt) {
	t.Helper()
	if !slices.Equal(got.Changed, want.Changed) {
		t.Errorf("changed %v, want %v", got.Changed, want.Changed)
	}
	if want.Refused == nil {
		want.Refused = make([]bool, len(want.Changed))
	}
	if !slices.Equal(got.Refused, want.Refused) {
		t.Errorf("refused %v, want %v", got.Refused, want.Refused)
	}
	same := slices.EqualFunc(got.Pages, want.Pages, func(a, b ledger.PageChange) bool {
		return a.Page == b.Page && a.Sequence == b.Sequence &&
			slices.Equal(a.Added, b.Added) && slices.Equal(a.Removed, b.Removed)
	})
	if !same {
		t.Errorf("pages %+v, want %+v", got.Pages, want.Pages)
	}
	if want.Layouts.Current > 0 && got.Layouts != want.Layouts {
		t.Errorf("layouts %+v, want %+v", got.Layouts, want.Layouts)
	}
	if want.Owners != nil && !maps.Equal(got.Owners, want.Owners) {
		t.Errorf("owners %v, want %v", got.Owners, want.Owners)
	}
}
