package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// dedicated calls Dedicate for a ledger and its model, and compares the receipts.
func dedicated(t tester, l *ledger.Ledger, m *model, hash uint64) {
	t.Helper()
	receipt, err := l.Move(context.Background(), hash, true)
	if err != nil {
		t.Fatalf("Dedicate %d: %v", hash, err)
	}
	checkReceipt(t, receipt, m.dedicate(hash))
}

// released calls Release for a ledger and its model, and compares the receipts.
func released(t tester, l *ledger.Ledger, m *model, hash uint64) {
	t.Helper()
	receipt, err := l.Move(context.Background(), hash, false)
	if err != nil {
		t.Fatalf("Release %d: %v", hash, err)
	}
	checkReceipt(t, receipt, m.release(hash))
}

// dedicateAgain dedicates pages to users that have one, and releases pages of users that have
// none. It repeats this after the ledger was opened again. No number may be used twice.
func (s suite) dedicateAgain(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 16})
	m := newModel(l.Identity())
	released(t, l, m, block(3, "").Hash)
	m.check(t, l)
	for range 3 {
		dedicated(t, l, m, block(3, "").Hash)
		dedicated(t, l, m, block(3, "").Hash)
		recordAt(t, l, m, at(0), add(block(3, "a")), add(block(4, "a")))
		dedicated(t, l, m, block(4, "").Hash)
		m.check(t, l)
		shut(t, l)
		l = open(t, url, ledger.Options{})
		released(t, l, m, block(3, "").Hash)
		released(t, l, m, block(3, "").Hash)
		recordAt(t, l, m, at(0), remove(block(3, "a")), remove(block(4, "a")))
		m.check(t, l)
	}
	if want := uint32(4); m.numbers != want {
		t.Errorf("%d pages, want %d", m.numbers, want)
	}
	// The last number is not used again either, whatever users have the others.
	released(t, l, m, block(4, "").Hash)
	dedicated(t, l, m, block(15, "").Hash)
	m.check(t, l)
}

// dedicateCancelledAnywhere ends the context at each check of it.
func (s suite) dedicateCancelledAnywhere(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(3, "a")), add(block(4, "a")))
	hash := block(3, "").Hash
	for _, c := range []struct {
		dedicate bool
		model    func(hash uint64) ledger.Receipt
	}{{true, m.dedicate}, {false, m.release}} {
		anywhere(t, func(ctx context.Context) error {
			receipt, err := l.Move(ctx, hash, c.dedicate)
			if err == nil {
				checkReceipt(t, receipt, c.model(hash))
			}
			return err
		}, func() { m.check(t, l) })
		m.check(t, l)
	}
}

// anywhere ends the context of a call at each check of it. Each time, unchanged must find that
// the call had no effect.
func anywhere(t *testing.T, call func(ctx context.Context) error, unchanged func()) {
	t.Helper()
	for looks := 0; ; looks++ {
		err := call(countDown(looks))
		if err == nil {
			if looks < 2 {
				t.Errorf("the context was checked at %d places only", looks)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want context.Canceled", err)
		}
		unchanged()
	}
}

// dedicateMany records rows of more users with dedicated pages than one lookup finds.
func (s suite) dedicateMany(t *testing.T) {
	const users = 100
	l := s.make(t, 1)
	m := newModel(l.Identity())
	var changes []ledger.Change
	for i := range users {
		row := ledger.Row{Hash: uint64(i*37%users) << 50, Owner: fmt.Sprint("u", i), Kind: "block", Target: "t", Since: at(0)}
		changes = append(changes, add(row))
		if i%3 > 0 {
			dedicated(t, l, m, row.Hash)
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

// dedicateDuringLayouts dedicates and releases pages in each phase of a layout. While a layout
// is building, both shared pages of the user are raised, and the user leaves both.
func (s suite) dedicateDuringLayouts(t *testing.T) {
	l := s.make(t, 4)
	m := newModel(l.Identity())
	hash := block(6, "").Hash // page 1 of 4, page 8 + 3 of 8
	recordAt(t, l, m, at(0), add(block(6, "a")), add(block(4, "a")))
	begun(t, l, m, 8)
	_, progress := standings(t, l, "")
	dedicated(t, l, m, hash)
	got, p := standings(t, l, progress.Next)
	want := map[uint32]ledger.PageState{1: {Sequence: 2, Left: 2}, 11: {Sequence: 2, Left: 2}, ledger.DedicatedPages: {Sequence: 1}}
	if !maps.Equal(got, want) {
		t.Errorf("changed %v, want %v", got, want)
	}
	m.check(t, l)
	recordAt(t, l, m, at(0), add(block(6, "b"))) // raises only the dedicated page
	m.check(t, l)
	released(t, l, m, hash)
	got, _ = standings(t, l, p.Next)
	want = map[uint32]ledger.PageState{
		1: {Sequence: 3, Left: 2}, 11: {Sequence: 3, Left: 2}, ledger.DedicatedPages: {Sequence: 3, Left: 3},
	}
	if !maps.Equal(got, want) {
		t.Errorf("changed %v, want %v", got, want)
	}
	m.check(t, l)
	dedicated(t, l, m, hash)
	dedicated(t, l, m, block(0, "").Hash) // of pages without any write
	switched(t, l, m, 8)
	m.check(t, l)
	for range 2 {
		released(t, l, m, hash)
		m.check(t, l)
		dedicated(t, l, m, hash)
		m.check(t, l)
		recordAt(t, l, m, at(0), remove(block(6, "a")), add(block(0, "a")))
		m.check(t, l)
		left(t, l, m, 4)
		m.check(t, l)
	}
}
