// Package ledger is the SQL truth behind every page of a filter: which keys
// each user's page holds, and the sequence number at which the page has to
// stand. A page is a cache of its rows here and can be made anew from them.
//
// Every user has a 64-bit hash. With P pages, P a power of two, the user's
// page is the top log2(P) bits of that hash. The ledger stores hashes, never
// page numbers, beside its rows.
//
// The ledger is a SQLite file, used by one process at a time. What
// distinguishes SQL dialects is in statements.go, sqlite.go and migrations/.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Errors that Open returns wrapped, with the file and both values named.
var (
	// ErrInUse says that another process, or an earlier Open in this one,
	// holds the ledger.
	ErrInUse = errors.New("ledger is in use")
	// ErrPagesDiffer says that the ledger was made with another number of
	// pages than Options ask for.
	ErrPagesDiffer = errors.New("number of pages differs")
	// ErrTooNew says that the ledger was written by a later version of this
	// package, which it would be unsafe to write to.
	ErrTooNew = errors.New("ledger is too new for this program")
)

const (
	defaultPages = 16384
	maxPages     = 1 << 24
)

// Row is one key of one user's page. Owner, Kind and Target are 1 to 256
// bytes of UTF-8 without control characters, told apart byte by byte: no case
// folding and no Unicode normalization. Hash, Owner, Kind and Target together
// identify a row; Since is only carried by it.
type Row struct {
	Hash   uint64    // hash of Owner, taken as given; its top bits are the page
	Owner  string    // whose page holds the key
	Kind   string    // "block", "blocked-by", "hide", ...
	Target string    // the user or post that the key is about
	Since  time.Time // when it was recorded; years 1 to 9999, kept in microseconds, UTC
}

// Change is rows that come or go together, such as both sides of a two-way
// block: never one without the other. Rows is not empty.
type Change struct {
	Rows   []Row // Since is ignored for a removal
	Remove bool  // false: record the rows; true: remove them
}

// PageChange says what one Record did to one page.
type PageChange struct {
	Page uint32
	// Sequence is where the page has to stand now. It was raised by one if
	// Added or Removed is not empty, and is as it stood otherwise: 0 for a
	// page that never changed.
	Sequence uint64
	// Added and Removed are the net effect: a row added and removed again
	// within one call is in neither, and no row is there twice. They are in
	// order of hash, owner, kind, target. Removed rows carry the Since they
	// had been recorded with.
	Added, Removed []Row
}

// Receipt is the outcome of one Record.
type Receipt struct {
	// Changed says of each Change whether it altered the ledger, as if the
	// changes had been made one after another.
	Changed []bool
	// Pages are all pages that any Change touched, those included where
	// nothing changed, in ascending order.
	Pages []PageChange
}

// Identity is made with the ledger and stays the same for its whole life, but for
// the Incarnation of one that was restored.
type Identity struct {
	Incarnation uint64 // random, never 0: tells ledgers apart, and the lives of one
	Seed        uint64 // random: for hashing users and keys
	Pages       uint32 // a power of two, 1 to 2^24
}

// Page returns the page of a user whose hash is given: its top log2(Pages)
// bits.
func (id Identity) Page(hash uint64) uint32 {
	return uint32(hash >> id.shift())
}

// shift is the number of hash bits below the page number. It is 64 for one
// page, and shifting by 64 gives 0 in Go.
func (id Identity) shift() int { return 64 - bits.TrailingZeros32(id.Pages) }

// hashes returns the least and the greatest hash of a page.
func (id Identity) hashes(page uint32) (least, greatest uint64) {
	least = uint64(page) << id.shift()
	return least, least | (uint64(1)<<id.shift() - 1)
}

// Options say how to open a ledger. The zero value is right for most.
type Options struct {
	// Pages is the number of pages, a power of two from 1 to 2^24. It is
	// fixed when the ledger is made; any other value is refused from then on.
	// 0 means whatever the ledger has, and 16384 for a new one.
	Pages uint32

	// Restored says that the ledger is an older copy of itself, put back from a
	// backup. It gets a new Incarnation: sequences that it gave out after the
	// copy was made may be given out again, and pages made then must not be
	// taken for current.
	Restored bool
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
	file    string
	id      Identity
	lock    *flock.Flock
	writer  *sql.DB // one connection: writers take turns
	readers *sql.DB
	write   writeStatements
	read    readStatements

	using  sync.RWMutex // held shared by calls under way, so that Close waits for them
	closed bool
}

// Open opens the ledger at url, which is "sqlite:" and the name of a file,
// absolute or relative to the working directory. A missing file is created
// (mode 0600), and so are missing directories (mode 0700). Beside the file
// there are <file>-wal and <file>-shm, which belong to it, and <file>.lock,
// which is locked while the ledger is open and stays behind after.
//
// Schema changes of later versions are applied here, each in a transaction.
// If Open fails or its process dies on the way, it can be called again.
//
// Open returns ErrInUse, ErrPagesDiffer or ErrTooNew, wrapped, for these
// cases, and an error naming the file if it is not a ledger, is damaged or
// cannot be written to. What is not a ledger is not written to.
func Open(ctx context.Context, url string, o Options) (*Ledger, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	file, err := sqliteFile(url)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l, err := openSQLite(ctx, file, o)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", file, ended(ctx, err))
	}
	return l, nil
}

// Identity returns what was made with the ledger.
func (l *Ledger) Identity() Identity { return l.id }

// Ping reads a row from the ledger, to see whether it can be read.
func (l *Ledger) Ping(ctx context.Context) error {
	var pages string
	err := l.use(func() error {
		return l.read.pages.QueryRowContext(ctx).Scan(&pages)
	})
	if err != nil {
		return fmt.Errorf("ping ledger %s: %w", l.file, ended(ctx, err))
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
	var errs []error
	// The writer comes last of the connections: the last one moves what is in
	// the write-ahead log to the database file.
	for _, db := range []*sql.DB{l.readers, l.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	errs = append(errs, l.lock.Unlock())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close ledger %s: %w", l.file, err)
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

// checkPage refuses a page number that the ledger does not have.
func (l *Ledger) checkPage(page uint32) error {
	if page >= l.id.Pages {
		return fmt.Errorf("no such page: the ledger has %d pages", l.id.Pages)
	}
	return nil
}

// ended makes err wrap ctx's error if ctx has ended: the driver then reports
// an interrupted statement or a finished transaction instead.
func ended(ctx context.Context, err error) error {
	cause := ctx.Err()
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}
