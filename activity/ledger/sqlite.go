package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// applicationID marks a SQLite file as a ledger. The first migration sets it.
	applicationID = 0x6661766c

	// Parameters of a connection. FULL syncs the write-ahead log at each commit, which makes the
	// commit durable. The timeout (ms) is for other programs that access the file, such as a
	// backup. A writing transaction takes the write lock when it begins. The writer's cache
	// (KiB, negative by SQLite's convention) holds the inner pages of the indexes, because new
	// rows fall at random places.
	writerParameters = `?_txlock=immediate&_dqs=0&_error_rc=1&_pragma=busy_timeout(5000)` +
		`&_pragma=synchronous(FULL)&_pragma=cache_size(-65536)&_pragma=journal_size_limit(67108864)`
	readerParameters = `?mode=rw&_dqs=0&_error_rc=1&_pragma=busy_timeout(5000)` +
		`&_pragma=query_only(1)&_pragma=cache_size(-8192)`
)

// sqliteDatabase is a ledger in a SQLite file. A writing transaction excludes all others from its
// beginning, so no transaction needs a retry.
type sqliteDatabase struct {
	file    string
	id      Identity
	lock    *flock.Flock
	writer  *sql.DB // one connection: writers run one after another
	readers *sql.DB
	pings   *sql.DB       // one connection, for ping
	writes  sqliteQueries // on writer
	reads   sqliteQueries // on readers
}

// sqliteFile is the absolute path of a file.
type sqliteFile string

func (f sqliteFile) name() string { return string(f) }

// parseSQLite returns the file in a URL, given the part after the scheme.
func parseSQLite(name string) (sqliteFile, error) {
	switch {
	case name == "":
		return "", errors.New("missing file name: want sqlite:<file>")
	case strings.HasPrefix(name, "//") && !strings.HasPrefix(name, "///"):
		return "", fmt.Errorf("sqlite:%s: want sqlite:<file>, without //", name)
	}
	file, err := filepath.Abs(name)
	return sqliteFile(file), err
}

// open locks and opens the file. It creates a missing file.
func (f sqliteFile) open(ctx context.Context, o Options) (*Ledger, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := makeDirectory(filepath.Dir(string(f))); err != nil {
		return nil, err
	}
	file, err := resolve(string(f))
	if err != nil {
		return nil, err
	}
	d := &sqliteDatabase{file: file, lock: flock.New(file + ".lock")}
	switch locked, err := d.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	case !locked:
		return nil, fmt.Errorf("%w: %s is locked", ErrInUse, d.lock.Path())
	}
	if err := d.start(ctx, o); err != nil {
		failed, ok := errors.AsType[*sqlite.Error](err)
		if ok && failed.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
			err = fmt.Errorf("no space left on the disk: free some: %w", err)
		}
		return nil, errors.Join(err, d.close())
	}
	return newLedger(file, d.id, d, sqliteDialect(), false), nil
}

// start opens the connections of a locked ledger and migrates it.
func (d *sqliteDatabase) start(ctx context.Context, o Options) error {
	if err := createFile(d.file); err != nil {
		return err
	}
	var err error
	if d.writer, err = connect(d.file, writerParameters, 1); err != nil {
		return err
	}
	if err := checkApplication(ctx, d.writer); err != nil {
		return err
	}
	if err := useWriteAheadLog(ctx, d.writer); err != nil {
		return err
	}
	migrations, err := migrationsOf("sqlite")
	if err != nil {
		return err
	}
	if err := migrate(ctx, d.writer, migrations); err != nil {
		return err
	}
	err = inTransaction(ctx, d.writer, func(tx *sql.Tx) error {
		d.id, err = readIdentity(ctx, sqliteTransaction{sqliteQueries{on: tx, whole: true}, d}, o)
		return err
	})
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if d.readers, err = connect(d.file, readerParameters, max(4, runtime.GOMAXPROCS(0))); err != nil {
		return err
	}
	if d.pings, err = connect(d.file, readerParameters, 1); err != nil {
		return err
	}
	return d.prepare(ctx)
}

func (d *sqliteDatabase) close() error {
	var errs []error
	// Close the writer last: SQLite moves the write-ahead log to the database file when its last
	// connection closes.
	for _, db := range []*sql.DB{d.pings, d.readers, d.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	errs = append(errs, d.lock.Unlock())
	return errors.Join(errs...)
}

func (d *sqliteDatabase) pools() []Pool { return nil }

func (d *sqliteDatabase) query(ctx context.Context, s statement) error {
	return d.reads.query(ctx, s)
}

// agree has nobody to agree with: one process has the file open.
func (d *sqliteDatabase) agree(context.Context, time.Duration) error { return nil }

// connect returns a pool of up to n connections, which stay open.
func connect(file, parameters string, n int) (*sql.DB, error) {
	// Escape '?', '#' and '%', which have a meaning in a URI.
	uri := url.URL{Scheme: "file", OmitHost: true, Path: file}
	connector, err := sqlite.NewConnector(uri.String() + parameters)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// checkApplication returns an error for a file that is not a SQLite database, or belongs to
// another program. It runs before the first write to the file.
func checkApplication(ctx context.Context, db *sql.DB) error {
	var id, objects int
	err := db.QueryRowContext(ctx, `SELECT application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id`).Scan(&id, &objects)
	if err != nil {
		return fmt.Errorf("read header: %w", err)
	}
	if id != applicationID && (id != 0 || objects > 0) {
		return fmt.Errorf("is a SQLite database, but not a ledger (application id %#x)", id)
	}
	return nil
}

// useWriteAheadLog turns on the write-ahead log, so that readers and the writer do not block
// each other. The setting is stored in the file.
func useWriteAheadLog(ctx context.Context, db *sql.DB) error {
	var mode string
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return fmt.Errorf("use write-ahead log: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("use write-ahead log: not supported here, journal mode is still %q", mode)
	}
	return nil
}

// resolve follows symbolic links, so that a file has one lock under all its names.
func resolve(file string) (string, error) {
	resolved, err := filepath.EvalSymlinks(file)
	if _, missing := os.Lstat(file); errors.Is(missing, fs.ErrNotExist) {
		directory, err := filepath.EvalSymlinks(filepath.Dir(file))
		return filepath.Join(directory, filepath.Base(file)), err
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("is not a regular file")
	}
	return resolved, nil
}

// createFile creates an empty file, which only its user can read, if there is none. SQLite gives
// the files beside it the same mode. createFile fails where SQLite would open a file read-only. The
// file must be locked, because closing it releases all locks that SQLite holds on it in this
// process.
func createFile(file string) error {
	_, missing := os.Lstat(file)
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if missing != nil {
		return syncDirectory(filepath.Dir(file))
	}
	return nil
}

// makeDirectory creates missing directories durably.
func makeDirectory(directory string) error {
	err := os.Mkdir(directory, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDirectory(filepath.Dir(directory)); err != nil {
			return err
		}
		err = os.Mkdir(directory, 0o700)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return syncDirectory(filepath.Dir(directory))
}

// syncDirectory makes the creation of files in a directory durable.
func syncDirectory(directory string) error {
	d, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// migrate brings the schema up to date.
func migrate(ctx context.Context, db *sql.DB, migrations []migration) error {
	version, err := readNumber(ctx, sqliteQueries{on: db}, `PRAGMA user_version`)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	return applyMigrations(migrations, int(version), func(all []migration) error {
		return inTransaction(ctx, db, func(tx *sql.Tx) error {
			return applyEach(all, func(m migration) error {
				if _, err := tx.ExecContext(ctx, m.script); err != nil {
					return err
				}
				// A pragma takes no placeholders. This pragma is transactional.
				_, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, m.version))
				return err
			})
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
