package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	// rowsAtOnce is the number of rows that EachRow passes on at a time.
	rowsAtOnce = 10_000
	// fewRows is the number of rows that EachRow has room for at first. Most pages have fewer, and
	// room for rowsAtOnce takes 1.2 MB, which must be cleared and collected for each page.
	fewRows = 256
)

// Keys returns all rows of a page without their times, in order of hash, owner, kind, target, and
// the state of the page. Both are from one snapshot. They include ended rows that were not removed
// yet, because their keys are in the page. Without times, SQLite reads a page in a third to a fifth
// of the time. The error wraps ErrGone if the page is no longer in use, and ErrLargePage for a page
// of more than LargePage rows.
func (l *Ledger) Keys(ctx context.Context, page uint32) ([]Row, PageState, error) {
	var rows []Row
	read := func(ctx context.Context) (s PageState, err error) {
		rows, s, err = l.db.keys(ctx, page)
		return s, err
	}
	s, err := ofPage(ctx, l, "keys", "read page %d", page, read)
	if err != nil {
		return nil, PageState{}, err
	}
	return rows, s, nil
}

// EachRow calls each with all rows of a page, some thousand at a time, in no particular order.
// It returns the state of the page. Rows and state are from one snapshot. The error wraps
// ErrGone if the page is no longer in use.
//
// EachRow serves pages that are too large for Keys. Its memory is bounded. With PostgreSQL it ends
// after about 5 seconds without progress, so each call of each must take less. EachRow keeps a
// transaction open and a connection in use, so callers bound the number of concurrent calls.
//
// The slice is valid until each returns. An error of each ends the call, and EachRow returns it
// unwrapped.
func (l *Ledger) EachRow(
	ctx context.Context, page uint32, each func(rows []Row) error,
) (PageState, error) {
	var failed error // by each
	rows := make([]Row, 0, fewRows)
	pass := func() error {
		failed = each(rows)
		rows = rows[:0]
		return cmp.Or(failed, ctx.Err())
	}
	read := func(ctx context.Context) (PageState, error) {
		s, err := l.db.eachRow(ctx, page, func(r Row) error {
			if len(rows) == fewRows {
				rows = slices.Grow(rows, rowsAtOnce-len(rows))
			}
			if rows = append(rows, r); len(rows) < rowsAtOnce {
				return nil
			}
			return pass()
		})
		if err == nil && len(rows) > 0 {
			err = pass()
		}
		return s, err
	}
	s, err := ofPage(ctx, l, "each_row", "read page %d in parts", page, read)
	if failed != nil {
		return PageState{}, failed
	}
	return s, err
}

// Sequence returns the sequence of a page, 0 if the page never changed. The error wraps ErrGone
// if the page is no longer in use.
func (l *Ledger) Sequence(ctx context.Context, page uint32) (uint64, error) {
	read := func(ctx context.Context) (uint64, error) {
		s, err := readState(ctx, l.db, l.id, page)
		return s.Sequence, err
	}
	return ofPage(ctx, l, "sequence", "read page %d", page, read)
}

// readState reads the state of a page.
func readState(
	ctx context.Context, from queryer, id Identity, page uint32,
) (s PageState, err error) {
	query, args := sharedStateSQL, []any{page, id.LayoutOf(page)}
	if page >= DedicatedPages {
		query, args = dedicatedStateSQL, args[:1]
	}
	gone := ErrGone // unless there is a row
	err = from.query(ctx, statement{
		sql:  query,
		args: args,
		into: []any{&s.Sequence, &s.Left},
		each: func() error {
			gone = nil
			return nil
		},
	})
	return s, cmp.Or(err, gone)
}

// ofPage is ask for a page that a layout can have. what has the place of its number.
//
//nolint:ireturn // T is no interface
func ofPage[T any](
	ctx context.Context, l *Ledger, operation, what string, page uint32,
	do func(ctx context.Context) (T, error),
) (T, error) {
	c := &Call{Operation: operation, Page: page}
	what = fmt.Sprintf("ledger: "+what, page)
	return ask(ctx, l, c, what, func(ctx context.Context) (none T, err error) {
		if page < DedicatedPages && l.id.LayoutOf(page) == 0 {
			return none, errors.New("no such page")
		}
		return do(ctx)
	})
}

// inOrder sorts rows. A database mostly returns them in this order, but does not guarantee it.
func inOrder(rows []Row) []Row {
	order := func(a, b Row) int { return a.key().compare(b.key()) }
	if !slices.IsSortedFunc(rows, order) {
		slices.SortFunc(rows, order)
	}
	return rows
}

// Cursor is a point in the history of a ledger, from which Changed continues. It is opaque. The
// zero value is the beginning. A Cursor is only valid for the Ledger that returned it.
type Cursor string

// Progress is the result of Changed.
type Progress struct {
	Next Cursor // the since of the next call
	// Clock is the database's time at the moment At of this process. Its error is at most Error,
	// half the time of the database's first answer. At has a monotonic reading, so the time elapsed
	// since then does not depend on this machine's clock. For SQLite both are the same moment.
	Clock, At time.Time
	Error     time.Duration
	// Layouts are the layouts of the snapshot. Owners maps the hash of each user that got a
	// dedicated page after the point since to the page. Owners omits a user that has left a
	// dedicated page. Changed reports that page with a Left above 0.
	Layouts Layouts
	Owners  map[uint64]uint32
	// Sources are all sources in order of name.
	Sources []Source
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
) (Progress, error) {
	var failed error // by each
	c := &Call{Operation: "changed", Since: since, Each: each}
	read := func(ctx context.Context) (Progress, error) {
		return l.db.changed(ctx, c.Since, func(page uint32, s PageState) error {
			failed = c.Each(page, s)
			return failed
		})
	}
	progress, err := ask(ctx, l, c, "ledger: read changed pages", read)
	if failed != nil {
		return Progress{}, failed
	}
	return progress, err
}

// Ended returns rows whose Until is not after now, nor after the clock of a database server. The
// row that ended first comes first. limit is the maximum number of rows, at least 1. The rows exist
// until they are removed. A Change with Ended removes them, but not rows recorded again since.
func (l *Ledger) Ended(ctx context.Context, now time.Time, limit int) ([]Row, error) {
	return found(ctx, l, "ended", "read ended rows", checkLimit(limit),
		statement{sql: l.sql.endedRows, args: []any{now.UnixMicro(), limit}})
}

// found is ask for rows of the columns hash, owner, kind, target, since, until. invalid is the
// error of the arguments.
func found(
	ctx context.Context, l *Ledger, operation, what string, invalid error, s statement,
) ([]Row, error) {
	c := &Call{Operation: operation}
	return ask(ctx, l, c, "ledger: "+what, func(ctx context.Context) ([]Row, error) {
		if invalid != nil {
			return nil, invalid
		}
		return readRows(ctx, l.db, s)
	})
}

// ListQuery selects rows of one owner and kind.
type ListQuery struct {
	Hash        uint64 // hash of the owner, as recorded
	Owner, Kind string
	Now         time.Time // rows that have ended by then are omitted
	Limit       int       // maximum number of rows, at least 1
	Before      *Row      // the list continues after its Since and Target; nil: from the newest
}

func (q ListQuery) validate() error {
	return cmp.Or(checkLimit(q.Limit), validateID("owner", q.Owner), validateID("kind", q.Kind))
}

// List returns rows, newest first. Rows of the same microsecond are in ascending order of
// target, byte by byte. A list that continues from the last row returns each row that exists
// throughout exactly once. That row need not exist any more.
//
// The time that List takes depends on Limit, and on the number of ended rows that were not
// removed yet. It does not depend on the number of rows of the owner, or on how many share a
// time.
func (l *Ledger) List(ctx context.Context, q ListQuery) ([]Row, error) {
	c, what := &Call{Operation: "list"}, fmt.Sprintf("ledger: list %q", q.Kind)
	return ask(ctx, l, c, what, func(ctx context.Context) ([]Row, error) {
		if err := q.validate(); err != nil {
			return nil, err
		}
		r := scanned{hash: stored(q.Hash), owner: q.Owner, kind: q.Kind}
		read := statement{
			sql:  listNewestRowsSQL,
			args: []any{r.hash, q.Owner, q.Kind, q.Now.UnixMicro(), q.Limit},
			into: []any{&r.target, &r.since, &r.until},
		}
		if q.Before != nil {
			read.sql = listBeforeRowsSQL
			read.args = append(read.args, q.Before.Since.UnixMicro(), q.Before.Target)
		}
		return collect(ctx, l.db, read, r.row)
	})
}

// MaxLooked is the number of rows that one ListNaming looks at.
const MaxLooked = 10_000

// afterAllIDs returns text that is after all ids, byte by byte: one character too many of the
// last one.
func afterAllIDs() string { return strings.Repeat("\U0010FFFF", MaxIDBytes/4+1) }

// ListNaming returns rows of other owners that name the owner of the query and have its kind. They
// were recorded with Names. They are in order of hash and owner, by which Before continues.
//
// The rows that name a user are in no index by kind, so ListNaming looks at those of other kinds,
// too. It stops after MaxLooked rows. Then rest is the last row that it looked at, with its hash
// and owner alone. A caller continues after the last row returned if there are Limit rows, and
// otherwise after rest. A nil rest means that the list has ended.
func (l *Ledger) ListNaming(ctx context.Context, q ListQuery) (rows []Row, rest *Row, err error) {
	c, what := &Call{Operation: "list_naming"}, fmt.Sprintf("ledger: list %q by target", q.Kind)
	rows, err = ask(ctx, l, c, what, func(ctx context.Context) ([]Row, error) {
		if err := q.validate(); err != nil {
			return nil, err
		}
		// The end comes first. A row that is inserted or removed after this read changes nothing
		// about which rows are before the end.
		after := cmp.Or(q.Before, &Row{})
		to := scanned{hash: math.MaxInt64, owner: afterAllIDs()}
		rest = nil
		named := []any{stored(q.Hash), q.Owner, stored(after.Hash), after.Owner}
		end := statement{
			sql:  namingEndSQL,
			args: append(named[:4:4], MaxLooked-1),
			into: []any{&to.hash, &to.owner},
			each: func() error {
				rest = &Row{Hash: unstored(to.hash), Owner: to.owner}
				return nil
			},
		}
		if err := l.db.query(ctx, end); err != nil {
			return nil, err
		}
		return readRows(ctx, l.db, statement{
			sql:  listNamingRowsSQL,
			args: append(named, to.hash, to.owner, q.Kind, q.Now.UnixMicro(), q.Limit),
		})
	})
	return rows, rest, err
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
	return new(until.UnixMicro())
}

func unstoredUntil(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us).UTC()
}

// Item is the kind and target of a row.
type Item struct{ Kind, Target string }

// LookupQuery asks which rows of one owner exist.
type LookupQuery struct {
	Hash  uint64 // hash of the owner, as recorded
	Owner string
	Now   time.Time // rows that have ended by then are omitted
	Items []Item    // any number; duplicates count once
}

// lookupAtOnce is the number of rows that Lookup looks up in one round trip.
const lookupAtOnce = 20_000

// Lookup returns the rows of the items that exist, in order of kind and target. Up to 20,000 items
// take one round trip; no items take none. Each further 20,000 items are read from another
// snapshot.
func (l *Ledger) Lookup(ctx context.Context, q LookupQuery) ([]Row, error) {
	if len(q.Items) == 0 {
		return nil, nil
	}
	c, what := &Call{Operation: "lookup"}, fmt.Sprintf("ledger: look up %d rows", len(q.Items))
	rows, err := ask(ctx, l, c, what, func(ctx context.Context) ([]Row, error) {
		wanted, err := q.entries()
		if err != nil {
			return nil, err
		}
		var rows []Row
		for some := range slices.Chunk(wanted, lookupAtOnce) {
			lookup := statement{sql: l.sql.lookupRows, columns: columnsOf(some)[:4]}
			found, err := readRows(ctx, l.db, lookup)
			if err != nil {
				return nil, err
			}
			rows = append(rows, found...)
		}
		return rows, nil
	})
	rows = slices.DeleteFunc(rows, func(r Row) bool { return times{r.Since, r.Until}.endedAt(q.Now) })
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Target, b.Target))
	})
	return rows, err
}

// entries returns the rows of the query, each once.
func (q LookupQuery) entries() ([]*entry, error) {
	if err := validateID("owner", q.Owner); err != nil {
		return nil, err
	}
	wanted := make([]*entry, 0, len(q.Items))
	seen := make(map[Item]bool, len(q.Items))
	for i, item := range q.Items {
		if err := cmp.Or(validateID("kind", item.Kind), validateID("target", item.Target)); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if !seen[item] {
			seen[item] = true
			wanted = append(wanted, &entry{key: key{q.Hash, q.Owner, item.Kind, item.Target}})
		}
	}
	return wanted, nil
}

// CountQuery asks how many rows an owner has.
type CountQuery struct {
	Hash  uint64 // hash of the owner, as recorded
	Owner string
	Kinds []string  // each once; rows of other kinds are not read
	Now   time.Time // rows that have ended by then do not count
	Most  int       // where the count of a kind stops, at least 1
}

// Counts returns the number of rows of each of the kinds, or Most for a kind with more. It counts
// rows in an index, and reads at most Most of a kind, beside ended ones that were not removed yet.
func (l *Ledger) Counts(ctx context.Context, q CountQuery) (map[string]int, error) {
	invalid := validateID("owner", q.Owner)
	if q.Most < 1 {
		invalid = cmp.Or(invalid, fmt.Errorf("most: %d, want at least 1", q.Most))
	}
	n := len(q.Kinds)
	number, hash, owner := make([]int64, n), make([]int64, n), make([]string, n)
	for i, kind := range q.Kinds {
		invalid = cmp.Or(invalid, validateID("kind", kind))
		number[i], hash[i], owner[i] = int64(i), stored(q.Hash), q.Owner
	}
	c, what := &Call{Operation: "counts"}, "ledger: count rows"
	return ask(ctx, l, c, what, func(ctx context.Context) (map[string]int, error) {
		if invalid != nil {
			return nil, invalid
		}
		counts := make(map[string]int, n)
		var i, found int64
		err := l.db.query(ctx, statement{
			sql:     l.sql.tallyRows,
			columns: []any{number, hash, owner, q.Kinds},
			args:    []any{q.Now.UnixMicro(), q.Most},
			into:    []any{&i, &found},
			each: func() error {
				counts[q.Kinds[i]] = int(found)
				return nil
			},
		})
		return counts, err
	})
}

// Owned returns the rows of an owner, of all kinds, in order of kind and target. It includes
// ended rows. limit is the maximum number of rows, at least 1.
//
// after is nil for the first call, then the last row returned, whether that row still exists or
// not, or [AfterKind] of its kind. Repeat the call until it returns fewer than limit rows. The
// calls together return each row that exists throughout exactly once.
func (l *Ledger) Owned(
	ctx context.Context, hash uint64, owner string, after *Row, limit int,
) ([]Row, error) {
	after = cmp.Or(after, &Row{})
	invalid := cmp.Or(validateID("owner", owner), checkLimit(limit))
	return found(ctx, l, "owned", "read an owner's rows", invalid, statement{
		sql:  ownedRowsSQL,
		args: []any{stored(hash), owner, after.Kind, after.Target, limit},
	})
}

// AfterKind returns a row that is after all rows of a kind, and before those of the next one. An
// owner may have any number of rows of a kind that a reader of Owned does not want.
func AfterKind(kind string) *Row {
	return &Row{Kind: kind + "\x01"} // no kind has a control character
}

// All returns the rows of all owners, in order of hash, owner, kind and target. It includes
// ended rows. limit is the maximum number of rows, at least 1. after is as for Owned.
func (l *Ledger) All(ctx context.Context, after *Row, limit int) ([]Row, error) {
	after = cmp.Or(after, &Row{})
	return found(ctx, l, "all", "read all rows", checkLimit(limit), statement{
		sql:  allRowsSQL,
		args: []any{stored(after.Hash), after.Owner, after.Kind, after.Target, limit},
	})
}

// Naming returns the rows of any owner that were recorded with Names and whose target has this
// id and hash. It includes ended rows. The rows are in order of hash, owner and kind. limit is
// the maximum number of rows, at least 1. after is as for Owned.
func (l *Ledger) Naming(
	ctx context.Context, targetHash uint64, target string, after *Row, limit int,
) ([]Row, error) {
	after = cmp.Or(after, &Row{})
	invalid := cmp.Or(validateID("target", target), checkLimit(limit))
	return found(ctx, l, "naming", "read rows that name a user", invalid, statement{
		sql:  namingRowsSQL,
		args: []any{stored(targetHash), target, stored(after.Hash), after.Owner, after.Kind, limit},
	})
}
