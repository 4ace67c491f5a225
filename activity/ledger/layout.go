package ledger

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// MaxJoined is how many homes may share a page, and into how many pages a home may be cut: that is one transaction, which takes
// some hundred milliseconds, and all writers of the homes wait for it.
const MaxJoined = 4096

// cell is hashes of one home from least on, up to the next cell's or the home's end, whose users are on
// page, and were on left before the home was last reshaped: the same, if it did not move them.
type cell struct {
	least      uint64
	page, left uint32
}

// span is homes that a reshape has to do with, all of them or none.
type span struct{ first, last uint32 }

// spanOf is the span of a home that is cut into pages of cut in all, and is to be cut into pages.
func (id Identity) spanOf(home, cut, pages uint32) span {
	joined := max(1, id.Pages/cut, id.Pages/pages)
	first := home &^ (joined - 1)
	return span{first, first + joined - 1}
}

// homes are all of the span.
func (s span) homes() (homes []uint32) {
	for home := s.first; ; home++ {
		homes = append(homes, home)
		if home == s.last {
			return homes
		}
	}
}

// hashesOf are those of the users of a span.
func (id Identity) hashesOf(s span) hashRange {
	return hashRange{id.hashes(s.first).least, id.hashes(s.last).greatest}
}

// cells are those of a span whose rows of the table ranges are given in order: every home begins one.
func (id Identity) cells(s span, rows []cell) (cells []cell) {
	for _, home := range s.homes() {
		hashes := id.hashes(home)
		n, _ := slices.BinarySearchFunc(rows, hashes.greatest, func(c cell, hash uint64) int {
			if c.least <= hash {
				return -1
			}
			return 1
		})
		if n == 0 || rows[0].least > hashes.least {
			cells = append(cells, cell{hashes.least, home, home})
		}
		cells, rows = append(cells, rows[:n]...), rows[n:]
	}
	return cells
}

// rows are what the table ranges has to have for the cells of a span.
func (id Identity) rows(cells []cell) (rows []cell) {
	var last cell
	for _, c := range cells {
		home := id.Page(c.least)
		if id.hashes(home).least == c.least {
			last = cell{page: home, left: home} // which is so without a row
		}
		if c.page != last.page || c.left != last.left {
			rows = append(rows, c)
		}
		last = c
	}
	return rows
}

// target is hashes that are to have one page.
type target struct {
	hashRange
	page uint32
	made bool
}

// targets are the pages that a span of these cells is to have if it is cut like a ledger of that many pages. The numbers
// of those that are to be made are 0.
func (id Identity) targets(s span, cells []cell, pages uint32) (targets []target) {
	begin := make(map[uint64]uint32) // pages that are not home pages, by their first hash
	for i, c := range cells {
		if c.page >= OwnPages && (i == 0 || cells[i-1].page != c.page) {
			begin[c.least] = c.page
		}
	}
	wanted, all := Identity{Pages: pages}, id.hashesOf(s)
	for n := wanted.Page(all.least); ; n++ {
		t := target{hashRange: wanted.hashes(n)}
		home := id.Page(t.least)
		if number, found := begin[t.least]; id.hashes(home).least == t.least && id.Page(t.greatest) == home {
			t.page = home
		} else if t.made = !found; found {
			t.page = number
		}
		targets = append(targets, t)
		if t.greatest >= all.greatest {
			return targets
		}
	}
}

// reshaped returns the cells that come of those given, where each hash is on the page of its target.
func reshaped(cells []cell, targets []target) (after []cell) {
	next := 0 // of the targets
	for i, c := range cells {
		for targets[next].greatest < c.least {
			next++
		}
		after = append(after, cell{c.least, targets[next].page, c.page})
		for next+1 < len(targets) && (i+1 == len(cells) || targets[next+1].least < cells[i+1].least) {
			next++
			after = append(after, cell{targets[next].least, targets[next].page, c.page})
		}
	}
	return after
}

// moved are the pages that users leave or come to, and the homes of these users, both ascending.
func (id Identity) moved(after []cell) (leave, come, homes []uint32) {
	from, to, of := make(map[uint32]bool), make(map[uint32]bool), make(map[uint32]bool)
	for _, c := range after {
		if c.page != c.left {
			from[c.left], to[c.page], of[id.Page(c.least)] = true, true, true
		}
	}
	return slices.Sorted(maps.Keys(from)), slices.Sorted(maps.Keys(to)), slices.Sorted(maps.Keys(of))
}

// isCut reports whether homes can be cut into that many pages in all.
func (id Identity) isCut(pages uint32) bool {
	return pages > 0 && bits.OnesCount32(pages) == 1 && pages <= maxPages &&
		uint64(pages) <= uint64(id.Pages)*MaxJoined && uint64(id.Pages) <= uint64(pages)*MaxJoined
}

// sortPages puts the pages of a receipt in order.
func sortPages(pages []PageChange) {
	slices.SortFunc(pages, func(a, b PageChange) int { return cmp.Compare(a.Page, b.Page) })
}
