package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// read runs a query, and retries failures that may be temporary. before runs at the start of each
// try. each runs for every row, after a scan into into.
func (d *postgresDatabase) read(
	ctx context.Context, query string, args, into []any, before func(), each func() error,
) error {
	return d.attempt(ctx, d.pool, func(ctx context.Context, conn *pgx.Conn) error {
		before()
		rows, err := conn.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, into, each)
		return err
	})
}

// snapshot reads a page in one statement, and a large page in parts.
func (d *postgresDatabase) snapshot(ctx context.Context, page uint32) ([]Row, PageState, error) {
	rows, s, err := d.atOnce(ctx, page)
	if !errors.Is(err, ErrLargePage) {
		return rows, s, err
	}
	s, err = d.eachRow(ctx, page, func(some []Row) error {
		rows = append(rows, some...)
		return nil
	})
	return inOrder(rows), s, err
}

func (d *postgresDatabase) keys(ctx context.Context, page uint32) ([]Row, PageState, error) {
	rows, s, err := d.atOnce(ctx, page)
	return withoutTimes(rows), s, err
}

// atOnce reads a page in one statement, unless the page is large.
func (d *postgresDatabase) atOnce(ctx context.Context, page uint32) (rows []Row, s PageState, err error) {
	query, args := d.pageQuery(page)
	rows, s, err = d.page(ctx, query+atMostSQL, args...)
	if err == nil && len(rows) > LargePage {
		return nil, PageState{}, ErrLargePage
	}
	return rows, s, err
}

// pageQuery returns the query for the state and the rows of a page, with its arguments.
func (d *postgresDatabase) pageQuery(page uint32) (query string, args []any) {
	if page >= DedicatedPages {
		return dedicatedPageSQL, []any{page}
	}
	hashes := d.id.hashes(page)
	return sharedPageSQL, []any{page, stored(hashes.least), stored(hashes.greatest), d.id.LayoutOf(page)}
}

// page runs a query for the state and the rows of a page. For a page without rows the query
// returns one row without an owner.
func (d *postgresDatabase) page(ctx context.Context, query string, args ...any) (rows []Row, s PageState, err error) {
	var r scanned
	found := false
	err = d.read(ctx, query, args, append([]any{&s.Sequence, &s.Left}, r.all()...),
		func() { rows, s, found = nil, PageState{}, false },
		func() error {
			found = true
			if r.owner != "" {
				rows = append(rows, r.row())
			}
			return nil
		})
	if err == nil && !found {
		err = ErrGone
	}
	return inOrder(rows), s, err
}

// inOrder sorts rows. The index returns them in this order, but does not guarantee it.
func inOrder(rows []Row) []Row {
	order := func(a, b Row) int { return a.key().compare(b.key()) }
	if !slices.IsSortedFunc(rows, order) {
		slices.SortFunc(rows, order)
	}
	return rows
}

func (d *postgresDatabase) sequence(ctx context.Context, page uint32) (sequence uint64, err error) {
	found := false
	query, args := sharedStateSQL, []any{page, d.id.LayoutOf(page)}
	if page >= DedicatedPages {
		query, args = dedicatedStateSQL, args[:1]
	}
	var left uint64
	err = d.read(ctx, query, args, []any{&sequence, &left}, func() { sequence, found = 0, false }, func() error {
		found = true
		return nil
	})
	if err == nil && !found {
		err = ErrGone
	}
	return sequence, err
}

func (d *postgresDatabase) ended(ctx context.Context, now time.Time, limit int) ([]Row, error) {
	return d.rows(ctx, endedRowsSQL, now.UnixMicro(), limit)
}

func (d *postgresDatabase) list(ctx context.Context, q ListQuery) (rows []Row, err error) {
	query, args := listNewestRowsSQL, []any{stored(q.Hash), q.Owner, q.Kind, q.Now.UnixMicro(), q.Limit}
	if q.Before != nil {
		query, args = listBeforeRowsSQL, append(args, q.Before.Since.UnixMicro(), q.Before.Target)
	}
	r := scanned{hash: stored(q.Hash), owner: q.Owner, kind: q.Kind}
	err = d.read(ctx, query, args, []any{&r.target, &r.since, &r.until}, func() { rows = nil }, func() error {
		rows = append(rows, r.row())
		return nil
	})
	return rows, err
}

func (d *postgresDatabase) lookup(ctx context.Context, wanted []*entry) (rows []Row, err error) {
	for some := range slices.Chunk(wanted, lookupAtOnce) {
		c := columnsOf(some)
		found, err := d.rows(ctx, lookupRowsSQL, c.hash, c.owner, c.kind, c.target)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

func (d *postgresDatabase) count(ctx context.Context, hash uint64, owner, kind string, now time.Time) (n int, err error) {
	err = d.read(ctx, countRowsSQL, []any{stored(hash), owner, kind, now.UnixMicro()}, []any{&n}, func() {}, func() error { return nil })
	return n, err
}

func (d *postgresDatabase) counts(ctx context.Context, hash uint64, owner string, now time.Time) (counts map[string]int, err error) {
	var kind string
	var n int
	err = d.read(ctx, countKindsSQL, []any{stored(hash), owner, now.UnixMicro()}, []any{&kind, &n},
		func() { counts = make(map[string]int) },
		func() error {
			counts[kind] = n
			return nil
		})
	return counts, err
}

func (d *postgresDatabase) owned(ctx context.Context, hash uint64, owner string, after Item, limit int) ([]Row, error) {
	return d.rows(ctx, ownedRowsSQL, stored(hash), owner, after.Kind, after.Target, limit)
}

func (d *postgresDatabase) all(ctx context.Context, after key, limit int) ([]Row, error) {
	return d.rows(ctx, allRowsSQL, stored(after.hash), after.owner, after.kind, after.target, limit)
}

func (d *postgresDatabase) naming(ctx context.Context, targetHash uint64, target string, limit int) ([]Row, error) {
	return d.rows(ctx, namingRowsSQL, stored(targetHash), target, limit)
}

// rows runs a query of the columns hash, owner, kind, target, since, until.
func (d *postgresDatabase) rows(ctx context.Context, query string, args ...any) (rows []Row, err error) {
	var r scanned
	err = d.read(ctx, query, args, r.all(), func() { rows = nil }, func() error {
		rows = append(rows, r.row())
		return nil
	})
	return rows, err
}

func (d *postgresDatabase) checkpoint(ctx context.Context, id string) (value string, found bool, err error) {
	err = d.read(ctx, getCheckpointSQL, []any{id}, []any{&value}, func() { found = false }, func() error {
		found = true
		return nil
	})
	return value, found, err
}

func (d *postgresDatabase) ping(ctx context.Context) error {
	found := false
	var value string
	err := d.read(ctx, incarnationSQL, nil, []any{&value}, func() {}, func() error {
		found = true
		return nil
	})
	if err == nil && !found {
		err = errors.New("identity: no incarnation")
	}
	return err
}
