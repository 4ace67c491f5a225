package activity

import (
	"context"
	"fmt"
	"sync"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// defaultOwnPage is from how many keys on a user gets a page of their own: twice as many as all but one in a
	// hundred users have, and some 6 KiB, which everybody else on the page would read with each feed.
	defaultOwnPage = 2048
	// MinOwnPage is the least of Config.OwnPage.
	MinOwnPage = 16
	// maxLeaving is how many users move at once.
	maxLeaving = 2
)

// owners are users on their way to a page of their own.
type owners struct {
	mu      sync.Mutex
	moving  map[uint64]bool
	leaving sync.WaitGroup // counts them
	turns   chan struct{}  // holds one for each who moves: after an import there may be many
}

func newOwners() *owners {
	return &owners{moving: make(map[uint64]bool), turns: make(chan struct{}, maxLeaving)}
}

// isOwn reports whether the page of a transaction is one that the user of the hash has to themselves.
func isOwn(p ledger.PageChange, hash uint64) bool { return p.Own && p.Owner == hash }

// ownsPage reports whether a user is known to have the page to themselves.
func (r *Recorder) ownsPage(hash uint64, page uint32) bool {
	p := r.placements.of(r.homeOf(hash))
	if p == nil {
		return false
	}
	own, ok := p.own[hash]
	return ok && own == page
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
		ctx, cancel := r.whileOpen(largeTimeout)
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

// moveRows waits for a turn, which it does not keep until the pages stand.
func (r *Recorder) moveRows(
	ctx context.Context, hash uint64, move func(context.Context, uint64) (ledger.Receipt, error),
) (ledger.Receipt, error) {
	select {
	case r.owners.turns <- struct{}{}:
		defer func() { <-r.owners.turns }()
	case <-ctx.Done():
		return ledger.Receipt{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return move(ctx, hash)
}

// wait waits until nobody is moving any more, or ctx ends.
func (o *owners) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		o.leaving.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// move moves a user out of the shared page or back to it, and sees to it that both pages stand as the ledger
// has them then.
func (r *Recorder) move(ctx context.Context, hash uint64, move func(context.Context, uint64) (ledger.Receipt, error)) error {
	receipt, err := r.moveRows(ctx, hash, move)
	if err != nil {
		return unavailable("ledger", err)
	}
	for _, p := range receipt.Pages {
		r.placements.note(p.Page, p.Owner)
	}
	if err := r.learnHomes(ctx, r.homeOf(hash)); err != nil {
		return unavailable("ledger", err)
	}
	for page, err := range r.applyAll(ctx, receipt.Pages, nil) {
		return fmt.Errorf("page %d: %w", page, err)
	}
	return nil
}
