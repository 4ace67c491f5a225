package ledger

import (
	"errors"
	"slices"
)

// errNoOwnPage refuses a number from OwnPages on that no page ever had.
var errNoOwnPage = errors.New("no such page: nobody was ever moved to it")

var errNoNumbers = errors.New("there are no numbers left for pages")

// footing is where a page stands, and a hash in whose home's slot of the store it does; that of a home page is 0.
type footing struct {
	Standing
	slot uint64
}

// newFooting is what the table pages has of a page.
func newFooting(page uint32, s Standing, least int64) footing {
	if page < OwnPages {
		return footing{Standing: s}
	}
	return footing{s, unstored(least)}
}

// stand notes where the page stands.
func (p *PageChange) stand(standing map[uint32]footing) {
	s := standing[p.Page]
	p.Sequence = s.Sequence
	if p.Own = p.Page >= OwnPages; p.Own {
		p.Owner = s.slot
	}
}

// whereabouts are the pages that have to do with the users of a hash.
type whereabouts struct {
	page, left uint32 // of the cell of their hash
	own        uint32 // their own; 0: they have none
}

// in is where the rows are.
func (w whereabouts) in() uint32 {
	if w.own > 0 {
		return w.own
	}
	return w.page
}

// others are the pages beside the home page, each once.
func (w whereabouts) others(home uint32) (pages []uint32) {
	for _, page := range [...]uint32{w.page, w.left, w.own} {
		if page != home && page > 0 && !slices.Contains(pages, page) {
			pages = append(pages, page)
		}
	}
	return pages
}

// placed is what a receipt says of the users, if it says anything. gone is a page that they have just left; 0: none.
func (w whereabouts) placed(home, gone uint32) (p Placed, moved bool) {
	left := slices.DeleteFunc(w.others(home), func(page uint32) bool { return page == w.in() })
	if gone > 0 {
		left = append(left, gone)
	}
	return Placed{w.in(), left}, w.in() != home || len(left) > 0
}

// pageNumbers are the home pages of all users of the plan, in ascending order.
func (p *plan) pageNumbers() []int64 {
	var pages []int64
	for _, e := range p.entries {
		page := int64(p.id.Page(e.hash))
		if n := len(pages); n == 0 || pages[n-1] != page {
			pages = append(pages, page)
		}
	}
	return pages
}

// mayHaveMoved are the hashes of those users of the plan who may be elsewhere than on their home page, each once: somebody
// was moved out of it.
func (p *plan) mayHaveMoved(homes map[uint32]footing) (hashes []uint64) {
	var last uint32
	moved := false
	for i, e := range p.entries {
		if home := p.id.Page(e.hash); i == 0 || home != last {
			last, moved = home, homes[home].Moves > 0
		}
		if moved && (len(hashes) == 0 || hashes[len(hashes)-1] != e.hash) {
			hashes = append(hashes, e.hash)
		}
	}
	return hashes
}

// place notes what pages have to do with the users of a hash.
func (p *plan) place(hash uint64, w whereabouts) {
	if _, moved := w.placed(p.id.Page(hash), 0); !moved {
		return
	}
	if p.placed == nil {
		p.placed = make(map[uint64]whereabouts)
	}
	p.placed[hash] = w
}

// placeAs is place of what the tables have: no range is the home page.
func (p *plan) placeAs(hash int64, own uint32, page, left *uint32) {
	home := p.id.Page(unstored(hash))
	w := whereabouts{page: home, left: home, own: own}
	if page != nil && left != nil {
		w.page, w.left = *page, *left
	}
	p.place(unstored(hash), w)
}

// otherPages are the numbers of the pages that have to do with those who were moved, beside home pages, in
// ascending order. owners are the hashes by page of those that are one user's own.
func (p *plan) otherPages() (pages []int64, owners map[uint32]uint64) {
	owners = make(map[uint32]uint64)
	for hash, w := range p.placed {
		if w.own > 0 {
			owners[w.own] = hash
		}
		for _, page := range w.others(p.id.Page(hash)) {
			pages = append(pages, int64(page))
		}
	}
	slices.Sort(pages)
	return slices.Compact(pages), owners
}

// receiptPlaced is what the plan's receipt says of users who were moved.
func (p *plan) receiptPlaced() map[uint64]Placed {
	if len(p.placed) == 0 {
		return nil
	}
	placed := make(map[uint64]Placed, len(p.placed))
	for hash, w := range p.placed {
		placed[hash], _ = w.placed(p.id.Page(hash), 0)
	}
	return placed
}

// move is one of a user to a page of their own, or back from it.
type move struct {
	hash uint64
	home uint32
	out  bool
}

// moveState is what a move has to know, in a transaction that has the home to itself.
type moveState struct {
	whereabouts
	standing map[uint32]footing
	greatest uint32 // of the numbers that pages have, or that are reserved for some
}

// outcome is what a move comes to.
type outcome struct {
	receipt Receipt
	raised  []PageChange // nothing else is to be done if there are none: those that were there already
	own     PageChange   // the user's own; new, if the move is out
}

// decide works out what the move comes to.
func (m move) decide(s moveState) (o outcome, err error) {
	had, gone := s.own, uint32(0)
	moves := m.out != (had > 0)
	switch {
	case moves && m.out:
		if s.own, _, err = numbersAfter(s.greatest, 1); err != nil {
			return outcome{}, err
		}
	case moves:
		s.own, gone = 0, had
	}
	if own := max(s.own, had); own > 0 {
		s.standing[own] = footing{s.standing[own].Standing, m.hash}
	}
	pages := append([]uint32{m.home}, s.others(m.home)...)
	if gone > 0 {
		pages = append(pages, gone)
	}
	for _, page := range pages {
		p := PageChange{Page: page}
		p.stand(s.standing)
		switch affected := page == m.home || page == s.page || page == max(s.own, gone); {
		case moves && m.out && page == s.own: // made
			p.Sequence = 1
			o.own = p
		case moves && affected:
			p.Sequence++
			o.raised = append(o.raised, p)
			if page == gone {
				o.own = p
			}
		}
		o.receipt.Pages = append(o.receipt.Pages, p)
	}
	sortPages(o.receipt.Pages)
	if placed, moved := s.placed(m.home, gone); moved {
		o.receipt.Placed = map[uint64]Placed{m.hash: placed}
	}
	return o, nil
}

// hashRange is all hashes from one to another.
type hashRange struct{ least, greatest uint64 }

// without returns what is left of the range without some hashes of it, which are in
// ascending order.
func (r hashRange) without(hashes []uint64) (rest []hashRange) {
	for _, hash := range hashes {
		if hash > r.least {
			rest = append(rest, hashRange{r.least, hash - 1})
		}
		if hash == r.greatest {
			return rest
		}
		r.least = hash + 1
	}
	return append(rest, r)
}
