package pages

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/pause"
)

// applier brings pages in the store to the sequences of transactions.
type applier struct {
	core

	rebuilder *rebuilder

	mu      sync.Mutex
	moving  map[uint64]bool // users who are about to get a dedicated page
	leaving sync.WaitGroup  // moves in progress or waiting
	slots   chan struct{}   // one element for each in progress; after an import, many may wait
}

func newApplier(b *rebuilder) *applier {
	a := &applier{
		core:      b.core,
		rebuilder: b,
		moving:    make(map[uint64]bool),
		slots:     make(chan struct{}, maxLeaving),
	}
	b.heavy = a.leave
	return a
}

// applyAll brings the pages to the sequences of the transaction. It returns an error for each page
// where that failed.
func (a *applier) applyAll(
	ctx context.Context, pages []ledger.PageChange, to approach,
) map[uint32]error {
	repairs, failed := a.applyOnce(ctx, pages, to)
	inParallel(maxRebuilds, repairs, func(r repair, mu *sync.Mutex) {
		err := r.do(ctx)
		a.reached(r.change, to, err)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed[r.change.Page] = err
		}
	})
	return failed
}

// approach says how pages get the changes of a transaction: as usual, if a page is not in it.
type approach map[uint32]treatment

// treatment says how a page gets a change. The higher one prevails.
type treatment int

const (
	_ treatment = iota // pages get the change in place
	// postponed pages get only what is added, in place. This is the dedicated page of a user who is
	// being deleted: it is rebuilt when all rows are gone. Until then it is stale, and so not used.
	postponed
	// rebuilt pages are rebuilt, so that no bit of a removed key remains.
	rebuilt
)

// skips reports whether the page is left as it is.
func (to approach) skips(p ledger.PageChange) bool {
	return to[p.Page] == postponed && len(p.Added) == 0
}

// repair is the remaining work for a page after one call of the store.
type repair struct {
	change ledger.PageChange
	do     func(ctx context.Context) error
}

// applyOnce changes pages with one call of the store. It returns the pages that need more work, and
// the errors of those that failed. All other pages have reached the sequence of the transaction.
func (a *applier) applyOnce(
	ctx context.Context, pages []ledger.PageChange, to approach,
) (repairs []repair, failed map[uint32]error) {
	failed = make(map[uint32]error)
	batches := make([]favfilter.Batch, 0, len(pages))
	changes := make([]ledger.PageChange, 0, len(pages)) // changes[i] belongs to batches[i]
	for _, p := range pages {
		switch {
		case to[p.Page] == rebuilt:
			// Until the rebuild the page is stale, so no write can pass with the old keys in it.
			repairs = append(repairs, repair{p, func(ctx context.Context) error {
				return a.rebuilder.remake(ctx, p.Page, p.Sequence, "user deleted")
			}})
		case to.skips(p):
			a.reached(p, to, nil)
		case p.Changed():
			b, err := a.batch(ctx, p)
			if err != nil {
				failed[p.Page] = Unavailable("ledger", err)
				a.reached(p, to, err)
				continue
			}
			batches, changes = append(batches, b), append(changes, p)
		case a.sequences.Of(p.Page).Stored.Load() < p.Sequence:
			// This write changed nothing. It may repeat a write that has not reached the page.
			repairs = append(repairs, repair{p, func(ctx context.Context) error {
				return a.ensure(ctx, p.Page, p.Sequence)
			}})
		default:
			a.reached(p, to, nil)
		}
	}
	for i, res := range a.apply(ctx, batches) {
		b, p := batches[i], changes[i]
		if res.Err != nil {
			failed[p.Page] = res.Err
		} else if reason := a.faultOf(ctx, p.Page, res); reason != "" {
			repairs = append(repairs, repair{p, func(ctx context.Context) error {
				return a.mend(ctx, p.Page, b, res, reason)
			}})
			continue
		} else if res.State == favfilter.Current && len(b.Remove) > 0 {
			a.due.add(p.Page, reasonResidue, 0) // the number of cleared bits is unknown
		}
		a.reached(p, to, res.Err)
	}
	return repairs, failed
}

// reached notes that a page has reached the sequence of a transaction, or why it has not.
func (a *applier) reached(p ledger.PageChange, to approach, err error) {
	page := a.sequences.Of(p.Page)
	if err != nil {
		page.Fail(p.Sequence)
		return
	}
	page.Required.Raise(p.Sequence)
	if !to.skips(p) {
		page.Stored.Raise(p.Sequence)
	}
}

// apply is Store.Apply, with a timeout that depends on the number of pages.
func (a *applier) apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	if len(batches) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout+time.Duration(len(batches))*applyMore)
	defer cancel()
	return a.storage.store.Apply(ctx, batches)
}

// How long one wait for another process's changes takes.
const (
	firstWait   = time.Millisecond
	longestWait = 256 * time.Millisecond
)

// mend brings the page of b to the required sequence after the store answered res. A page that is a
// few changes behind most likely waits for another process. Waiting for it takes less time than a
// rebuild, and is all that helps while the ledger cannot be read.
func (a *applier) mend(
	ctx context.Context, page uint32, b favfilter.Batch, res favfilter.Result, reason string,
) error {
	tries, near := 4, uint64(8)
	if a.rebuilder.inParts(page) { // a rebuild takes so long that other processes finish first
		tries, near = 12, 1024
	}
	for i := 0; res.State == favfilter.Behind && b.Sequence-res.Header.Sequence <= near; i++ {
		wait := pause.Doubled(firstWait, longestWait, i+1)
		turn, end := context.WithTimeout(ctx, pause.About(wait))
		if i >= tries {
			err := a.rebuilder.remake(turn, page, b.Sequence, reason)
			if err == nil || turn.Err() == nil && !ledgerDown(err) {
				end()
				return err
			}
		}
		<-turn.Done()
		end()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("apply to page %v: %w", b.ID, err)
		}
		res = a.apply(ctx, []favfilter.Batch{b})[0]
		if res.Err != nil {
			return res.Err
		}
		if reason = a.faultOf(ctx, page, res); reason == "" {
			return nil
		}
	}
	err := a.rebuilder.remake(ctx, page, b.Sequence, reason)
	if err != nil && ledgerDown(err) && a.inSpiteOfRoom(ctx, b, res, reason) {
		return nil
	}
	return err
}

// beyondRate is how many times its false-positive rate a page may have that cannot be rebuilt.
const beyondRate = 10

// inSpiteOfRoom reports whether the page of b has the change although it could not be rebuilt,
// since all that it lacks is room. While the ledger cannot be read, a page that lacked the change
// would refuse its users' feeds. A page with somewhat too many bits only has more false positives,
// until the next write or the scrub rebuilds it.
func (a *applier) inSpiteOfRoom(
	ctx context.Context, b favfilter.Batch, res favfilter.Result, reason string,
) bool {
	if res.State == favfilter.Overfull {
		b.Rate = beyondRate * a.storage.keyRate // at most MaxKeyRate, so far from 1
		res = a.apply(ctx, []favfilter.Batch{b})[0]
		return res.Err == nil &&
			(res.State == favfilter.Applied || res.State == favfilter.Current)
	}
	return res.State == favfilter.Applied && (reason == PageOverfull || reason == reasonOversized)
}

// faultOf returns why the page must be rebuilt after the store answered res; "" if it need not be.
func (a *applier) faultOf(ctx context.Context, page uint32, res favfilter.Result) string {
	ahead := func() bool {
		ahead, err := a.known.Ahead(ctx, page, res.Header.Sequence)
		return ahead || err != nil // a rebuild tells
	}
	switch {
	case res.State != favfilter.Applied && res.State != favfilter.Current:
		return res.State.String()
	case isClosed(res.Header):
		return "" // a reader of the page polls, and finds the change on another page
	case ahead():
		return PageAhead
	case a.rebuilder.overfull(res.Header):
		return PageOverfull
	case a.rebuilder.oversized(res.Header):
		return reasonOversized
	default:
		if res.Cleared > 0 && res.Cleared < enoughCleared {
			a.due.add(page, reasonResidue, 0)
		}
		return ""
	}
}

// batch returns the page's change in the form that the store takes.
func (a *applier) batch(ctx context.Context, p ledger.PageChange) (favfilter.Batch, error) {
	b := favfilter.Batch{
		ID:       a.layout.PageID(p.Page),
		Identity: a.storage.identity,
		Sequence: p.Sequence,
		Rate:     a.storage.keyRate,
	}
	removed, err := a.rebuilder.keysOf(ctx, p.Removed)
	if err != nil {
		return b, err
	}
	added, err := a.rebuilder.keysOf(ctx, p.Added)
	b.Remove, b.Add, b.Marks = removed.hashes, added.hashes, added.marks
	return b, err
}

// ensure makes sure that the page has at least the sequence want. If the page does not, ensure
// rebuilds it.
func (a *applier) ensure(ctx context.Context, number uint32, want uint64) error {
	loaded, _, err := a.storage.loadWithin(
		ctx, patience(a.rebuilder.inParts(number)), []favfilter.PageID{a.layout.PageID(number)}, nil,
	)
	if err != nil {
		return Unavailable("pages", err)
	}
	st := statusOf(loaded[0])
	if isClosed(st.Header) {
		return nil // a reader of the page polls, and learns where its users are
	}
	reason, err := a.fault(ctx, number, want, st)
	if reason != "" {
		return a.rebuilder.remake(ctx, number, want, reason)
	}
	return err
}

// closers is the number of pages closed at once.
const closers = 8

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
