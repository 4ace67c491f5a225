package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// declare locks the table of kinds against other declarations. If a kind changes, it then excludes
// writers, and searches again what they changed during the first search, which may be long. The
// search has no time limit but ctx.
func (d *postgresDatabase) declare(ctx context.Context, kinds []Kind) error {
	return d.transactBy(ctx, d.retry, func(ctx context.Context, t postgresTransaction) error {
		stored, oldest, err := t.lockKinds(ctx)
		if err != nil {
			return fmt.Errorf("read kinds: %w", err)
		}
		gone, added, err := redeclare(ctx, stored, kinds, func(ctx context.Context, names []string) (found bool, err error) {
			err = t.conn.QueryRow(ctx, anyOfKindsSQL, names).Scan(&found)
			return found, err
		})
		if err == nil && len(gone) > 0 {
			err = t.excludeWriters(ctx, stored, kinds, oldest)
		}
		if err != nil {
			return err
		}
		return putKinds(ctx, t, gone, added)
	})
}

// excludeWriters waits for writers in progress, and lets no other begin before the transaction
// ends. It fails if writers since the oldest transaction recorded rows of kinds that change.
func (t postgresTransaction) excludeWriters(ctx context.Context, before, kinds []Kind, oldest int64) error {
	if _, err := t.conn.Exec(ctx, excludeWritersSQL); err != nil {
		return err
	}
	var page uint32
	var hash int64
	changed, err := collect(ctx, t, statement{recentPagesSQL, []any{oldest}, []any{&page, &hash}}, func() hashRange {
		if page < DedicatedPages {
			return t.d.id.hashes(page)
		}
		return hashRange{unstored(hash), unstored(hash)}
	})
	if err != nil {
		return err
	}
	var least, greatest []int64
	for _, of := range changed {
		least, greatest = append(least, stored(of.least)), append(greatest, stored(of.greatest))
	}
	_, _, err = redeclare(ctx, before, kinds, func(ctx context.Context, names []string) (found bool, err error) {
		err = t.conn.QueryRow(ctx, anyWithinSQL, names, least, greatest).Scan(&found)
		return found, err
	})
	return err
}

// lockKinds begins a transaction that excludes other declarations. It returns the declared kinds,
// and the oldest running transaction.
func (t postgresTransaction) lockKinds(ctx context.Context) (kinds []Kind, oldest int64, err error) {
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(noTimeLimitSQL)
	b.Queue(lockKindsSQL)
	t.d.queueIncarnation(b)
	b.Queue(allKindsSQL).Query(func(rows pgx.Rows) error {
		kinds, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Kind])
		return err
	})
	b.Queue(oldestRunningSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&oldest) })
	err = t.conn.SendBatch(ctx, b).Close()
	return kinds, oldest, err
}
