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

// declare locks the table of kinds against other declarations, but not against readers. The
// search for rows has no time limit but ctx.
func (d *postgresDatabase) declare(ctx context.Context, kinds []Kind) error {
	return d.transactBy(ctx, d.retry, func(ctx context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		stored, err := d.lockKinds(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("read kinds: %w", err)
		}
		gone, added, err := redeclare(ctx, stored, kinds, func(ctx context.Context, names []string) (found bool, err error) {
			err = conn.QueryRow(ctx, anyOfKindsSQL, names).Scan(&found)
			return found, err
		})
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

// lockKinds begins a transaction that excludes other declarations, and returns the declared
// kinds.
func (d *postgresDatabase) lockKinds(ctx context.Context, conn *pgx.Conn) (kinds []Kind, err error) {
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
	err = conn.SendBatch(ctx, b).Close()
	return kinds, err
}
