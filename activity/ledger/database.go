package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
)

// database is what one kind of SQL database implements for a Ledger. Ledger checks the arguments
// and adds context to errors. It calls every method while the ledger is open, pools also later.
// When ctx ends, a method may return any error of the driver.
type database interface {
	queryer
	pageReader
	// transact runs do in a transaction that writes, and commits it if do succeeds. It may run do
	// again after a failure that had no effect.
	transact(ctx context.Context, do func(ctx context.Context, t transaction) error) error
	declare(ctx context.Context, kinds []Kind) error      // see redeclare
	agree(ctx context.Context, bound time.Duration) error // see Ledger.Agree
	pools() []Pool                                        // also after close
	close() error
}

// queryer runs queries: a database, or a transaction that reads.
type queryer interface {
	// query scans each row of the result into the destinations, and calls each. It may start again
	// after a temporary failure, and calls reset before each start.
	query(ctx context.Context, s statement, reset func(), each func() error) error
}

// statement is SQL with its arguments, and the destinations of the columns of a query.
type statement struct {
	sql        string
	args, into []any
}

// pageReader is the part of a database that reads pages. It returns ErrGone for a page that is
// no longer in use.
type pageReader interface {
	// keys reads a page at once, without times, in order. It returns ErrLargePage.
	keys(ctx context.Context, page uint32) ([]Row, PageState, error)
	// eachRow passes rows on in parts. All parts are from one snapshot.
	eachRow(ctx context.Context, page uint32, each func(rows []Row) error) (PageState, error)
	sequence(ctx context.Context, page uint32) (uint64, error)
	place(ctx context.Context, hash uint64) (Place, error)
	// changed calls each for the pages that Ledger.Changed reports, all from one snapshot.
	changed(ctx context.Context, since Cursor, each func(page uint32, s PageState) error) (Progress, error)
	// lookup returns those of the wanted rows that exist, in any order, including ended ones.
	lookup(ctx context.Context, wanted []*entry) ([]Row, error)
}

// transaction is a transaction that writes. One of the methods begin, lock and lockLayouts comes
// first. A statement may run later, together with the commit, but statements run in order.
type transaction interface {
	queryer
	begin(ctx context.Context) error
	// lock excludes other writers of the plan's users, and readies the plan for decide. It reads
	// the layouts, the dedicated pages of the users, and which of the entries in some exist. It
	// returns the states of the users' pages.
	lock(ctx context.Context, p *plan, some []*entry, now time.Time) (map[uint32]PageState, error)
	lockLayouts(ctx context.Context) (Layouts, error) // excludes all writers
	// greatest returns the greatest number that a page ever had. It excludes others that use it.
	greatest(ctx context.Context) (uint32, error)
	// insert writes the plan's additions. If it meets some that exist, these are unchanged, the plan
	// knows of them from then on, and must decide again.
	insert(ctx context.Context, p *plan) (met bool, err error)
	write(ctx context.Context, upserts, removals []*entry, raised []raisedPage) error
	dedicate(ctx context.Context, hash uint64, page uint32) error
	exec(ctx context.Context, sql string, args ...any) error
}

// dialect is the SQL for the same purpose that differs between databases.
type dialect struct {
	endedRows   string
	deletePages string
	seedPages   []string // together
}

// collect returns a value for each row of a query.
func collect[T any](ctx context.Context, from queryer, s statement, value func() T) (all []T, err error) {
	err = from.query(ctx, s, func() { all = nil }, func() error {
		all = append(all, value())
		return nil
	})
	return all, err
}

// readRows runs a query of the columns hash, owner, kind, target, since, until.
func readRows(ctx context.Context, from queryer, sql string, args ...any) ([]Row, error) {
	var r scanned
	return collect(ctx, from, statement{sql, args, r.all()}, r.row)
}

// readNumber runs a query that returns one number.
func readNumber(ctx context.Context, from queryer, sql string, args ...any) (n int64, err error) {
	err = from.query(ctx, statement{sql, args, []any{&n}}, func() {}, func() error { return nil })
	return n, err
}

// readLayouts reads the table of layouts.
func readLayouts(ctx context.Context, from queryer) (Layouts, error) {
	var r layoutRow
	rows, err := collect(ctx, from, statement{allLayoutsSQL, nil, []any{&r.pages, &r.state}}, func() layoutRow { return r })
	if err != nil {
		return Layouts{}, err
	}
	return layoutsOf(rows)
}

// readKinds reads the declared kinds, in order of name.
func readKinds(ctx context.Context, from queryer) ([]Kind, error) {
	var k Kind
	return collect(ctx, from, statement{allKindsSQL, nil, []any{&k.Name, &k.Reverse, &k.Target}}, func() Kind { return k })
}

// readMeta reads the table meta.
func readMeta(ctx context.Context, from queryer) (map[string]string, error) {
	meta := make(map[string]string)
	var name, value string
	err := from.query(ctx, statement{allMetaSQL, nil, []any{&name, &value}}, func() {}, func() error {
		meta[name] = value
		return nil
	})
	return meta, err
}

// readIncarnation reads the incarnation alone.
func readIncarnation(ctx context.Context, from queryer) (uint64, error) {
	var value *string
	err := from.query(ctx, statement{sql: incarnationSQL, into: []any{&value}}, func() {}, func() error { return nil })
	if err != nil {
		return 0, err
	}
	return parseIncarnation(value)
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

// values returns the values of the columns of a row to write.
func (e *entry) values() []any {
	return append(e.args(), e.after.since.UnixMicro(), storedUntil(e.after.until), e.targetHash)
}

// args returns the values of the columns of the row's key.
func (e *entry) args() []any { return []any{stored(e.hash), e.owner, e.kind, e.target} }

// applyMigrations brings a schema of a version up to date. The files of migrations, in order of
// name, are versions 1, 2, ... apply runs a script and stores its version, in one transaction. So
// after a crash, the next process continues with the next version.
func applyMigrations(migrations fs.FS, version int, apply func(script string, version int) error) error {
	files, err := fs.Glob(migrations, "*.sql") // sorted
	if err != nil {
		return err
	}
	if version > len(files) {
		return fmt.Errorf("%w: schema version %d, at most %d is supported", ErrTooNew, version, len(files))
	}
	for i, file := range files[version:] {
		script, err := fs.ReadFile(migrations, file)
		if err == nil {
			err = apply(string(script), version+i+1)
		}
		if err != nil {
			return fmt.Errorf("migrate with %s: %w", file, err)
		}
	}
	return nil
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
	return db.transact(ctx, func(ctx context.Context, t transaction) error {
		if err := t.begin(ctx); err != nil {
			return err
		}
		return execAll(ctx, t, statements)
	})
}

func execAll(ctx context.Context, t transaction, statements []statement) error {
	for _, s := range statements {
		if err := t.exec(ctx, s.sql, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// record executes the plan at the time now. With fresh, it writes rows that count as new without
// looking for them first.
func record(ctx context.Context, db database, p *plan, now time.Time, fresh bool) (receipt Receipt, err error) {
	some, writes := p.entries, p.writes
	if fresh {
		some, writes = p.toLookUp(), p.rewrites
	}
	err = db.transact(ctx, func(ctx context.Context, t transaction) error {
		states, err := t.lock(ctx, p, some, now)
		if err != nil {
			return fmt.Errorf("look up rows: %w", err)
		}
		changed, refused := p.decide(now)
		if fresh {
			met, err := t.insert(ctx, p)
			if err != nil {
				return fmt.Errorf("insert rows: %w", err)
			}
			if met {
				changed, refused = p.decide(now)
			}
		}
		f := p.effect(states)
		receipt = Receipt{Changed: changed, Refused: refused, Pages: f.pages, Layouts: p.layouts, Owners: p.owners}
		upserts, removals := writes()
		if err := t.write(ctx, upserts, removals, f.raised); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		return nil
	})
	return receipt, err
}

// execute moves the user.
func (m move) execute(ctx context.Context, db database, id Identity) (receipt Receipt, err error) {
	err = db.transact(ctx, func(ctx context.Context, t transaction) error {
		p := &plan{id: id, entries: []*entry{{key: key{hash: m.hash}}}}
		states, err := t.lock(ctx, p, nil, time.Time{})
		if err != nil {
			return fmt.Errorf("look up pages: %w", err)
		}
		greatest, err := t.greatest(ctx)
		if err != nil {
			return fmt.Errorf("look up pages: %w", err)
		}
		var raised []raisedPage
		var made uint32
		receipt, raised, made, err = m.decide(p, states, greatest)
		if err != nil || len(raised) == 0 {
			return err
		}
		if m.dedicate {
			err = t.dedicate(ctx, m.hash, made)
		} else {
			err = t.exec(ctx, deleteOwnerSQL, stored(m.hash))
		}
		if err != nil {
			return err
		}
		return t.write(ctx, nil, nil, raised)
	})
	return receipt, err
}

// changeLayouts replaces the layouts by the result of decide. It excludes transactions of record
// and move.
func changeLayouts(ctx context.Context, db database, decide func(Layouts) (Layouts, error)) (after Layouts, err error) {
	err = db.transact(ctx, func(ctx context.Context, t transaction) error {
		before, err := t.lockLayouts(ctx)
		if err != nil {
			return err
		}
		if after, err = decide(before); err != nil || after == before {
			return err
		}
		return execAll(ctx, t, after.statements())
	})
	return after, err
}
