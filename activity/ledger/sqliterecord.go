package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

func (d *sqliteDatabase) record(ctx context.Context, p *plan, now time.Time) (receipt Receipt, err error) {
	err = d.transact(ctx, func(t transaction) error {
		if err := t.lookup(ctx, p, p.entries); err != nil {
			return fmt.Errorf("look up rows: %w", err)
		}
		if err := t.tally(ctx, p.tallies, now); err != nil {
			return fmt.Errorf("count rows: %w", err)
		}
		changed, refused := p.decide(now)
		if err := t.write(ctx, p); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		states, err := t.place(ctx, p)
		if err != nil {
			return fmt.Errorf("look up pages: %w", err)
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

func (d *sqliteDatabase) setCheckpoint(ctx context.Context, id, value string) error {
	stmt, args := d.write.setCheckpoint, []any{id, value}
	if value == "" {
		stmt, args = d.write.removeCheckpoint, []any{id}
	}
	return d.transact(ctx, func(t transaction) error {
		ctx := context.WithoutCancel(ctx)
		_, err := t.StmtContext(ctx, stmt).ExecContext(ctx, args...)
		return err
	})
}

// transaction is a writing transaction. Its methods check ctx between statements. Each statement
// and the commit run to their end: they are short, and SQLite closes the connection of an
// interrupted one.
type transaction struct {
	*sql.Tx
	statements *writeStatements
}

// transact waits for the write lock, runs do in a writing transaction, and commits. If do fails,
// or ctx ends before the commit, the transaction has no effect.
func (d *sqliteDatabase) transact(ctx context.Context, do func(transaction) error) error {
	tx, end, err := d.begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer end()
	if err := do(transaction{tx, &d.write}); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// begin waits for the writer's connection and for locks, until ctx ends. Afterwards the end of
// ctx does not end the transaction. The function end rolls back what is not committed.
func (d *sqliteDatabase) begin(ctx context.Context) (tx *sql.Tx, end func(), err error) {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, err = d.writer.BeginTx(detached, nil)
	if err != nil {
		stop()
		cancel()
		return nil, nil, interrupted(ctx, err)
	}
	end = func() {
		tx.Rollback() // a no-op after a commit
		cancel()
	}
	stop()
	if err := ctx.Err(); err != nil {
		end()
		return nil, nil, err
	}
	return tx, end, nil
}

// lookup tells the plan which of the entries in some exist.
func (t transaction) lookup(ctx context.Context, p *plan, some []*entry) error {
	var r scanned
	into := r.all()
	return query(ctx, t, t.statements.lookup, some, (*entry).args, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		p.found(r.row())
		return nil
	})
}

// tally counts the rows that a plan limits. It uses the highest bound for all of them: counting
// the others further does no harm.
func (t transaction) tally(ctx context.Context, tallies []*tally, now time.Time) error {
	if len(tallies) == 0 {
		return nil
	}
	most := slices.MaxFunc(tallies, func(a, b *tally) int { return cmp.Compare(a.most, b.most) }).most
	number := -1
	detached := context.WithoutCancel(ctx)
	return inBatches(ctx, tallies, func(wanted *tally) []any {
		number++
		return []any{number, stored(wanted.hash), wanted.owner, wanted.kind}
	}, func(n int, args []any) error {
		rows, err := t.StmtContext(detached, t.statements.tally[n]).QueryContext(detached, append(args, now.UnixMicro(), most)...)
		return eachRow(rows, err, func(rows *sql.Rows) error {
			var i int
			var found int64
			err := rows.Scan(&i, &found)
			tallies[i].found = found
			return err
		})
	})
}

// write applies the plan's net effect to the rows.
func (t transaction) write(ctx context.Context, p *plan) error {
	upserts, removals := p.writes()
	if err := t.upsert(ctx, upserts); err != nil {
		return err
	}
	return t.remove(ctx, removals)
}

// upsert writes entries, and replaces those that exist.
func (t transaction) upsert(ctx context.Context, entries []*entry) error {
	return inBatches(ctx, entries, func(e *entry) []any {
		return append(e.args(), e.after.since.UnixMicro(), storedUntil(e.after.until), e.targetHash)
	}, t.exec(ctx, t.statements.insert))
}

func (t transaction) remove(ctx context.Context, entries []*entry) error {
	return inBatches(ctx, entries, (*entry).args, t.exec(ctx, t.statements.remove))
}

// exec returns a function that runs the statement for a batch.
func (t transaction) exec(ctx context.Context, b batched) func(n int, args []any) error {
	ctx = context.WithoutCancel(ctx)
	return func(n int, args []any) error {
		_, err := t.StmtContext(ctx, b[n]).ExecContext(ctx, args...)
		return err
	}
}

// query runs a statement for batches of items and calls each for every row of the results.
func query[T any](
	ctx context.Context, t transaction, b batched, items []T, args func(T) []any, each func(*sql.Rows) error,
) error {
	detached := context.WithoutCancel(ctx)
	return inBatches(ctx, items, args, func(n int, args []any) error {
		rows, err := t.StmtContext(detached, b[n]).QueryContext(detached, args...)
		return eachRow(rows, err, each)
	})
}

func (e *entry) args() []any { return []any{stored(e.hash), e.owner, e.kind, e.target} }
