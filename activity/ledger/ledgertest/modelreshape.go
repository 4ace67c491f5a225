package ledgertest

import (
	"cmp"
	"context"
	"maps"
	"math/bits"
	"slices"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// segment is all hashes from one to another, whose users share a page.
type segment struct {
	least, greatest uint64
	page            uint32
}

// places is where users are who have no page of their own: segments of each home in order, now and before its last reshape. A home that
// was never reshaped has none.
type places struct {
	now, before map[uint32][]segment
	cut         map[uint32]uint32 // of homes that were reshaped
	slots       map[uint32]uint64 // the first hash of pages that are no home pages
	asked       uint32
}

func newPlaces(id ledger.Identity) places {
	return places{map[uint32][]segment{}, map[uint32][]segment{}, map[uint32]uint32{}, map[uint32]uint64{}, id.Pages}
}

// hashesOf are those of part number n of all, of so many.
func hashesOf(pages, n uint32) (least, greatest uint64) {
	width := 64 - bits.TrailingZeros32(pages)
	if width == 64 {
		return 0, ^uint64(0)
	}
	return uint64(n) << width, uint64(n)<<width | (1<<width - 1)
}

// segments are those of a home.
func (m *model) segments(of map[uint32][]segment, home uint32) []segment {
	if s, reshaped := of[home]; reshaped {
		return s
	}
	least, greatest := hashesOf(m.id.Pages, home)
	return []segment{{least, greatest, home}}
}

// sharedPage is where those of a hash are, or were, who have no page of their own.
func (m *model) sharedPage(of map[uint32][]segment, hash uint64) uint32 {
	for _, s := range m.segments(of, m.id.Page(hash)) {
		if s.least <= hash && hash <= s.greatest {
			return s.page
		}
	}
	panic("a hash without a page")
}

// others are the pages that have to do with a hash, beside the home page.
func (m *model) others(hash uint64) map[uint32]bool {
	pages := map[uint32]bool{m.sharedPage(m.now, hash): true, m.sharedPage(m.before, hash): true}
	if page, has := m.own[hash]; has {
		pages[page] = true
	}
	delete(pages, m.id.Page(hash))
	return pages
}

// placed adds to a receipt where the users of a hash are; gone are pages that they just left.
func (m *model) placed(receipt *ledger.Receipt, hash uint64, gone ...uint32) {
	if receipt.Placed == nil {
		receipt.Placed = map[uint64]ledger.Placed{}
	}
	left := m.others(hash)
	for _, page := range gone {
		left[page] = true
	}
	delete(left, m.pageOf(hash))
	if len(left) > 0 || m.pageOf(hash) != m.id.Page(hash) {
		receipt.Placed[hash] = ledger.Placed{Page: m.pageOf(hash), Left: slices.Sorted(maps.Keys(left))}
	}
}

// standsAs is a page of a receipt as it stands, of those that have to do with a hash.
func (m *model) standsAs(page uint32, hash uint64) ledger.PageChange {
	p := ledger.PageChange{Page: page, Sequence: m.sequences[page]}
	if page >= ledger.OwnPages {
		p.Own, p.Owner = true, hash
		if slot, shared := m.slots[page]; shared {
			p.Owner = slot
		}
	}
	return p
}

// cutOf is into pages of how many a home is cut.
func (m *model) cutOf(home uint32) uint32 { return cmp.Or(m.cut[home], m.id.Pages) }

// span are the homes that are reshaped with one: all that share a page with one of them, before or after.
func (m *model) span(home uint32) []uint32 {
	span := map[uint32]bool{home: true}
	for grown := true; grown; {
		grown = false
		for of := range maps.Clone(span) {
			for _, pages := range []uint32{m.asked, m.cutOf(of)} {
				least, _ := hashesOf(m.id.Pages, of)
				for other := range m.id.Pages {
					from, _ := hashesOf(m.id.Pages, other)
					if !span[other] && (ledger.Identity{Pages: pages}).Page(from) == (ledger.Identity{Pages: pages}).Page(least) {
						span[other], grown = true, true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(span))
}

// reshape is what becomes of the span of a home, and what that comes to.
type reshape struct {
	homes   []uint32
	targets []segment
	made    map[uint32]bool
	after   map[uint32][]segment
	// leave and come are pages, and moved homes.
	leave, come, moved map[uint32]bool
}

// plan works out what a reshape of the home comes to, whose new pages get the numbers from first on.
func (m *model) plan(home, first uint32) *reshape {
	r := &reshape{
		homes: m.span(home), made: map[uint32]bool{}, after: map[uint32][]segment{},
		leave: map[uint32]bool{}, come: map[uint32]bool{}, moved: map[uint32]bool{},
	}
	for n := range m.asked {
		least, greatest := hashesOf(m.asked, n)
		if !slices.Contains(r.homes, m.id.Page(least)) {
			continue
		}
		page := m.id.Page(least)
		if from, to := hashesOf(m.id.Pages, page); from != least || greatest > to {
			page = m.sharedPage(m.now, least)
			if page < ledger.OwnPages || m.slots[page] != least {
				page = first
				first++
				r.made[page] = true
			}
		}
		r.targets = append(r.targets, segment{least, greatest, page})
	}
	for _, home := range r.homes {
		from, to := hashesOf(m.id.Pages, home)
		for _, t := range r.targets {
			if t.least <= to && from <= t.greatest {
				r.after[home] = append(r.after[home], segment{max(from, t.least), min(to, t.greatest), t.page})
			}
		}
		for _, was := range m.segments(m.now, home) {
			for _, is := range r.after[home] {
				if was.least <= is.greatest && is.least <= was.greatest && was.page != is.page {
					r.leave[was.page], r.come[is.page], r.moved[home] = true, true, true
				}
			}
		}
	}
	return r
}

// reshape carries out a plan.
func (m *model) reshape(r *reshape) ledger.Receipt {
	for _, t := range r.targets {
		if r.made[t.page] {
			m.slots[t.page] = t.least
		}
	}
	touched := map[uint32]bool{}
	for _, pages := range []map[uint32]bool{r.leave, r.come, r.moved} {
		maps.Copy(touched, pages)
	}
	var receipt ledger.Receipt
	for _, page := range slices.Sorted(maps.Keys(touched)) {
		m.sequences[page]++
		if !r.made[page] {
			m.moves[page]++
		}
		receipt.Pages = append(receipt.Pages, m.standsAs(page, 0))
	}
	for _, home := range r.homes {
		m.before[home], m.now[home], m.cut[home] = m.segments(m.now, home), r.after[home], m.asked
	}
	return receipt
}

// homes are the homes that Homes has to return, of those asked for.
func (m *model) homes(asked func(home uint32) bool) (homes []ledger.Home) {
	for home := range m.id.Pages {
		if m.moves[home] == 0 || !asked(home) {
			continue
		}
		h := ledger.Home{Number: home, Moves: map[uint32]uint32{home: m.moves[home]}, Owners: m.owners(home)}
		for _, s := range m.segments(m.now, home) {
			slot, shared := m.slots[s.page]
			if !shared {
				slot = s.least
			}
			h.Ranges = append(h.Ranges, ledger.Range{Least: s.least, Page: s.page, Slot: slot})
			if n := m.moves[s.page]; n > 0 {
				h.Moves[s.page] = n
			}
		}
		if len(h.Ranges) == 1 && h.Ranges[0].Page == home {
			h.Ranges = nil
		}
		homes = append(homes, h)
	}
	return homes
}

func sameHome(a, b ledger.Home) bool {
	return a.Number == b.Number && slices.Equal(a.Ranges, b.Ranges) && slices.Equal(a.Owners, b.Owners) && maps.Equal(a.Moves, b.Moves)
}

// checkHomes compares where users are, of all homes, of every other one, and of the first.
func (m *model) checkHomes(t tester, l *ledger.Ledger) {
	t.Helper()
	odd := []uint32{m.id.Pages - 1} // or the only one
	for home := uint32(1); home < m.id.Pages; home += 2 {
		odd = append(odd, home)
	}
	for _, homes := range [][]uint32{nil, odd, {0}, {0, 0}} {
		want := m.homes(func(home uint32) bool { return homes == nil || slices.Contains(homes, home) })
		got, err := l.Homes(context.Background(), homes...)
		if err != nil || !slices.EqualFunc(got, want, sameHome) {
			t.Errorf("homes %v: %+v, %v, want %+v", homes, got, err, want)
		}
	}
	want := ledger.Cut{Pages: m.asked, Homes: int(m.id.Pages)}
	for home := range m.id.Pages {
		if m.cutOf(home) == m.asked {
			want.Done++
		}
	}
	if got, err := l.Cut(context.Background()); err != nil || got != want {
		t.Errorf("cut %+v, %v, want %+v", got, err, want)
	}
}
