package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"modernc.org/sqlite"
)

// bulkRows is the number of rows of one statement of a bulk insert. It is high enough to make
// the cost of a statement small, and low enough to make a failed one cheap to repeat.
const bulkRows = 128

// taken is the code of SQLite's error for a duplicate primary key.
const taken = 1555

// insertPlainSQL inserts n new rows that name no user and have no end, as most rows do. Fewer
// values save time.
func insertPlainSQL(n int) string {
	return `INSERT INTO entries (hash, owner, kind, target, since) VALUES ` + tuples(n, 5)
}

// insertWholeSQL inserts n new rows.
func insertWholeSQL(n int) string {
	return `INSERT INTO entries (hash, owner, kind, target, since, until, target_hash) VALUES ` + tuples(n, 7)
}

func (d *sqliteDatabase) recordMany(ctx context.Context, p *plan, now time.Time) (receipt Receipt, err error) {
	err = d.transact(ctx, func(t transaction) error {
		p.forget()
		states, err := t.place(ctx, p)
		if err != nil {
			return fmt.Errorf("look up pages: %w", err)
		}
		// A page that never changed has no rows.
		unsure := slices.DeleteFunc(p.unsure(), func(e *entry) bool {
			return states[p.id.PageIn(p.layouts.Current, e.hash)].Sequence == 0
		})
		if err := t.lookup(ctx, p, unsure); err != nil {
			return fmt.Errorf("look up rows: %w", err)
		}
		if err := t.tally(ctx, p.tallies, now); err != nil {
			return fmt.Errorf("count rows: %w", err)
		}
		changed, refused := p.decide(now)
		met, err := t.insertNew(ctx, p)
		if err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		if met {
			changed, refused = p.decide(now)
		}
		if err := t.settle(ctx, p); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		f := p.effect(states)
		receipt = p.receipt(changed, refused, f)
		if err := t.raise(ctx, f.raised); err != nil {
			return fmt.Errorf("raise sequences: %w", err)
		}
		return nil
	})
	return receipt, err
}

// settle writes the new states of rows that already existed.
func (t transaction) settle(ctx context.Context, p *plan) error {
	rewrites, removals := p.rewrites()
	if err := t.upsert(ctx, rewrites); err != nil {
		return err
	}
	return t.remove(ctx, removals)
}

// insertNew inserts the rows that count as new. It reports whether any of them already existed; the
// plan then knows of those rows, and they are unchanged. Rows come in key order, so each is a
// neighbour of the row before.
func (t transaction) insertNew(ctx context.Context, p *plan) (met bool, err error) {
	in, err := t.inserter(ctx)
	if err != nil {
		return false, err
	}
	doubt := false // after an existing row, the next ones often exist, too
	for some := range slices.Chunk(p.additions(), bulkRows) {
		if err := ctx.Err(); err != nil {
			return met, err
		}
		if !doubt && len(some) == bulkRows {
			err := in.insert(ctx, some)
			if err == nil {
				continue
			}
			if failed, ok := errors.AsType[*sqlite.Error](err); !ok || failed.Code() != taken {
				return met, err
			}
		}
		// The statement had no effect. Look up which rows exist, and write the others.
		if err := t.lookup(ctx, p, some); err != nil {
			return met, err
		}
		fresh := slices.DeleteFunc(slices.Clone(some), func(e *entry) bool { return e.was })
		doubt = len(fresh) < len(some)
		met = met || doubt
		if err := t.upsert(ctx, fresh); err != nil {
			return met, err
		}
	}
	return met, nil
}

// inserter inserts bulkRows rows at a time.
type inserter struct {
	plain, whole *sql.Stmt
	args         []any
}

func (t transaction) inserter(ctx context.Context) (*inserter, error) {
	ctx = context.WithoutCancel(ctx)
	// The end of the transaction closes the statements.
	plain, err := t.PrepareContext(ctx, insertPlainSQL(bulkRows))
	if err != nil {
		return nil, err
	}
	whole, err := t.PrepareContext(ctx, insertWholeSQL(bulkRows))
	return &inserter{plain: plain, whole: whole, args: make([]any, 0, 7*bulkRows)}, err
}

// insert inserts new rows, all or none.
func (in *inserter) insert(ctx context.Context, some []*entry) error {
	stmt, whole := in.plain, slices.ContainsFunc(some, func(e *entry) bool { return e.targetHash != nil || !e.after.until.IsZero() })
	if whole {
		stmt = in.whole
	}
	in.args = in.args[:0]
	var last *entry
	// Converting a value to any allocates, so values are only converted where they change.
	var hash, owner, kind, since any
	for _, e := range some {
		if last == nil || last.hash != e.hash || last.owner != e.owner {
			hash, owner = stored(e.hash), e.owner
		}
		if last == nil || last.kind != e.kind {
			kind = e.kind
		}
		if last == nil || last.after.since != e.after.since {
			since = e.after.since.UnixMicro()
		}
		if in.args = append(in.args, hash, owner, kind, e.target, since); whole {
			in.args = append(in.args, storedUntil(e.after.until), e.targetHash)
		}
		last = e
	}
	_, err := stmt.ExecContext(context.WithoutCancel(ctx), in.args...)
	return err
}
