package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// queryer is a transaction or a connection.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// readLayouts reads the table of layouts.
func readLayouts(ctx context.Context, q queryer) (l Layouts, err error) {
	rows, err := q.QueryContext(ctx, layoutsSQL)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var r layoutRow
		err := rows.Scan(&r.pages, &r.state)
		l = l.with(r)
		return err
	})
	if err != nil {
		return Layouts{}, err
	}
	return l, l.check()
}

func writeLayouts(ctx context.Context, tx *sql.Tx, l Layouts) error {
	if _, err := tx.ExecContext(ctx, removeLayoutsSQL); err != nil {
		return err
	}
	for _, r := range l.rows() {
		if _, err := tx.ExecContext(ctx, addLayoutSQL, r.pages, r.state); err != nil {
			return err
		}
	}
	return nil
}

func (d *sqliteDatabase) layouts(ctx context.Context) (Layouts, error) {
	return readLayouts(ctx, d.readers)
}

func (d *sqliteDatabase) changeLayouts(
	ctx context.Context, decide func(Layouts) (Layouts, error),
) (after Layouts, err error) {
	err = d.transact(ctx, func(t transaction) error {
		detached := context.WithoutCancel(ctx)
		before, err := readLayouts(detached, t)
		if err != nil {
			return err
		}
		if after, err = decide(before); err != nil || after == before {
			return err
		}
		return writeLayouts(detached, t.Tx, after)
	})
	return after, err
}

func (d *sqliteDatabase) seed(ctx context.Context, from, to, first, last uint32) error {
	return d.transact(ctx, func(t transaction) error {
		_, err := t.ExecContext(context.WithoutCancel(ctx), seedSQL, d.id.PageIn(from, 0), d.id.PageIn(to, 0), to/from, first, last)
		return err
	})
}

func (d *sqliteDatabase) removePages(ctx context.Context, first, last uint32) error {
	return d.transact(ctx, func(t transaction) error {
		_, err := t.ExecContext(context.WithoutCancel(ctx), removePagesSQL, first, last)
		return err
	})
}

func (d *sqliteDatabase) place(ctx context.Context, hash uint64) (p Place, err error) {
	err = d.reading(ctx, func(tx *sql.Tx) error {
		if p.Layouts, err = readLayouts(ctx, tx); err != nil {
			return err
		}
		p.Page = d.id.PageIn(p.Layouts.Current, hash)
		owners, err := d.ownersOf(ctx, tx, hashRange{hash, hash})
		if err != nil {
			return err
		}
		for _, o := range owners {
			p.Page = o.Page
		}
		p.PageState, err = d.readPageState(ctx, tx, p.Page)
		return err
	})
	return p, err
}

// reading runs do in a read-only transaction.
func (d *sqliteDatabase) reading(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := d.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing to commit
	return do(tx)
}

// held returns the state of a page, and the hashes of its rows.
func (d *sqliteDatabase) held(ctx context.Context, tx *sql.Tx, page uint32) (s PageState, held []hashRange, err error) {
	if page >= DedicatedPages {
		if held, err = d.ownerOf(ctx, tx, page); err == nil && len(held) == 0 {
			err = ErrGone
		}
	} else {
		held, err = d.sharedHashes(ctx, tx, page)
	}
	if err != nil {
		return PageState{}, nil, err
	}
	s, err = d.readPageState(ctx, tx, page)
	return s, held, err
}

// sharedHashes returns the hashes whose rows are in a shared page.
func (d *sqliteDatabase) sharedHashes(ctx context.Context, tx *sql.Tx, page uint32) ([]hashRange, error) {
	layouts, err := readLayouts(ctx, tx)
	if err == nil {
		err = layouts.rebuilds(d.id.LayoutOf(page))
	}
	if err != nil {
		return nil, err
	}
	shared := d.id.hashes(page)
	owners, err := d.ownersOf(ctx, tx, shared)
	hashes := make([]uint64, len(owners))
	for i, o := range owners {
		hashes[i] = o.Hash
	}
	return shared.without(hashes), err
}

// ownerOf returns the hash of the user of a dedicated page; none: the page has no user.
func (d *sqliteDatabase) ownerOf(ctx context.Context, tx *sql.Tx, page uint32) (held []hashRange, err error) {
	rows, err := tx.QueryContext(ctx, ownerSQL, page)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var hash int64
		err := rows.Scan(&hash)
		held = append(held, hashRange{unstored(hash), unstored(hash)})
		return err
	})
	return held, err
}

// ownersOf returns the users in a range of hashes that have a dedicated page, in order of hash.
func (d *sqliteDatabase) ownersOf(ctx context.Context, tx *sql.Tx, r hashRange) ([]Owner, error) {
	rows, err := tx.StmtContext(ctx, d.read.owners).QueryContext(ctx, stored(r.least), stored(r.greatest))
	return scanOwners(rows, err)
}

// scanOwners reads rows of the columns hash and page.
func scanOwners(rows *sql.Rows, err error) (owners []Owner, _ error) {
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var hash int64
		var o Owner
		err := rows.Scan(&hash, &o.Page)
		o.Hash = unstored(hash)
		owners = append(owners, o)
		return err
	})
	return owners, err
}

func (d *sqliteDatabase) move(ctx context.Context, m move) (receipt Receipt, err error) {
	err = d.transact(ctx, func(t transaction) error {
		detached := context.WithoutCancel(ctx)
		s, err := t.moveState(ctx, d.id, m)
		if err != nil {
			return fmt.Errorf("look up pages: %w", err)
		}
		o, err := m.decide(d.id, s)
		if receipt = o.receipt; err != nil || len(o.raised) == 0 {
			return err
		}
		count, err := t.count(ctx)
		if err != nil {
			return err
		}
		query, args := removeOwnerSQL, []any{stored(m.hash)}
		if m.dedicate {
			query, args = addOwnerSQL, []any{stored(m.hash), o.made, count}
		}
		if _, err := t.ExecContext(detached, query, args...); err != nil {
			return err
		}
		return t.raise(ctx, o.raised)
	})
	return receipt, err
}

// moveState reads the state that a move depends on.
func (t transaction) moveState(ctx context.Context, id Identity, m move) (s moveState, err error) {
	p := &plan{id: id, entries: []*entry{{key: key{hash: m.hash}}}}
	if s.states, err = t.place(ctx, p); err != nil {
		return s, err
	}
	s.layouts, s.owned = p.layouts, p.owners[m.hash]
	err = t.QueryRowContext(context.WithoutCancel(ctx), greatestSQL).Scan(&s.greatest)
	return s, err
}

// place reads the layouts and the dedicated pages of the plan's users. It returns the states of
// the users' pages.
func (t transaction) place(ctx context.Context, p *plan) (map[uint32]PageState, error) {
	var err error
	if p.layouts, err = readLayouts(context.WithoutCancel(ctx), t); err != nil {
		return nil, err
	}
	kinds, err := t.kinds(ctx)
	if err == nil {
		err = p.checkKinds(kinds)
	}
	if err != nil {
		return nil, err
	}
	p.owners = make(map[uint64]uint32)
	pages := p.sharedPages(p.layouts)
	err = query(ctx, t, t.statements.owners, p.users(), func(hash uint64) []any {
		return []any{stored(hash)}
	}, func(rows *sql.Rows) error {
		var hash int64
		var page uint32
		err := rows.Scan(&hash, &page)
		p.owners[unstored(hash)] = page
		pages = append(pages, int64(page))
		return err
	})
	if err != nil {
		return nil, err
	}
	states := make(map[uint32]PageState, len(pages))
	err = query(ctx, t, t.statements.states, pages, func(page int64) []any {
		return []any{page}
	}, func(rows *sql.Rows) error {
		var page uint32
		var s PageState
		err := rows.Scan(&page, &s.Sequence, &s.Left)
		states[page] = s
		return err
	})
	return states, err
}

// raise stores the new states of pages.
func (t transaction) raise(ctx context.Context, raised []raisedPage) error {
	if len(raised) == 0 {
		return nil
	}
	count, err := t.count(ctx)
	if err != nil {
		return err
	}
	return inBatches(ctx, raised, func(r raisedPage) []any {
		return []any{r.page, r.Sequence, r.Left, count}
	}, t.exec(ctx, t.statements.raise))
}

// count returns the number of this transaction.
func (t transaction) count(ctx context.Context) (count int64, err error) {
	ctx = context.WithoutCancel(ctx)
	err = t.StmtContext(ctx, t.statements.progress).QueryRowContext(ctx).Scan(&count)
	return count, err
}

// changed uses the numbers of transactions, which commit in the order of their numbers. It reads
// Next first: the number of the first transaction that the snapshot cannot see.
func (d *sqliteDatabase) changed(
	ctx context.Context, since Cursor, each func(page uint32, s PageState) error,
) (p Progress, err error) {
	err = d.reading(ctx, func(tx *sql.Tx) error {
		var next int64
		if err := tx.StmtContext(ctx, d.read.progress).QueryRowContext(ctx).Scan(&next); err != nil {
			return err
		}
		now := time.Now()
		p = Progress{Next: sqliteCursor(next), Clock: now, At: now}
		first := since.count(next)
		if p.Layouts, err = readLayouts(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.StmtContext(ctx, d.read.newOwners).QueryContext(ctx, first)
		if p.Owners, err = scanOwners(rows, err); err != nil {
			return err
		}
		rows, err = tx.StmtContext(ctx, d.read.changed).QueryContext(ctx, first)
		return eachRow(rows, err, func(rows *sql.Rows) error {
			var page uint32
			var s PageState
			if err := rows.Scan(&page, &s.Sequence, &s.Left); err != nil {
				return err
			}
			return each(page, s)
		})
	})
	return p, err
}
