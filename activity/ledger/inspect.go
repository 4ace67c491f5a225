package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// inspectParameters are the parameters of a read-only connection. The timeout (ms) is for
// another program that locks the whole file for a moment.
const inspectParameters = `?mode=ro&_dqs=0&_error_rc=1&_pragma=busy_timeout(1000)&_pragma=query_only(1)`

// Inspection describes a ledger and its database, to check whether a service can use them.
type Inspection struct {
	Name     string   // location, without a password
	Engine   string   // "SQLite" or "PostgreSQL"
	Version  string   // version of the engine, such as "15.4"
	Schema   int      // version of the ledger's tables, from 1
	Known    int      // latest version that Open knows: it migrates older ones, and refuses later ones
	Identity Identity // zero if Schema is later than Known and the identity is unreadable
	Layouts  Layouts  // zero if Schema differs from Known
	Empty    bool     // nothing was ever recorded; false if Schema differs from Known

	// UsedBy is the id of a process that has the SQLite file open, 0 if none is known. Only
	// Linux reports it, and only for processes that the caller may inspect.
	UsedBy int

	// The remaining fields are only set for PostgreSQL.

	Standby  bool // the server follows a primary
	ReadOnly bool // transactions may not write: on a standby, or by a setting of the server or role
	Denied   bool // the user lacks the right to change the ledger's tables

	Fsync             bool   // commits survive a crash of the machine
	FullPageWrites    bool   // the server repairs pages that a crash leaves half written
	SynchronousCommit string // "on", "local", ...; "off": commits are reported before they are durable

	Clock time.Time // clock of the server
	Asked time.Time // clock of this process at the moment of Clock, with a monotonic reading
}

// Inspect reads the state of the ledger at url, which has a form that [Open] takes. It changes
// nothing, migrates nothing, and takes no lock that a service could notice. Other processes may
// open and write to the ledger meanwhile. The error wraps [fs.ErrNotExist] if no ledger was
// created yet. No error shows the password.
//
// Inspect returns an error if Open would fail, except for conditions that the Inspection reports: a
// Schema later than Known, Standby, ReadOnly, and UsedBy.
//
// After a crash of a process that had a SQLite file open, SQLite may recreate <file>-shm. The
// file then remains, as after Open.
func Inspect(ctx context.Context, url string) (Inspection, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	var i Inspection
	var err error
	switch scheme {
	case "sqlite":
		i.Name, err = sqliteFile(rest)
		if err == nil {
			err = i.sqlite(ctx)
		}
	case "postgres", "postgresql":
		var parsed postgresURL
		if parsed, err = parsePostgres(url); err != nil {
			return i, fmt.Errorf("inspect ledger: PostgreSQL URL: %w", err)
		}
		i.Name = parsed.name()
		err = i.postgres(ctx, parsed)
	default:
		return i, fmt.Errorf("inspect ledger: unknown kind %q: want sqlite:<file> or postgres://<user>@<host>/<database>", scheme)
	}
	if err != nil {
		return Inspection{Name: i.Name}, fmt.Errorf("inspect ledger %s: %w", i.Name, interrupted(ctx, err))
	}
	return i, nil
}

// emptySQL tells whether no page of the ledger ever changed.
const emptySQL = `SELECT NOT EXISTS (SELECT 1 FROM pages WHERE sequence > 0)`

// errNoLedger means that the user may create a ledger, but none exists yet.
var errNoLedger = fmt.Errorf("no ledger exists yet: %w", fs.ErrNotExist)

// versions returns the number of migrations, which is the latest version of a schema.
func versions(migrations embed.FS) (int, error) {
	files, err := fs.Glob(migrations, "migrations/*/*.sql")
	return len(files), err
}

// identify sets the identity from the ledger's meta.
func (i *Inspection) identify(meta map[string]string, err error) error {
	if err == nil && len(meta) == 0 {
		return errNoLedger // a process is creating the ledger, or died while doing so
	}
	if err == nil {
		i.Identity, err = parseIdentity(meta)
	}
	if err != nil && i.Schema > i.Known {
		return nil // a later version may store the identity in another form
	}
	return err
}

func (i *Inspection) sqlite(ctx context.Context) (err error) {
	if _, err := os.Stat(i.Name); errors.Is(err, fs.ErrNotExist) {
		return errNoLedger
	}
	file, err := resolve(i.Name)
	if err != nil {
		return err
	}
	i.Name = file
	i.Engine = "SQLite"
	if i.Known, err = versions(sqliteMigrations); err != nil {
		return err
	}
	i.UsedBy = lockedBy(i.Name + ".lock")
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
		err := tx.QueryRowContext(ctx, `SELECT user_version, sqlite_version() FROM pragma_user_version`).Scan(&i.Schema, &i.Version)
		switch {
		case err != nil:
			return fmt.Errorf("read schema version: %w", err)
		case i.Schema == 0:
			return errNoLedger
		}
		if err := i.identify(readMeta(ctx, tx)); err != nil || i.Schema != i.Known {
			return err
		}
		if i.Layouts, err = readLayouts(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, emptySQL).Scan(&i.Empty)
	})
}

// lockedBy returns the id of the process that holds the lock of openSQLite; 0: none is known.
// Trying the lock instead could stop a service that starts at that moment.
func lockedBy(file string) int {
	locked, err := os.Stat(file)
	if err != nil {
		return 0
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(locks)) {
		field := strings.Fields(line) // 1: FLOCK ADVISORY WRITE <pid> ...
		if len(field) < 5 || field[1] != "FLOCK" || field[3] != "WRITE" {
			continue
		}
		open, err := filepath.Glob("/proc/" + field[4] + "/fd/*")
		if err != nil {
			continue
		}
		for _, name := range open {
			if info, err := os.Stat(name); err == nil && os.SameFile(info, locked) {
				pid, _ := strconv.Atoi(field[4])
				return pid
			}
		}
	}
	return 0
}

func (i *Inspection) postgres(ctx context.Context, u postgresURL) (err error) {
	i.Engine = "PostgreSQL"
	if i.Known, err = versions(postgresMigrations); err != nil {
		return err
	}
	conn, err := connectAny(ctx, u.config.ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = conn.Close(ctx) // nothing is left to do
	}()
	if err := u.checkServer(ctx, conn); err != nil {
		return err
	}
	if err := i.readServer(ctx, conn); err != nil {
		return err
	}
	var may *bool // nil: there is no such schema
	var made bool
	err = conn.QueryRow(ctx, `SELECT (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1),
		to_regclass('ledger_version') IS NOT NULL`, u.schema).Scan(&may, &made)
	switch {
	case err != nil:
		return err
	case may != nil && !*may:
		return fmt.Errorf("user %s may not use schema %s", u.config.ConnConfig.User, u.schema)
	case !made:
		return mayMake(ctx, conn, u)
	}
	err = conn.QueryRow(ctx, `SELECT NOT coalesce(bool_and(has_table_privilege(oid, 'INSERT')
		AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')), false)
		FROM pg_class WHERE oid IN (to_regclass('entries'), to_regclass('pages'), to_regclass('owners'),
			to_regclass('layouts'))`).Scan(&i.Denied)
	if err != nil {
		return fmt.Errorf("read the rights of the user: %w", err)
	}
	if err := conn.QueryRow(ctx, `SELECT version FROM ledger_version`).Scan(&i.Schema); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if i.Schema == 0 {
		return errNoLedger
	}
	if err := i.identify(allMeta(ctx, conn)); err != nil || i.Schema != i.Known {
		return err
	}
	b := &pgx.Batch{}
	queueLayouts(b, &i.Layouts)
	b.Queue(emptySQL).QueryRow(func(row pgx.Row) error { return row.Scan(&i.Empty) })
	return conn.SendBatch(ctx, b).Close()
}

// mayMake returns errNoLedger if the user may create a ledger, otherwise the reason why not.
func mayMake(ctx context.Context, conn *pgx.Conn, u postgresURL) error {
	var may bool
	err := conn.QueryRow(ctx, `SELECT coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1),
		has_database_privilege(current_database(), 'CREATE'))`, u.schema).Scan(&may)
	switch {
	case err != nil:
		return fmt.Errorf("read the rights of the user: %w", err)
	case !may:
		return fmt.Errorf("user %s may not create the schema %s and its tables, which do not exist yet", u.config.ConnConfig.User, u.schema)
	}
	return errNoLedger
}

// connectAny connects to the server that Open would use. If Open would refuse each server, it
// connects to a refused one, to report why.
func connectAny(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	config = config.Copy()
	refused := false
	validate := config.ValidateConnect
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		err := validate(ctx, conn)
		refused = refused || err != nil
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil && refused {
		config.ValidateConnect = nil
		return pgx.ConnectConfig(ctx, config)
	}
	return conn, err
}

func (i *Inspection) readServer(ctx context.Context, conn *pgx.Conn) error {
	began := time.Now()
	// QueryExecModeExec takes one round trip.
	err := conn.QueryRow(ctx, `SELECT clock_timestamp()`, pgx.QueryExecModeExec).Scan(&i.Clock)
	if err != nil {
		return err
	}
	i.Asked = began.Add(time.Since(began) / 2)
	return conn.QueryRow(ctx, `SELECT current_setting('server_version'), pg_is_in_recovery(),
			current_setting('transaction_read_only') = 'on', current_setting('fsync') = 'on',
			current_setting('full_page_writes') = 'on', current_setting('synchronous_commit')`).
		Scan(&i.Version, &i.Standby, &i.ReadOnly, &i.Fsync, &i.FullPageWrites, &i.SynchronousCommit)
}
