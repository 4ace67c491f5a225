package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// reshapeMany cuts a home into more pages than a statement takes, and joins as many.
func (s suite) reshapeMany(t *testing.T) {
	const most = 512
	for _, pages := range []uint32{1, most} {
		url := s.fresh(t)
		l := open(t, url, ledger.Options{Pages: pages})
		m := newModel(l.Identity())
		var rows []ledger.Change
		for n := range uint32(300) {
			least, _ := hashesOf(most, n)
			rows = append(rows, add(ledger.Row{Hash: least, Owner: fmt.Sprint("u", n), Kind: "block", Target: "t", Since: at(0)}))
		}
		recordAt(t, l, m, at(0), rows[:200]...)
		for _, to := range []uint32{most / pages, 1, most} {
			setCut(t, l, m, to)
			s.reshaped(t, url, l, m, 0)
			recordAt(t, l, m, at(0), rows...)
			m.check(t, l)
		}
	}
}

// reshapeCancelledAnywhere lets the context end at each place where it is honoured.
func (s suite) reshapeCancelledAnywhere(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 2})
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(3, "a"), block(7, "a")))
	for _, pages := range []uint32{8, 1} {
		setCut(t, l, m, pages)
		s.pass(t, url)
		for looks := 0; ; looks++ {
			numbers := m.numbers
			plan, err := l.PlanReshape(countDown(looks), 0)
			if err == nil {
				if looks < 2 {
					t.Errorf("the context was honoured at %d places only", looks)
				}
				_ = plan
				m.numbers = numbers + uint32(len(m.plan(0, 0).made))
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v, want context.Canceled", err)
			}
		}
		plan, want := planned(t, l, m, 0)
		for looks := 0; ; looks++ {
			receipt, err := l.Reshape(countDown(looks), plan)
			if err == nil {
				checkReceipt(t, receipt, m.reshape(want))
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
	setCut(t, l, m, 2)
	for looks := 0; ; looks++ {
		if err := l.SetCut(countDown(looks), 4); err == nil {
			m.asked = 4
			m.check(t, l)
			return
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want context.Canceled", err)
		}
		m.check(t, l)
	}
}

// reshapeRestored has pages outlive a restore, and another process find them.
func (s suite) reshapeRestored(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 4})
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(4, "a"), block(6, "a")))
	setCut(t, l, m, 8)
	s.reshaped(t, url, l, m, 1)
	moved(t, l, m, block(6, "").Hash, true)
	for _, o := range []ledger.Options{{}, {Restored: true}} {
		shut(t, l)
		l = open(t, url, o)
		m.id = l.Identity()
		m.check(t, l)
		s.reshaped(t, url, l, m, 2+uint32(len(m.cut))%2)
		recordAt(t, l, m, at(0), add(block(9, "a"), block(7, fmt.Sprint(len(m.cut)))))
		m.check(t, l)
	}
}

// cut asks for numbers of pages that there may be, and that there may not, and opens the ledger with them.
func (s suite) cut(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 4})
	m := newModel(l.Identity())
	m.check(t, l)
	for _, pages := range []uint32{0, 3, 5, 1 << 15, 1 << 25} {
		if err := l.SetCut(t.Context(), pages); err == nil {
			t.Errorf("%d pages can be asked for", pages)
		}
	}
	m.check(t, l)
	for _, pages := range []uint32{1, 1 << 14, 64, 4, 8} {
		setCut(t, l, m, pages)
		m.check(t, l)
	}
	if err := s.make(t, 1<<24).SetCut(t.Context(), 2048); err == nil {
		t.Error("of the most pages 2048 can be made")
	}
	for home := range uint32(3) {
		s.reshaped(t, url, l, m, home)
		m.check(t, l)
	}
	if _, err := l.PlanReshape(t.Context(), 4); err == nil {
		t.Error("a home that there is not can be reshaped")
	}
	shut(t, l)
	for _, pages := range []uint32{0, 4, 8} {
		l := open(t, url, ledger.Options{Pages: pages})
		if id := l.Identity(); id != m.id {
			t.Errorf("identity %+v after it was opened with %d pages, want %+v", id, pages, m.id)
		}
		m.check(t, l)
		shut(t, l)
	}
	if _, err := ledger.Open(t.Context(), url, ledger.Options{Pages: 16}); !errors.Is(err, ledger.ErrPagesDiffer) {
		t.Errorf("error %v, want ErrPagesDiffer", err)
	}
}
