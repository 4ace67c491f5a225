// Package ledger keeps the keys of each user's page and the sequence of each page in an SQL
// database. A page is a cache of its rows in the ledger. It can be rebuilt from them at any
// time.
//
// A user has a 64-bit hash. Its top bits choose the user's page in each layout: see [Layouts]. A
// heavy user has a dedicated page. Rows carry the hash, not the number of a page, so a new
// layout changes no row.
//
// A ledger is a SQLite file, which one process at a time uses, or a schema of a PostgreSQL
// database, which any number of processes share. The files sqlite*.go, postgres*.go, ping.go and
// migrations/ hold the code that differs between the two: see database.go.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Errors that Open and methods of Ledger wrap. The text of those of Open names the ledger and both
// values.
var (
	// ErrInUse means that another process, or an earlier Open of this process, holds the SQLite
	// file.
	ErrInUse = errors.New("ledger is in use")
	// ErrPagesDiffer means that Options ask for a number of pages that is neither that of the
	// first layout nor that of one of the ledger's Layouts.
	ErrPagesDiffer = errors.New("number of pages differs")
	// ErrTooNew means that a later version of this package has changed the ledger's schema. This
	// version must not write to it.
	ErrTooNew = errors.New("ledger is too new for this program")
	// ErrTooOld means that a version before the first release has made the ledger's schema.
	ErrTooOld = errors.New("ledger is too old for this program")
	// ErrKindHasData means that a declared kind is missing now, or has changed, while the ledger
	// has rows of it.
	ErrKindHasData = errors.New("kind has data")
	// ErrKindTaken means that a declared name had another target before.
	ErrKindTaken = errors.New("kind is taken")
	// ErrKindsDiffer means that a change has other rows than its kind, as declared, asks for.
	// Another process has declared the kind with another Reverse since.
	ErrKindsDiffer = errors.New("kinds differ")
	// ErrGone means that a page is no longer in use: its layout is leaving or gone, or its user
	// has left it. Changed tells where the users are now.
	ErrGone = errors.New("page is no longer in use")
	// ErrLayoutBusy means that another layout is building or leaving.
	ErrLayoutBusy = errors.New("another change of the layout is in progress")
	// ErrLargePage means that a page has more than LargePage rows. EachRow reads such a page.
	ErrLargePage = fmt.Errorf("page has more than %d rows", LargePage)
	// ErrSettingsDiffer means that another process uses the ledger with another staleness bound.
	ErrSettingsDiffer = errors.New("settings differ between processes of one ledger")
)

const (
	// DefaultPages is the number of pages of a new ledger when Options.Pages is 0.
	DefaultPages = 16384
	// MaxPages is the maximum number of shared pages.
	MaxPages = 1 << 24
	// DedicatedPages is the number of the first dedicated page. A dedicated page holds the rows of
	// one user.
	DedicatedPages = 1 << 31
	// LargePage is the maximum number of rows that Keys returns.
	LargePage = 50_000
	// MaxIDBytes is the maximum length of an id in bytes.
	MaxIDBytes = 256
)

// Row is one key of one user's page. Owner, Kind and Target are 1 to 256 bytes of UTF-8 without
// control characters. The ledger compares them byte by byte: no case folding, no Unicode
// normalization. Hash, Owner, Kind and Target together identify a row. Since and Until do not.
//
// A row with an Until ends at that time. It then counts as absent, but its key stays in the page
// until a Record removes the row.
type Row struct {
	Hash   uint64    // hash of Owner, not verified; its top bits choose the shared page
	Owner  string    // the user whose page holds the key
	Kind   string    // "block", "blocked-by", "hide", ...
	Target string    // the user or post that the key names
	Since  time.Time // time of recording; years 1 to 9999, kept in microseconds, UTC
	Until  time.Time // end; years 2 to 9999, kept in microseconds, UTC; zero: never

	// Names means that Target is a user with the hash TargetHash, and that the Target's page has
	// no mirrored row of this row. Naming finds the row by Target and TargetHash. The ledger
	// stores both fields when Record adds the row, replaces an ended one, or changes its Until.
	// No method returns them. TargetHash may be any number. Without Names it must be 0.
	Names      bool
	TargetHash uint64
}

// Change is a set of rows that one transaction records or removes together, such as both sides
// of a two-way block. Rows must not be empty.
type Change struct {
	Rows   []Row // a removal ignores Since and Until
	Remove bool  // false: record the rows; true: remove them
	// Ended limits a removal to rows that have ended, so that it keeps a row that was recorded
	// again since. A row has ended when both the caller's now and the clock of a database server
	// say so. Ended is only valid with Remove.
	Ended bool
	// Limit is the maximum number of rows of the owner and kind of Rows[0]. Rows that have ended
	// do not count. 0 means no limit. The ledger refuses the whole change if it would raise the
	// owner's number of rows, and raise it above Limit. It never refuses a removal.
	Limit uint32
}

// PageChange is the effect of one transaction on one page.
type PageChange struct {
	Page uint32
	// Sequence is the sequence that the page in the store must have reached before the caller
	// may rely on the transaction. If Added or Removed is not empty, it is one more than before.
	// Otherwise the page did not change, and it is the ledger's sequence. If all users of the
	// changes have left the page, it is the sequence with which a user last left it.
	Sequence uint64
	// Added and Removed are the net effect. They omit a row that one call both adds and removes,
	// and contain no row twice. They are in order of hash, owner, kind, target. Removed rows
	// carry the Since and Until that the ledger had stored.
	Added, Removed []Row
}

// Changed reports whether the transaction changed the page.
func (p PageChange) Changed() bool { return len(p.Added)+len(p.Removed) > 0 }

// Receipt is the result of one transaction.
type Receipt struct {
	// Changed reports for each Change whether it altered the ledger. The changes apply one after
	// another.
	Changed []bool
	// Refused reports for each Change whether its Limit refused it. A refused Change has no
	// effect.
	Refused []bool
	// Pages are all pages that any Change touched, in ascending order, also those that did not
	// change. They are pages of the current layout and dedicated pages. For a user with a
	// dedicated page they include the shared page that the user has left.
	Pages []PageChange
	// Layouts are the layouts that the transaction read. While one is leaving, the caller closes
	// the users' pages of that layout in the store.
	Layouts Layouts
	// Owners maps the hash of each user of the changes to the user's dedicated page, if there is
	// one.
	Owners map[uint64]uint32
}

// Options configure Open. The zero value suits most programs.
type Options struct {
	// Pages is the number of pages of the first layout, a power of two from 1 to 2^24. For an
	// existing ledger it must be that number, or the number of pages of one of its Layouts. 0
	// accepts the number of an existing ledger, and means 16384 for a new one.
	Pages uint32

	// Restored means that the ledger was restored from a backup. Open then gives it a new
	// Incarnation. A restored ledger gives out some sequences a second time, so pages with the
	// earlier ones must not count as current.
	Restored bool

	// KeepConnections keeps connections to PostgreSQL open: one for pings, and 8 for calls, or as
	// many as pool_min_conns in the URL says. It is for a service, which mostly needs one for calls.
	// Once its pages cannot be read, it needs many at once, and opening one takes longer than a call.
	KeepConnections bool

	// Tracer observes the statements that the ledger sends to PostgreSQL. nil: none.
	Tracer pgx.QueryTracer
}

func (o Options) validate() error {
	if o.Pages > MaxPages || o.Pages&(o.Pages-1) != 0 {
		return fmt.Errorf("pages: %d is not a power of two from 1 to %d", o.Pages, MaxPages)
	}
	return nil
}

// Ledger is an open ledger. All methods are safe for concurrent use. After Close they return an
// error that wraps fs.ErrClosed.
type Ledger struct {
	name   string // for errors, without a password
	id     Identity
	db     database
	sql    dialect
	shared bool
	around []Around // innermost first
	common *common
}

// common is what all ledgers that Around made of one have in common.
type common struct {
	sync.RWMutex // calls in flight hold it shared, so Close waits for them

	closed  bool
	layouts atomic.Pointer[Layouts] // that were read last; nil: none yet
}

// newLedger returns an open ledger.
func newLedger(name string, id Identity, db database, sql dialect, shared bool) *Ledger {
	return &Ledger{name: name, id: id, db: db, sql: sql, shared: shared, common: &common{}}
}

// Open opens the ledger at url, and creates it if it does not exist. A url has one of the forms
//
//	sqlite:<file>
//	postgres://<user>:<password>@<host>:<port>/<database>?<parameters>
//
// Open applies the schema changes of later versions, each in one transaction. If Open fails or the
// process dies, call Open again.
//
// SQLite: the file name is absolute, or relative to the working directory. Open creates a
// missing file with mode 0600, and missing directories with mode 0700. The files <file>-wal and
// <file>-shm belong to the ledger. The file <file>.lock is locked while the ledger is open, and
// remains afterwards.
//
// PostgreSQL: the server must be version 13 or later, and the database must use UTF-8. A pooler
// between them must give each connection a session of its own, and reset it at its end. Every new
// connection checks that, and the settings of its session. The scheme may also be postgresql://.
// The URL takes the hosts and parameters of libpq. With several hosts, Open connects to the
// primary. Parameters of note:
//
//   - target_session_attrs is read-write, the default, or primary.
//   - pool_max_conns is the maximum number of connections, by default 4 for each CPU and at least
//     8. Changed and Ping have one more connection each, of their own.
//   - search_path names the schema, by default feedfilter. Open creates it if necessary.
//   - statement_timeout is 5s by default. A longer one also gives calls that long: below, in place
//     of 5 seconds.
//   - Other settings of a session are allowed, except synchronous_commit=off.
//
// Any number of processes may have a PostgreSQL ledger open, even while others create or migrate
// it. Calls survive a restart of the server: they retry, or fail after about 5 seconds while the
// server is down. Later calls reconnect. The server releases the locks of a process that hangs or
// is cut off after about a second.
//
// Open wraps ErrInUse, ErrPagesDiffer, ErrTooNew or ErrTooOld, and beside a process of version 0.1
// with a page cache ErrSettingsDiffer. It also returns an error if the url names something that is
// not a ledger, is damaged, or is not writable. Open never writes to a SQLite file of another
// program. No error shows the password.
func Open(ctx context.Context, url string, o Options) (*Ledger, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	at, err := locate(url)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l, err := at.open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", at.name(), interrupted(ctx, err))
	}
	return l, nil
}

// location is where a ledger is: a [sqliteFile], or a [postgresURL].
type location interface {
	name() string // for errors and logs, without a password
	open(ctx context.Context, o Options) (*Ledger, error)
	inspect(ctx context.Context, i *Inspection) error
}

// locate returns the location that the url of a ledger names.
//
//nolint:ireturn // either kind
func locate(url string) (location, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		return parseSQLite(rest)
	case "postgres", "postgresql":
		parsed, err := parsePostgres(url)
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL URL: %w", err)
		}
		return parsed, nil
	default:
		// The rest of the url may contain a password.
		return nil, fmt.Errorf(
			"unknown kind %q: want sqlite:<file> or postgres://<user>@<host>/<database>", scheme,
		)
	}
}

// Identity returns the identity that the ledger got when it was created.
func (l *Ledger) Identity() Identity { return l.id }

// Shared reports whether other processes may write to the ledger while it is open.
func (l *Ledger) Shared() bool { return l.shared }

// Pool reports how the ledger uses a pool of connections to a database server. Counts begin when
// the ledger is opened.
type Pool struct {
	Name string // purpose: "calls", "polls" or "pings"

	Most, Open, InUse int           // connections: maximum, open, in use by calls
	Acquired          uint64        // calls that got a connection
	Waited            uint64        // calls among Acquired that waited for a free or a new connection
	GivenUp           uint64        // calls that ended before they got a connection
	Waiting           time.Duration // total time that calls waited for a connection
}

// Pools returns the pools of connections of the ledger: none for SQLite. It may be called at any
// time, also after Close.
func (l *Ledger) Pools() []Pool { return l.db.pools() }

// Agree declares the staleness bound of this process, until Close or the next Agree: from 0 to 1
// min, in microseconds. All processes of one ledger must have the same, because each relies on
// that of the others. The error wraps [ErrSettingsDiffer] and names both bounds if a connected
// process has declared another one. After a lost connection, Changed returns that error if
// another process declared another bound before the reconnect. For a ledger that is not
// [Ledger.Shared], Agree is a no-op.
func (l *Ledger) Agree(ctx context.Context, bound time.Duration) error {
	return run(ctx, l, "agree", "ledger "+l.name, func(ctx context.Context) error {
		return l.db.agree(ctx, bound)
	})
}

// Close waits for calls in flight, then releases the ledger. A second Close is a no-op.
func (l *Ledger) Close() error {
	l.common.Lock()
	defer l.common.Unlock()
	if l.common.closed {
		return nil
	}
	l.common.closed = true
	if err := l.db.close(); err != nil {
		return fmt.Errorf("close ledger %s: %w", l.name, err)
	}
	return nil
}
