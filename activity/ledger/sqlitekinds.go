package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

func (d *sqliteDatabase) kinds(ctx context.Context) ([]Kind, error) {
	rows, err := d.read.kinds.QueryContext(ctx)
	return scanKinds(rows, err)
}

// declare holds the write lock from the beginning, so no other call records a row meanwhile. It
// searches for rows on another connection, which can be interrupted.
func (d *sqliteDatabase) declare(ctx context.Context, kinds []Kind) error {
	return d.transact(ctx, func(t transaction) error {
		detached := context.WithoutCancel(ctx)
		stored, err := t.kinds(ctx)
		if err != nil {
			return fmt.Errorf("read kinds: %w", err)
		}
		gone, added, err := redeclare(ctx, stored, kinds, d.hasRows)
		if err != nil {
			return err
		}
		for _, k := range gone {
			if _, err := t.ExecContext(detached, removeKindSQL, k.Name); err != nil {
				return err
			}
		}
		for _, k := range added {
			if _, err := t.ExecContext(detached, addKindSQL, k.Name, k.Reverse, k.Target); err != nil {
				return err
			}
		}
		return nil
	})
}

// kinds returns the declared kinds.
func (t transaction) kinds(ctx context.Context) ([]Kind, error) {
	rows, err := t.QueryContext(context.WithoutCancel(ctx), kindsSQL)
	return scanKinds(rows, err)
}

func (d *sqliteDatabase) hasRows(ctx context.Context, names []string) (found bool, err error) {
	args := []any{names[0], names[len(names)-1]}
	err = d.readers.QueryRowContext(ctx, kindRowsSQL, args...).Scan(&found)
	return found, err
}

func scanKinds(rows *sql.Rows, err error) (kinds []Kind, _ error) {
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var k Kind
		err := rows.Scan(&k.Name, &k.Reverse, &k.Target)
		kinds = append(kinds, k)
		return err
	})
	return kinds, err
}
