package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
)

// MaxPages is the largest number of pages that users share.
const MaxPages = maxPages

// Layouts says how many pages users share. A layout is a number of pages, a power of two. There is
// always a current one, and at most one more: the next one while its pages are built, or the one
// before while processes still read its pages. The number only grows.
type Layouts struct {
	Current  uint32 // readers and writers use its pages
	Building uint32 // the next one; 0: none
	Leaving  uint32 // the one before; 0: none
}

// other returns the number of pages of the layout that is not the current one; 0: there is none.
func (l Layouts) other() uint32 { return max(l.Building, l.Leaving) }

// Errors about layouts and pages, wrapped by what methods of a Ledger return.
var (
	// ErrGone says that nobody is on a page any more: its layout is leaving or has left, or its user
	// has left it. Whoever asked reads with Changed where users are now.
	ErrGone = errors.New("the page is no longer in use")
	// ErrLayoutBusy says that another layout is being built, or is leaving.
	ErrLayoutBusy = errors.New("another change of the number of pages has not ended")
)

// seedAtOnce is the number of pages that one transaction gives a sequence.
const seedAtOnce = 4096

// Layouts returns the layouts.
func (l *Ledger) Layouts(ctx context.Context) (now Layouts, err error) {
	err = l.use(func() error {
		now, err = l.db.layouts(ctx)
		return err
	})
	if err != nil {
		return Layouts{}, fmt.Errorf("ledger: read layouts: %w", interrupted(ctx, err))
	}
	return now, nil
}

// BeginLayout adds a layout to build, of more pages than the current one. From then on each Record
// raises the pages of its users in both layouts. The new pages begin with the sequences of the pages
// that they come from. If that layout is being built already, BeginLayout completes what an earlier
// call began; if it is the current one, it does nothing.
//
// The error wraps ErrLayoutBusy while another layout is built or leaves. For other errors see
// Record; repeating the call is safe.
func (l *Ledger) BeginLayout(ctx context.Context, pages uint32) error {
	err := l.use(func() error {
		now, err := l.db.changeLayouts(ctx, func(now Layouts) (Layouts, error) { return l.id.begin(now, pages) })
		if err != nil || now.Current == pages {
			return err
		}
		return l.seed(ctx, now.Current, pages)
	})
	if err != nil {
		return fmt.Errorf("ledger: begin a layout of %d pages: %w", pages, interrupted(ctx, err))
	}
	return nil
}

// begin returns the layouts with one more to build.
func (id Identity) begin(now Layouts, pages uint32) (Layouts, error) {
	switch {
	case !isLayout(pages) || pages < now.Current:
		return now, fmt.Errorf("%d is not a power of two from %d, the current number, to %d", pages, now.Current, maxPages)
	case pages == now.Current, pages == now.Building:
		return now, nil
	case now.other() != 0:
		return now, fmt.Errorf("%w: %d to %d pages", ErrLayoutBusy, now.Current, now.other())
	}
	now.Building = pages
	return now, nil
}

func isLayout(pages uint32) bool {
	return pages > 0 && pages <= maxPages && pages&(pages-1) == 0
}

// seed gives the pages of a layout, where they have no sequence yet, that of the page they come from.
func (l *Ledger) seed(ctx context.Context, from, to uint32) error {
	for n := uint32(0); n < to; n += seedAtOnce {
		if err := l.db.seed(ctx, from, to, n, min(to, n+seedAtOnce)-1); err != nil {
			return fmt.Errorf("pages %d to %d: %w", n, min(to, n+seedAtOnce)-1, err)
		}
	}
	return nil
}

// SwitchLayout makes the layout that is being built the current one; the one before is leaving from
// then on. If it is the current one already, SwitchLayout does nothing. For errors see BeginLayout.
func (l *Ledger) SwitchLayout(ctx context.Context, pages uint32) error {
	err := l.use(func() error {
		now, err := l.db.layouts(ctx)
		if err == nil && now.Building == pages {
			err = l.seed(ctx, now.Current, pages)
		}
		if err != nil {
			return err
		}
		_, err = l.db.changeLayouts(ctx, func(now Layouts) (Layouts, error) {
			switch {
			case now.Current == pages:
				return now, nil
			case now.Building != pages:
				return now, fmt.Errorf("%w: %d pages are not being built", ErrLayoutBusy, pages)
			}
			return Layouts{Current: pages, Leaving: now.Current}, nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("ledger: switch to %d pages: %w", pages, interrupted(ctx, err))
	}
	return nil
}

// LeaveLayout forgets the layout that is leaving. Before that, every page of it in the store must
// have been closed, and every process must have polled since the switch. If the layout has left
// already, LeaveLayout does nothing. For errors see BeginLayout.
func (l *Ledger) LeaveLayout(ctx context.Context, pages uint32) error {
	err := l.use(func() error {
		now, err := l.db.layouts(ctx)
		if err != nil || now.Leaving != pages {
			return err
		}
		first := l.id.PageIn(pages, 0)
		for n := uint32(0); n < pages; n += seedAtOnce {
			if err := l.db.removePages(ctx, first+n, first+min(pages, n+seedAtOnce)-1); err != nil {
				return err
			}
		}
		_, err = l.db.changeLayouts(ctx, func(now Layouts) (Layouts, error) {
			if now.Leaving == pages {
				now.Leaving = 0
			}
			return now, nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("ledger: leave the layout of %d pages: %w", pages, interrupted(ctx, err))
	}
	return nil
}

// Slot returns the number of the hash slot of the store for the user of a hash: of the user's page
// in the first layout. The user's pages of all layouts, the dedicated one and the windows are in it.
func (id Identity) Slot(hash uint64) uint32 { return uint32(hash >> shift(id.Pages)) }

// PageIn returns the number of the user's page in the layout of that many pages, a power of two. In
// the first layout it is the top bits of the hash; in one of P pages it is P plus the top bits. So a
// number names the same page for ever.
func (id Identity) PageIn(pages uint32, hash uint64) uint32 {
	n := uint32(hash >> shift(pages))
	if pages == id.Pages {
		return n
	}
	return pages + n
}

// LayoutOf returns the number of pages of the layout that has the page; 0 if no layout can have it,
// as with dedicated pages.
func (id Identity) LayoutOf(page uint32) uint32 {
	if page < id.Pages {
		return id.Pages
	}
	pages := uint32(1) << (bits.Len32(page) - 1)
	if pages <= id.Pages || pages > maxPages {
		return 0
	}
	return pages
}

// SlotOf is Slot for the users of a page that users share.
func (id Identity) SlotOf(page uint32) uint32 { return id.Slot(id.hashes(page).least) }

// hashes are those of the users of a page that users share.
func (id Identity) hashes(page uint32) hashRange {
	pages := id.LayoutOf(page)
	n := page
	if pages != id.Pages {
		n -= pages
	}
	least := uint64(n) << shift(pages)
	return hashRange{least, least | (uint64(1)<<shift(pages) - 1)}
}

// shift is the number of hash bits below the number of a page. It is 64 for one page, and shifting
// by 64 gives 0 in Go.
func shift(pages uint32) int { return 64 - bits.TrailingZeros32(pages) }

// layoutRow is a row of the table of layouts.
type layoutRow struct {
	pages uint32
	state string
}

// States of a layout in the table.
const (
	stateBuilding = "building"
	stateCurrent  = "current"
	stateLeaving  = "leaving"
)

// with takes up a row of the table of layouts.
func (l Layouts) with(r layoutRow) Layouts {
	switch r.state {
	case stateBuilding:
		l.Building = r.pages
	case stateCurrent:
		l.Current = r.pages
	case stateLeaving:
		l.Leaving = r.pages
	}
	return l
}

// rows are what the table of layouts has to have.
func (l Layouts) rows() (rows []layoutRow) {
	for _, r := range []layoutRow{{l.Current, stateCurrent}, {l.Building, stateBuilding}, {l.Leaving, stateLeaving}} {
		if r.pages > 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

// check refuses what no table of layouts has.
func (l Layouts) check() error {
	if !isLayout(l.Current) {
		return fmt.Errorf("damaged: layouts %+v", l)
	}
	return nil
}

// rebuilds returns ErrGone if pages of the layout are no longer rebuilt: its closed pages must stay
// closed.
func (l Layouts) rebuilds(pages uint32) error {
	if pages != l.Current && (pages != l.Building || pages == 0) {
		return ErrGone
	}
	return nil
}

// hashRange is all hashes from one to another.
type hashRange struct{ least, greatest uint64 }

// without returns what is left of the range without some hashes of it, which are in ascending
// order.
func (r hashRange) without(hashes []uint64) (rest []hashRange) {
	for _, hash := range hashes {
		if hash > r.least {
			rest = append(rest, hashRange{r.least, hash - 1})
		}
		if hash == r.greatest {
			return rest
		}
		r.least = hash + 1
	}
	return append(rest, r)
}
