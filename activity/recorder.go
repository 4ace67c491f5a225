package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Ledger lists the methods of *ledger.Ledger that a [Recorder] calls. It is an interface so that
// tests can make each call fail. The methods are documented at *ledger.Ledger.
//
//nolint:revive,interfacebloat // the methods of one type, documented there
type Ledger interface {
	Identity() ledger.Identity
	Record(ctx context.Context, now time.Time, changes []ledger.Change) (ledger.Receipt, error)
	Prepare(changes []ledger.Change) (*ledger.Prepared, error)
	RecordPrepared(ctx context.Context, now time.Time, p *ledger.Prepared) (ledger.Receipt, error)
	Snapshot(ctx context.Context, page uint32) ([]ledger.Row, ledger.PageState, error)
	Keys(ctx context.Context, page uint32) ([]ledger.Row, ledger.PageState, error)
	EachRow(ctx context.Context, page uint32, each func(rows []ledger.Row) error) (ledger.PageState, error)
	Sequence(ctx context.Context, page uint32) (uint64, error)
	Changed(ctx context.Context, since ledger.Cursor, each func(page uint32, s ledger.PageState) error) (ledger.Progress, error)
	Place(ctx context.Context, hash uint64) (ledger.Place, error)
	Layouts(ctx context.Context) (ledger.Layouts, error)
	BeginLayout(ctx context.Context, pages uint32) error
	SwitchLayout(ctx context.Context, pages uint32) error
	LeaveLayout(ctx context.Context, pages uint32) error
	Dedicate(ctx context.Context, hash uint64) (ledger.Receipt, error)
	Release(ctx context.Context, hash uint64) (ledger.Receipt, error)
	Ended(ctx context.Context, now time.Time, limit int) ([]ledger.Row, error)
	List(ctx context.Context, q ledger.ListQuery) ([]ledger.Row, error)
	Lookup(ctx context.Context, q ledger.LookupQuery) ([]ledger.Row, error)
	Count(ctx context.Context, hash uint64, owner, kind string, now time.Time) (int, error)
	Counts(ctx context.Context, hash uint64, owner string, now time.Time) (map[string]int, error)
	Owned(ctx context.Context, hash uint64, owner string, after *ledger.Item, limit int) ([]ledger.Row, error)
	All(ctx context.Context, after *ledger.Row, limit int) ([]ledger.Row, error)
	Naming(ctx context.Context, targetHash uint64, target string, limit int) ([]ledger.Row, error)
	Declare(ctx context.Context, kinds []ledger.Kind) error
	Kinds(ctx context.Context) ([]ledger.Kind, error)
	Ping(ctx context.Context) error
	Shared() bool
	Agree(ctx context.Context, s ledger.Settings) error
}

// Config configures a [Recorder].
type Config struct {
	_ struct{} // fields are named

	// Ledger is the source of truth behind the pages. The caller closes it, after the Recorder. See
	// [OpenPlain] for activities without a ledger.
	Ledger Ledger
	// Store holds one filter, which belongs to this ledger alone.
	Store favfilter.Store
	// Replica reads pages from copies of Store that may lag behind it. Views read it first. A
	// replica's page that lacks a required write is not used: the View then takes a second round
	// trip, to Store. For kinds with a window, a View misses what the replica lacks. Nil: there are
	// no replicas.
	Replica favfilter.Store
	// Kinds are the kinds of activities. Default: BuiltinKinds().
	Kinds *Kinds

	// FalsePositiveRate is the share of clean candidates, with one author each, that a feed check
	// may drop wrongly: 1e-8 to 0.5. It is divided equally among the keys that are tested for a
	// candidate. Default 0.001.
	FalsePositiveRate float64

	// StalenessBound is the maximum age of a Recorder's view of the ledger while it answers. It
	// matters for a write through another Recorder whose page change did not arrive or was lost:
	// every View that begins this long after the write was acknowledged has the write.
	//
	// 10 ms to 1 min, or 0 for the default of 1 s. A negative value makes every View ask the ledger
	// first, which is necessary where Recorders share a ledger but each has its own pages.
	//
	// All Recorders of one ledger must have the same StalenessBound; otherwise Open fails with an
	// error that wraps ledger.ErrSettingsDiffer. Open fails the same way if only some have a
	// PageCache.
	StalenessBound time.Duration

	// MaxSharedKeys is the largest number of a user's keys on a shared page. A user with more keys gets a
	// dedicated page, which bounds what feeds read by the activities of their viewer and a few
	// others. At least 16; default 2048.
	MaxSharedKeys int

	// PageCache is the number of bytes of pages that are cached in this process, 0 to 2^40; the
	// least recently used are evicted first. A View of cached pages needs no round trip to the
	// store. A cached page is used only while its sequence is known to be the ledger's, so a View
	// misses nothing. Default 0: no cache.
	//
	// If other processes write to the ledger, either all its Recorders have a PageCache or none
	// has. With a PageCache, a write is acknowledged once the StalenessBound has passed since its
	// commit, because until then other processes may answer from their caches. What other processes
	// record in windows becomes visible here later, by the same time.
	PageCache int

	// ScrubRate is the number of pages a second that the background scrub compares with the ledger,
	// 1 to 100,000. The scrub is faster while the store may have lost pages. Default 500.
	ScrubRate int

	// Passive turns background maintenance off: no scrub, no rebuild of a page before somebody
	// reads it, no removal of ended activities. It is for inspection that must not change the data.
	Passive bool

	// Persist makes the store's contents durable, for a store that writes its changes to disk
	// later. DeleteUser calls it. Default: a no-op.
	Persist func(context.Context) error

	// OnRebuild is called after each rebuild of a page, whether it succeeded or failed. It gets the
	// reason for the rebuild, its duration without the wait for its turn, and the error, if any:
	// the ledger's, or else the store's. Up to six calls run at once. OnRebuild must not block.
	OnRebuild func(reason string, took time.Duration, err error)

	// Now is the clock that decides when activities are recorded and end. Default: the ledger's
	// clock, so that the clocks of several machines cannot disagree.
	Now    func() time.Time
	Logger *slog.Logger // default: discards
}

const (
	// maxGroup is the largest number of changes in one ledger transaction.
	maxGroup = 10_000
	// maxSettling is the number of committed groups whose changes may be in flight to the store at
	// once. Groups that wait for a rebuild do not count.
	maxSettling = 8
	// maxRebuilds is the number of pages rebuilt at once. maxLarge is the number of pages read in
	// parts that are rebuilt at once, beside those.
	maxRebuilds = 4
	maxLarge    = 2
	// loadTimeout is how long a read of pages may take before the ledger is asked instead.
	loadTimeout = time.Second
	// applyTimeout is how long the change of one page may take. Each further page in the same call
	// adds applyMore.
	applyTimeout = time.Second
	applyMore    = time.Millisecond
	// commitTimeout and pageTimeout bound work that no caller waits for: a transaction, and the
	// rebuilds of a group.
	commitTimeout = 10 * time.Second
	pageTimeout   = 10 * time.Second
	// pollTimeout is how long a poll waits for each answer of the ledger. askTimeout is how long
	// the ledger may take to return the sequence of one page. A ledger that hangs delays a feed
	// once, by the sum of both.
	pollTimeout = 1500 * time.Millisecond
	askTimeout  = 500 * time.Millisecond
	// largeTimeout bounds the rebuild of a page that is read in parts. largeLoadTimeout bounds the
	// read of such a page from the store.
	largeTimeout     = 5 * time.Minute
	largeLoadTimeout = 10 * time.Second

	defaultBound     = time.Second
	defaultScrubRate = 500
	// maxWaiting is the number of writes that may wait. maxFlights is the number of pages that may
	// wait for a rebuild that a feed needs. One more is refused with ErrOverloaded.
	maxWaiting = 4096
	maxFlights = 1024
	// maxImageBytes bounds the rebuilt pages that are kept in process while the store is down.
	maxImageBytes = 64 << 20
)

// Recorder records activities, first in the ledger, then in the pages. It acknowledges a write once
// every page that the write touches has at least the write's sequence. Every [View] that begins
// after that has the write.
//
// Writes of concurrent callers share ledger transactions. A Recorder is safe for concurrent use.
type Recorder struct {
	reader
	*grower // and all parts below it, see docs/ARCHITECTURE.md
	*committer

	replica      favfilter.Store // nil: none
	uncopied     episode         // replicas cannot be read
	replicaAfter atomic.Int64    // when replicas are read again, as elapsed
	persist      func(context.Context) error
}

// Open returns a Recorder for the ledger and the store. It reads the sequence of every page from
// the ledger, to tell pages that are still in the store from lost ones.
//
// Open fails with an error that wraps [favfilter.ErrMismatch] if the store holds a filter without a
// ledger. It fails with one that wraps ledger.ErrSettingsDiffer as [Config.StalenessBound] says.
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
	r.growOnOpen()
	return r, nil
}

// newRecorder returns a Recorder without background polls and scrubs. It polls the ledger when a
// View needs it.
func newRecorder(ctx context.Context, c Config) (*Recorder, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	id := c.Ledger.Identity()
	s := &storage{
		lifecycle: newLifecycle(ctx),
		store:     c.Store,
		identity:  favfilter.Identity{Seed: id.Seed, Pages: id.Pages, Incarnation: id.Incarnation},
		keyRate:   c.FalsePositiveRate / float64(c.Kinds.lookups()),
		now:       c.Now,
		log:       c.Logger,
		survey:    newSurvey(),
	}
	a := c.newApplier(s, id)
	r := &Recorder{
		reader:    reader{storage: s, kinds: c.Kinds, rate: c.FalsePositiveRate},
		grower:    &grower{scrubber: &scrubber{applier: a}, growth: growth{turn: make(chan struct{}, 1)}},
		committer: newCommitter(a),
		replica:   c.Replica,
		persist:   c.Persist,
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

// newApplier returns the parts from the poller to the applier. Each calls only those below it.
func (c *Config) newApplier(s *storage, id ledger.Identity) *applier {
	a := &applier{leavers: newLeavers(), tidying: newTidying()}
	a.rebuilder = &rebuilder{
		poller: &poller{
			storage:   s,
			ledger:    c.Ledger,
			sequences: newSequences(id.Pages),
			layout:    newLayout(id.Pages),
			follow:    follower{bound: max(0, c.StalenessBound)},
		},
		kinds:         c.Kinds,
		maxSharedKeys: c.MaxSharedKeys,
		largePage:     largePage,
		images:        newImages(),
		cache:         newCache(c.PageCache, c.delays()),
		rebuilds:      newRebuilds(c.OnRebuild),
		heavy:         a.leave,
	}
	a.recovered = a.rebuilds.forgive
	return a
}

// learnAll declares the kinds to the ledger, and reads the ledger's state of all pages.
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
	r.follow.changed = nil // these are all pages, which a scrub checks
	return nil
}

// setDefaults fills in the defaults that filters with and without a ledger share.
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
	c.MaxSharedKeys = cmp.Or(c.MaxSharedKeys, defaultSharedKeys)
	if err := checkRate(c.FalsePositiveRate); err != nil {
		return err
	}
	switch {
	case c.StalenessBound > 0 && (c.StalenessBound < 10*time.Millisecond || c.StalenessBound > time.Minute):
		return fmt.Errorf("staleness bound %v is not in 10 ms to 1 min", c.StalenessBound)
	case c.Ledger == nil:
		return errors.New("there is no ledger: OpenPlain does without")
	case c.MaxSharedKeys < MinSharedKeys:
		return fmt.Errorf("a page of their own for users of more than %d keys: less than %d", c.MaxSharedKeys, MinSharedKeys)
	case c.PageCache < 0 || c.PageCache > 1<<40:
		return fmt.Errorf("page cache of %d bytes: not in 0 to 2^40", c.PageCache)
	case c.ScrubRate < 0 || c.ScrubRate > 100_000:
		return fmt.Errorf("scrub rate %d is not in 1 to 100,000 pages a second", c.ScrubRate)
	}
	return nil
}

// refusePlain fails if the store holds a filter without a ledger. Its pages would count as foreign
// and be rebuilt from a ledger that does not have their keys. If the store cannot be read, the
// check is skipped.
func (r *Recorder) refusePlain(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	loaded, err := r.store.Load(limited, []favfilter.PageID{{}})
	if err != nil || loaded[0].Page == nil || loaded[0].Page.Header().Incarnation != 0 {
		return ctx.Err()
	}
	return fmt.Errorf("%w: without a ledger, opened with one", favfilter.ErrMismatch)
}

// Close waits for the writes in flight, refuses new ones with [ErrClosed], and returns when all
// background work has stopped.
func (r *Recorder) Close() {
	r.lifecycle.Close()
	r.rebuilds.close()
}
