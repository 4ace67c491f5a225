package ledger

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed migrations/sqlite/*.sql
var sqliteMigrations embed.FS

// migrate brings the schema up to date. The files of migrations, in order of name, are versions
// 1, 2, ... A transaction applies one file and stores its version. So after a crash, the next
// process continues with the next version.
func migrate(ctx context.Context, db *sql.DB, migrations fs.FS) error {
	files, err := fs.Glob(migrations, "*.sql") // sorted
	if err != nil {
		return err
	}
	var version int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if version > len(files) {
		return fmt.Errorf("%w: schema version %d, at most %d is supported", ErrTooNew, version, len(files))
	}
	for i, file := range files[version:] {
		script, err := fs.ReadFile(migrations, file)
		if err != nil {
			return err
		}
		if err := inTransaction(ctx, db, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, string(script)); err != nil {
				return err
			}
			// A pragma takes no placeholders. This pragma is transactional.
			_, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, version+i+1))
			return err
		}); err != nil {
			return fmt.Errorf("migrate with %s: %w", file, err)
		}
	}
	return nil
}

// identifySQLite reads the identity of the ledger, and writes the part of meta that identify
// returns.
func identifySQLite(ctx context.Context, db *sql.DB, o Options) (id Identity, err error) {
	err = inTransaction(ctx, db, func(tx *sql.Tx) error {
		meta, err := readMeta(ctx, tx)
		if err != nil {
			return err
		}
		var layouts Layouts
		if len(meta) > 0 {
			if layouts, err = readLayouts(ctx, tx); err != nil {
				return err
			}
		}
		var write map[string]string
		if id, write, err = identify(meta, layouts, o); err != nil {
			return err
		}
		if len(meta) == 0 {
			if err := writeLayouts(ctx, tx, Layouts{Current: id.Pages}); err != nil {
				return err
			}
		}
		for name, value := range write {
			if _, err := tx.ExecContext(ctx, setMetaSQL, name, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Identity{}, fmt.Errorf("identity: %w", err)
	}
	return id, nil
}

func readMeta(ctx context.Context, tx *sql.Tx) (map[string]string, error) {
	meta := make(map[string]string)
	rows, err := tx.QueryContext(ctx, metaSQL)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		meta[name] = value
		return err
	})
	return meta, err
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
