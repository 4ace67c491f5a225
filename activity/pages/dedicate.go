package pages

import (
	"context"
	"fmt"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// defaultSharedKeys is the default of Config.MaxSharedKeys. It is twice the number of keys that
	// 99 % of users stay below. So many keys take some 6 KiB, which the other users of the page
	// would read with each feed.
	defaultSharedKeys = 2048
	// MinSharedKeys is the lowest valid Config.MaxSharedKeys.
	MinSharedKeys = 16
	// maxLeaving is the number of users who get a dedicated page at once.
	maxLeaving = 2
)

// leave gives a user a dedicated page, in the background.
func (a *applier) leave(hash uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.moving[hash] {
		return
	}
	a.leaving.Add(1)
	a.moving[hash] = a.life.Background(func() {
		defer a.leaving.Done()
		ctx, cancel := context.WithTimeout(a.life.Open, largeTimeout)
		defer cancel()
		if err := a.dedicate(ctx, hash); err != nil && !a.life.IsClosed() {
			// The next rebuild of the page tries again.
			a.storage.log.WarnContext(ctx, "no dedicated page for a heavy user", "error", err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.moving, hash)
	})
	if !a.moving[hash] {
		a.leaving.Done()
	}
}

// waitMoved waits until no user is about to get a dedicated page, or ctx ends.
func (a *applier) waitMoved(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		a.leaving.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// move moves a user in the ledger: see [ledger.Ledger.Move]. The first page of the Receipt is
// the shared one. move waits for a slot, which rebuilds after it do not need.
func (a *applier) move(ctx context.Context, hash uint64, dedicate bool) (ledger.Receipt, error) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return ledger.Receipt{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return a.ledger.Move(ctx, hash, dedicate)
}

// dedicate gives a user a dedicated page, and brings it to the store. Only then do readers look for
// the user there, and does the page follow that the user has left. If the ledger fails in between,
// feeds find the user's keys on that one.
func (a *applier) dedicate(ctx context.Context, hash uint64) error {
	receipt, err := a.move(ctx, hash, true)
	if err != nil {
		return Unavailable("ledger", err)
	}
	shared, dedicated := receipt.Pages[:1], receipt.Pages[1:]
	for _, p := range dedicated {
		a.layout.Name(hash, p.Page)
		if err := a.arrive(ctx, []ledger.PageChange{p}); err != nil {
			return err
		}
	}
	// Once the page that the user left is raised, its readers must know who left.
	if err := a.known.PollSince(ctx, a.life.Elapsed()); err != nil {
		return err
	}
	return a.arrive(ctx, shared)
}

// release takes a user's dedicated page away. It brings the shared page to the ledger's sequence,
// and closes the dedicated page.
//
// Before it closes the dedicated page, release rebuilds that page, whose rows are gone, so that it
// is empty and expires. If this process dies in between, no other process closes the page.
func (a *applier) release(ctx context.Context, hash uint64) error {
	place, err := a.ledger.Place(ctx, hash)
	if err != nil {
		return Unavailable("ledger", err)
	}
	if place.Page >= ledger.DedicatedPages {
		a.layout.Dedicate(hash, place.Page)
		if err := a.rebuilder.remake(ctx, place.Page, place.Sequence, "user deleted"); err != nil {
			return err
		}
	}
	receipt, err := a.move(ctx, hash, false)
	if err != nil {
		return Unavailable("ledger", err)
	}
	shared, dedicated := receipt.Pages[:1], receipt.Pages[1:]
	for _, p := range dedicated {
		// closePage needs the user's hash, and this process may not know the page.
		a.layout.Dedicate(hash, p.Page)
		a.layout.Release(p.Page)
		if err := a.rebuilder.closePage(ctx, p.Page); err != nil {
			return err
		}
	}
	return a.arrive(ctx, shared)
}

// arrive brings pages to the sequences of a receipt.
func (a *applier) arrive(ctx context.Context, pages []ledger.PageChange) error {
	for _, p := range pages {
		a.sequences.Of(p.Page).Known.Raise(p.Sequence)
	}
	for page, err := range a.applyAll(ctx, pages, nil) {
		return fmt.Errorf("page %d: %w", page, err)
	}
	return nil
}
