package ledgertest

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// hashesOf returns the range of hashes of page n of a number of pages.
func hashesOf(pages, n uint32) (least, greatest uint64) {
	width := 64 - bits.TrailingZeros32(pages)
	if width == 64 {
		return 0, math.MaxUint64
	}
	return uint64(n) << width, uint64(n)<<width | (1<<width - 1)
}

// firstPage returns the number of the first page of a layout.
func (m *model) firstPage(pages uint32) uint32 {
	if pages == m.id.Pages {
		return 0
	}
	return pages
}

// shared returns the shared page of a hash in a layout.
func (m *model) shared(pages uint32, hash uint64) uint32 {
	for n := range pages {
		if least, greatest := hashesOf(pages, n); least <= hash && hash <= greatest {
			return m.firstPage(pages) + n
		}
	}
	panic("a hash without a page")
}

// pageOf returns the page with the rows of a hash.
func (m *model) pageOf(hash uint64) uint32 {
	if page, has := m.owners[hash]; has {
		return page
	}
	return m.shared(m.layouts.Current, hash)
}

// bothShared returns the shared pages of a user in the current and the building layout.
func (m *model) bothShared(hash uint64) []uint32 {
	pages := []uint32{m.shared(m.layouts.Current, hash)}
	if m.layouts.Building > 0 {
		pages = append(pages, m.shared(m.layouts.Building, hash))
	}
	return pages
}

// raises returns the pages that a change of the user's rows raises.
func (m *model) raises(hash uint64) []uint32 {
	if page, has := m.owners[hash]; has {
		return []uint32{page}
	}
	return m.bothShared(hash)
}

// raise raises pages. A page of the building layout begins with the sequence that its ancestor
// had before.
func (m *model) raise(pages []uint32, left bool) {
	before := maps.Clone(m.states)
	for _, page := range pages {
		s := before[page]
		if s.Sequence == 0 {
			s.Sequence = before[m.origin(page)].Sequence
		}
		s.Sequence++
		if left {
			s.Left = s.Sequence
		}
		m.states[page] = s
	}
}

// origin returns the ancestor of a page of the building layout, and any other page itself.
func (m *model) origin(page uint32) uint32 {
	building := m.layouts.Building
	if first := m.firstPage(building); building > 0 && first <= page && page < first+building {
		least, _ := hashesOf(building, page-first)
		return m.shared(m.layouts.Current, least)
	}
	return page
}

// seed gives the pages of the building layout sequences, if they have none.
func (m *model) seed() {
	for n := range m.layouts.Building {
		page := m.firstPage(m.layouts.Building) + n
		if from := m.states[m.origin(page)].Sequence; m.states[page].Sequence == 0 && from > 0 {
			m.states[page] = ledger.PageState{Sequence: from}
		}
	}
}

// dedicate gives a user a dedicated page, if the user has none.
func (m *model) dedicate(hash uint64) ledger.Receipt {
	if _, has := m.owners[hash]; !has {
		page := ledger.DedicatedPages + m.numbers
		m.numbers++
		m.owners[hash] = page
		m.raise([]uint32{page}, false)
		m.raise(m.bothShared(hash), true)
	}
	return m.moved(hash, m.owners[hash])
}

// release takes the dedicated page from a user that has one.
func (m *model) release(hash uint64) ledger.Receipt {
	page, has := m.owners[hash]
	if !has {
		return m.moved(hash)
	}
	delete(m.owners, hash)
	m.raise([]uint32{page}, true)
	m.raise(m.bothShared(hash), false)
	return m.moved(hash, page)
}

// moved returns the receipt of a move.
func (m *model) moved(hash uint64, dedicated ...uint32) ledger.Receipt {
	r := ledger.Receipt{Layouts: m.layouts, Owners: map[uint64]uint32{}}
	for _, page := range append([]uint32{m.shared(m.layouts.Current, hash)}, dedicated...) {
		r.Pages = append(r.Pages, ledger.PageChange{Page: page, Sequence: m.states[page].Sequence})
	}
	if page, has := m.owners[hash]; has {
		r.Owners[hash] = page
	}
	return r
}

// begin begins a layout, and reports why the ledger must refuse.
func (m *model) begin(pages uint32) (busy, invalid bool) {
	l := m.layouts
	switch {
	case bits.OnesCount32(pages) != 1 || pages < l.Current || pages > ledger.MaxPages:
		return false, true
	case pages == l.Building:
		m.seed()
		return false, false
	case pages == l.Current:
		return false, false
	case l.Building > 0 || l.Leaving > 0:
		return true, false
	}
	m.layouts.Building = pages
	m.seed()
	return false, false
}

// switchTo makes a layout current, and reports whether the ledger must refuse.
func (m *model) switchTo(pages uint32) (busy bool) {
	switch l := m.layouts; pages {
	case l.Current:
		return false
	case l.Building:
		m.seed()
		m.layouts = ledger.Layouts{Current: pages, Leaving: l.Current}
		return false
	}
	return true
}

func (m *model) leave(pages uint32) {
	if pages == 0 || pages != m.layouts.Leaving {
		return
	}
	for n := range pages {
		delete(m.states, m.firstPage(pages)+n)
	}
	m.layouts.Leaving = 0
}

// check compares the whole ledger with the model. The ledger must have few pages.
func (m *model) check(t tester, l *ledger.Ledger) {
	t.Helper()
	m.checkPages(t, l)
	all := maps.Clone(m.states)
	maps.DeleteFunc(all, func(_ uint32, s ledger.PageState) bool { return s.Sequence == 0 })
	got, progress := standings(t, l, "")
	if !maps.Equal(got, all) {
		t.Errorf("changed %v, want %v", got, all)
	}
	if progress.Layouts != m.layouts {
		t.Errorf("layouts %+v in a poll, want %+v", progress.Layouts, m.layouts)
	}
	if !maps.Equal(progress.Owners, m.owners) {
		t.Errorf("owners %v, want %v", progress.Owners, m.owners)
	}
	if now, err := l.Layouts(context.Background()); err != nil || now != m.layouts {
		t.Errorf("layouts %+v, %v, want %+v", now, err, m.layouts)
	}
	hashes := slices.AppendSeq([]uint64{0, math.MaxUint64, block(7, "").Hash}, maps.Keys(m.owners))
	var places []ledger.Place
	for _, hash := range hashes {
		page := m.pageOf(hash)
		want := ledger.Place{Page: page, PageState: m.states[page], Layouts: m.layouts}
		if got, err := l.Place(context.Background(), hash); err != nil || got != want {
			t.Errorf("place of user %d: %+v, %v, want %+v", hash, got, err, want)
		}
		places = append(places, want)
	}
	// More than a statement takes, some of them twice.
	for len(hashes) < 100 {
		hashes, places = slices.Concat(hashes, hashes), slices.Concat(places, places)
	}
	if got, err := l.Places(context.Background(), hashes...); err != nil || !slices.Equal(got, places) {
		t.Errorf("places of users %d: %+v, %v, want %+v", hashes, got, err, places)
	}
}

// checkPages compares all rows, and the pages that ever had any, and checks that all other pages
// are gone. Of the pages that never had rows it compares the last one: a read of each would take
// long.
func (m *model) checkPages(t tester, l *ledger.Ledger) {
	t.Helper()
	all := m.rowsOf(func(uint64) bool { return true })
	if rows, err := l.All(context.Background(), nil, len(all)+1); err != nil || !slices.Equal(rows, all) {
		t.Errorf("the ledger holds %v, %v, want %v", rows, err, all)
	}
	for _, pages := range []uint32{m.layouts.Current, m.layouts.Building} {
		for n := range pages {
			page := m.firstPage(pages) + n
			want, rows := m.states[page], m.sharedRows(pages, page)
			if want == (ledger.PageState{}) && len(rows) == 0 && n+1 < pages {
				continue
			}
			if got := checkPage(t, l, page, rows, want.Sequence); got != want {
				t.Errorf("page %d at %+v, want %+v", page, got, want)
			}
		}
	}
	if leaving := m.layouts.Leaving; leaving > 0 {
		checkGone(t, l, m.firstPage(leaving))
		checkGone(t, l, m.firstPage(leaving)+leaving-1)
	}
	used := map[uint32]bool{}
	for hash, page := range m.owners {
		used[page] = true
		want := m.states[page]
		if got := checkPage(t, l, page, m.rowsOf(func(of uint64) bool { return of == hash }), want.Sequence); got != want {
			t.Errorf("page %d at %+v, want %+v", page, got, want)
		}
	}
	for n := range m.numbers + 1 {
		if page := ledger.DedicatedPages + n; !used[page] {
			checkGone(t, l, page)
		}
	}
}

// checkGone checks that each call reports a page as no longer in use.
func checkGone(t tester, l *ledger.Ledger, page uint32) {
	t.Helper()
	ctx := context.Background()
	_, _, ofKeys := l.Keys(ctx, page)
	_, ofRows := l.EachRow(ctx, page, func(rows []ledger.Row) error {
		t.Errorf("page %d, which is gone, has %v", page, rows)
		return nil
	})
	_, ofSequence := l.Sequence(ctx, page)
	for name, err := range map[string]error{"Keys": ofKeys, "EachRow": ofRows, "Sequence": ofSequence} {
		if !errors.Is(err, ledger.ErrGone) {
			t.Errorf("%s of page %d: error %v, want ErrGone", name, page, err)
		}
	}
}

// sharedRows returns the rows of a page of a layout.
func (m *model) sharedRows(pages, page uint32) []ledger.Row {
	return m.rowsOf(func(hash uint64) bool {
		_, has := m.owners[hash]
		return !has && m.shared(pages, hash) == page
	})
}

// rowsOf returns the rows of some users, in order.
func (m *model) rowsOf(users func(hash uint64) bool) (rows []ledger.Row) {
	for k, times := range m.rows {
		if users(k.hash) {
			rows = append(rows, k.row(times))
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

// clear removes all rows.
func (m *model) clear(t tester, l *ledger.Ledger) {
	t.Helper()
	for _, row := range m.rowsOf(func(uint64) bool { return true }) {
		recordAt(t, l, m, at(0), remove(row))
	}
}
