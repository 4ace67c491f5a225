// Package ledger keeps the rows that the pages of a filter are made of, in an SQL database: which
// keys each user's page holds, and the sequence of each page. A page is a cache of its rows here,
// and can be rebuilt from them.
//
// Every user has a 64-bit hash, whose top bits choose the page in each layout: see [Layouts]. Heavy
// users have a dedicated page. The rows carry the hash and not the number of a page, so a change of
// the number of pages touches no row.
//
// A ledger is a SQLite file, used by one process at a time, or a schema of a PostgreSQL database,
// used by any number of them. The files sqlite*.go, postgres*.go and migrations/ hold what is
// different between the two.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Errors that Open returns wrapped, with the ledger and both values named.
var (
	// ErrInUse says that another process, or an earlier Open in this one,
	// holds the SQLite file.
	ErrInUse = errors.New("ledger is in use")
	// ErrPagesDiffer says that the ledger never had the number of pages that Options ask for.
	ErrPagesDiffer = errors.New("number of pages differs")
	// ErrTooNew says that the ledger was written by a later version of this
	// package, which it would be unsafe to write to.
	ErrTooNew = errors.New("ledger is too new for this program")
)

const (
	// DefaultPages is the number of pages of a new ledger, if Options do not say.
	DefaultPages = 16384
	maxPages     = 1 << 24
)

// Row is one key of one user's page. Owner, Kind and Target are 1 to 256
// bytes of UTF-8 without control characters, told apart byte by byte: no case
// folding and no Unicode normalization. Hash, Owner, Kind and Target together
// identify a row; Since and Until are only carried by it.
//
// A row with an Until ends then by itself: from that moment on it counts as
// absent, though its key stays in its page until a Record removes it.
type Row struct {
	Hash   uint64    // hash of Owner, taken as given; its top bits are the shared page
	Owner  string    // whose page holds the key
	Kind   string    // "block", "blocked-by", "hide", ...
	Target string    // the user or post that the key is about
	Since  time.Time // when it was recorded; years 1 to 9999, kept in microseconds, UTC
	Until  time.Time // when it ends; years 2 to 9999, kept in microseconds, UTC; zero: never

	// Names says that Target is a user, of hash TargetHash, whose own page has no row
	// that stands for this one: Naming finds it by that. A row takes both when it is
	// recorded new, anew, or with another Until; no method returns them. TargetHash
	// may be any number, and is 0 without Names.
	Names      bool
	TargetHash uint64
}

// Change is rows that come or go together, such as both sides of a two-way
// block: never one without the other. Rows is not empty.
type Change struct {
	Rows   []Row // Since and Until are ignored for a removal
	Remove bool  // false: record the rows; true: remove them
	// Ended limits a removal to rows that have ended: of the others none is
	// removed, so that one recorded again meanwhile stays. A row has ended when
	// both the caller's now and the clock of a database server say so. Only with Remove.
	Ended bool
	// Limit is the most rows that the owner of Rows[0] may have of that row's kind,
	// not counting those that have ended; 0: any number. A change that would leave
	// the owner with more rows than before, and more than that, is refused as a
	// whole. A removal is never refused.
	Limit uint32
}

// PageChange says what one transaction did to one page.
type PageChange struct {
	Page uint32
	// Sequence is the one that the page must have now, before the caller of the transaction may rely
	// on it: one more than before if Added or Removed is not empty. Otherwise the page did not
	// change, and it is the ledger's sequence. For a page that users of the changes have left,
	// and nobody else of them is on, it is the one with which a user left last.
	Sequence uint64
	// Added and Removed are the net effect: a row added and removed again
	// within one call is in neither, and no row is there twice. They are in
	// order of hash, owner, kind, target. Removed rows carry the Since and
	// Until that they had been recorded with.
	Added, Removed []Row
}

// Receipt is the outcome of one transaction.
type Receipt struct {
	// Changed says of each Change whether it altered the ledger, as if the
	// changes had been made one after another.
	Changed []bool
	// Refused says of each Change whether its Limit refused it, so that it had no effect.
	Refused []bool
	// Pages are all pages that any Change touched, in ascending order, including those where
	// nothing changed: of the current layout, and dedicated ones. For a user with a dedicated page
	// they include the shared page that the user has left.
	Pages []PageChange
	// Layouts are the layouts that the transaction found. While one is leaving, the caller closes
	// the users' pages of it.
	Layouts Layouts
	// Owners has the dedicated pages of users of the changes, by hash.
	Owners map[uint64]uint32
}

// Options say how to open a ledger. The zero value is right for most.
type Options struct {
	// Pages is the number of pages of the first layout, a power of two from 1 to 2^24. For a ledger
	// that exists it must be that number, or the number of any of its Layouts. 0 means whatever the
	// ledger has, and 16384 for a new one.
	Pages uint32

	// Restored says that the ledger is an older copy of itself, put back from a
	// backup. It gets a new Incarnation: sequences that it gave out after the
	// copy was made may be given out again, and pages made then must not be
	// taken for current.
	Restored bool

	// Tracer is told of the statements that PostgreSQL gets while the ledger is open; nil: nothing is.
	Tracer pgx.QueryTracer
}

func (o Options) validate() error {
	if o.Pages > maxPages || o.Pages&(o.Pages-1) != 0 {
		return fmt.Errorf("pages: %d is not a power of two from 1 to %d", o.Pages, maxPages)
	}
	return nil
}

// Ledger is an open ledger. All its methods may be called concurrently.
// After Close they return an error that wraps fs.ErrClosed.
type Ledger struct {
	name   string // for errors: without a password
	id     Identity
	db     database
	shared bool

	using  sync.RWMutex // held shared by calls under way, so that Close waits for them
	closed bool
}

// database is what a kind of SQL database does for a Ledger, which checks the
// arguments and names the errors. Every method but close is called while the
// ledger is open. An error may be whatever the driver makes of the end of ctx.
type database interface {
	rowWriter
	pageReader
	rowReader
	declarations
	layouter
	checkpoint(ctx context.Context, id string) (value string, found bool, err error)
	setCheckpoint(ctx context.Context, id, value string) error // "" removes it
	ping(ctx context.Context) error
	close() error
}

// pageReader is the part of a database that reads pages. Of a page that nobody is on any more it
// returns ErrGone.
type pageReader interface {
	snapshot(ctx context.Context, page uint32) ([]Row, Standing, error)
	keys(ctx context.Context, page uint32) ([]Row, Standing, error) // no times; ErrLargePage
	// eachRow passes rows on in parts, which are as of one moment.
	eachRow(ctx context.Context, page uint32, each func(rows []Row) error) (Standing, error)
	sequence(ctx context.Context, page uint32) (uint64, error)
	place(ctx context.Context, hash uint64) (Place, error)
	// changed calls each for the pages that Ledger.Changed reports, all as of one moment.
	changed(ctx context.Context, since Cursor, each func(page uint32, s Standing) error) (Progress, error)
}

// layouter is the part of a database that keeps layouts.
type layouter interface {
	layouts(ctx context.Context) (Layouts, error)
	// changeLayouts replaces the layouts by what decide makes of them, and returns that. No
	// transaction of record or move is under way meanwhile.
	changeLayouts(ctx context.Context, decide func(Layouts) (Layouts, error)) (Layouts, error)
	// seed gives the n-th pages from first to last of layout to the sequence of the page of layout
	// from that they come from, if they have none.
	seed(ctx context.Context, from, to, first, last uint32) error
	// removePages forgets the sequences of pages.
	removePages(ctx context.Context, first, last uint32) error
}

// rowWriter is the part of a database that changes rows, and the pages that they are on.
type rowWriter interface {
	// record carries out the plan as of now: see Ledger.Record.
	record(ctx context.Context, p *plan, now time.Time) (Receipt, error)
	// recordMany is record for a plan that is expected to add most of its rows: see Ledger.RecordPrepared.
	recordMany(ctx context.Context, p *plan, now time.Time) (Receipt, error)
	move(ctx context.Context, m move) (Receipt, error) // see move.decide
}

// declarations is the part of a database that keeps kinds.
type declarations interface {
	kinds(ctx context.Context) ([]Kind, error)       // in order of name
	declare(ctx context.Context, kinds []Kind) error // see redeclare
}

// rowReader is the part of a database that reads rows of many pages, or some of one.
type rowReader interface {
	ended(ctx context.Context, now time.Time, limit int) ([]Row, error)
	list(ctx context.Context, q ListQuery) ([]Row, error)
	// lookup returns those of the rows that are there, in any order, those that have
	// ended too.
	lookup(ctx context.Context, wanted []*entry) ([]Row, error)
	count(ctx context.Context, hash uint64, owner, kind string, now time.Time) (int, error)
	counts(ctx context.Context, hash uint64, owner string, now time.Time) (map[string]int, error)
	// owned goes on after a place; the zero Place is before all.
	owned(ctx context.Context, hash uint64, owner string, after Item, limit int) ([]Row, error)
	// all goes on after a row; the zero key is before all.
	all(ctx context.Context, after key, limit int) ([]Row, error)
	naming(ctx context.Context, targetHash uint64, target string, limit int) ([]Row, error)
}

// Open opens the ledger at url, and makes one where there is none. A url is
// one of
//
//	sqlite:<file>
//	postgres://<user>:<password>@<host>:<port>/<database>?<parameters>
//
// Schema changes of later versions are applied here, each in a transaction. If
// Open fails or its process dies on the way, it can be called again.
//
// A SQLite file's name is absolute or relative to the working directory. A
// missing file is created (mode 0600), and so are missing directories (mode
// 0700). Beside the file there are <file>-wal and <file>-shm, which belong to
// it, and <file>.lock, which is locked while the ledger is open and stays
// behind after.
//
// A PostgreSQL URL (postgresql:// is the same) may have the parameters and
// several hosts, as libpq's have, of which the primary is used: the values of
// target_session_attrs are read-write, the default, and primary; pool_max_conns,
// the most connections (4 a CPU and at least 8) beside the one that Changed has to
// itself; and settings of the session. search_path names the schema,
// feedfilter by default, which is made if need be. The database has to be in
// UTF-8, on PostgreSQL 13 or later, reached without a pooler that changes
// sessions. Any number of processes may have the ledger open, also while others
// make or migrate it. Calls survive a restart of the server: those that meet it
// are repeated, or fail within some 5 seconds while it is down, and later
// ones find it again. What a process that hangs or is cut off has locked is
// free after as long. No error shows the password.
//
// Open returns ErrInUse, ErrPagesDiffer or ErrTooNew, wrapped, for these
// cases, and an error naming the ledger if it is something else, is damaged
// or cannot be written to. What is not a ledger is not written to.
func Open(ctx context.Context, url string, o Options) (*Ledger, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		file, err := sqliteFile(rest)
		if err != nil {
			return nil, fmt.Errorf("open ledger: %w", err)
		}
		l, err := openSQLite(ctx, file, o)
		if err != nil {
			return nil, fmt.Errorf("open ledger %s: %w", file, interrupted(ctx, err))
		}
		return l, nil
	case "postgres", "postgresql":
		parsed, err := parsePostgres(url)
		if err != nil {
			return nil, fmt.Errorf("open ledger: URL of PostgreSQL: %w", err)
		}
		l, err := openPostgres(ctx, parsed, o)
		if err != nil {
			return nil, fmt.Errorf("open ledger %s: %w", parsed.name(), interrupted(ctx, err))
		}
		return l, nil
	default:
		// Without the rest, which might hold a password.
		return nil, fmt.Errorf("open ledger: unknown kind %q: want sqlite:<file> or postgres://<user>@<host>/<database>", scheme)
	}
}

// Identity returns what was made with the ledger.
func (l *Ledger) Identity() Identity { return l.id }

// Shared reports whether other processes may write to the ledger meanwhile.
func (l *Ledger) Shared() bool { return l.shared }

// Ping reads a row from the ledger, to see whether it can be read.
func (l *Ledger) Ping(ctx context.Context) error {
	if err := l.use(func() error { return l.db.ping(ctx) }); err != nil {
		return fmt.Errorf("ping ledger %s: %w", l.name, interrupted(ctx, err))
	}
	return nil
}

// Close waits for the calls under way, then releases the ledger for others.
// Closing a second time does nothing.
func (l *Ledger) Close() error {
	l.using.Lock()
	defer l.using.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if err := l.db.close(); err != nil {
		return fmt.Errorf("close ledger %s: %w", l.name, err)
	}
	return nil
}

// use runs do while keeping the ledger open.
func (l *Ledger) use(do func() error) error {
	l.using.RLock()
	defer l.using.RUnlock()
	if l.closed {
		return fs.ErrClosed
	}
	return do()
}

// checkPage refuses the number of a page that the ledger cannot have.
func (l *Ledger) checkPage(page uint32) error {
	if page < DedicatedPages && l.id.LayoutOf(page) == 0 {
		return errors.New("there is no such page")
	}
	return nil
}

// interrupted makes err wrap ctx's error if ctx has ended: the driver then
// reports an interrupted statement or a finished transaction instead.
func interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil // what was done by then was done
	}
	cause := ctx.Err()
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}
