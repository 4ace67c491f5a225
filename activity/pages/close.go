package pages

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// closedSequence is the sequence of a closed page. It is above all that the ledger assigns, so
	// no older page replaces a closed one, and no change is applied to it.
	closedSequence = favfilter.MaxSequence - 1
	// closedExpiry is how long a closed page is kept, for a process that cannot reach the ledger and
	// would otherwise answer from an older page.
	closedExpiry = 24 * time.Hour
	// closers is the number of pages closed at once.
	closers = 8
)

// isClosed reports whether the page is closed, and so has no users.
func isClosed(h favfilter.Header) bool { return h.Sequence == closedSequence }

// closePages overwrites pages with closed ones. It returns an error for each page where that
// failed.
func (a *applier) closePages(ctx context.Context, pages []uint32) map[uint32]error {
	failed := make(map[uint32]error)
	inParallel(closers, pages, func(page uint32, mu *sync.Mutex) {
		if err := a.rebuilder.closePage(ctx, page); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed[page] = err
		}
	})
	return failed
}

// inParallel calls do for each item, at most limit at once. Calls lock mu for what they share.
func inParallel[T any](limit int, items []T, do func(item T, mu *sync.Mutex)) {
	var group errgroup.Group
	var mu sync.Mutex
	group.SetLimit(limit)
	for _, item := range items {
		group.Go(func() error {
			do(item, &mu)
			return nil // the others continue
		})
	}
	_ = group.Wait() // always nil
}

// closePage overwrites a page with a closed one. A reader of a closed page polls the ledger to
// learn where the page's users are.
//
// Until this process polls, it still looks for these users on this page. It then accepts neither a
// held copy nor an older page that the store was set back to.
func (b *rebuilder) closePage(ctx context.Context, number uint32) error {
	b.sequences.of(number).require(closedSequence)
	geometry, err := b.shapeFor(0)
	if err != nil {
		return err
	}
	page, err := favfilter.NewPage(favfilter.Header{
		Identity: b.storage.identity, Shape: geometry, Number: b.layout.slot(number),
		Sequence: closedSequence, Build: favfilter.RandomID(),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	// If Replace stores nothing, a closed page is already there.
	_, err = b.storage.store.Replace(ctx, favfilter.Replacement{
		ID: b.layout.pageID(number), Page: page, Newer: true, Expire: closedExpiry,
	})
	if err != nil {
		return fmt.Errorf("close page %d: %w", number, Unavailable("pages", err))
	}
	return nil
}
