package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

func (d *postgresDatabase) kinds(ctx context.Context) (kinds []Kind, err error) {
	var k Kind
	err = d.read(ctx, allKindsSQL, nil, []any{&k.Name, &k.Reverse, &k.Target}, func() { kinds = nil }, func() error {
		kinds = append(kinds, k)
		return nil
	})
	return kinds, err
}

// declare locks the table of kinds against other declarations. If a kind changes, it then excludes
// writers, and searches again what they changed during the first search, which may be long. The
// search has no time limit but ctx.
func (d *postgresDatabase) declare(ctx context.Context, kinds []Kind) error {
	return d.transactBy(ctx, d.retry, func(ctx context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		stored, oldest, err := d.lockKinds(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("read kinds: %w", err)
		}
		gone, added, err := redeclare(ctx, stored, kinds, func(ctx context.Context, names []string) (found bool, err error) {
			err = conn.QueryRow(ctx, anyOfKindsSQL, names).Scan(&found)
			return found, err
		})
		if err == nil && len(gone) > 0 {
			err = d.excludeWriters(ctx, conn, stored, kinds, oldest)
		}
		if err != nil {
			return nil, err
		}
		b := &pgx.Batch{}
		for _, k := range gone {
			b.Queue(deleteKindSQL, k.Name)
		}
		for _, k := range added {
			b.Queue(insertKindSQL, k.Name, k.Reverse, k.Target)
		}
		return b, nil
	})
}

// excludeWriters waits for writers in progress, and lets no other begin before the transaction
// ends. It fails if writers since the oldest transaction recorded rows of kinds that change.
func (d *postgresDatabase) excludeWriters(ctx context.Context, conn *pgx.Conn, before, kinds []Kind, oldest int64) error {
	if _, err := conn.Exec(ctx, excludeWritersSQL); err != nil {
		return err
	}
	rows, err := conn.Query(ctx, recentPagesSQL, oldest)
	if err != nil {
		return err
	}
	var page uint32
	var hash int64
	var least, greatest []int64
	if _, err := pgx.ForEachRow(rows, []any{&page, &hash}, func() error {
		of := hashRange{unstored(hash), unstored(hash)}
		if page < DedicatedPages {
			of = d.id.hashes(page)
		}
		least, greatest = append(least, stored(of.least)), append(greatest, stored(of.greatest))
		return nil
	}); err != nil {
		return err
	}
	_, _, err = redeclare(ctx, before, kinds, func(ctx context.Context, names []string) (found bool, err error) {
		err = conn.QueryRow(ctx, anyWithinSQL, names, least, greatest).Scan(&found)
		return found, err
	})
	return err
}

// lockKinds begins a transaction that excludes other declarations. It returns the declared kinds,
// and the oldest running transaction.
func (d *postgresDatabase) lockKinds(ctx context.Context, conn *pgx.Conn) (kinds []Kind, oldest int64, err error) {
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(patientSQL)
	b.Queue(lockKindsSQL)
	b.Queue(incarnationSQL).QueryRow(func(row pgx.Row) error {
		var value string
		if err := row.Scan(&value); err != nil {
			return err
		}
		return d.checkRead(&value)
	})
	b.Queue(allKindsSQL).Query(func(rows pgx.Rows) error {
		kinds, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Kind])
		return err
	})
	b.Queue(oldestRunningSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&oldest) })
	err = conn.SendBatch(ctx, b).Close()
	return kinds, oldest, err
}
