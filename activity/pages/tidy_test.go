package pages

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// TestTidy checks that a page is rebuilt soon after removals that leave bits in it.
func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := bubbleLedger(t, 1), &favfilter.Memory{}
		p := startProcess(t, l, store, Config{ScrubRate: 1})
		p.ledger = l
		var batch []Activity
		for i := range 1000 {
			batch = append(batch, add("1", "hide", fmt.Sprint("p", i)))
		}
		_, err := p.Record(t.Context(), batch)
		must(t, err)
		for i := range 100 {
			p.record(t, true, undo("1", "hide", fmt.Sprint("p", i)))
		}
		time.Sleep(time.Second)
		if n := p.Stats().Rebuilds["residue"]; n == 0 || n > 100 {
			t.Errorf("%d pages tidied", n)
		}
		p.applier.tidying.add(0) // schedule the page for the removals since the last rebuild
		time.Sleep(time.Second)
		rows, s, err := l.Snapshot(t.Context(), 0)
		must(t, err)
		fresh, err := p.image(t.Context(), 0, rows, s)
		must(t, err)
		if h := p.header(t, 0); h.Set != fresh.Header().Set || h.Sequence != s.Sequence {
			t.Errorf("%d bits set at %d, want %d at %d", h.Set, h.Sequence, fresh.Header().Set, s.Sequence)
		}
		p.wantWhole(t)
		p.Close()
		must(t, l.Close())
	})
}

func TestTidyingListsPagesOnce(t *testing.T) {
	d := newTidying()
	for _, page := range []uint32{3, 1, 3, 3, 2, 1} {
		d.add(page)
	}
	for _, want := range []uint32{3, 1, 2} {
		if page, ok := d.next(); !ok || page != want {
			t.Errorf("page %d, %v, want %d", page, ok, want)
		}
	}
	if _, ok := d.next(); ok {
		t.Error("a page is listed twice")
	}
	d.add(3)
	if page, ok := d.next(); !ok || page != 3 {
		t.Errorf("page %d, %v, want 3 again", page, ok)
	}
}

// A page that could not be rebuilt is tried again.
func TestTidyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bubbleLedger(t, 1)
		cut := &slowLedger{}
		p := startProcess(t, l.Around(cut.around), &favfilter.Memory{}, Config{})
		p.record(t, true, add("1", "hide", "p"))
		build := p.header(t, 0).Build
		cut.unreadable.Store(true)
		p.applier.tidying.add(0)
		time.Sleep(10 * time.Second)
		cut.unreadable.Store(false)
		time.Sleep(longestPause + 2*tidyPause)
		if p.header(t, 0).Build == build {
			t.Error("the page was not rebuilt")
		}
		p.Close()
		must(t, l.Close())
	})
}
