package ledger

import (
	"context"
	"errors"
	"fmt"
)

const (
	// LargePage is the most rows of a page that Keys returns.
	LargePage = 50_000
	// rowsAtOnce is how many rows EachRow reads at a time.
	rowsAtOnce = 10_000
)

// ErrLargePage says that a page has more than LargePage rows: EachRow reads it.
var ErrLargePage = errors.New("the page has more rows than are read at once")

// EachRow calls each with all rows of a page, some thousand at a time and in no particular order, and returns the Standing
// that they belong to: all of it is as after one and the same Record or move. It is for pages that are too large for Keys: its
// memory is bounded, and no statement takes long. With PostgreSQL each statement has some seconds, and so has each call of
// each. A transaction is open meanwhile, and a connection in use, so callers bound how many of these calls are under way. The
// slice is valid until each returns. An error of each ends the call and is returned as it is.
func (l *Ledger) EachRow(ctx context.Context, page uint32, each func(rows []Row) error) (s Standing, err error) {
	var failed error // of each
	if err = l.checkPage(page); err == nil {
		err = l.use(func() error {
			s, err = l.db.eachRow(ctx, page, func(rows []Row) error {
				failed = each(rows)
				return failed
			})
			return err
		})
	}
	switch {
	case failed != nil:
		return Standing{}, failed
	case err != nil:
		return Standing{}, fmt.Errorf("ledger: read page %d in parts: %w", page, interrupted(ctx, err))
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
