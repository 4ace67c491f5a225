package ledger

import (
	"context"
	"fmt"
	"math/bits"
)

// Layouts are the layouts of a ledger. A layout is a number of pages that users share, a power
// of two. There is always a current layout, and at most one more. That is either the next one,
// while its pages are built, or the previous one, while processes still read its pages. The
// number of pages only grows.
type Layouts struct {
	Current  uint32 // readers and writers use its pages
	Building uint32 // the next layout; 0: none
	Leaving  uint32 // the previous layout; 0: none
}

// other returns the number of pages of the layout that is not current; 0: none.
func (l Layouts) other() uint32 { return max(l.Building, l.Leaving) }

// seedAtOnce is the number of pages that one transaction seeds or removes.
const seedAtOnce = 4096

// Layouts returns the layouts of the ledger.
func (l *Ledger) Layouts(ctx context.Context) (Layouts, error) {
	c, what := &Call{Operation: "layouts"}, "ledger: read layouts"
	return ask(ctx, l, c, what, func(ctx context.Context) (Layouts, error) {
		return readLayouts(ctx, l.db)
	})
}

// BeginLayout adds a layout of more pages than the current one, and marks it as building. From
// then on each Record raises the pages of its users in both layouts. Each new page begins with
// the sequence of its ancestor in the current layout. If that layout is already building,
// BeginLayout completes an earlier call. If it is current, BeginLayout is a no-op.
//
// The error wraps ErrLayoutBusy while another layout is building or leaving. For other errors
// see Record. Repeating the call is safe.
func (l *Ledger) BeginLayout(ctx context.Context, pages uint32) error {
	what := fmt.Sprintf("ledger: begin a layout of %d pages", pages)
	return run(ctx, l, "begin_layout", what, func(ctx context.Context) error {
		now, err := l.changeLayouts(ctx, func(now Layouts) (Layouts, error) {
			return l.id.begin(now, pages)
		})
		if err != nil || now.Current == pages {
			return err
		}
		return seed(ctx, l, now.Current, pages)
	})
}

// begin returns the layouts with one more that is building.
func (id Identity) begin(now Layouts, pages uint32) (Layouts, error) {
	switch {
	case !isLayout(pages) || pages < now.Current:
		return now, fmt.Errorf(
			"%d is not a power of two from %d, the current number, to %d", pages, now.Current, MaxPages,
		)
	case pages == now.Current, pages == now.Building:
		return now, nil
	case now.other() != 0:
		return now, fmt.Errorf("%w: from %d to %d pages", ErrLayoutBusy, now.Current, now.other())
	}
	now.Building = pages
	return now, nil
}

func isLayout(pages uint32) bool {
	return pages > 0 && pages <= MaxPages && pages&(pages-1) == 0
}

// seed gives each page of layout to that has no sequence the sequence of its ancestor in layout
// from.
func seed(ctx context.Context, l *Ledger, from, to uint32) error {
	for n := uint32(0); n < to; n += seedAtOnce {
		last := min(to, n+seedAtOnce) - 1
		some := make([]statement, 0, len(l.sql.seedPages))
		for _, sql := range l.sql.seedPages {
			some = append(some, statement{
				sql:  sql,
				args: []any{l.id.PageIn(from, 0), l.id.PageIn(to, 0), to / from, n, last},
			})
		}
		if err := update(ctx, l.db, some...); err != nil {
			return fmt.Errorf("pages %d to %d: %w", n, last, err)
		}
	}
	return nil
}

// SwitchLayout makes the building layout current. The layout that was current is leaving from
// then on. If the layout is already current, SwitchLayout is a no-op. For errors see
// BeginLayout.
func (l *Ledger) SwitchLayout(ctx context.Context, pages uint32) error {
	what := fmt.Sprintf("ledger: switch to %d pages", pages)
	return run(ctx, l, "switch_layout", what, func(ctx context.Context) error {
		now, err := readLayouts(ctx, l.db)
		if err == nil && now.Building == pages {
			err = seed(ctx, l, now.Current, pages)
		}
		if err != nil {
			return err
		}
		_, err = l.changeLayouts(ctx, func(now Layouts) (Layouts, error) {
			switch {
			case now.Current == pages:
				return now, nil
			case now.Building != pages:
				return now, fmt.Errorf("%w: the layout of %d pages is not building", ErrLayoutBusy, pages)
			}
			return Layouts{Current: pages, Leaving: now.Current}, nil
		})
		return err
	})
}

// LeaveLayout removes the leaving layout. Before that, the caller must have closed every page of
// it in the store, and every process must have polled since the switch. If the layout is already
// removed, LeaveLayout is a no-op. For errors see BeginLayout.
func (l *Ledger) LeaveLayout(ctx context.Context, pages uint32) error {
	what := fmt.Sprintf("ledger: leave the layout of %d pages", pages)
	return run(ctx, l, "leave_layout", what, func(ctx context.Context) error {
		now, err := readLayouts(ctx, l.db)
		if err != nil || now.Leaving != pages {
			return err
		}
		first := l.id.PageIn(pages, 0)
		for n := uint32(0); n < pages; n += seedAtOnce {
			args := []any{first + n, first + min(pages, n+seedAtOnce) - 1}
			if err := update(ctx, l.db, statement{sql: l.sql.deletePages, args: args}); err != nil {
				return err
			}
		}
		_, err = l.changeLayouts(ctx, func(now Layouts) (Layouts, error) {
			if now.Leaving == pages {
				now.Leaving = 0
			}
			return now, nil
		})
		return err
	})
}

// changeLayouts replaces the layouts by the result of decide. It excludes transactions of Record
// and Move.
func (l *Ledger) changeLayouts(
	ctx context.Context, decide func(Layouts) (Layouts, error),
) (after Layouts, err error) {
	err = l.db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
		var before Layouts
		if err := t.begin(ctx, statement{sql: l.sql.lockLayouts}, layoutsQuery(&before)); err != nil {
			return err
		}
		if after, err = decide(before); err != nil || after == before {
			return err
		}
		return execAll(ctx, t, after.statements())
	})
	return after, err
}

// Slot returns the number of the hash slot of a user, given the user's hash. It is the number of
// the user's page in the first layout. The slot holds the user's pages of all layouts, the
// user's dedicated page, and the user's windows.
func (id Identity) Slot(hash uint64) uint32 { return uint32(hash >> shift(id.Pages)) }

// PageIn returns the number of a user's page in the layout of pages pages, a power of two. In
// the first layout it is the top bits of the hash. In a later layout it is pages plus the top
// bits. So a number always names the same page.
func (id Identity) PageIn(pages uint32, hash uint64) uint32 {
	n := uint32(hash >> shift(pages))
	if pages == id.Pages {
		return n
	}
	return pages + n
}

// LayoutOf returns the number of pages of the layout of a page. It returns 0 for a page that no
// layout can have, such as a dedicated page.
func (id Identity) LayoutOf(page uint32) uint32 {
	if page < id.Pages {
		return id.Pages
	}
	pages := uint32(1) << (bits.Len32(page) - 1)
	if pages <= id.Pages || pages > MaxPages {
		return 0
	}
	return pages
}

// SlotOf returns the Slot of the users of a shared page.
func (id Identity) SlotOf(page uint32) uint32 { return id.Slot(id.hashes(page).least) }

// hashes returns the hashes of the users of a shared page.
func (id Identity) hashes(page uint32) hashRange {
	pages := id.LayoutOf(page)
	n := page
	if pages != id.Pages {
		n -= pages
	}
	least := uint64(n) << shift(pages)
	return hashRange{least, least | (uint64(1)<<shift(pages) - 1)}
}

// shift returns the number of hash bits below those that number a page. It is 64 for one page:
// in Go, a shift by 64 gives 0.
func shift(pages uint32) int { return 64 - bits.TrailingZeros32(pages) }

// layoutsQuery returns a query that reads the layouts. It fails for those that no ledger can have.
func layoutsQuery(l *Layouts) statement {
	var pages uint32
	var state string
	return statement{
		sql: allLayoutsSQL, into: []any{&pages, &state},
		reset: func() { *l = Layouts{} },
		each: func() error {
			switch state {
			case "building":
				l.Building = pages
			case "current":
				l.Current = pages
			case "leaving":
				l.Leaving = pages
			}
			return nil
		},
		end: func() error {
			if !isLayout(l.Current) {
				return fmt.Errorf("damaged layouts: %+v", *l)
			}
			return nil
		},
	}
}

// statements returns the statements that store the layouts.
func (l Layouts) statements() []statement {
	all := []statement{{sql: deleteLayoutsSQL}}
	states := []string{"current", "building", "leaving"}
	for i, pages := range []uint32{l.Current, l.Building, l.Leaving} {
		if pages > 0 {
			all = append(all, statement{sql: putLayoutSQL, args: []any{pages, states[i]}})
		}
	}
	return all
}

// hashRange is the hashes from least to greatest, both included.
type hashRange struct{ least, greatest uint64 }

// args returns the range in the form of the database.
func (r hashRange) args() []any { return []any{stored(r.least), stored(r.greatest)} }
