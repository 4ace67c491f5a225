package pages

import (
	"context"
	"errors"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// replaceMore is the time that each MiB of a page adds to applyTimeout for writing the page.
const replaceMore = 250 * time.Millisecond

// replaceTimeout returns how long writing the page to the store may take.
func replaceTimeout(page *favfilter.Page) time.Duration {
	return applyTimeout + time.Duration(pageBytes(page)>>20)*replaceMore
}

// patience returns how long reading a whole page may take.
func patience(large bool) time.Duration {
	if large {
		return largeLoadTimeout
	}
	return loadTimeout
}

// allKeys reads all rows of a page without their times. Rows of one user and kind are adjacent, but
// a large page may have several such runs.
func (b *rebuilder) allKeys(ctx context.Context, number uint32) ([]ledger.Row, ledger.PageState, error) {
	rows, s, err := b.poller.ledger.Keys(ctx, number)
	if !errors.Is(err, ledger.ErrLargePage) {
		return rows, s, err
	}
	s, err = b.poller.ledger.EachRow(ctx, number, func(some []ledger.Row) error {
		for _, row := range some {
			if n := len(rows); n > 0 && rows[n-1].Owner == row.Owner {
				row.Owner = rows[n-1].Owner // one string for all
			}
			row.Since, row.Until = time.Time{}, time.Time{}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, s, err
}

// largeWork starts background work on a large page, and reports whether it did. Only one such work
// runs at a time. A pause of idleShare times its duration follows.
func (sc *Scrubber) largeWork(do func(ctx context.Context)) bool {
	if !sc.largeWorks.CompareAndSwap(false, true) {
		return false
	}
	begun := sc.life.background(func() {
		defer sc.largeWorks.Store(false)
		ctx, cancel := context.WithTimeout(sc.life.open, largeTimeout)
		defer cancel()
		start := time.Now()
		do(ctx)
		_ = sc.life.rest(sc.life.base, idleShare*time.Since(start)) // its error means closed; then the work ends, too
	})
	if !begun {
		sc.largeWorks.Store(false)
	}
	return begun
}
