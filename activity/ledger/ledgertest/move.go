package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// moved moves a user in a ledger and its model, which have to agree on what that comes to.
func moved(t tester, l *ledger.Ledger, m *model, hash uint64, out bool) ledger.Receipt {
	t.Helper()
	move := l.MoveIn
	if out {
		move = l.MoveOut
	}
	receipt, err := move(context.Background(), hash)
	if err != nil {
		t.Fatalf("move %d out (%v) or in: %v", hash, out, err)
	}
	checkReceipt(t, receipt, m.move(hash, out))
	return receipt
}

// own is a change of a page that a user has alone.
func own(page uint32, of ledger.Row, sequence uint64) ledger.PageChange {
	return ledger.PageChange{Page: ledger.OwnPages + page, Own: true, Owner: of.Hash, Sequence: sequence}
}

// move follows a user out and back: what the receipts say, what the pages hold, what polls are told.
func (s suite) move(t *testing.T) {
	l := s.make(t, 16)
	one, two, other := block(3, "a"), block(3, "b"), block(3, "a")
	other.Hash++
	other.Owner = "u33"
	record(t, l, add(one, other))
	_, progress := changes(t, l, "")
	shared := func(sequence uint64) ledger.PageChange { return ledger.PageChange{Page: 3, Sequence: sequence} }
	check := func(receipt ledger.Receipt, err error, changed []bool, want ...ledger.PageChange) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		checkReceipt(t, receipt, ledger.Receipt{Changed: changed, Pages: want})
	}
	poll := func(want map[uint32]ledger.Standing) {
		t.Helper()
		got, p := standings(t, l, progress.Next)
		if !maps.Equal(got, want) {
			t.Errorf("changed: %v, want %v", got, want)
		}
		progress = p
	}

	receipt, err := l.MoveOut(t.Context(), one.Hash)
	check(receipt, err, nil, shared(2), own(0, one, 1))
	poll(map[uint32]ledger.Standing{3: {Sequence: 2, Moves: 1}, ledger.OwnPages: {Sequence: 1, Moves: 0}})
	checkPage(t, l, 3, []ledger.Row{other}, 2)
	checkPage(t, l, ledger.OwnPages, []ledger.Row{one}, 1)

	added := own(0, one, 2)
	added.Added = []ledger.Row{two}
	check(record(t, l, add(two)), nil, []bool{true}, shared(2), added)
	check(record(t, l, add(two)), nil, []bool{false}, shared(2), own(0, one, 2))
	poll(map[uint32]ledger.Standing{ledger.OwnPages: {Sequence: 2, Moves: 0}})
	removed := shared(3)
	removed.Removed = []ledger.Row{other}
	check(record(t, l, remove(other)), nil, []bool{true}, removed)
	poll(map[uint32]ledger.Standing{3: {Sequence: 3, Moves: 1}})
	checkPage(t, l, 3, nil, 3)
	checkPage(t, l, ledger.OwnPages, []ledger.Row{one, two}, 2)

	receipt, err = l.MoveIn(t.Context(), one.Hash)
	check(receipt, err, nil, shared(4), own(0, one, 3))
	poll(map[uint32]ledger.Standing{3: {Sequence: 4, Moves: 2}, ledger.OwnPages: {Sequence: 3, Moves: 1}})
	checkPage(t, l, 3, []ledger.Row{one, two}, 4)
	checkPage(t, l, ledger.OwnPages, nil, 3)
	removed = shared(5)
	removed.Removed = []ledger.Row{two}
	check(record(t, l, remove(two)), nil, []bool{true}, removed)
}

// moveAgain moves users who are there already, who are nowhere, and who come back: no
// number is given twice.
func (s suite) moveAgain(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 16})
	m := newModel(l.Identity())
	moved(t, l, m, block(3, "").Hash, false)
	m.check(t, l)
	for range 3 {
		moved(t, l, m, block(3, "").Hash, true)
		moved(t, l, m, block(3, "").Hash, true)
		recordAt(t, l, m, at(0), add(block(3, "a")), add(block(4, "a")))
		moved(t, l, m, block(4, "").Hash, true)
		m.check(t, l)
		shut(t, l)
		l = open(t, url, ledger.Options{})
		moved(t, l, m, block(3, "").Hash, false)
		moved(t, l, m, block(3, "").Hash, false)
		recordAt(t, l, m, at(0), remove(block(3, "a")), remove(block(4, "a")))
		m.check(t, l)
	}
	if want := uint32(4); m.numbers != want {
		t.Errorf("%d pages, want %d", m.numbers, want)
	}
}

// moveOrder has the pages of a receipt in order of their numbers, whatever the order of
// hashes.
func (s suite) moveOrder(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	for _, user := range []int{9, 2, 15, 0} {
		moved(t, l, m, block(user, "").Hash, true)
	}
	for range 2 {
		receipt := recordAt(t, l, m, at(0),
			add(block(2, "a"), block(9, "a")), add(block(0, "a"), block(15, "a"), block(15, "b")), remove(block(9, "b")), add(block(5, "a")))
		var pages []uint32
		for _, p := range receipt.Pages {
			pages = append(pages, p.Page)
		}
		const first = ledger.OwnPages
		if want := []uint32{0, 2, 5, 9, 15, first, first + 1, first + 2, first + 3}; !slices.Equal(pages, want) {
			t.Errorf("pages %v, want %v", pages, want)
		}
		m.check(t, l)
	}
}

// moveHashes moves users at both ends of a page and of all hashes, next to each other, and two of
// one hash.
func (s suite) moveHashes(t *testing.T) {
	for _, pages := range []uint32{1, 2} {
		l := s.make(t, pages)
		m := newModel(l.Identity())
		const half = 1 << 63
		hashes := []uint64{0, 1, 2, half - 2, half - 1, half, half + 1, math.MaxUint64 - 1, math.MaxUint64}
		var rows []ledger.Change
		for _, hash := range hashes {
			for _, owner := range []string{"a", "b"} {
				rows = append(rows, add(ledger.Row{Hash: hash, Owner: owner, Kind: "block", Target: "t", Since: at(0)}))
			}
		}
		recordAt(t, l, m, at(0), rows...)
		for _, order := range [][]int{{0, 8, 5}, {1, 7}, {4, 2, 3, 6}} {
			for _, i := range order {
				moved(t, l, m, hashes[i], true)
				m.check(t, l)
			}
		}
		recordAt(t, l, m, at(0), remove(rows[0].Rows[0], rows[17].Rows[0]), add(rows[9].Rows[0]))
		m.check(t, l)
		for i := range hashes {
			moved(t, l, m, hashes[(i*4)%9], false)
			m.check(t, l)
		}
	}
}

// moveRestored has own pages outlive a restore, as shared ones do.
func (s suite) moveRestored(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 2})
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(3, "a")), add(block(4, "a")))
	moved(t, l, m, block(3, "").Hash, true)
	moved(t, l, m, block(4, "").Hash, true)
	moved(t, l, m, block(4, "").Hash, false)
	shut(t, l)
	l = open(t, url, ledger.Options{Restored: true})
	m.id = l.Identity()
	m.check(t, l)
	_, progress := changes(t, l, "")
	recordAt(t, l, m, at(0), add(block(3, "b")), remove(block(4, "a")))
	moved(t, l, m, block(5, "").Hash, true)
	m.check(t, l)
	got, _ := changes(t, l, progress.Next)
	want := map[uint32]uint64{0: m.sequences[0], ledger.OwnPages: 2, ledger.OwnPages + 2: 1}
	if !maps.Equal(got, want) {
		t.Errorf("changed %v, want %v", got, want)
	}
}

// moveCancelledAnywhere lets the context end at each place where it is honoured.
func (s suite) moveCancelledAnywhere(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(3, "a")), add(block(4, "a")))
	for _, out := range []bool{true, false} {
		move := map[bool]func(context.Context, uint64) (ledger.Receipt, error){true: l.MoveOut, false: l.MoveIn}[out]
		for looks := 0; ; looks++ {
			receipt, err := move(countDown(looks), block(3, "").Hash)
			if err == nil {
				checkReceipt(t, receipt, m.move(block(3, "").Hash, out))
				if looks < 2 {
					t.Errorf("the context was honoured at %d places only", looks)
				}
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v, want context.Canceled", err)
			}
			m.check(t, l)
		}
		m.check(t, l)
	}
}

// moveMany records for more users with pages of their own than are looked up at once.
func (s suite) moveMany(t *testing.T) {
	const users = 100
	l := s.make(t, 1)
	m := newModel(l.Identity())
	var changes []ledger.Change
	for i := range users {
		row := ledger.Row{Hash: uint64(i*37%users) << 50, Owner: fmt.Sprint("u", i), Kind: "block", Target: "t", Since: at(0)}
		changes = append(changes, add(row))
		if i%3 > 0 {
			moved(t, l, m, row.Hash, true)
		}
	}
	recordAt(t, l, m, at(0), changes...)
	m.check(t, l)
	for i := range changes {
		changes[i].Remove = i%2 == 0
	}
	recordAt(t, l, m, at(0), changes...)
	m.check(t, l)
}
