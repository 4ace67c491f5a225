package pages

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
		{ledger.Layouts{Current: MaxPages}, hashMost, 2*MaxPages - 1, favfilter.PageID{Number: 3, Part: "p33554431"}},
	} {
		l.take(ledger.Progress{Layouts: c.layouts})
		page := l.pageOf(c.hash)
		if page != c.page || l.pageID(page) != c.id || l.slot(page) != c.id.Number || l.now() != c.layouts {
			t.Errorf("%+v, %016x: page %d, %v, want %d, %v", c.layouts, c.hash, page, l.pageID(page), c.page, c.id)
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
		if got := l.pageOf(hashThird); got != page || l.owns(hashThird, page) != (len(dedicated) > 0) {
			t.Errorf("%s: page %d, want %d", when, got, page)
		}
		if c := l.pages(); !slices.Equal(c.dedicated, dedicated) || c.len() != 4+len(dedicated) {
			t.Errorf("%s: dedicated pages %v, want %v", when, c.dedicated, dedicated)
		}
		if l.sharedPage(hashThird) != 2 || l.pageOf(hashMost) != 3 {
			t.Errorf("%s: another user's page has changed", when)
		}
	}
	want("at first", 2)
	l.learn(map[uint64]uint32{hashThird: first})
	want("by a receipt", first, first)
	l.release(first)
	want("released", 2)
	l.take(ledger.Progress{Layouts: l.now(), Owners: map[uint64]uint32{hashThird: second}})
	want("by a poll", second, second)
	l.dedicate(hashThird, first)
	want("an earlier page", second, second)
	l.release(first)
	want("an earlier page is released", second, second)
	for _, page := range []uint32{first, second} { // including released pages
		if id := l.pageID(page); id.Number != 2 || id.Part == "" {
			t.Errorf("page %d is %v", page, id)
		}
	}
	if l.pageID(first) == l.pageID(second) {
		t.Error("two pages have one name")
	}
}

// A page set lists each page once, shared pages first. It is made again only after a change.
func TestLayoutPages(t *testing.T) {
	l := newLayout(4)
	l.take(ledger.Progress{Layouts: ledger.Layouts{Current: 8}})
	for i, hash := range []uint64{hashMost, hashLeast} {
		l.dedicate(hash, ledger.DedicatedPages+uint32(9-i))
	}
	c := l.pages()
	var pages []uint32
	for i := range c.len() {
		pages = append(pages, c.number(i))
	}
	want := []uint32{8, 9, 10, 11, 12, 13, 14, 15, ledger.DedicatedPages + 8, ledger.DedicatedPages + 9}
	if !slices.Equal(pages, want) {
		t.Errorf("pages %v, want %v", pages, want)
	}
	for _, page := range append(want, 0, 7, 16, ledger.DedicatedPages, ledger.DedicatedPages+10) {
		if c.has(page) != slices.Contains(want, page) || c.isShared(page) != (page >= 8 && page < 16) {
			t.Errorf("page %d: has %v, shared %v", page, c.has(page), c.isShared(page))
		}
	}
	l.take(ledger.Progress{Layouts: l.now()})
	if l.pages() != c {
		t.Error("a new set without a change")
	}
	l.release(ledger.DedicatedPages + 8)
	if l.pages() == c || l.inUse(ledger.DedicatedPages+8) {
		t.Error("a released page is counted")
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
					l.dedicate(hash, ledger.DedicatedPages+4*i+uint32(n)) // each page number is used once
				case 1:
					if page, ok := l.owned(hash); ok {
						l.release(page)
					}
				default:
					if page := l.pageOf(hash); page != l.sharedPage(hash) && l.slot(page) != l.id.Slot(hash) {
						t.Errorf("page %d of %016x is in slot %d", page, hash, l.slot(page))
					}
				}
				_ = l.pages().len()
			}
		})
	}
	group.Wait()
	if c := l.pages(); int64(len(c.dedicated)) != l.dedicated.Load() || len(c.dedicated) != len(l.owners) {
		t.Errorf("%d dedicated pages, %d counted, %d users", len(c.dedicated), l.dedicated.Load(), len(l.owners))
	}
}
