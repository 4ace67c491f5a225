package pages

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
)

// Config configures [Pages]. The fields without a comment are those of activity.Config.
type Config struct {
	_ struct{} // fields are named

	Ledger  *ledger.Ledger
	Store   favfilter.Store
	Replica favfilter.Store
	// Kinds are the kinds of rows that are written.
	Kinds []ledger.Kind
	// KeyRate is the false-positive rate of one key.
	KeyRate float64

	StalenessBound time.Duration
	MaxSharedKeys  int
	ListCache      int
	ScrubRate      int
	Passive        bool
	OnRebuild      func(reason string, took time.Duration, err error)
	Now            func() time.Time
	Logger         *slog.Logger
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
)

// core is what all parts of [Pages] share.
type core struct {
	life      *lifecycle.Lifecycle
	storage   *storage
	ledger    *ledger.Ledger
	known     *known.Ledger
	sequences *known.Sequences
	layout    *known.Layout
	due       *dueQueue
}

// Pages are the pages of a ledger, in a store. They are safe for concurrent use.
type Pages struct {
	core

	rebuilder *rebuilder
	applier   *applier
	committer *committer
	scrubber  *Scrubber
	grower    *Grower
	reader    *reader
	inspector *Inspector
	format    *pageFormat
}

// Open returns the pages of the ledger. It reads the sequence of every page from the ledger, to
// tell pages that are still in the store from lost ones.
//
// Open fails with an error that wraps [favfilter.ErrMismatch] if the store holds a filter without a
// ledger. It fails with one that wraps ledger.ErrSettingsDiffer if another process has another
// StalenessBound.
func Open(ctx context.Context, c Config) (*Pages, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	r := newPages(ctx, c)
	if err := r.begin(ctx, c.Passive); err != nil {
		r.Close()
		return nil, err
	}
	if !c.Passive {
		r.scrubber.rate.Store(int64(cmp.Or(c.ScrubRate, defaultScrubRate)))
		r.maintain()
	}
	return r, nil
}

// begin learns the state of the ledger.
func (p *Pages) begin(ctx context.Context, passive bool) error {
	p.life.Go(p.committer.commitLoop)
	if err := p.rebuilder.declare(ctx); err != nil {
		return err
	}
	if err := p.format.learn(ctx, passive); err != nil {
		return err
	}
	if err := p.known.FirstPoll(ctx); err != nil {
		return fmt.Errorf("read page sequences: %w", err)
	}
	if err := p.refuseAlone(ctx); err != nil || passive {
		return err
	}
	return p.ledger.Agree(ctx, p.known.Bound())
}

// maintain starts the background work. Without it, the ledger is polled when a reader needs it.
func (p *Pages) maintain() {
	p.life.Go(p.known.KeepPolling)
	p.life.Go(p.scrubber.scrubLoop)
	p.life.Go(p.committer.endLoop)
	if p.storage.uniform.Load() {
		p.life.Go(p.format.raise)
	}
	p.grower.growOnOpen()
}

// newCore returns what the parts share. recovered is called when the ledger can be read again.
func newCore(ctx context.Context, c Config, recovered func()) core {
	id := c.Ledger.Identity()
	shared := core{life: lifecycle.New(ctx), ledger: c.Ledger, due: newDueQueue()}
	shared.known = known.New(shared.life, c.Ledger, known.Options{
		Bound: c.StalenessBound, Now: c.Now, Log: c.Logger,
		Changed: func(pages []uint32) { shared.expectChanges(pages) }, Recovered: recovered,
	})
	shared.sequences, shared.layout = shared.known.Sequences(), shared.known.Layout()
	shared.storage = &storage{
		life:     shared.life,
		store:    c.Store,
		identity: favfilter.Identity{Seed: id.Seed, Pages: id.Pages, Incarnation: id.Incarnation},
		keyRate:  c.KeyRate,
		now:      shared.known.Now,
		log:      c.Logger,
	}
	shared.storage.stats.survey.Store(newSurvey())
	return shared
}

// newPages returns the parts, each of which calls only those below it.
func newPages(ctx context.Context, c Config) *Pages {
	rebuilds := newRebuilds(c.OnRebuild)
	rebuilder := newRebuilder(newCore(ctx, c, rebuilds.endPauses), rebuilds, c)
	applier := newApplier(rebuilder)
	scrubber := newScrubber(applier)
	return &Pages{
		core:      rebuilder.core,
		rebuilder: rebuilder,
		applier:   applier,
		committer: newCommitter(applier),
		scrubber:  scrubber,
		grower:    newGrower(scrubber),
		reader:    newReader(rebuilder, c.Replica),
		inspector: newInspector(rebuilder),
		format:    &pageFormat{core: rebuilder.core},
	}
}

// complete fills in the defaults and checks the ranges.
func (c *Config) complete() error {
	c.StalenessBound = cmp.Or(c.StalenessBound, defaultBound)
	c.MaxSharedKeys = cmp.Or(c.MaxSharedKeys, defaultSharedKeys)
	c.ListCache = cmp.Or(c.ListCache, DefaultListCache)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.StalenessBound > 0 &&
		(c.StalenessBound < 10*time.Millisecond || c.StalenessBound > time.Minute):
		return fmt.Errorf("staleness bound %v is not in 10 ms to 1 min", c.StalenessBound)
	case c.MaxSharedKeys < MinSharedKeys:
		return fmt.Errorf(
			"dedicated pages for users of more than %d keys: at least %d", c.MaxSharedKeys, MinSharedKeys,
		)
	case c.ListCache < 0 || c.ListCache > 1<<40:
		return fmt.Errorf("list cache of %d bytes: not in 1 to 2^40", c.ListCache)
	case c.ScrubRate < 0 || c.ScrubRate > 100_000:
		return fmt.Errorf("scrub rate %d is not in 1 to 100,000 pages a second", c.ScrubRate)
	}
	return nil
}

// refuseAlone fails if the store holds a filter without a ledger. Its pages would count as foreign
// and be rebuilt from a ledger that does not have their keys. If the store cannot be read, the
// check is skipped.
func (p *Pages) refuseAlone(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	loaded, _, err := p.storage.store.Load(limited, []favfilter.PageID{{}})
	if err != nil || loaded[0].Page == nil || loaded[0].Page.Header().Incarnation != 0 {
		return ctx.Err()
	}
	return fmt.Errorf("%w: without a ledger, opened with one", favfilter.ErrMismatch)
}

// Close waits for the writes in flight, refuses new ones with [ErrClosed], and returns when all
// background work has stopped.
func (p *Pages) Close() {
	p.life.Close()
	p.rebuilder.rebuilds.close()
}

// Inspector returns the part that shows what is in pages.
func (p *Pages) Inspector() *Inspector { return p.inspector }

// Scrubber returns the part that compares pages with the ledger.
func (p *Pages) Scrubber() *Scrubber { return p.scrubber }

// Grower returns the part that changes the number of pages.
func (p *Pages) Grower() *Grower { return p.grower }

// Identity returns the identity of the filter. Its number of pages is the one with which the filter
// was created; for the current number, see [Grower.Layout].
func (p *Pages) Identity() favfilter.Identity { return p.storage.identity }

// Now returns the time that is used for the start and end of activities.
func (p *Pages) Now() time.Time { return p.storage.now() }

// StalenessBound returns the bound of the [Config]; 0 if every reader asks the ledger first.
func (p *Pages) StalenessBound() time.Duration { return p.known.Bound() }

// Readable returns an [*UnavailableError] if the ledger did not answer the last poll, or a later
// question of a reader and a ping. Callers then fail at once, rather than wait for it. The next
// poll begins with the call.
func (p *Pages) Readable() error { return p.known.Readable() }

// Load reads pages, whatever their state, within a second. If the store fails, every element is
// zero. The error is an [*UnavailableError], or that of ctx.
func (p *Pages) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return p.storage.loadAny(ctx, ids)
}

// Ready reports whether feeds can be answered, for which either the pages or the ledger must
// answer. It returns an [*UnavailableError] for each of the two that is down. The error of a ledger
// that answers, but whose changes are not read in time, wraps [ErrBehind].
func (p *Pages) Ready(ctx context.Context) (ready bool, down []error) {
	// Ask both at once: one that hangs leaves no time for the other.
	ledgerErr := make(chan error, 1)
	go func() { ledgerErr <- p.ledger.Ping(ctx) }()
	_, _, storeErr := p.storage.store.Load(ctx, []favfilter.PageID{{Number: 0}})
	if err := <-ledgerErr; err != nil {
		down = append(down, Unavailable("ledger", err))
	}
	if err := p.behind(); err != nil && len(down) == 0 {
		down = append(down, Unavailable("ledger", err))
	}
	if storeErr != nil {
		down = append(down, Unavailable("pages", storeErr))
	}
	return len(down) < 2, down
}

// behind returns an error that wraps ErrBehind if the ledger's changes are not read in time.
func (p *Pages) behind() error {
	if p.scrubber.rate.Load() == 0 || p.known.Access() != known.Behind {
		return nil // passive Pages poll when they are read
	}
	return fmt.Errorf("%w: the last poll that succeeded began %v ago", ErrBehind,
		p.known.Age().Round(time.Millisecond))
}
