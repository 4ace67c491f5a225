package activity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// maxMoves is how many times a View looks for where its user has moved to, before it gives up.
	maxMoves = 8
	// manyHomes is from how many homes on all are asked for, rather than those.
	manyHomes = 256
	// learners is how many homes are asked for at once because a page says that there were moves.
	learners = 64
)

// placement says on which pages the users of one home are. It does not change. Where it is nil, all are on the home page, and nobody
// ever moved.
//
// A page says in its header how often users moved out of it or into it. A reader who knows of fewer moves asks the
// ledger where the user is; one who knows of more takes the page for behind. So it does not
// matter how late a process hears of a move.
type placement struct {
	ranges []ledger.Range    // none: all who have no page of their own are on the home page
	own    map[uint64]uint32 // pages of users by their hash
	moves  map[uint32]uint32 // of the home page and those of ranges, where there were any
}

// of returns the page of a user of the home, and how often users moved out of it or into it. Nobody moves into a page of
// somebody's own.
func (p *placement) of(home uint32, hash uint64) (page, moves uint32) {
	if p == nil {
		return home, 0
	}
	if own, ok := p.own[hash]; ok {
		return own, 0
	}
	page = home
	n, found := slices.BinarySearchFunc(p.ranges, hash, func(r ledger.Range, hash uint64) int { return cmp.Compare(r.Least, hash) })
	switch {
	case found:
		page = p.ranges[n].Page
	case n > 0:
		page = p.ranges[n-1].Page
	}
	return page, p.moves[page]
}

// movesOf is how often users moved out of a page of the home, or into it.
func (p *placement) movesOf(page uint32) uint32 {
	if p == nil {
		return 0
	}
	return p.moves[page]
}

// newer reports whether p, of the given home, is of a later moment than other. Every move of a user of the home counts as one of the
// home page; of pages that the home has together with others, the others may count more.
func (p *placement) newer(home uint32, other *placement) bool {
	if other == nil || p.moves[home] != other.moves[home] {
		return other == nil || p.moves[home] > other.moves[home]
	}
	sum := func(p *placement) (n uint64) {
		for _, moves := range p.moves {
			n += uint64(moves)
		}
		return n
	}
	return sum(p) > sum(other)
}

// usesHome reports whether users are on the home page.
func (p *placement) usesHome(home uint32) bool {
	return p == nil || len(p.ranges) == 0 || slices.ContainsFunc(p.ranges, func(r ledger.Range) bool { return r.Page == home })
}

// placements are those of all homes, as the ledger was last known to have them.
type placements struct {
	homes    []atomic.Pointer[placement]
	slots    sync.Map // by the number of a page: a hash, uint64, in whose home's slot it stands; also of pages that nobody has any more
	changes  atomic.Uint64
	learning [learners]chan struct{} // holds one while a home with that remainder is asked for
	last     atomic.Pointer[census]
}

func newPlacements(homes uint32) *placements {
	p := &placements{homes: make([]atomic.Pointer[placement], homes)}
	for i := range p.learning {
		p.learning[i] = make(chan struct{}, 1)
	}
	return p
}

// of is the placement of a home.
func (p *placements) of(home uint32) *placement {
	if len(p.homes) == 0 {
		return nil // without a ledger nobody moves
	}
	return p.homes[home].Load()
}

// note remembers where a page stands that is not a home page: in the slot of the home of that hash.
func (p *placements) note(page uint32, hash uint64) {
	if page >= ledger.OwnPages {
		p.slots.LoadOrStore(page, hash)
	}
}

// names reports whether it is known where a page stands.
func (p *placements) names(page uint32) bool {
	_, ok := p.slots.Load(page)
	return ok || page < ledger.OwnPages
}

// census is what pages there are beside the home pages.
type census struct {
	changes uint64   // of the placements that it was made of
	shared  []uint32 // that users share, ascending
	own     []uint32 // of one user alone, ascending
	homes   int      // home pages that users are on
}

// number is the i-th page.
func (c *census) number(i int) uint32 {
	if i < len(c.shared) {
		return c.shared[i]
	}
	return c.own[i-len(c.shared)]
}

// isOwn reports whether a page is one of a single user.
func (c *census) isOwn(page uint32) bool {
	_, found := slices.BinarySearch(c.own, page)
	return found
}

// has reports whether a page is among them.
func (c *census) has(page uint32) bool {
	_, found := slices.BinarySearch(c.shared, page)
	return found || c.isOwn(page)
}

func (c *census) len() int { return len(c.shared) + len(c.own) }

// census counts pages, unless no placement has changed since it did.
func (p *placements) census() *census {
	changes := p.changes.Load()
	if last := p.last.Load(); last != nil && last.changes == changes {
		return last
	}
	c := &census{changes: changes}
	for home := range p.homes {
		placed := p.homes[home].Load()
		if placed.usesHome(uint32(home)) {
			c.homes++
		}
		if placed == nil {
			continue
		}
		for _, r := range placed.ranges {
			if r.Page >= ledger.OwnPages {
				c.shared = append(c.shared, r.Page)
			}
		}
		for _, own := range placed.own {
			c.own = append(c.own, own)
		}
	}
	slices.Sort(c.shared)
	slices.Sort(c.own)
	c.shared = slices.Compact(c.shared) // one may be of several homes
	p.last.Store(c)
	return c
}

// placeOf is the page of a user, and how often users moved out of it or into it.
func (r *Recorder) placeOf(hash uint64) (page, moves uint32) {
	home := r.homeOf(hash)
	return r.placements.of(home).of(home, hash)
}

// pageOf is the page of a user.
func (r *Recorder) pageOf(hash uint64) uint32 {
	page, _ := r.placeOf(hash)
	return page
}

// placedBy is the page where a transaction found the rows of a user.
func (r *Recorder) placedBy(receipt ledger.Receipt, hash uint64) uint32 {
	if placed, ok := receipt.Placed[hash]; ok {
		return placed.Page
	}
	return r.homeOf(hash)
}

// slotOf is the home in whose slot of the store a page stands.
func (r *Recorder) slotOf(page uint32) uint32 { return r.pageID(page).Number }

// pageID is where a page stands in the store. One that is no home page is where the windows of its users are, or of some of them, so
// that they are read with one command. It is named by its number, which no other page ever has: what is still on its way to a
// page that nobody has any more cannot meet another.
func (r *Recorder) pageID(page uint32) favfilter.PageID {
	if page < ledger.OwnPages {
		return favfilter.PageID{Number: page}
	}
	v, _ := r.placements.slots.Load(page)
	hash, _ := v.(uint64) // whoever has the number had it from the ledger, with the hash
	return favfilter.PageID{Number: r.homeOf(hash), Part: "own-" + strconv.FormatUint(uint64(page-ledger.OwnPages), 10)}
}

// learnHomes asks the ledger where the users of homes are, or of all where none is given.
func (r *Recorder) learnHomes(ctx context.Context, homes ...uint32) error {
	if len(homes) > manyHomes {
		homes = nil
	}
	found, err := r.ledger.Homes(ctx, homes...)
	if err != nil {
		return fmt.Errorf("learn where users are: %w", err)
	}
	for _, h := range found {
		r.place(h)
	}
	return nil
}

// place takes over what the ledger has of a home, unless something later is known.
func (r *Recorder) place(h ledger.Home) {
	p := &placement{ranges: h.Ranges, moves: h.Moves, own: make(map[uint64]uint32, len(h.Owners))}
	for _, rg := range h.Ranges {
		r.placements.note(rg.Page, rg.Slot)
	}
	for _, o := range h.Owners {
		p.own[o.Hash] = o.Page
		r.placements.note(o.Page, o.Hash)
	}
	// First, as a reader who has the placement must not believe a page of before it.
	for page, moves := range h.Moves {
		r.sequences.of(page).learnMoves(moves)
	}
	known := &r.placements.homes[h.Number]
	for {
		old := known.Load()
		if !p.newer(h.Number, old) {
			return
		}
		if known.CompareAndSwap(old, p) {
			r.placements.changes.Add(1)
			return
		}
	}
}

// followMoves asks where a user is whose page says that there were more moves than are known. Where others ask for the same home, it
// waits for their answer.
func (r *Recorder) followMoves(ctx context.Context, hash uint64, page, moves uint32) error {
	home := r.homeOf(hash)
	heard := func() bool { // meanwhile, or the page was being made anew when somebody moved
		now, known := r.placeOf(hash)
		return now != page || known >= moves
	}
	if heard() {
		return nil
	}
	turn := r.placements.learning[home%learners]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if heard() {
		return nil
	}
	if err := r.learnHomes(ctx, home); err != nil {
		return unavailable("ledger", err)
	}
	return nil
}
