package ledger

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
)

// callTimeout bounds the time of a call before its commit, retries included. It also bounds the
// commit. The URL of a PostgreSQL ledger can raise it, see postgresURL.callTimeout.
const callTimeout = 5 * time.Second

// database is what one kind of SQL database implements for a Ledger. Ledger checks the arguments
// and adds context to errors. It calls every method while the ledger is open, pools also later.
// When ctx ends, a method may return any error of the driver.
type database interface {
	queryer
	pageReader
	// transact runs do in a transaction that writes, and commits it if do succeeds. It may run do
	// again after a failure that had no effect. do must end within the limit; 0: none.
	transact(
		ctx context.Context, limit time.Duration, do func(ctx context.Context, t transaction) error,
	) error
	agree(ctx context.Context, bound time.Duration) error // see Ledger.Agree
	older(ctx context.Context) (bool, error)              // see PageFormats.Older
	ping(ctx context.Context, s statement) error          // query, on a connection of its own
	pools() []Pool                                        // also after close
	close() error
}

// queryer runs queries: a database, or a transaction that reads.
type queryer interface {
	// query runs a query. It may start again after a temporary failure.
	query(ctx context.Context, s statement) error
}

// statement is SQL with its arguments. A query scans each row of the result into the destinations
// of its columns; other statements have none. The functions may be nil.
type statement struct {
	sql        string // "": nothing to do for this kind of database
	columns    []any  // slices, one for each column of rows that the SQL takes; the first is []int64
	args, into []any
	reset      func()       // before each start
	each       func() error // after the scan of each row
	end        func() error // after the last row
}

// idle reports whether there is nothing to do.
func (s statement) idle() bool { return s.sql == "" || s.columns != nil && s.rows() == 0 }

// rows returns the length of the columns.
func (s statement) rows() int {
	first, _ := s.columns[0].([]int64)
	return len(first)
}

func (s statement) start() {
	if s.reset != nil {
		s.reset()
	}
}

func (s statement) take() error {
	if s.each == nil {
		return nil
	}
	return s.each()
}

func (s statement) finish(err error) error {
	if err != nil || s.end == nil {
		return err
	}
	return s.end()
}

// pageReader is the part of a database that reads pages. It returns ErrGone for a page that is
// no longer in use.
type pageReader interface {
	// keys reads a page at once, without times, in order. It returns ErrLargePage.
	keys(ctx context.Context, page uint32) ([]Row, PageState, error)
	// eachRow passes rows on. All are from one snapshot.
	eachRow(ctx context.Context, page uint32, each func(r Row) error) (PageState, error)
	// changed calls each for the pages that Ledger.Changed reports, all from one snapshot.
	changed(
		ctx context.Context, since Cursor, each func(page uint32, s PageState) error,
	) (Progress, error)
}

// transaction is a transaction that writes. begin comes first. A statement without a result may run
// later, together with the commit. Statements run in order.
type transaction interface {
	queryer
	// begin begins the transaction and runs statements, in one round trip. It checks that the
	// ledger is the one that was opened. A second call begins the transaction again.
	begin(ctx context.Context, all ...statement) error
	// anyOf reports whether kinds have rows. If since is above 0, anyOf excludes all writers, and
	// searches only pages that transaction since or a later one changed.
	anyOf(ctx context.Context, names []string, since int64) (bool, error)
}

// collect returns a value for each row of a query.
func collect[T any](
	ctx context.Context, from queryer, s statement, value func() T,
) (all []T, err error) {
	s.reset = func() { all = nil }
	s.each = func() error {
		all = append(all, value())
		return nil
	}
	err = from.query(ctx, s)
	return all, err
}

// readRows runs a query of the columns hash, owner, kind, target, since, until.
func readRows(ctx context.Context, from queryer, s statement) ([]Row, error) {
	var r scanned
	s.into = r.all()
	return collect(ctx, from, s, r.row)
}

// readNumber runs a query that returns one number.
func readNumber(ctx context.Context, from queryer, sql string, args ...any) (n int64, err error) {
	err = from.query(ctx, statement{sql: sql, args: args, into: []any{&n}})
	return n, err
}

// readLayouts reads the table of layouts.
func readLayouts(ctx context.Context, from queryer) (l Layouts, err error) {
	err = from.query(ctx, layoutsQuery(&l))
	return l, err
}

// readKinds reads the declared kinds, in order of name.
func readKinds(ctx context.Context, from queryer) (kinds []Kind, err error) {
	err = from.query(ctx, kindsQuery(&kinds))
	return kinds, err
}

// readMeta reads the table meta.
func readMeta(ctx context.Context, from queryer) (map[string]string, error) {
	meta := make(map[string]string)
	var name, value string
	err := from.query(ctx, statement{sql: allMetaSQL, into: []any{&name, &value}, each: func() error {
		meta[name] = value
		return nil
	}})
	return meta, err
}

// parseIncarnation parses the incarnation of meta; nil: meta has none.
func parseIncarnation(value *string) (uint64, error) {
	if value == nil {
		return 0, errors.New("identity: no incarnation")
	}
	incarnation, err := strconv.ParseUint(*value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("identity: incarnation: %w", err)
	}
	return incarnation, nil
}

//go:embed migrations/*/*.sql
var migrations embed.FS

// migration is a script that leads to a version of the schema: from nothing, or from the version
// before. The name of its file begins with the version.
type migration struct {
	file, script string
	version      int
}

// migrationsOf returns the migrations for a kind of database, in order of version. The first one
// makes the tables of the first release, whose version is not 1.
func migrationsOf(kind string) (all []migration, err error) {
	files, err := fs.Glob(migrations, "migrations/"+kind+"/*.sql") // in order
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		m := migration{file: path.Base(file)}
		number, _, _ := strings.Cut(m.file, "_")
		if m.version, err = strconv.Atoi(number); err != nil {
			return nil, fmt.Errorf("version of migration %s: %w", m.file, err)
		}
		script, err := fs.ReadFile(migrations, file)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", m.file, err)
		}
		m.script = string(script)
		all = append(all, m)
	}
	return all, nil
}

// supported returns the versions of a schema that migrations lead from and to.
func supported(all []migration) (oldest, latest int) {
	return all[0].version, all[len(all)-1].version
}

// applyMigrations brings a schema of a version up to date. apply runs scripts in order and stores
// the version of the last one, in one transaction. A new ledger gets all of them in one, which
// syncs once. Another gets one each, so that after a crash the next process goes on with the next.
func applyMigrations(all []migration, version int, apply func(all []migration) error) error {
	switch oldest, latest := supported(all); {
	case version == 0:
		return apply(all)
	case version > latest:
		return fmt.Errorf("%w: schema version %d, at most %d is supported", ErrTooNew, version, latest)
	case version < oldest:
		return fmt.Errorf(
			"%w: schema version %d, at least %d is supported: "+
				"start version 0.1.0 on it once, which migrates it",
			ErrTooOld, version, oldest,
		)
	}
	for i, m := range all {
		if m.version <= version {
			continue
		}
		if err := apply(all[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// applyEach runs migrations with exec, which also stores the version.
func applyEach(all []migration, exec func(m migration) error) error {
	for _, m := range all {
		if err := exec(m); err != nil {
			return fmt.Errorf("migrate with %s: %w", m.file, err)
		}
	}
	return nil
}

// readIdentity reads the identity of the ledger, and stores what is new: see identify.
func readIdentity(ctx context.Context, t transaction, o Options) (Identity, error) {
	meta, err := readMeta(ctx, t)
	var layouts Layouts
	if err == nil && len(meta) > 0 {
		layouts, err = readLayouts(ctx, t)
	}
	if err != nil {
		return Identity{}, err
	}
	id, write, err := identify(meta, layouts, o)
	if err != nil {
		return Identity{}, err
	}
	return id, execAll(ctx, t, write)
}

// undecidedError is an error of a commit. The transaction may or may not have been committed,
// unless the server reports a rollback. It never wraps a context's error, which would mean that
// nothing changed.
type undecidedError struct{ cause error }

func (e *undecidedError) Error() string { return "commit: " + e.cause.Error() }

// Unwrap returns the database's error, if there is one.
func (e *undecidedError) Unwrap() error {
	if refused, ok := errors.AsType[*pgconn.PgError](e.cause); ok {
		return refused
	}
	if failed, ok := errors.AsType[*sqlite.Error](e.cause); ok {
		return failed
	}
	return nil
}

// update runs statements that need no locks in a transaction.
func update(ctx context.Context, db database, statements ...statement) error {
	return db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
		if err := t.begin(ctx); err != nil {
			return err
		}
		return execAll(ctx, t, statements)
	})
}

func execAll(ctx context.Context, t transaction, statements []statement) error {
	for _, s := range statements {
		if err := t.query(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
