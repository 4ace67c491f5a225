package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// inspectParameters are the parameters of a read-only connection. The timeout (ms) is for
// another program that locks the whole file for a moment.
const inspectParameters = `?mode=ro&_dqs=0&_error_rc=1` +
	`&_pragma=busy_timeout(1000)&_pragma=query_only(1)`

func (f sqliteFile) inspect(ctx context.Context, i *Inspection) error {
	if _, err := os.Stat(i.Name); errors.Is(err, fs.ErrNotExist) {
		return errNoLedger
	}
	file, err := resolve(i.Name)
	if err != nil {
		return err
	}
	i.Name = file
	i.Engine, i.Clock = "SQLite", time.Now()
	if err := i.support("sqlite"); err != nil {
		return err
	}
	// Without a write-ahead log no process has the file open, and SQLite would create a log to
	// read it.
	if !i.hasLog() {
		if err := i.readSQLite(ctx, inspectParameters+`&immutable=1`); !i.hasLog() {
			return err
		}
	}
	return i.readSQLite(ctx, inspectParameters)
}

// hasLog reports whether there is a write-ahead log. There is one while the file is open, and
// after a crash.
func (i *Inspection) hasLog() bool {
	_, err := os.Stat(i.Name + "-wal")
	return err == nil
}

func (i *Inspection) readSQLite(ctx context.Context, parameters string) (err error) {
	db, err := connect(i.Name, parameters, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := checkApplication(ctx, db); err != nil {
		return err
	}
	return inTransaction(ctx, db, func(tx *sql.Tx) error {
		const versions = `SELECT user_version, sqlite_version() FROM pragma_user_version`
		err := tx.QueryRowContext(ctx, versions).Scan(&i.Schema, &i.Version)
		if err != nil {
			return fmt.Errorf("read schema version: %w", err)
		}
		return i.read(ctx, sqliteQueries{}.in(tx))
	})
}
