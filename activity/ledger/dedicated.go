package ledger

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
)

// DedicatedPages is the number of the first dedicated page. A dedicated page holds the rows of
// one user.
const DedicatedPages = 1 << 31

var errNoNumbers = errors.New("no page numbers left for dedicated pages")

// Owner is a user with a dedicated page.
type Owner struct {
	Hash uint64
	Page uint32 // DedicatedPages or more
}

// PageState is the state of a page in the ledger.
type PageState struct {
	Sequence uint64 // 0: the page never changed
	// Left is the sequence with which a user last left the page; 0: no user has.
	Left uint64
}

// Place is the page of a user, with its state.
type Place struct {
	Page uint32
	PageState
	Layouts Layouts
}

// Place returns the page of a user, given the user's hash. All values are from one snapshot.
func (l *Ledger) Place(ctx context.Context, hash uint64) (Place, error) {
	return ask(ctx, l, &Call{Operation: "place"}, "look up the page of a user", func(ctx context.Context) (Place, error) {
		return l.db.place(ctx, hash)
	})
}

// Dedicate gives a user a dedicated page, given the user's hash. The page has a number that no
// page had before. From then on all rows of the hash belong to it. Dedicate raises the shared
// page that the user leaves. The Receipt names both pages. If the user already has a dedicated
// page, nothing changes. For errors see Record. Repeating the call is safe.
func (l *Ledger) Dedicate(ctx context.Context, hash uint64) (Receipt, error) {
	return l.change(ctx, "dedicate", "dedicate a page", func(ctx context.Context) (Receipt, error) {
		return move{hash: hash, dedicate: true}.execute(ctx, l.db, l.id)
	})
}

// Release takes the dedicated page from a user, given the user's hash. From then on all rows of
// the hash belong to the shared page, which Release raises. The dedicated page is no longer in
// use. The Receipt names both pages. If the user has no dedicated page, nothing changes. For
// errors see Record. Repeating the call is safe.
func (l *Ledger) Release(ctx context.Context, hash uint64) (Receipt, error) {
	return l.change(ctx, "release", "release a dedicated page", func(ctx context.Context) (Receipt, error) {
		return move{hash: hash}.execute(ctx, l.db, l.id)
	})
}

// move is a move of a user to a dedicated page, or back from it.
type move struct {
	hash     uint64
	dedicate bool
}

// moveState is the input of move.decide, read in a transaction that excludes other writers of
// the user's rows.
type moveState struct {
	layouts  Layouts
	owned    uint32 // the user's dedicated page; 0: none
	states   map[uint32]PageState
	greatest uint32 // greatest number that a page ever had
}

// outcome is the result of a move.
type outcome struct {
	receipt Receipt
	raised  []raisedPage // none: nothing changes
	made    uint32       // the new dedicated page, which raised includes; 0: none
}

// raisedPage is the new state of a page in the table pages.
type raisedPage struct {
	page uint32
	PageState
}

// decide computes the outcome of the move.
func (m move) decide(id Identity, s moveState) (o outcome, err error) {
	shared := id.PageIn(s.layouts.Current, m.hash)
	o.receipt = Receipt{Layouts: s.layouts, Owners: make(map[uint64]uint32)}
	page := s.owned
	switch {
	case m.dedicate == (s.owned > 0): // nothing changes
	case m.dedicate:
		if s.greatest == math.MaxUint32 {
			return outcome{}, errNoNumbers
		}
		page = max(DedicatedPages, s.greatest+1)
		o.made = page
		o.raised = append(o.raised, raisedPage{page, PageState{Sequence: 1}})
	default:
		at := s.states[page].Sequence + 1
		o.raised = append(o.raised, raisedPage{page, PageState{Sequence: at, Left: at}})
	}
	if len(o.raised) > 0 {
		for _, p := range id.bothPages(s.layouts, m.hash) {
			st := id.pageState(s.states, s.layouts, p, m.hash)
			st.Sequence++
			if m.dedicate {
				st.Left = st.Sequence
			}
			o.raised = append(o.raised, raisedPage{p, st})
		}
	}
	after := maps.Clone(s.states)
	for _, r := range o.raised {
		after[r.page] = r.PageState
	}
	o.receipt.Pages = []PageChange{{Page: shared, Sequence: after[shared].Sequence}}
	if page > 0 {
		o.receipt.Pages = append(o.receipt.Pages, PageChange{Page: page, Sequence: after[page].Sequence})
	}
	if m.dedicate {
		o.receipt.Owners[m.hash] = page
	}
	slices.SortFunc(o.raised, func(a, b raisedPage) int { return cmp.Compare(a.page, b.page) })
	return o, nil
}

// bothPages returns the pages of a user that a write raises: in the current layout, and in the
// building one.
func (id Identity) bothPages(l Layouts, hash uint64) []uint32 {
	pages := []uint32{id.PageIn(l.Current, hash)}
	if l.Building > 0 {
		pages = append(pages, id.PageIn(l.Building, hash))
	}
	return pages
}

// pageState returns the state of a shared page of the user. A page of a building layout begins
// with the sequence of its ancestor.
func (id Identity) pageState(states map[uint32]PageState, l Layouts, page uint32, hash uint64) PageState {
	st := states[page]
	if st.Sequence == 0 && l.Building > 0 && page == id.PageIn(l.Building, hash) {
		st.Sequence = states[id.PageIn(l.Current, hash)].Sequence
	}
	return st
}
