package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Record makes the changes, in order, in one transaction: all of them or
// none. When it returns without error they are durable: no crash of the
// process or of the machine undoes them. Recording a row that exists changes
// nothing, nor does removing one that does not. A row that exists keeps its
// Since; one removed and recorded again in the same call gets the new Since,
// though that is no change to its page.
//
// An error that wraps ctx's error means that nothing was changed: ctx is
// honoured until the commit begins, and no longer. So does an error that
// names an invalid row. After any other error assume neither: a commit that
// failed can still turn out to have happened. Repeating the call is safe: it
// leads to the same rows either way.
//
// Concurrent calls take turns. No changes at all give an empty Receipt.
func (l *Ledger) Record(ctx context.Context, changes []Change) (Receipt, error) {
	p, err := newPlan(l.id, changes)
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: record: %w", err)
	}
	if len(changes) == 0 {
		return Receipt{}, nil
	}
	var receipt Receipt
	err = l.transact(ctx, func(t transaction) error {
		if err := t.lookup(ctx, p); err != nil {
			return fmt.Errorf("look up rows: %w", err)
		}
		receipt.Changed = p.decide()
		if err := t.write(ctx, p); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		receipt.Pages = p.pages()
		if err := t.raise(ctx, receipt.Pages); err != nil {
			return fmt.Errorf("raise sequences: %w", err)
		}
		return nil
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: record %d changes: %w", len(changes), err)
	}
	return receipt, nil
}

// transaction is a writing transaction. Its methods look at ctx between
// statements; the statements themselves, and the commit, run to their end:
// they are short, and an interrupted one costs its connection.
type transaction struct {
	*sql.Tx
	statements *writeStatements
}

// transact runs do in a writing transaction, once it is this caller's turn,
// and commits it. If ctx ends before the commit, or do fails, nothing was
// done.
func (l *Ledger) transact(ctx context.Context, do func(transaction) error) error {
	return l.use(func() error {
		tx, end, err := l.begin(ctx)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		defer end()
		if err := do(transaction{tx, &l.write}); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	})
}

// begin waits for the writer's connection and for locks, until ctx ends. From
// then on the end of ctx does not end the transaction; end does, by rolling
// back what is not committed.
func (l *Ledger) begin(ctx context.Context) (tx *sql.Tx, end func(), err error) {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, err = l.writer.BeginTx(detached, nil)
	if err != nil {
		stop()
		cancel()
		return nil, nil, ended(ctx, err)
	}
	end = func() {
		tx.Rollback() // does nothing after a commit
		cancel()
	}
	stop()
	if err := ctx.Err(); err != nil {
		end()
		return nil, nil, err
	}
	return tx, end, nil
}

// lookup tells the plan which of its rows exist.
func (t transaction) lookup(ctx context.Context, p *plan) error {
	return query(ctx, t, t.statements.lookup, p.entries, (*entry).args, func(rows *sql.Rows) error {
		r, err := scanRow(rows)
		if err == nil {
			p.found(r)
		}
		return err
	})
}

// write carries out the plan's net effect on the rows.
func (t transaction) write(ctx context.Context, p *plan) error {
	upserts, removals := p.writes()
	err := inBatches(ctx, upserts, func(e *entry) []any {
		return append(e.args(), e.since.UnixMicro())
	}, t.exec(ctx, t.statements.insert))
	if err != nil {
		return err
	}
	return inBatches(ctx, removals, (*entry).args, t.exec(ctx, t.statements.remove))
}

// raise fills in the sequences of pages, one higher where rows were added or
// removed, and stores those.
func (t transaction) raise(ctx context.Context, pages []PageChange) error {
	standing := make(map[uint32]uint64, len(pages))
	err := query(ctx, t, t.statements.standing, pages, func(p PageChange) []any {
		return []any{p.Page}
	}, func(rows *sql.Rows) error {
		page, sequence := uint32(0), uint64(0)
		err := rows.Scan(&page, &sequence)
		standing[page] = sequence
		return err
	})
	if err != nil {
		return err
	}
	var raised []PageChange
	for i := range pages {
		p := &pages[i]
		p.Sequence = standing[p.Page]
		if len(p.Added)+len(p.Removed) > 0 {
			p.Sequence++
			raised = append(raised, *p)
		}
	}
	now := time.Now().UnixMicro()
	return inBatches(ctx, raised, func(p PageChange) []any {
		return []any{p.Page, p.Sequence, now}
	}, t.exec(ctx, t.statements.raise))
}

// exec returns what runs the statement for a batch.
func (t transaction) exec(ctx context.Context, b batched) func(n int, args []any) error {
	ctx = context.WithoutCancel(ctx)
	return func(n int, args []any) error {
		_, err := t.StmtContext(ctx, b[n]).ExecContext(ctx, args...)
		return err
	}
}

// query runs a statement for batches of items and calls each for every row
// that it returns.
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
