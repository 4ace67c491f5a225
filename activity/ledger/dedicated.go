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

var errNoNumbers = errors.New("no page numbers left for dedicated pages")

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

// Places returns the pages of users, given their hashes, in the same order. With PostgreSQL it
// takes one round trip, and all values are from one snapshot.
func (l *Ledger) Places(ctx context.Context, hashes ...uint64) ([]Place, error) {
	c, what := &Call{Operation: "place"}, "ledger: look up the pages of users"
	return ask(ctx, l, c, what, func(ctx context.Context) ([]Place, error) {
		return l.places(ctx, hashes)
	})
}

// Place is [Ledger.Places] for one user. All values are from one snapshot.
func (l *Ledger) Place(ctx context.Context, hash uint64) (Place, error) {
	places, err := l.Places(ctx, hash)
	if err != nil {
		return Place{}, err
	}
	return places[0], nil
}

// places assumes that the current layout is the one that was read last. If it is not, places reads
// again.
func (l *Ledger) places(ctx context.Context, hashes []uint64) ([]Place, error) {
	places := make([]Place, len(hashes))
	numbers := make([]int64, len(hashes))
	users := make([]int64, len(hashes))
	pages := make([]int64, len(hashes))
	var layouts Layouts
	var number int
	var p Place
	for assumed := l.assumedLayouts(); ; assumed = layouts {
		for i, hash := range hashes {
			numbers[i], users[i] = int64(i), stored(hash)
			pages[i] = int64(l.id.PageIn(assumed.Current, hash))
		}
		s := layoutsQuery(&layouts)
		note := s.each
		s.sql, s.columns = l.sql.places, []any{numbers, users, pages}
		s.into = append([]any{&number, &p.Page, &p.Sequence, &p.Left}, s.into...)
		s.each = func() error {
			places[number] = p
			return note()
		}
		if err := l.db.query(ctx, s); err != nil {
			return nil, err
		}
		l.assume(layouts)
		if layouts.Current == assumed.Current {
			break
		}
	}
	for i := range places {
		places[i].Layouts = layouts
	}
	return places, nil
}

// Move gives a user a dedicated page, or takes it away, given the user's hash. From then on all
// rows of the hash belong to the new page. Move raises the shared page, and the dedicated one that
// it takes away, which is no longer in use. A new dedicated page has a number that no page had
// before. The Receipt names both pages, the shared one first. If the user is there already, nothing
// changes. For errors see Record. Repeating the call is safe.
func (l *Ledger) Move(ctx context.Context, hash uint64, dedicate bool) (Receipt, error) {
	operation, what := "release", "ledger: release a dedicated page"
	if dedicate {
		operation, what = "dedicate", "ledger: dedicate a page"
	}
	return ask(ctx, l, &Call{Operation: operation}, what, func(ctx context.Context) (Receipt, error) {
		return l.move(ctx, move{hash, dedicate})
	})
}

// move executes m.
func (l *Ledger) move(ctx context.Context, m move) (receipt Receipt, err error) {
	err = l.db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
		p := &plan{id: l.id, entries: []*entry{{key: key{hash: m.hash}}}}
		var greatest uint32
		states, err := l.lock(ctx, t, p,
			statement{sql: l.sql.lockNumbers},
			statement{sql: greatestPageSQL, into: []any{&greatest}},
		)
		if err != nil {
			return fmt.Errorf("look up pages: %w", err)
		}
		var raised []raisedPage
		receipt, raised, err = m.decide(p, states, greatest)
		if err != nil || len(raised) == 0 {
			return err
		}
		writes := []statement{{sql: deleteOwnerSQL, args: []any{stored(m.hash)}}, l.raise(raised)}
		if made := receipt.Owners[m.hash]; m.dedicate {
			writes = []statement{
				{sql: l.sql.createPages, columns: []any{[]int64{int64(made)}}},
				{sql: l.sql.putOwner, args: []any{stored(m.hash), made}},
				l.raise(raised),
			}
		}
		return execAll(ctx, t, writes)
	})
	return receipt, err
}

// move is a move of a user to a dedicated page, or back from it.
type move struct {
	hash     uint64
	dedicate bool
}

// raisedPage is the new state of a page in the table pages.
type raisedPage struct {
	page uint32
	PageState
}

// decide computes the effect of the move: the new states of pages, none if nothing changes. states
// are those of the user's pages, and greatest is the greatest number that a page ever had. The
// caller excludes other writers.
func (m move) decide(
	p *plan, states map[uint32]PageState, greatest uint32,
) (receipt Receipt, raised []raisedPage, err error) {
	page, id := p.owners[m.hash], p.id
	switch {
	case m.dedicate == (page > 0): // nothing changes
	case m.dedicate:
		if greatest == math.MaxUint32 {
			return Receipt{}, nil, errNoNumbers
		}
		page = max(DedicatedPages, greatest+1)
		raised = append(raised, raisedPage{page, PageState{Sequence: 1}})
	default:
		at := states[page].Sequence + 1
		raised = append(raised, raisedPage{page, PageState{Sequence: at, Left: at}})
	}
	if len(raised) > 0 {
		for _, shared := range id.bothPages(p.layouts, m.hash) {
			st := id.pageState(states, p.layouts, shared, m.hash)
			st.Sequence++
			if m.dedicate {
				st.Left = st.Sequence
			}
			raised = append(raised, raisedPage{shared, st})
		}
	}
	after := maps.Clone(states)
	for _, r := range raised {
		after[r.page] = r.PageState
	}
	shared := id.PageIn(p.layouts.Current, m.hash)
	receipt = Receipt{Layouts: p.layouts, Owners: make(map[uint64]uint32)}
	receipt.Pages = []PageChange{{Page: shared, Sequence: after[shared].Sequence}}
	if page > 0 {
		receipt.Pages = append(receipt.Pages, PageChange{Page: page, Sequence: after[page].Sequence})
	}
	if m.dedicate {
		receipt.Owners[m.hash] = page
	}
	slices.SortFunc(raised, func(a, b raisedPage) int { return cmp.Compare(a.page, b.page) })
	return receipt, raised, nil
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
func (id Identity) pageState(
	states map[uint32]PageState, l Layouts, page uint32, hash uint64,
) PageState {
	st := states[page]
	if st.Sequence == 0 && l.Building > 0 && page == id.PageIn(l.Building, hash) {
		st.Sequence = states[id.PageIn(l.Current, hash)].Sequence
	}
	return st
}
