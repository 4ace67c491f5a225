package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// codeUnique is PostgreSQL's code for a duplicate key.
const codeUnique = "23505"

// recordMany copies the rows that count as new into the table. If one of them already exists, it
// undoes the copy and records the rows like record. So recording existing rows costs an extra
// try.
func (d *postgresDatabase) recordMany(ctx context.Context, p *plan, now time.Time) (receipt Receipt, err error) {
	err = d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		states, err := d.lock(limited, conn, p, p.unsure(), now)
		if err != nil {
			return nil, fmt.Errorf("look up rows: %w", err)
		}
		changed, refused := p.decide(now)
		copied, err := copyNew(limited, conn, p)
		if err != nil {
			return nil, fmt.Errorf("copy rows: %w", err)
		}
		write := p.rewrites
		if !copied {
			if err := lookupAll(limited, conn, p); err != nil {
				return nil, fmt.Errorf("look up rows: %w", err)
			}
			changed, refused = p.decide(now)
			write = p.writes
		}
		f := p.effect(states)
		receipt = p.receipt(changed, refused, f)
		upserts, removals := write()
		return writeBatch(upserts, removals, f.raised), nil
	})
	if err != nil {
		return Receipt{}, err
	}
	return receipt, nil
}

// copyNew copies the rows that count as new, all or none, and reports whether it did. It does
// not if any of them already exists.
func copyNew(ctx context.Context, conn *pgx.Conn, p *plan) (bool, error) {
	fresh := p.additions()
	if _, err := conn.Exec(ctx, `SAVEPOINT copying`); err != nil {
		return false, err
	}
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"entries"},
		[]string{"hash", "owner", "kind", "target", "since", "until", "target_hash"},
		pgx.CopyFromSlice(len(fresh), func(i int) ([]any, error) {
			e := fresh[i]
			return append(e.args(), e.after.since.UnixMicro(), storedUntil(e.after.until), e.targetHash), nil
		}))
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == codeUnique {
		_, err = conn.Exec(ctx, `ROLLBACK TO copying`)
		return false, err
	}
	return err == nil, err
}

// lookupAll tells the plan which of its rows exist.
func lookupAll(ctx context.Context, conn *pgx.Conn, p *plan) error {
	b := &pgx.Batch{}
	queueLookup(b, p, p.entries)
	return conn.SendBatch(ctx, b).Close()
}
