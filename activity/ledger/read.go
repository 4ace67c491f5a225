package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Snapshot returns all rows of a page, in order of hash, owner, kind, target, and the state of
// the page. Both are from one snapshot. They include ended rows that were not removed yet,
// because their keys are in the page. The error wraps ErrGone if the page is no longer in use.
func (l *Ledger) Snapshot(ctx context.Context, page uint32) ([]Row, PageState, error) {
	p, err := l.page(ctx, "snapshot", page, func(ctx context.Context) (rows []Row, s PageState, err error) {
		rows, s, err = l.db.rows(ctx, page, true)
		if !errors.Is(err, ErrLargePage) {
			return rows, s, err
		}
		s, err = l.db.eachRow(ctx, page, func(some []Row) error {
			rows = append(rows, some...)
			return nil
		})
		return inOrder(rows), s, err
	})
	return p.rows, p.PageState, err
}

// Keys is Snapshot without times: Since and Until of all rows are zero. It serves rebuilds,
// which need no times. With SQLite it takes a third to a fifth of the time of Snapshot. The
// error wraps ErrLargePage for a page of more than LargePage rows.
func (l *Ledger) Keys(ctx context.Context, page uint32) ([]Row, PageState, error) {
	p, err := l.page(ctx, "keys", page, func(ctx context.Context) ([]Row, PageState, error) { return l.db.rows(ctx, page, false) })
	return p.rows, p.PageState, err
}

// pageRows is the state of a page, and rows of it.
type pageRows struct {
	PageState
	rows []Row
}

// page is ask for the rows of a page.
func (l *Ledger) page(
	ctx context.Context, operation string, page uint32, do func(ctx context.Context) ([]Row, PageState, error),
) (pageRows, error) {
	c := &Call{Operation: operation, Page: page}
	return ask(ctx, l, c, fmt.Sprintf("read page %d", page), func(ctx context.Context) (p pageRows, err error) {
		if err = l.checkPage(page); err == nil {
			p.rows, p.PageState, err = do(ctx)
		}
		return p, err
	})
}

const (
	// LargePage is the maximum number of rows that Keys returns.
	LargePage = 50_000
	// rowsAtOnce is the number of rows that EachRow passes on at a time.
	rowsAtOnce = 10_000
)

// ErrLargePage means that a page has more than LargePage rows. EachRow reads such a page.
var ErrLargePage = fmt.Errorf("page has more than %d rows", LargePage)

// EachRow calls each with all rows of a page, some thousand at a time, in no particular order.
// It returns the state of the page. Rows and state are from one snapshot. The error wraps
// ErrGone if the page is no longer in use.
//
// EachRow serves pages that are too large for Keys. Its memory is bounded, and no statement takes
// long. With PostgreSQL each statement must end within about 5 seconds, and so must each call of
// each. EachRow keeps a transaction open and a connection in use, so callers bound the number of
// concurrent calls.
//
// The slice is valid until each returns. An error of each ends the call, and EachRow returns it
// unwrapped.
func (l *Ledger) EachRow(ctx context.Context, page uint32, each func(rows []Row) error) (s PageState, err error) {
	var failed error // by each
	err = l.read(ctx, &Call{Operation: "each_row", Page: page}, func(ctx context.Context) error {
		if err = l.checkPage(page); err == nil {
			s, err = l.db.eachRow(ctx, page, func(rows []Row) error {
				failed = each(rows)
				return failed
			})
		}
		return err
	})
	switch {
	case failed != nil:
		return PageState{}, failed
	case err != nil:
		return PageState{}, fmt.Errorf("ledger: read page %d in parts: %w", page, err)
	default:
		return s, nil
	}
}

// inOrder sorts rows. A database mostly returns them in this order, but does not guarantee it.
func inOrder(rows []Row) []Row {
	order := func(a, b Row) int { return a.key().compare(b.key()) }
	if !slices.IsSortedFunc(rows, order) {
		slices.SortFunc(rows, order)
	}
	return rows
}

// withoutTimes clears the times of rows.
func withoutTimes(rows []Row) []Row {
	for i := range rows {
		rows[i].Since, rows[i].Until = time.Time{}, time.Time{}
	}
	return rows
}

// Sequence returns the sequence of a page, 0 if the page never changed. The error wraps ErrGone
// if the page is no longer in use.
func (l *Ledger) Sequence(ctx context.Context, page uint32) (uint64, error) {
	p, err := l.page(ctx, "sequence", page, func(ctx context.Context) (rows []Row, s PageState, err error) {
		s.Sequence, err = l.db.sequence(ctx, page)
		return nil, s, err
	})
	return p.Sequence, err
}

// Cursor is a point in the history of a ledger, from which Changed continues. It is opaque. The
// zero value is the beginning. A Cursor is only valid for the Ledger that returned it.
type Cursor string

// Progress is the result of Changed.
type Progress struct {
	Next Cursor // the since of the next call
	// Clock is the database's time at the moment At of this process. Its error is at most half
	// the time of the database's first answer. At has a monotonic reading, so the time elapsed
	// since then does not depend on this machine's clock. For SQLite both are the same moment.
	Clock, At time.Time
	// Layouts are the layouts of the snapshot. Owners are the users that got a dedicated page
	// after the point since. Owners omits a user that has left a dedicated page. Changed reports
	// that page with a Left above 0.
	Layouts Layouts
	Owners  []Owner
}

// Changed calls each for every page whose sequence rose after the point since. The empty since
// reports every page that ever changed. Otherwise since is the Next of an earlier call on the
// same Ledger. Pages, layouts and owners are all from one snapshot.
//
// Continuing from Next misses nothing, in whatever order transactions commit and however long
// they take. The next call reports whatever this call did not see committed. Changed may report
// a page more than once. It reports every page after the ledger was set back to before since,
// and after a failover to another PostgreSQL server. A transaction that stays open does not repeat
// the pages of other transactions.
//
// A transaction is open during the call, so each must be fast. An error of each ends the call,
// and Changed returns it unwrapped. Changed may have reported pages before any error.
func (l *Ledger) Changed(
	ctx context.Context, since Cursor, each func(page uint32, s PageState) error,
) (progress Progress, err error) {
	var failed error // by each
	c := &Call{Operation: "changed", Since: since, Each: each}
	err = l.read(ctx, c, func(ctx context.Context) error {
		progress, err = l.db.changed(ctx, c.Since, func(page uint32, s PageState) error {
			failed = c.Each(page, s)
			return failed
		})
		return err
	})
	switch {
	case failed != nil:
		return Progress{}, failed
	case err != nil:
		return Progress{}, fmt.Errorf("ledger: read changed pages: %w", err)
	default:
		return progress, nil
	}
}

// Ended returns rows whose Until is not after now, nor after the clock of a database server. The
// row that ended first comes first. limit is the maximum number of rows, at least 1. The rows exist
// until they are removed. A Change with Ended removes them, but not rows recorded again since.
func (l *Ledger) Ended(ctx context.Context, now time.Time, limit int) ([]Row, error) {
	return ask(ctx, l, &Call{Operation: "ended"}, "read ended rows", func(ctx context.Context) ([]Row, error) {
		if err := checkLimit(limit); err != nil {
			return nil, err
		}
		return readRows(ctx, l.db, l.sql.endedRows, now.UnixMicro(), limit)
	})
}

// ListQuery selects rows of one owner and kind.
type ListQuery struct {
	Hash        uint64 // hash of the owner, as recorded
	Owner, Kind string
	Now         time.Time // rows that have ended by then are omitted
	Limit       int       // maximum number of rows, at least 1
	Before      *Position // the list continues after it; nil: from the newest
}

// Position is a row's place in a list. A list continues with the row after it. The row itself
// need not exist any more.
type Position struct {
	Since  time.Time
	Target string
}

// List returns rows, newest first. Rows of the same microsecond are in ascending order of
// target, byte by byte. A list that continues from the last row's Position returns each row that
// exists throughout exactly once.
//
// The time that List takes depends on Limit, and on the number of ended rows that were not
// removed yet. It does not depend on the number of rows of the owner, or on how many share a
// time.
func (l *Ledger) List(ctx context.Context, q ListQuery) ([]Row, error) {
	return ask(ctx, l, &Call{Operation: "list"}, fmt.Sprintf("list %q", q.Kind), func(ctx context.Context) ([]Row, error) {
		if err := q.validate(); err != nil {
			return nil, err
		}
		query, args := listNewestRowsSQL, []any{stored(q.Hash), q.Owner, q.Kind, q.Now.UnixMicro(), q.Limit}
		if q.Before != nil {
			query, args = listBeforeRowsSQL, append(args, q.Before.Since.UnixMicro(), q.Before.Target)
		}
		r := scanned{hash: stored(q.Hash), owner: q.Owner, kind: q.Kind}
		return collect(ctx, l.db, statement{query, args, []any{&r.target, &r.since, &r.until}}, r.row)
	})
}

func (q ListQuery) validate() error {
	return cmp.Or(checkLimit(q.Limit), validateID("owner", q.Owner), validateID("kind", q.Kind))
}

func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("limit: %d, want at least 1", limit)
	}
	return nil
}

// scanned is the destination of a scan of the columns hash, owner, kind, target, since, until.
type scanned struct {
	hash, since         int64
	until               *int64
	owner, kind, target string
}

func (s *scanned) all() []any {
	return []any{&s.hash, &s.owner, &s.kind, &s.target, &s.since, &s.until}
}

func (s *scanned) row() Row {
	return Row{
		Hash: unstored(s.hash), Owner: s.owner, Kind: s.kind, Target: s.target,
		Since: time.UnixMicro(s.since).UTC(), Until: unstoredUntil(s.until),
	}
}

// stored converts a hash to the form in the database. SQL integers are signed: with the top bit
// flipped they sort like the unsigned hashes.
func stored(hash uint64) int64 { return int64(hash ^ 1<<63) }

func unstored(hash int64) uint64 { return uint64(hash) ^ 1<<63 }

// storedUntil converts an end to the form in the database: microseconds, NULL for none.
func storedUntil(until time.Time) *int64 {
	if until.IsZero() {
		return nil
	}
	us := until.UnixMicro()
	return &us
}

func unstoredUntil(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us).UTC()
}
