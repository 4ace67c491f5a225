package ledger

import (
	"errors"
	"math"
)

// errNoOwnPage refuses the number of a page that nobody ever had to themselves.
var errNoOwnPage = errors.New("no such page: nobody ever had it as their own")

// pageNumbers are the shared pages of all users of the plan, in ascending order.
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

// mayHaveMoved are the hashes of those users of the plan who may have a page of their
// own, each once, as stored: somebody moved out of the page that they share.
func (p *plan) mayHaveMoved(shared map[uint32]Standing) (hashes []int64) {
	var last uint32
	moved := false
	for i, e := range p.entries {
		if page := p.id.Page(e.hash); i == 0 || page != last {
			last, moved = page, shared[page].Moves > 0
		}
		if !moved {
			continue
		}
		if hash := stored(e.hash); len(hashes) == 0 || hashes[len(hashes)-1] != hash {
			hashes = append(hashes, hash)
		}
	}
	return hashes
}

// place notes that the users of a hash, as stored, have a page of their own.
func (p *plan) place(hash int64, page uint32) {
	if p.own == nil {
		p.own = make(map[uint64]uint32)
	}
	p.own[unstored(hash)] = page
}

// move is one of a user out of the page that they share, or back into it.
type move struct {
	hash   uint64
	shared uint32
	out    bool
}

// home is where the rows of a move's user are, in a transaction that has the shared
// page to itself.
type home struct {
	shared, own uint64 // sequences of the pages
	page        uint32 // the user's own; 0: there is none
	greatest    uint32 // of the numbers that pages have
}

// decide returns the pages of the receipt, the shared one first, and whether there is anything
// to do: then these are as the move leaves them.
func (m move) decide(h home) (pages []PageChange, moves bool, err error) {
	shared := PageChange{Page: m.shared, Sequence: h.shared}
	own := PageChange{Page: h.page, Sequence: h.own, Own: true, Owner: m.hash}
	has := h.page > 0
	switch {
	case m.out && has:
		return []PageChange{shared, own}, false, nil
	case !m.out && !has:
		return []PageChange{shared}, false, nil
	case m.out && h.greatest == math.MaxUint32:
		return nil, false, errors.New("there are no numbers left for pages of one user alone")
	case m.out:
		own.Page = max(OwnPages, h.greatest+1)
	}
	shared.Sequence++
	own.Sequence++
	return []PageChange{shared, own}, true, nil
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
