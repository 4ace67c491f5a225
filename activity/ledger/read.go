package ledger

import (
	"context"
	"fmt"
	"time"
)

// Snapshot returns all rows of a page, in order of hash, owner, kind, target, and the state of the
// page: both as of one moment. Rows that have ended are among them until they are removed, because
// their keys are in the page. The error wraps ErrGone if nobody is on the page any more.
func (l *Ledger) Snapshot(ctx context.Context, page uint32) (rows []Row, s Standing, err error) {
	if err = l.checkPage(page); err == nil {
		err = l.use(func() error {
			rows, s, err = l.db.snapshot(ctx, page)
			return err
		})
	}
	if err != nil {
		return nil, Standing{}, fmt.Errorf("ledger: read page %d: %w", page, interrupted(ctx, err))
	}
	return rows, s, nil
}

// Keys is Snapshot without times: the rows have neither Since nor Until. It is for making pages, which have no times
// either, and with SQLite takes a third to a fifth of the time. For a page of more than LargePage rows it returns ErrLargePage,
// wrapped.
func (l *Ledger) Keys(ctx context.Context, page uint32) (rows []Row, s Standing, err error) {
	if err = l.checkPage(page); err == nil {
		err = l.use(func() error {
			rows, s, err = l.db.keys(ctx, page)
			return err
		})
	}
	if err != nil {
		return nil, Standing{}, fmt.Errorf("ledger: read keys of page %d: %w", page, interrupted(ctx, err))
	}
	return rows, s, nil
}

// withoutTimes forgets the times of rows.
func withoutTimes(rows []Row) []Row {
	for i := range rows {
		rows[i].Since, rows[i].Until = time.Time{}, time.Time{}
	}
	return rows
}

// Sequence returns the sequence of a page, 0 if it never changed. The error wraps ErrGone if nobody
// is on the page any more.
func (l *Ledger) Sequence(ctx context.Context, page uint32) (sequence uint64, err error) {
	if err = l.checkPage(page); err == nil {
		err = l.use(func() error {
			sequence, err = l.db.sequence(ctx, page)
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("ledger: read sequence of page %d: %w", page, interrupted(ctx, err))
	}
	return sequence, nil
}

// Cursor is a point in the history of a ledger, from which Changed goes on. It is opaque. The
// zero value is the beginning. A Cursor is valid for the Ledger that returned it.
type Cursor string

// Progress is how far a Changed has come.
type Progress struct {
	Next Cursor // the since to go on with
	// Clock is the database's time at the moment At of this process, right to half the time
	// that the database's first answer took. At has a reading of the monotonic clock, so what
	// has passed since then does not depend on who sets this machine's clock. A database in
	// this process has no other clock: both are the same moment.
	Clock, At time.Time
	// Layouts are the current ones, and Owners the users who got a dedicated page after the point.
	// A user who has left it is not reported: its page is, with its Left above 0.
	Layouts Layouts
	Owners  []Owner
}

// Changed calls each for every page whose sequence was raised after the point since: "", for every
// page that ever changed, or the Next of an earlier call on the same Ledger. All that it reports is
// as of one moment during the call, layouts and owners too.
//
// Going on from Next misses nothing: whatever this call did not see committed
// is reported by the next one, in whichever order transactions commit and
// however long they take. A page may be reported more than once, and all are
// if the ledger was set back to before since, or PostgreSQL was connected to
// again meanwhile. A transaction that stays open, on this ledger or beside it, does not have pages
// reported again that others changed.
//
// A transaction is open meanwhile, so each must be quick. An error of each ends the call and is
// returned as it is. After an error, pages may have been reported.
func (l *Ledger) Changed(
	ctx context.Context, since Cursor, each func(page uint32, s Standing) error,
) (progress Progress, err error) {
	var failed error // of each
	err = l.use(func() error {
		progress, err = l.db.changed(ctx, since, func(page uint32, s Standing) error {
			failed = each(page, s)
			return failed
		})
		return err
	})
	switch {
	case failed != nil:
		return Progress{}, failed
	case err != nil:
		return Progress{}, fmt.Errorf("ledger: read changed pages: %w", interrupted(ctx, err))
	default:
		return progress, nil
	}
}

// Ended returns rows whose Until is not after now, nor after the clock of a database server,
// those that ended first first, and at most limit of them, which is at least 1. They are there until
// they are removed; a Change with Ended does that safely.
func (l *Ledger) Ended(ctx context.Context, now time.Time, limit int) (rows []Row, err error) {
	if err = checkLimit(limit); err == nil {
		err = l.use(func() error {
			rows, err = l.db.ended(ctx, now, limit)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: read ended rows: %w", interrupted(ctx, err))
	}
	return rows, nil
}

// ListQuery asks for rows of one owner and kind.
type ListQuery struct {
	Hash        uint64 // the owner's, as recorded
	Owner, Kind string
	Now         time.Time // rows that have ended by then are left out
	Limit       int       // the most rows to return, at least 1
	Before      *Position // nil: from the newest on
}

// Position is a row's place in a list: the list goes on with what comes after
// it, the row itself excluded. The row need not exist any more.
type Position struct {
	Since  time.Time
	Target string
}

// List returns the newest rows first; rows of the same microsecond are in
// ascending order of target, byte by byte. The time it takes depends on Limit
// and on how many ended rows were not removed yet, not on how many rows the
// owner has or how many share a time. Listing on from the last row's Position
// returns every row once that is there throughout.
func (l *Ledger) List(ctx context.Context, q ListQuery) (rows []Row, err error) {
	if err = q.validate(); err == nil {
		err = l.use(func() error {
			rows, err = l.db.list(ctx, q)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: list %q: %w", q.Kind, interrupted(ctx, err))
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
		return fmt.Errorf("limit: %d is less than 1", limit)
	}
	return nil
}

// scanned is where the columns hash, owner, kind, target, since, until are
// scanned into.
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

// stored is a hash as the ledger stores it: SQL integers are signed, and with
// the top bit flipped they sort as the unsigned hashes do.
func stored(hash uint64) int64 { return int64(hash ^ 1<<63) }

func unstored(hash int64) uint64 { return uint64(hash) ^ 1<<63 }

// storedUntil is an end as the ledger stores it: microseconds, NULL for none.
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
