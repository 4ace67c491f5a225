package pages

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// TestTidy checks that a page is rebuilt soon after removals that leave bits in it.
func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		p := startProcess(t, l, store, Config{ScrubRate: 1})
		p.ledger = l
		var batch []act
		for i := range 1000 {
			batch = append(batch, add("1", "hide", fmt.Sprint("p", i)))
		}
		_, err := p.Record(t.Context(), batch)
		must(t, err)
		tidied := func() uint64 { return p.Stats().Rebuilds[reasonResidue] }
		removed := 0 // until one clears too few bits, which four in a hundred do
		for ; tidied() == 0 && removed < 1000; removed++ {
			p.record(t, true, undo("1", "hide", fmt.Sprint("p", removed)))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if tidied() != 1 {
			t.Errorf("%d pages tidied after %d removals, want one", tidied(), removed)
		}
		p.due.add(0, reasonResidue, 0) // schedule the page for the removals since the last rebuild
		time.Sleep(time.Second)
		rows, s, err := l.Keys(t.Context(), 0)
		must(t, err)
		fresh, err := p.image(t.Context(), 0, rows, s)
		must(t, err)
		if h := p.header(t, 0); h.Set != fresh.Header().Set || h.Sequence != s.Sequence {
			t.Errorf("%d bits set at %d, want %d at %d", h.Set, h.Sequence, fresh.Header().Set, s.Sequence)
		}
		p.wantWhole(t)
	})
}

// A page is listed once for each reason, and taken when it is due. Pages that others changed are
// taken together; residue waits for the pause after the last such page.
func TestDueQueue(t *testing.T) {
	q := newDueQueue()
	for _, page := range []uint32{3, 1, 3, 3, 2, 1} {
		q.add(page, reasonResidue, 10)
		q.expect(PageAt{page, 7 + uint64(page)}, 20)
		q.expect(PageAt{page, 99}, 15) // the first time counts
	}
	take := func(now int64, reason string, want ...uint32) {
		t.Helper()
		all := make([]PageAt, len(want))
		for i, page := range want {
			if all[i].Page = page; reason == reasonChanged {
				all[i].Sequence = 7 + uint64(page)
			}
		}
		if pages, got := q.take(now); got != reason || !slices.Equal(pages, all) {
			t.Errorf("at %d: pages %d, %q, want %d, %q", now, pages, got, all, reason)
		}
	}
	take(9, "")
	take(10, reasonResidue, 3)
	q.rest(30)
	take(19, "")
	if next := q.next(); next != 20 {
		t.Errorf("the next page is due at %d, want 20", next)
	}
	take(20, reasonChanged, 3, 1, 2)
	take(29, "")
	q.add(3, reasonResidue, 0)
	for _, want := range []uint32{1, 2, 3} {
		take(30, reasonResidue, want)
	}
	take(math.MaxInt64, "")
	if next := q.next(); next != math.MaxInt64 {
		t.Errorf("a page is due at %d in an empty queue", next)
	}
}

// A page that could not be rebuilt is tried again.
func TestTidyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		cut := &slowLedger{}
		p := startProcess(t, l.Around(cut.around), &favfilter.Memory{}, Config{})
		p.record(t, true, add("1", "hide", "p"))
		build := p.header(t, 0).Build
		cut.unreadable.Store(true)
		p.due.add(0, reasonResidue, 0)
		time.Sleep(10 * time.Second)
		cut.unreadable.Store(false)
		time.Sleep(longestPause + 2*retryPause)
		if p.header(t, 0).Build == build {
			t.Error("the page was not rebuilt")
		}
	})
}
