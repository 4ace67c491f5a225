package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Ledger is what a [Recorder] needs of a *ledger.Ledger; an interface so that
// tests can make each call fail.
//
//nolint:revive,interfacebloat // it is one type's, and documented there
type Ledger interface {
	Identity() ledger.Identity
	Record(ctx context.Context, now time.Time, changes []ledger.Change) (ledger.Receipt, error)
	Prepare(changes []ledger.Change) (*ledger.Prepared, error)
	RecordPrepared(ctx context.Context, now time.Time, p *ledger.Prepared) (ledger.Receipt, error)
	Snapshot(ctx context.Context, page uint32) ([]ledger.Row, ledger.Standing, error)
	Keys(ctx context.Context, page uint32) ([]ledger.Row, ledger.Standing, error)
	EachRow(ctx context.Context, page uint32, each func(rows []ledger.Row) error) (ledger.Standing, error)
	Sequence(ctx context.Context, page uint32) (uint64, error)
	Changed(ctx context.Context, since ledger.Cursor, each func(page uint32, s ledger.Standing) error) (ledger.Progress, error)
	Homes(ctx context.Context, homes ...uint32) ([]ledger.Home, error)
	Cut(ctx context.Context) (ledger.Cut, error)
	SetCut(ctx context.Context, pages uint32) error
	PlanReshape(ctx context.Context, home uint32) (*ledger.ReshapePlan, error)
	Reshape(ctx context.Context, p *ledger.ReshapePlan) (ledger.Receipt, error)
	MoveOut(ctx context.Context, hash uint64) (ledger.Receipt, error)
	MoveIn(ctx context.Context, hash uint64) (ledger.Receipt, error)
	Ended(ctx context.Context, now time.Time, limit int) ([]ledger.Row, error)
	List(ctx context.Context, q ledger.ListQuery) ([]ledger.Row, error)
	Lookup(ctx context.Context, q ledger.LookupQuery) ([]ledger.Row, error)
	Count(ctx context.Context, hash uint64, owner, kind string, now time.Time) (int, error)
	Counts(ctx context.Context, hash uint64, owner string, now time.Time) (map[string]int, error)
	Owned(ctx context.Context, hash uint64, owner string, after *ledger.Item, limit int) ([]ledger.Row, error)
	OfHash(ctx context.Context, hash uint64, after *ledger.Row, limit int) ([]ledger.Row, error)
	Naming(ctx context.Context, targetHash uint64, target string, limit int) ([]ledger.Row, error)
	Declare(ctx context.Context, kinds []ledger.Kind) error
	Kinds(ctx context.Context) ([]ledger.Kind, error)
	Ping(ctx context.Context) error
	Shared() bool
	Agree(ctx context.Context, s ledger.Settings) error
}

// Config is what a [Recorder] is made of.
type Config struct {
	_ struct{} // fields are named

	// Ledger is the truth behind the pages; closed by the caller, after the Recorder. See [OpenPlain] for
	// activities without one.
	Ledger Ledger
	Store  favfilter.Store // one filter, of this ledger alone
	// Replica reads pages of Store from copies that may lag behind it, for Views to be read from first;
	// nil: there are none. A copy of a page that lacks a write which has to be seen is not used, and costs the
	// View a second round trip. Of kinds with a window, what the copy lacks is overlooked.
	Replica favfilter.Store
	Kinds   *Kinds // default: BuiltinKinds()

	// FalsePositiveRate is the share of clean candidates that a feed check of one
	// author each may drop wrongly, 1e-8 to 0.5. Each of the keys tested for a
	// candidate gets an equal part of it. Default 0.001.
	FalsePositiveRate float64

	// StalenessBound is how old what a Recorder knows of the ledger may get while it
	// answers: a write through another Recorder that did not reach the page, or whose page
	// was lost, is seen by every View that begins this long after the write was
	// acknowledged. All Recorders of one ledger must have the same, or Open fails with an error
	// that wraps ledger.ErrSettingsDiffer; so it does if some have a PageCache. 10 ms to 1 min,
	// or 0 for the default of 1 s. Negative: every View asks the ledger first, as is
	// needed where each Recorder has pages of its own, and the ledger is shared.
	StalenessBound time.Duration

	// OwnPage is the most keys of a user on a page that they share with others: whoever has more gets a page of
	// their own, so that what a feed reads is bounded by what its viewer and some others did. At least 16; default
	// 2048.
	OwnPage int

	// PageCache is how many bytes of pages that Views have read are held in process, 0 to 2^40, those that were not used
	// for longest given up first: a View of what is held takes no round trip to the store. A page is used only while
	// the ledger is known to stand where the page does, so a View misses nothing. With a ledger that other processes
	// write to, all Recorders of it must have a PageCache, or none: with it a write is acknowledged when the
	// StalenessBound has passed since its commit, because before that others may answer from what they hold; and what
	// they record in windows is seen here as much later. Default 0: none.
	PageCache int

	// ScrubRate is how many pages a second are compared with the ledger in the
	// background, 1 to 100,000; more while the store may have lost some. Default 500.
	ScrubRate int

	// Passive has the Recorder do nothing of its own accord: no scrub, nothing made anew before somebody reads it, nothing removed that
	// has ended. It is for looking inside without changing what is there.
	Passive bool

	// Persist makes durable what the store holds, for a store whose changes become so at leisure. It is called
	// by DeleteUser. Default: nothing.
	Persist func(context.Context) error

	// OnRebuild is called when a page has been made anew, or could not be, with why that was to be done, how long it took
	// once it was its turn, and the error of the ledger, or else of the store, if any. Up to six calls at a time; it must not block.
	OnRebuild func(reason string, took time.Duration, err error)

	// Now is the clock by which activities are recorded and end. Default: the ledger's,
	// which the clocks of several machines cannot disagree with.
	Now    func() time.Time
	Logger *slog.Logger // default: discards
}

const (
	// maxGroup is the most changes that share one ledger transaction.
	maxGroup = 10_000
	// maxSettling is the number of committed groups that the store may be changed for at
	// once. Those that wait for a rebuild do not count.
	maxSettling = 8
	// maxRebuilds is the number of pages made anew at once, and maxLarge that of pages beside them that are read in parts.
	maxRebuilds = 4
	maxLarge    = 2
	// loadTimeout is how long a read of pages may take before the ledger is asked
	// instead.
	loadTimeout = time.Second
	// applyTimeout is how long the change of one page may take, and applyMore how much
	// longer that of each further one in the same call.
	applyTimeout = time.Second
	applyMore    = time.Millisecond
	// commitTimeout and pageTimeout bound what goes on without a caller to wait for it: a
	// transaction, and the rebuilds of a group.
	commitTimeout = 10 * time.Second
	pageTimeout   = 10 * time.Second
	// pollTimeout is how long a poll waits for an answer of the ledger, and for each further
	// one where it takes several. askTimeout is how long the ledger may take to tell the sequence of
	// one page. A ledger that hangs delays a feed once, by both.
	pollTimeout = 1500 * time.Millisecond
	askTimeout  = 500 * time.Millisecond
	// largeTimeout bounds the rebuild of a page that is read in parts, and largeLoadTimeout the read of such a page from the store.
	largeTimeout     = 5 * time.Minute
	largeLoadTimeout = 10 * time.Second

	defaultBound     = time.Second
	defaultScrubRate = 500
	// maxWaiting and maxFlights are how many writes, and how many pages to be made
	// anew for feeds, may wait; one more is refused with ErrOverloaded.
	maxWaiting = 4096
	maxFlights = 1024
	// maxImageBytes bounds the pages held in process while the store is down.
	maxImageBytes = 64 << 20
)

// Recorder records activities: in the ledger first, then in the pages. It
// acknowledges a write when every page touched stands at the write's sequence,
// and from then on every [View] has it.
//
// Writes of concurrent callers share ledger transactions. A Recorder is safe for
// concurrent use.
type Recorder struct {
	reader

	ledger  Ledger
	replica favfilter.Store // nil: none
	persist func(context.Context) error

	sequences  *sequences
	owners     *owners
	placements *placements
	reshaping  reshaping
	ownPage    int // keys from which on a user gets a page of their own

	largePage uint32 // bytes from which on a page is probed
	large     largePages
	follow    follower
	declared  declared
	images    images
	cache     *cache // nil: there is none
	asked     asked
	waiting   atomic.Int64 // writes
	queue     chan *write
	settling  chan struct{} // counts groups on their way to the store
	turns     chan struct{} // holds one for each page that a write has mended
	laneRows  atomic.Int64  // of all lanes
	rebuilds  rebuilds
	tidying   tidying
	// largeWorks says that a large page is compared or tidied in the background.
	largeWorks atomic.Bool
	scrubPace  *scrubPace // nil if it is passive
	bulked     sync.Map   // numbers of pages that a Bulk has in hand: the scrub and the sweep leave them to it

	unrepaired   episode      // pages cannot be repaired
	uncopied     episode      // replicas cannot be read
	replicaAfter atomic.Int64 // when replicas are read again, as elapsed

	mu    sync.Mutex
	tail  map[uint32]chan struct{} // of the last group on its way to each page; closed when it has been there
	lanes map[uint32]*lane         // of pages that need more than a call of the store
}

// Open returns a Recorder for the ledger and the store. It reads the sequence of
// every page from the ledger, so that pages the store holds from before are
// told apart from lost ones.
func Open(ctx context.Context, c Config) (*Recorder, error) {
	r, err := newRecorder(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open recorder: %w", err)
	}
	if err := r.refusePlain(ctx); err != nil {
		r.Close()
		return nil, fmt.Errorf("open recorder: %w", err)
	}
	if c.Passive {
		return r, nil
	}
	settings := ledger.Settings{StalenessBound: r.follow.bound, HoldsPages: r.cache != nil}
	if err := r.ledger.Agree(ctx, settings); err != nil {
		r.Close()
		return nil, fmt.Errorf("open recorder: %w", err)
	}
	r.ended.Go(func() { r.every(r.follow.pollInterval(), func() { <-r.poll().done }) })
	r.ended.Go(func() { r.every(r.follow.pollInterval(), r.sweep) })
	r.scrubPace = newScrubPace(cmp.Or(c.ScrubRate, defaultScrubRate))
	r.ended.Go(r.scrubLoop)
	r.ended.Go(r.endLoop)
	r.ended.Go(r.tidyLoop)
	return r, nil
}

// newRecorder returns a Recorder that does nothing of its own accord: pages are not
// scrubbed, what others write is looked for when a View needs it.
func newRecorder(ctx context.Context, c Config) (*Recorder, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	id := c.Ledger.Identity()
	r := &Recorder{
		reader: reader{
			lifecycle: newLifecycle(ctx),
			store:     c.Store,
			kinds:     c.Kinds,
			identity:  favfilter.Identity{Seed: id.Seed, Pages: id.Pages, Incarnation: id.Incarnation},
			rate:      c.FalsePositiveRate,
			keyRate:   c.FalsePositiveRate / float64(c.Kinds.lookups()),
			now:       c.Now,
			log:       c.Logger,
			survey:    newSurvey(id.Pages),
			outage:    "feeds come from the ledger",
		},
		ledger:     c.Ledger,
		replica:    c.Replica,
		persist:    c.Persist,
		sequences:  newSequences(id.Pages),
		owners:     newOwners(),
		placements: newPlacements(id.Pages),
		reshaping:  reshaping{turn: make(chan struct{}, 1)},
		ownPage:    c.OwnPage,

		largePage: largePage,
		follow:    follower{bound: max(0, c.StalenessBound)},
		images:    newImages(),
		cache:     newCache(c.PageCache, c.delays()),
		queue:     make(chan *write),
		settling:  make(chan struct{}, maxSettling),
		turns:     make(chan struct{}, maxTurns),
		rebuilds:  newRebuilds(c.OnRebuild),
		tidying:   newTidying(),
		tail:      make(map[uint32]chan struct{}),
		lanes:     make(map[uint32]*lane),
	}
	if r.now == nil {
		r.now = r.ledgerTime
	}
	if err := r.learnAll(ctx); err != nil {
		return nil, err
	}
	r.ended.Go(r.commitLoop)
	return r, nil
}

// learnAll tells the ledger of the kinds, and reads what it has of the pages.
func (r *Recorder) learnAll(ctx context.Context) error {
	if err := r.openWindows(r.cache); err != nil {
		return err
	}
	if err := r.declare(ctx); err != nil {
		return err
	}
	if err := r.pollOnce(ctx, r.newPoll()); err != nil {
		return fmt.Errorf("read page sequences: %w", err)
	}
	r.follow.changed = nil // all pages; a scrub looks at them
	return nil
}

// setDefaults fills in what every filter has.
func (c *Config) setDefaults() {
	c.FalsePositiveRate = cmp.Or(c.FalsePositiveRate, 0.001)
	if c.Kinds == nil {
		c.Kinds = BuiltinKinds()
	}
	if c.Persist == nil {
		c.Persist = func(context.Context) error { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func checkRate(rate float64) error {
	if !(rate >= 1e-8 && rate <= 0.5) {
		return fmt.Errorf("false-positive rate %g is not in 1e-8 to 0.5", rate)
	}
	return nil
}

// complete fills in the defaults and checks the ranges.
func (c *Config) complete() error {
	c.setDefaults()
	c.StalenessBound = cmp.Or(c.StalenessBound, defaultBound)
	c.OwnPage = cmp.Or(c.OwnPage, defaultOwnPage)
	if err := checkRate(c.FalsePositiveRate); err != nil {
		return err
	}
	switch {
	case c.StalenessBound > 0 && (c.StalenessBound < 10*time.Millisecond || c.StalenessBound > time.Minute):
		return fmt.Errorf("staleness bound %v is not in 10 ms to 1 min", c.StalenessBound)
	case c.Ledger == nil:
		return errors.New("there is no ledger: OpenPlain does without")
	case c.OwnPage < MinOwnPage:
		return fmt.Errorf("a page of their own for users of more than %d keys: less than %d", c.OwnPage, MinOwnPage)
	case c.PageCache < 0 || c.PageCache > 1<<40:
		return fmt.Errorf("page cache of %d bytes: not in 0 to 2^40", c.PageCache)
	case c.ScrubRate < 0 || c.ScrubRate > 100_000:
		return fmt.Errorf("scrub rate %d is not in 1 to 100,000 pages a second", c.ScrubRate)
	}
	return nil
}

// refusePlain fails if the store holds a filter without a ledger: its pages would be taken for those of another
// ledger, and made anew from one that does not have what they hold. Where the store cannot be asked, they are.
func (r *Recorder) refusePlain(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	loaded, err := r.store.Load(limited, []favfilter.PageID{{}})
	if err != nil || loaded[0].Page == nil || loaded[0].Page.Header().Incarnation != 0 {
		return ctx.Err()
	}
	return fmt.Errorf("%w: without a ledger, opened with one", favfilter.ErrMismatch)
}

// Close lets writes on their way finish, refuses new ones with [ErrClosed], and
// returns when nothing of the Recorder is running.
func (r *Recorder) Close() {
	r.lifecycle.Close()
	r.rebuilds.close()
}
