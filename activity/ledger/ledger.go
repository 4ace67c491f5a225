// Package ledger is the SQL truth behind every page of a filter: which keys
// each user's page holds, and the sequence number at which the page has to
// stand. A page is a cache of its rows here and can be rebuilt from them.
//
// Every user has a 64-bit hash. With P pages, P a power of two, the user's
// home is the top log2(P) bits of that hash, and so is their page, which they share
// with others, unless they were moved: to a page of their own, or with others, when the number of
// pages was changed. The ledger stores hashes, never page numbers, beside its rows.
//
// The ledger is a SQLite file, used by one process at a time, or a schema of a
// PostgreSQL database, used by any number of them. What the two have in common
// is in ledger.go, record.go, read.go, plan.go, reshape.go and layout.go; the files sqlite*.go,
// postgres*.go and migrations/ hold what sets them apart.
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
	// ErrPagesDiffer says that the ledger was made with another number of
	// pages than Options ask for.
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

// PageChange says what one Record did to one page.
type PageChange struct {
	Page uint32
	Own  bool // the page is no home page: its number is OwnPages or more
	// Owner is a hash in whose home's slot of the store the page stands, if Own: it never changes. It is the
	// user's, if the page is of one user alone.
	Owner uint64
	// Sequence is where the page has to stand now. A Record raised it by one if
	// Added or Removed is not empty, and it is as it stood otherwise: 0 for a
	// page that never changed.
	Sequence uint64
	// Added and Removed are the net effect: a row added and removed again
	// within one call is in neither, and no row is there twice. They are in
	// order of hash, owner, kind, target. Removed rows carry the Since and
	// Until that they had been recorded with.
	Added, Removed []Row
}

// Receipt is the outcome of one Record.
type Receipt struct {
	// Changed says of each Change whether it altered the ledger, as if the
	// changes had been made one after another.
	Changed []bool
	// Refused says of each Change whether its Limit refused it: then nothing of it
	// happened.
	Refused []bool
	// Pages are all pages that any Change touched, those included where
	// nothing changed, in ascending order. The home page of each user is among them, and
	// those that Placed names: who waits until they stand has others know of the moves.
	Pages []PageChange
	// Placed has those users of the changes, by hash, who are elsewhere than on their home page, or may be taken to
	// be elsewhere.
	Placed map[uint64]Placed
}

// Options say how to open a ledger. The zero value is right for most.
type Options struct {
	// Pages is the number of pages, a power of two from 1 to 2^24. When the ledger is
	// made it is the number of homes for good; from then on any other value is refused, but for what SetCut asked for
	// last. 0 means whatever the ledger has, and 16384 for a new one.
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
	shaper
	checkpoint(ctx context.Context, id string) (value string, found bool, err error)
	setCheckpoint(ctx context.Context, id, value string) error // "" removes it
	ping(ctx context.Context) error
	close() error
}

// pageReader is the part of a database that reads what pages hold and where they stand. A number from OwnPages on
// that no page ever had gives errNoOwnPage.
type pageReader interface {
	snapshot(ctx context.Context, page uint32) ([]Row, Standing, error)
	keys(ctx context.Context, page uint32) ([]Row, Standing, error) // no times; ErrLargePage
	// eachRow passes rows on in parts, which are as of one moment.
	eachRow(ctx context.Context, page uint32, each func(rows []Row) error) (Standing, error)
	sequence(ctx context.Context, page uint32) (uint64, error)
	// changed returns up to changedAtOnce of the pages that Ledger.Changed
	// reports, those that come after the one given, which is the last of the
	// call before. Progress is what the first call, with nil, returns.
	changed(ctx context.Context, since Cursor, after *changedPage) ([]changedPage, Progress, error)
	placements(ctx context.Context, homes []uint32) (*placements, error) // each once; none: all of them
}

// shaper is the part of a database that changes the number of pages.
type shaper interface {
	cut(ctx context.Context) (Cut, error)
	setCut(ctx context.Context, pages uint32) error
	shape(ctx context.Context, s span) (shape, error)
	reserve(ctx context.Context, n int) (first uint32, err error)      // numbers in a row, for pages to come
	reshape(ctx context.Context, p *ReshapePlan) ([]PageChange, error) // see ReshapePlan.check and raised
}

// rowWriter is the part of a database that changes rows, and where they are.
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
	// ofHash goes on after a row of the hash; the zero key is before all.
	ofHash(ctx context.Context, hash uint64, after key, limit int) ([]Row, error)
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

// checkPage refuses a page number that the ledger does not have; of those from OwnPages on, the
// database knows.
func (l *Ledger) checkPage(page uint32) error {
	if page >= OwnPages {
		return nil
	}
	return l.checkShared(page)
}

func (l *Ledger) checkShared(page uint32) error {
	if page >= l.id.Pages {
		return fmt.Errorf("no such page: the ledger was made with %d", l.id.Pages)
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
