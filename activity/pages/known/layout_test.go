package known

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Hashes at the ends of the pages of a layout of 4 pages.
const (
	hashLeast = uint64(0)
	hashThird = uint64(2) << 62
	hashMost  = ^uint64(0)
)

// Pages of the first layout have numbers from 0. The pages of a later layout are numbered from its
// number of pages. Each has the hash slot of the first layout's page with the same users.
func TestLayoutNamesPages(t *testing.T) {
	l := newLayout(4)
	for _, c := range []struct {
		layouts ledger.Layouts
		hash    uint64
		page    uint32
		id      favfilter.PageID
	}{
		{ledger.Layouts{Current: 4}, hashLeast, 0, favfilter.PageID{}},
		{ledger.Layouts{Current: 4, Building: 8}, hashThird, 2, favfilter.PageID{Number: 2}},
		{ledger.Layouts{Current: 8, Leaving: 4}, hashLeast, 8, favfilter.PageID{Part: "p8"}},
		{ledger.Layouts{Current: 8}, hashThird, 12, favfilter.PageID{Number: 2, Part: "p12"}},
		{ledger.Layouts{Current: 8}, hashMost, 15, favfilter.PageID{Number: 3, Part: "p15"}},
		{ledger.Layouts{Current: ledger.MaxPages}, hashMost, 2*ledger.MaxPages - 1, favfilter.PageID{Number: 3, Part: "p33554431"}},
	} {
		l.take(ledger.Progress{Layouts: c.layouts})
		page := l.PageOf(c.hash)
		if page != c.page || l.PageID(page) != c.id || l.Slot(page) != c.id.Number || l.Now() != c.layouts {
			t.Errorf("%+v, %016x: page %d, %v, want %d, %v", c.layouts, c.hash, page, l.PageID(page), c.page, c.id)
		}
	}
}

// A dedicated page is its user's until it is released. An earlier poll does not undo what is known
// of a later page.
func TestLayoutOfDedicatedPages(t *testing.T) {
	const first, second = ledger.DedicatedPages, ledger.DedicatedPages + 7
	l := newLayout(4)
	want := func(when string, page uint32, dedicated ...uint32) {
		t.Helper()
		if got := l.PageOf(hashThird); got != page || l.Owns(hashThird, page) != (len(dedicated) > 0) {
			t.Errorf("%s: page %d, want %d", when, got, page)
		}
		if c := l.Pages(); !slices.Equal(c.Dedicated, dedicated) || c.Len() != 4+len(dedicated) {
			t.Errorf("%s: dedicated pages %v, want %v", when, c.Dedicated, dedicated)
		}
		if l.SharedPage(hashThird) != 2 || l.PageOf(hashMost) != 3 {
			t.Errorf("%s: another user's page has changed", when)
		}
	}
	want("at first", 2)
	l.Learn(map[uint64]uint32{hashThird: first})
	want("by a receipt", first, first)
	l.Release(first)
	want("released", 2)
	l.take(ledger.Progress{Layouts: l.Now(), Owners: map[uint64]uint32{hashThird: second}})
	want("by a poll", second, second)
	l.Dedicate(hashThird, first)
	want("an earlier page", second, second)
	l.Release(first)
	want("an earlier page is released", second, second)
	for _, page := range []uint32{first, second} { // including released pages
		if id := l.PageID(page); id.Number != 2 || id.Part == "" {
			t.Errorf("page %d is %v", page, id)
		}
	}
	if l.PageID(first) == l.PageID(second) {
		t.Error("two pages have one name")
	}
}

// A page set lists each page once, shared pages first. It is made again only after a change.
func TestLayoutPages(t *testing.T) {
	l := newLayout(4)
	l.take(ledger.Progress{Layouts: ledger.Layouts{Current: 8}})
	for i, hash := range []uint64{hashMost, hashLeast} {
		l.Dedicate(hash, ledger.DedicatedPages+uint32(9-i))
	}
	c := l.Pages()
	var pages []uint32
	for i := range c.Len() {
		pages = append(pages, c.Number(i))
	}
	want := []uint32{8, 9, 10, 11, 12, 13, 14, 15, ledger.DedicatedPages + 8, ledger.DedicatedPages + 9}
	if !slices.Equal(pages, want) {
		t.Errorf("pages %v, want %v", pages, want)
	}
	for _, page := range append(want, 0, 7, 16, ledger.DedicatedPages, ledger.DedicatedPages+10) {
		if c.Has(page) != slices.Contains(want, page) || c.IsShared(page) != (page >= 8 && page < 16) {
			t.Errorf("page %d: has %v, shared %v", page, c.Has(page), c.IsShared(page))
		}
	}
	l.take(ledger.Progress{Layouts: l.Now()})
	if l.Pages() != c {
		t.Error("a new set without a change")
	}
	l.Release(ledger.DedicatedPages + 8)
	if l.Pages() == c || l.InUse(ledger.DedicatedPages+8) {
		t.Error("a released page is counted")
	}
}

// A process that learns late of a dedicated page, which the user has lost again, does not look for
// the user there.
func TestMoveLearnedAfterRelease(t *testing.T) {
	l := newLayout(1)
	const user, page = 7, ledger.DedicatedPages
	l.Name(user, page)
	l.Release(page)
	l.Dedicate(user, page)
	if got := l.PageOf(user); got != 0 {
		t.Errorf("the user is on page %d, want 0", got)
	}
}

// Readers and writers may use a layout concurrently.
func TestLayoutTogether(t *testing.T) {
	l := newLayout(4)
	var group sync.WaitGroup
	for n := range uint64(4) {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(1, n))
			for i := range uint32(2000) {
				hash := rng.Uint64N(16) << 60
				switch rng.IntN(4) {
				case 0:
					l.Dedicate(hash, ledger.DedicatedPages+4*i+uint32(n)) // each page number is used once
				case 1:
					if page, ok := l.owned(hash); ok {
						l.Release(page)
					}
				default:
					if page := l.PageOf(hash); page != l.SharedPage(hash) && l.Slot(page) != l.id.Slot(hash) {
						t.Errorf("page %d of %016x is in slot %d", page, hash, l.Slot(page))
					}
				}
				_ = l.Pages().Len()
			}
		})
	}
	group.Wait()
	if c := l.Pages(); int64(len(c.Dedicated)) != l.dedicated.Load() || len(c.Dedicated) != len(l.owners) {
		t.Errorf("%d dedicated pages, %d counted, %d users", len(c.Dedicated), l.dedicated.Load(), len(l.owners))
	}
}
