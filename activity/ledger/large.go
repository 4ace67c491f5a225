package ledger

import (
	"context"
	"fmt"
)

const (
	// LargePage is the maximum number of rows that Keys returns.
	LargePage = 50_000
	// rowsAtOnce is the number of rows that EachRow passes on at a time.
	rowsAtOnce = 10_000
)

// ErrLargePage means that a page has more than LargePage rows. EachRow reads such a page.
var ErrLargePage = fmt.Errorf("page has more than %d rows", LargePage)

// EachRow calls each with all rows of a page, some thousand at a time, in no particular order.
// It returns the state of the page. Rows and state are from one snapshot. The error wraps
// ErrGone if the page is no longer in use.
//
// EachRow serves pages that are too large for Keys. Its memory is bounded, and no statement takes
// long. With PostgreSQL each statement must end within about 5 seconds, and so must each call of
// each. EachRow keeps a transaction open and a connection in use, so callers bound the number of
// concurrent calls.
//
// The slice is valid until each returns. An error of each ends the call, and EachRow returns it
// unwrapped.
func (l *Ledger) EachRow(ctx context.Context, page uint32, each func(rows []Row) error) (s PageState, err error) {
	var failed error // by each
	err = l.read(ctx, &Call{Operation: "each_row", Page: page}, func(ctx context.Context) error {
		if err = l.checkPage(page); err == nil {
			s, err = l.db.eachRow(ctx, page, func(rows []Row) error {
				failed = each(rows)
				return failed
			})
		}
		return err
	})
	switch {
	case failed != nil:
		return PageState{}, failed
	case err != nil:
		return PageState{}, fmt.Errorf("ledger: read page %d in parts: %w", page, err)
	default:
		return s, nil
	}
}

// chunks collects rows and passes them on, rowsAtOnce at a time.
type chunks struct {
	rows []Row
	each func(rows []Row) error
}

func (c *chunks) add(row Row) error {
	c.rows = append(c.rows, row)
	if len(c.rows) < rowsAtOnce {
		return nil
	}
	return c.flush()
}

func (c *chunks) flush() error {
	if len(c.rows) == 0 {
		return nil
	}
	err := c.each(c.rows)
	clear(c.rows)
	c.rows = c.rows[:0]
	return err
}
