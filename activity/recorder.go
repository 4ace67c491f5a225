package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/admission"
)

// Config configures a [Recorder].
type Config struct {
	_ struct{} // fields are named

	// Ledger is the source of truth behind the pages. The caller closes it, after the Recorder. See
	// [OpenPlain] for activities without a ledger.
	Ledger *ledger.Ledger
	// Store holds one filter, which belongs to this ledger alone.
	Store favfilter.Store
	// Replica reads pages from copies of Store that may lag behind it. Views read it first. A
	// replica's page that lacks a required write is not used: the View then takes a second round
	// trip, to Store. For kinds with a window, a View misses what the replica lacks. Nil: there are
	// no replicas.
	Replica favfilter.Store
	// Kinds are the kinds of activities. Default: BuiltinKinds().
	Kinds *Kinds

	// FalsePositiveRate is the share of clean candidates that a feed check may drop wrongly, whatever
	// ids they carry: 1e-8 to 0.5. It is divided among the kinds that drop. Each list of a feed may
	// drop as many again. Default 0.001.
	FalsePositiveRate float64

	// StalenessBound is the maximum age of a Recorder's view of the ledger while it answers. It
	// matters for a write through another Recorder whose page change did not arrive or was lost.
	// Every View that begins this long after the write was acknowledged has the write.
	//
	// 10 ms to 1 min, or 0 for the default of 1 s. A negative value makes every View ask the ledger
	// first. That is necessary if Recorders share a ledger but each has its own store.
	//
	// All Recorders of one ledger must have the same StalenessBound; otherwise Open fails with an
	// error that wraps ledger.ErrSettingsDiffer.
	StalenessBound time.Duration

	// MaxSharedKeys is the largest number of a user's keys on a shared page. A user with more keys
	// gets a dedicated page, which bounds what feeds read by the activities of their viewer and a
	// few others. At least 16; default 2048.
	MaxSharedKeys int

	// ListCache is the number of bytes of pages that this process holds, 1 to 2^40. These are pages
	// of lists, those for [Recorder.Audience], dedicated ones of 64 KiB or more, and those that
	// were rebuilt while the Store was down. The least recently used are evicted first. A page takes
	// up to half of it; larger ones are read each time. Default 64 MiB.
	ListCache int

	// ScrubRate is the number of pages a second that the background scrub compares with the ledger,
	// 1 to 100,000. The scrub is faster while the store may have lost pages. Default 500.
	ScrubRate int

	// Passive turns background maintenance off: no scrub, no rebuild of a page before somebody
	// reads it, no removal of ended activities. It is for inspection that must not change the data.
	Passive bool

	// AfterTimeout bounds how long [Recorder.Await] waits. Default 1 s.
	AfterTimeout time.Duration

	// FollowedWithin is how recently the source of a followed kind must have been followed. Views
	// are answered beyond it too, and [Recorder.Behind] names the kind. Default 30 s. Negative:
	// Behind names none.
	FollowedWithin time.Duration

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

// Recorder records activities, first in the ledger, then in the pages. It acknowledges a write once
// every page that the write touches has at least the write's sequence. Every [View] that begins
// after that has the write.
//
// Writes of concurrent callers share ledger transactions. A Recorder is safe for concurrent use.
type Recorder struct {
	reader

	ledger  *ledger.Ledger
	pages   *pages.Pages
	persist func(context.Context) error

	afterTimeout   time.Duration
	followedWithin time.Duration
}

// Open returns a Recorder for the ledger and the store. It reads the sequence of every page from
// the ledger, to tell pages that are still in the store from lost ones.
//
// Open fails with an error that wraps [favfilter.ErrMismatch] if the store holds a filter without a
// ledger. It fails with one that wraps ledger.ErrSettingsDiffer as [Config.StalenessBound] says.
func Open(ctx context.Context, c Config) (*Recorder, error) {
	r, err := open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open recorder: %w", err)
	}
	return r, nil
}

func open(ctx context.Context, c Config) (*Recorder, error) {
	c.setDefaults()
	if err := checkRate(c.FalsePositiveRate); err != nil {
		return nil, err
	}
	if c.Ledger == nil {
		return nil, errors.New("there is no ledger: OpenPlain does without")
	}
	c.Ledger = c.Ledger.Around(admit)
	rates := c.Kinds.Rates(c.FalsePositiveRate)
	p, err := pages.Open(ctx, pages.Config{
		Ledger:         c.Ledger,
		Store:          c.Store,
		Replica:        c.Replica,
		Kinds:          c.Kinds.ofRows(),
		KeyRate:        rates.Key,
		StalenessBound: c.StalenessBound,
		MaxSharedKeys:  c.MaxSharedKeys,
		ListCache:      c.ListCache,
		ScrubRate:      c.ScrubRate,
		Passive:        c.Passive,
		OnRebuild:      c.OnRebuild,
		Now:            c.Now,
		Logger:         c.Logger,
	})
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		reader: reader{
			source: p, inside: p.Inspector(), kinds: c.Kinds, rates: rates,
			weights: p.Inspector().Weights(),
		},
		ledger:  c.Ledger,
		pages:   p,
		persist: c.Persist,

		afterTimeout:   cmp.Or(c.AfterTimeout, time.Second),
		followedWithin: cmp.Or(c.FollowedWithin, 30*time.Second),
	}
	if err := r.openWindows(c.Store, c.Logger); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Scrubber returns the part that compares pages with the ledger, for operators.
func (r *Recorder) Scrubber() *pages.Scrubber { return r.pages.Scrubber() }

// Grower returns the part that changes the number of pages, for operators.
func (r *Recorder) Grower() *pages.Grower { return r.pages.Grower() }

// Survey returns the figures of all pages as last read: see [pages.Pages.Survey].
func (r *Recorder) Survey() *pages.Survey { return r.pages.Survey() }

// TakePollAge returns the largest PollAge since the previous call: see [pages.Pages.TakePollAge].
func (r *Recorder) TakePollAge() time.Duration { return r.pages.TakePollAge() }

// RebuildPage rebuilds a page from the ledger: see [pages.Pages.RebuildPage].
func (r *Recorder) RebuildPage(ctx context.Context, number uint32) (pages.Rebuilt, error) {
	return r.pages.RebuildPage(ctx, number)
}

// Repair rebuilds a page that lacks keys of the ledger: see [pages.Pages.Repair].
func (r *Recorder) Repair(ctx context.Context, at pages.PageAt) error {
	return r.pages.Repair(ctx, at)
}

// StalenessBound returns the bound of the [Config]; 0 if every reader asks the ledger first.
func (r *Recorder) StalenessBound() time.Duration { return r.pages.StalenessBound() }

// ask reads the ledger for a caller, who waits for it. It fails at once if this process knows that
// the ledger does not answer, or if too many requests wait. Errors are [ErrOverloaded], an
// [*UnavailableError], or that of ctx.
//
//nolint:ireturn // T is no interface
func ask[T any](r *Recorder, read func() (T, error)) (T, error) {
	var none T
	if err := r.pages.Readable(); err != nil {
		return none, err
	}
	answer, err := read()
	return answer, pages.Unavailable("ledger", err)
}

// admit lets a request give its processor to others during each call to the ledger. It refuses the
// call if too many requests wait for the ledger. A ping is not refused: readiness must not depend
// on how many requests wait.
func admit(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	if c.Operation == "ping" {
		defer admission.Pause(ctx)()
		return next(ctx)
	}
	resume, ok := admission.PauseForLedger(ctx)
	if !ok {
		return ErrOverloaded
	}
	defer resume()
	return next(ctx)
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
