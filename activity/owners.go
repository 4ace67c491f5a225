package activity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// defaultOwnPage is from how many keys on a user gets a page of their own: twice as many as all but one in a
	// hundred users have, and some 6 KiB, which everybody else on the page would read with each feed.
	defaultOwnPage = 2048
	// MinOwnPage is the least of Config.OwnPage.
	MinOwnPage = 16
	// maxMoves is how many times a View looks for where its user has moved to, before it gives up.
	maxMoves = 8
	// maxLeaving is how many users move at once.
	maxLeaving = 2
	// manyPages is from how many pages on all owners are asked for, rather than those of the pages.
	manyPages = 256
)

// owners are the users who have a page of their own, as the ledger was last known to have them.
//
// A page says in its header how often users moved out of it or back. A reader who knows of fewer moves asks the
// ledger where the user is; one who knows of more takes the page for behind. So it does not
// matter how late a process hears of a move.
type owners struct {
	known  atomic.Pointer[placement]
	hashes sync.Map      // of the user, uint64, by the number of the page; also of one that was given back
	change chan struct{} // holds one while known is being changed

	mu      sync.Mutex
	moving  map[uint64]bool // users on their way out
	leaving sync.WaitGroup  // counts them
	turns   chan struct{}   // holds one for each who moves: after an import there may be many
}

// placement is one state of owners. It does not change.
type placement struct {
	page  map[uint64]uint32 // of a user's own, by the user's hash
	moves map[uint32]uint32 // of shared pages, where there were any
}

func newOwners() *owners {
	o := &owners{change: make(chan struct{}, 1), moving: make(map[uint64]bool), turns: make(chan struct{}, maxLeaving)}
	o.known.Store(&placement{})
	return o
}

// moves is how often users moved out of the page or back. Nobody moves back to a page of their own.
func (o *owners) moves(page uint32) uint32 { return o.known.Load().moves[page] }

// note remembers whose a page is.
func (o *owners) note(page uint32, hash uint64) { o.hashes.Store(page, hash) }

// names reports whether it is known whose page it is.
func (o *owners) names(page uint32) bool {
	_, ok := o.hashes.Load(page)
	return ok || page < ledger.OwnPages
}

// numbers are the pages of one user alone, in order.
func (o *owners) numbers() []uint32 {
	return slices.Sorted(maps.Values(o.known.Load().page))
}

// sharedPage is the page that a user has together with others, unless they have one of their own.
func (r *Recorder) sharedPage(hash uint64) uint32 {
	return ledger.Identity{Pages: r.identity.Pages}.Page(hash)
}

// pageOf is the page of a user.
func (r *Recorder) pageOf(hash uint64) uint32 {
	if own, ok := r.owners.known.Load().page[hash]; ok {
		return own
	}
	return r.sharedPage(hash)
}

// sharedOf is the page whose hash slot a page is in: itself, or the one that its user left.
func (r *Recorder) sharedOf(page uint32) uint32 { return r.pageID(page).Number }

// ownPages are the pages of one user alone among those of a transaction, by the user's hash.
func ownPages(receipt ledger.Receipt) map[uint64]uint32 {
	var own map[uint64]uint32
	for _, p := range receipt.Pages {
		if !p.Own {
			continue
		}
		if own == nil {
			own = make(map[uint64]uint32)
		}
		own[p.Owner] = p.Page
	}
	return own
}

// pageID is where a page stands in the store. One of a user's own is where the user's windows are, so that they are read
// with one command. It is named by its number, which no other page ever has: what is still on its way to a page that was
// given back cannot meet the user's next.
func (r *Recorder) pageID(page uint32) favfilter.PageID {
	if page < ledger.OwnPages {
		return favfilter.PageID{Number: page}
	}
	v, _ := r.owners.hashes.Load(page)
	hash, _ := v.(uint64) // whoever has the number had it from the ledger, with the hash
	return favfilter.PageID{Number: r.sharedPage(hash), Part: "own-" + strconv.FormatUint(uint64(page-ledger.OwnPages), 10)}
}

// learnOwners asks the ledger who has moved out of the shared pages, or of all where none are given.
func (r *Recorder) learnOwners(ctx context.Context, pages ...uint32) error {
	if len(pages) > manyPages {
		pages = nil
	}
	select {
	case r.owners.change <- struct{}{}:
		defer func() { <-r.owners.change }()
	case <-ctx.Done():
		return ctx.Err()
	}
	found, moves, err := r.ledger.Owners(ctx, pages...)
	if err != nil {
		return fmt.Errorf("learn who has a page of their own: %w", err)
	}
	old := r.owners.known.Load()
	asked := func(page uint32) bool { return len(pages) == 0 || slices.Contains(pages, page) }
	p := placement{page: make(map[uint64]uint32, len(old.page)+1), moves: maps.Clone(moves)}
	for page, n := range old.moves {
		if !asked(page) {
			p.moves[page] = n
		}
	}
	for hash, own := range old.page {
		if !asked(r.sharedPage(hash)) {
			p.page[hash] = own
		}
	}
	for _, o := range found {
		p.page[o.Hash] = o.Page
		r.owners.note(o.Page, o.Hash)
	}
	r.owners.known.Store(&p)
	return nil
}

// followMoves asks where the users of a page have gone that says there were more moves than are known.
func (r *Recorder) followMoves(ctx context.Context, page, moves uint32) error {
	shared := r.sharedOf(page)
	if page < ledger.OwnPages && r.owners.moves(page) >= moves {
		return nil // somebody has asked meanwhile, or the page was being made anew when somebody moved
	}
	if err := r.learnOwners(ctx, shared); err != nil {
		return unavailable("ledger", err)
	}
	return nil
}

// moveHeavy has users who fill too much of a shared page leave it: those with more rows than Config.OwnPage.
// rows are all of the page, in order of hash.
func (r *Recorder) moveHeavy(page uint32, rows []ledger.Row) {
	if page >= ledger.OwnPages {
		return
	}
	for len(rows) > r.ownPage {
		n := ofFirst(rows)
		if n > r.ownPage {
			r.leave(rows[0].Hash)
		}
		rows = rows[n:]
	}
}

// ofFirst is how many of rows, which are in order of hash, are the first one's user's.
func ofFirst(rows []ledger.Row) int {
	n := 1
	for n < len(rows) && rows[n].Hash == rows[0].Hash {
		n++
	}
	return n
}

// leave moves a user to a page of their own, in the background.
func (r *Recorder) leave(hash uint64) {
	o := r.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.moving[hash] {
		return
	}
	o.leaving.Add(1)
	o.moving[hash] = r.background(func() {
		defer o.leaving.Done()
		o.turns <- struct{}{}
		defer func() { <-o.turns }()
		ctx, cancel := context.WithTimeout(r.base, pageTimeout)
		defer cancel()
		if err := r.move(ctx, hash, r.ledger.MoveOut); err != nil && !r.isClosed() {
			// The next rebuild of the page tries again.
			r.log.WarnContext(ctx, "a user could not be moved to a page of their own", "error", err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.moving, hash)
	})
	if !o.moving[hash] {
		o.leaving.Done()
	}
}

// move moves a user out of the shared page or back to it, and sees to it that both pages stand as the ledger
// has them then.
func (r *Recorder) move(ctx context.Context, hash uint64, move func(context.Context, uint64) (ledger.Receipt, error)) error {
	receipt, err := move(ctx, hash)
	if err != nil {
		return unavailable("ledger", err)
	}
	for _, p := range receipt.Pages {
		if p.Own {
			r.owners.note(p.Page, p.Owner)
		}
	}
	if err := r.learnOwners(ctx, r.sharedPage(hash)); err != nil {
		return unavailable("ledger", err)
	}
	for page, err := range r.applyAll(ctx, receipt.Pages, nil) {
		return fmt.Errorf("page %d: %w", page, err)
	}
	return nil
}
