package ledger

import (
	"context"
	"fmt"
	"time"
)

// Snapshot returns all rows of a page, in order of hash, owner, kind, target, and the state of
// the page. Both are from one snapshot. They include ended rows that were not removed yet,
// because their keys are in the page. The error wraps ErrGone if the page is no longer in use.
func (l *Ledger) Snapshot(ctx context.Context, page uint32) (rows []Row, s PageState, err error) {
	err = l.read(ctx, &Call{Operation: "snapshot", Page: page}, func(ctx context.Context) error {
		if err = l.checkPage(page); err == nil {
			rows, s, err = l.db.snapshot(ctx, page)
		}
		return err
	})
	if err != nil {
		return nil, PageState{}, fmt.Errorf("ledger: read page %d: %w", page, err)
	}
	return rows, s, nil
}

// Keys is Snapshot without times: Since and Until of all rows are zero. It serves rebuilds,
// which need no times. With SQLite it takes a third to a fifth of the time of Snapshot. The
// error wraps ErrLargePage for a page of more than LargePage rows.
func (l *Ledger) Keys(ctx context.Context, page uint32) (rows []Row, s PageState, err error) {
	err = l.read(ctx, &Call{Operation: "keys", Page: page}, func(ctx context.Context) error {
		if err = l.checkPage(page); err == nil {
			rows, s, err = l.db.keys(ctx, page)
		}
		return err
	})
	if err != nil {
		return nil, PageState{}, fmt.Errorf("ledger: read keys of page %d: %w", page, err)
	}
	return rows, s, nil
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
func (l *Ledger) Sequence(ctx context.Context, page uint32) (sequence uint64, err error) {
	err = l.read(ctx, &Call{Operation: "sequence", Page: page}, func(ctx context.Context) error {
		if err = l.checkPage(page); err == nil {
			sequence, err = l.db.sequence(ctx, page)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ledger: read sequence of page %d: %w", page, err)
	}
	return sequence, nil
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
func (l *Ledger) Ended(ctx context.Context, now time.Time, limit int) (rows []Row, err error) {
	err = l.read(ctx, &Call{Operation: "ended"}, func(ctx context.Context) error {
		if err = checkLimit(limit); err == nil {
			rows, err = l.db.ended(ctx, now, limit)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: read ended rows: %w", err)
	}
	return rows, nil
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
func (l *Ledger) List(ctx context.Context, q ListQuery) (rows []Row, err error) {
	err = l.read(ctx, &Call{Operation: "list"}, func(ctx context.Context) error {
		if err = q.validate(); err == nil {
			rows, err = l.db.list(ctx, q)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: list %q: %w", q.Kind, err)
	}
	return rows, nil
}

func (q ListQuery) validate() error {
	if err := checkLimit(q.Limit); err != nil {
		return err
	}
	if err := validateID("owner", q.Owner); err != nil {
		return err
	}
	return validateID("kind", q.Kind)
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
