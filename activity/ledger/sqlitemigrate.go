package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
)

// migrate brings the schema up to date.
func migrate(ctx context.Context, db *sql.DB, migrations fs.FS) error {
	version, err := readNumber(ctx, sqliteQueries{on: db}, `PRAGMA user_version`)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	return applyMigrations(migrations, int(version), func(script string, version int) error {
		return inTransaction(ctx, db, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, script); err != nil {
				return err
			}
			// A pragma takes no placeholders. This pragma is transactional.
			_, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, version))
			return err
		})
	})
}

// inTransaction runs do in a transaction, and commits if do succeeds.
func inTransaction(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // a no-op after a commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
