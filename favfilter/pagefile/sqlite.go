package pagefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// applicationID identifies a SQLite file as a page file. formatVersion identifies its content:
	// this table, and pages of the format version that package favfilter reads. Increase
	// formatVersion when either changes.
	applicationID = 0x66617670
	formatVersion = 2

	// The timeout (ms) is for other programs that access the file.
	parameters = `?_txlock=immediate&_dqs=0&_error_rc=1&_pragma=busy_timeout(1000)` +
		`&_pragma=synchronous(normal)&_pragma=cache_size(-8192)&_pragma=journal_size_limit(16777216)`

	// expires is Unix time in microseconds, or 0 for never. bits is the bits string of the page, and
	// marks its regions string, which has the collision bits.
	schemaSQL = `CREATE TABLE pages (
			number  INTEGER NOT NULL,
			part    TEXT NOT NULL,
			expires INTEGER NOT NULL,
			bits    BLOB NOT NULL,
			marks   BLOB NOT NULL,
			UNIQUE (number, part)
		) STRICT`

	loadSQL = `SELECT number, part, expires, bits, marks FROM pages`

	// The row of a changed page keeps its length, and SQLite writes only the parts that differ.
	// (INSERT OR REPLACE would write the whole row.)
	upsertSQL = `INSERT INTO pages (number, part, expires, bits, marks) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (number, part) DO UPDATE SET
			expires = excluded.expires, bits = excluded.bits, marks = excluded.marks`
	removeSQL = `DELETE FROM pages WHERE number = ? AND part = ?`
)

// errForeign is wrapped by errors about a database that this version of the package has not
// written.
var errForeign = errors.New("not a database of pages")

// row is a page as stored in the file. A row without bits stands for a deleted page.
type row struct {
	id         favfilter.PageID
	expires    time.Time // zero: never
	bits       []byte
	collisions []byte
}

// database is the SQLite file, accessed over one connection.
type database struct {
	db     *sql.DB
	upsert *sql.Stmt
	remove *sql.Stmt
}

func openDatabase(ctx context.Context, file string) (*database, error) {
	// If SQLite created the file, other users could read it.
	made, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := made.Close(); err != nil {
		return nil, err
	}
	uri := url.URL{Scheme: "file", OmitHost: true, Path: file} // escapes the path
	connector, err := sqlite.NewConnector(uri.String() + parameters)
	if err != nil {
		return nil, err
	}
	d := &database{db: sql.OpenDB(connector)}
	d.db.SetMaxOpenConns(1)
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// start creates the table if there is none.
func (d *database) start(ctx context.Context) error {
	var id, version, objects int
	err := d.db.QueryRowContext(ctx, `SELECT application_id, user_version,
			(SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`).Scan(&id, &version, &objects)
	switch {
	case err != nil:
		return fmt.Errorf("read header: %w", err)
	case id == 0 && version == 0 && objects == 0:
		if err := d.create(ctx); err != nil {
			return fmt.Errorf("make table: %w", err)
		}
	case id == applicationID && version != formatVersion:
		return fmt.Errorf(
			"%w: another file version: %d, this version reads %d", errForeign, version, formatVersion,
		)
	case id != applicationID:
		return fmt.Errorf("%w (application id %#x, version %d)", errForeign, id, version)
	}
	if d.upsert, err = d.db.PrepareContext(ctx, upsertSQL); err == nil {
		d.remove, err = d.db.PrepareContext(ctx, removeSQL)
	}
	if primaryCode(err) == sqlite3.SQLITE_ERROR {
		return fmt.Errorf("%w: %w", errForeign, err) // it has another table
	}
	return err
}

func (d *database) create(ctx context.Context) error {
	// SQLite stores the mode in the file.
	if _, err := d.db.ExecContext(ctx, `PRAGMA journal_mode = wal`); err != nil {
		return err
	}
	return d.transaction(ctx, func(tx *sql.Tx) error {
		const mark = `; PRAGMA application_id = %d; PRAGMA user_version = %d`
		_, err := tx.ExecContext(ctx, schemaSQL+fmt.Sprintf(mark, applicationID, formatVersion))
		return err
	})
}

func (d *database) close() error { return d.db.Close() }

// each calls do with every row.
func (d *database) each(ctx context.Context, do func(row)) error {
	rows, err := d.db.QueryContext(ctx, loadSQL)
	if err != nil {
		return fmt.Errorf("read pages: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		var expires int64
		if err := rows.Scan(&r.id.Number, &r.id.Part, &expires, &r.bits, &r.collisions); err != nil {
			// SQLite enforces the column types of this package's table, so it is another table.
			return fmt.Errorf("%w: read pages: %w", errForeign, err)
		}
		if expires != 0 {
			r.expires = time.UnixMicro(expires)
		}
		if r.collisions == nil {
			r.collisions = []byte{} // nil would mean: not loaded
		}
		do(r)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read pages: %w", err)
	}
	return nil
}

// write writes all rows or none.
func (d *database) write(ctx context.Context, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	return d.transaction(ctx, func(tx *sql.Tx) error {
		upsert, remove := tx.StmtContext(ctx, d.upsert), tx.StmtContext(ctx, d.remove)
		for _, r := range rows {
			var err error
			if r.bits == nil {
				_, err = remove.ExecContext(ctx, r.id.Number, r.id.Part)
			} else {
				expires := int64(0)
				if !r.expires.IsZero() {
					expires = r.expires.UnixMicro()
				}
				collisions := append([]byte{}, r.collisions...)
				_, err = upsert.ExecContext(ctx, r.id.Number, r.id.Part, expires, r.bits, collisions)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *database) transaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// isDamage reports whether the operation that failed with err will fail again on this file.
func isDamage(err error) bool {
	code := primaryCode(err)
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB ||
		errors.Is(err, errForeign)
}

// primaryCode returns SQLite's primary result code in err, or 0 if there is none.
func primaryCode(err error) int {
	if failure, ok := errors.AsType[*sqlite.Error](err); ok {
		return failure.Code() & 0xff
	}
	return 0
}

// setAside renames the file and its write-ahead log, and returns the new name.
func setAside(file string) (string, error) {
	aside := file + ".damaged"
	for _, do := range []func() error{
		func() error { return os.Remove(aside + "-wal") }, // left from an earlier file
		// Rename the log first: next to a new file, SQLite would take it for the log of that file.
		func() error { return os.Rename(file+"-wal", aside+"-wal") },
		func() error { return os.Remove(file + "-shm") },
	} {
		if err := do(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, os.Rename(file, aside)
}
