package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// DedicatedPages is the number of the first dedicated page. Such a page has the rows of one user.
const DedicatedPages = 1 << 31

var errNoNumbers = errors.New("there are no numbers left for dedicated pages")

// Owner is a user with a dedicated page.
type Owner struct {
	Hash uint64
	Page uint32 // DedicatedPages or more
}

// Standing is the ledger's state of a page.
type Standing struct {
	Sequence uint64 // 0: the page never changed
	// Left is the sequence with which a user last left the page; 0: none has.
	Left uint64
}

// Place says where the rows of a user are.
type Place struct {
	Page uint32
	Standing
	Layouts Layouts
}

// Place returns the page of the user of a hash, as of one moment.
func (l *Ledger) Place(ctx context.Context, hash uint64) (p Place, err error) {
	err = l.use(func() error {
		p, err = l.db.place(ctx, hash)
		return err
	})
	if err != nil {
		return Place{}, fmt.Errorf("ledger: look up the page of a user: %w", interrupted(ctx, err))
	}
	return p, nil
}

// Dedicate gives the user of a hash a dedicated page, with a number that no page ever had. From then
// on it has all rows of the hash. The Receipt names it, and the page that the user has left, which
// was raised. If the user has a dedicated page already, nothing changes. For errors see Record;
// repeating the call is safe.
func (l *Ledger) Dedicate(ctx context.Context, hash uint64) (Receipt, error) {
	return l.move(ctx, move{hash: hash, dedicate: true})
}

// Release takes the dedicated page from the user of a hash: the rows of the hash are on the shared
// page then, which was raised. The Receipt names it and the dedicated page, which nobody is on any
// more. If the user has no dedicated page, nothing changes. For errors see Record; repeating the
// call is safe.
func (l *Ledger) Release(ctx context.Context, hash uint64) (Receipt, error) {
	return l.move(ctx, move{hash: hash})
}

func (l *Ledger) move(ctx context.Context, m move) (receipt Receipt, err error) {
	err = l.use(func() error {
		receipt, err = l.db.move(ctx, m)
		return err
	})
	if err != nil {
		what := "release a dedicated page"
		if m.dedicate {
			what = "dedicate a page"
		}
		return Receipt{}, fmt.Errorf("ledger: %s: %w", what, err)
	}
	return receipt, nil
}

// move is one of a user to a dedicated page, or back from it.
type move struct {
	hash     uint64
	dedicate bool
}

// moveState is what a move has to know, in a transaction that excludes other writers of the user.
type moveState struct {
	layouts  Layouts
	owned    uint32 // the user's dedicated page; 0: none
	standing map[uint32]Standing
	greatest uint32 // of the numbers that pages ever had
}

// outcome is what a move comes to.
type outcome struct {
	receipt Receipt
	raised  []raisedPage // none: nothing changes
	made    uint32       // the new dedicated page, which is among raised; 0: none
}

// raisedPage is the new state of a page in the table pages.
type raisedPage struct {
	page uint32
	Standing
}

// decide works out what the move comes to.
func (m move) decide(id Identity, s moveState) (o outcome, err error) {
	shared := id.PageIn(s.layouts.Current, m.hash)
	o.receipt = Receipt{Layouts: s.layouts, Owners: make(map[uint64]uint32)}
	page := s.owned
	switch {
	case m.dedicate == (s.owned > 0): // nothing to do
	case m.dedicate:
		if s.greatest == math.MaxUint32 {
			return outcome{}, errNoNumbers
		}
		page = max(DedicatedPages, s.greatest+1)
		o.made = page
		o.raised = append(o.raised, raisedPage{page, Standing{Sequence: 1}})
	default:
		at := s.standing[page].Sequence + 1
		o.raised = append(o.raised, raisedPage{page, Standing{Sequence: at, Left: at}})
	}
	if len(o.raised) > 0 {
		for _, p := range id.bothPages(s.layouts, m.hash) {
			st := id.standing(s.standing, s.layouts, p, m.hash)
			st.Sequence++
			if m.dedicate {
				st.Left = st.Sequence
			}
			o.raised = append(o.raised, raisedPage{p, st})
		}
	}
	after := maps.Clone(s.standing)
	for _, r := range o.raised {
		after[r.page] = r.Standing
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

// bothPages are the pages of a user that a write raises: in the current layout, and in the one that
// is being built.
func (id Identity) bothPages(l Layouts, hash uint64) []uint32 {
	pages := []uint32{id.PageIn(l.Current, hash)}
	if l.Building > 0 {
		pages = append(pages, id.PageIn(l.Building, hash))
	}
	return pages
}

// standing returns the state of a shared page of the user. A page of a layout that is being built
// begins with the sequence of the page that it comes from.
func (id Identity) standing(standing map[uint32]Standing, l Layouts, page uint32, hash uint64) Standing {
	st := standing[page]
	if st.Sequence == 0 && l.Building > 0 && page == id.PageIn(l.Building, hash) {
		st.Sequence = standing[id.PageIn(l.Current, hash)].Sequence
	}
	return st
}
