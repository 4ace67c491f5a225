package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// sqliteTransaction is a writing transaction. Its methods check ctx between statements. Each
// statement and the commit run to their end: they are short, and SQLite closes the connection of
// an interrupted one.
type sqliteTransaction struct {
	sqliteQueries
	d *sqliteDatabase
}

// transact waits for the writer's connection and for locks until ctx ends, runs do in a writing
// transaction, and commits. If do fails, or ctx ends before the commit, the transaction has no
// effect. The end of ctx does not interrupt a statement.
func (d *sqliteDatabase) transact(
	ctx context.Context, _ time.Duration, do func(ctx context.Context, t transaction) error,
) error {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	tx, err := d.writer.BeginTx(detached, nil)
	stop()
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // a no-op after a commit
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := cmp.Or(do(ctx, sqliteTransaction{d.writes.in(tx), d}), ctx.Err()); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &undecidedError{err}
	}
	return nil
}

// begin runs the statements alone: the transaction has begun, and has the write lock.
func (t sqliteTransaction) begin(ctx context.Context, all ...statement) error {
	return execAll(ctx, t, all)
}

// anyOf searches for rows on another connection, which can be interrupted. Others cannot have
// changed any since the transaction began.
func (t sqliteTransaction) anyOf(ctx context.Context, names []string, _ int64) (bool, error) {
	n, err := readNumber(ctx, t.d, kindRowsSQL, names[0], names[len(names)-1])
	return n > 0, err
}
