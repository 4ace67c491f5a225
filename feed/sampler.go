package feed

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// maxQueued is how many feeds may wait to be compared with the ledger, and samplers how many are at a time.
	maxQueued = 16
	samplers  = 2
	// maxSampledIDs and maxSampledBytes are the most ids of one sample, and the length of these: some 2 MiB with
	// all that belongs to them. A feed that has more is not sampled.
	maxSampledIDs   = 20_000
	maxSampledBytes = 1 << 20
	// sampleTimeout is how long one look at the ledger may take.
	sampleTimeout = 10 * time.Second
	// maxLogged is how many misses of one sample are logged.
	maxLogged = 10
)

// SamplerConfig is what a [Sampler] is made of.
type SamplerConfig struct {
	_ struct{} // fields are named

	// Rate is the share of feeds that are compared with the ledger, 0 to 1; 0: none. A comparison costs the ledger as many
	// seeks to a row as the feed had candidates, times kinds, in one query, and one seek more.
	Rate float64

	// Logger gets an error for each post that was missed; default: discards.
	Logger *slog.Logger

	// HashID makes of an id of a user or a post what may be logged in its place; default: no ids are logged.
	HashID func(id string) string
}

// SampleStats is what a [Sampler] counted since it was made.
type SampleStats struct {
	Feeds      uint64 `json:"feeds"`      // that were compared with the ledger
	Candidates uint64 `json:"candidates"` // of these feeds, those that were looked at

	// Misses are posts that a feed kept, or did not mark, although the ledger has the activity and had it when the
	// feed began. There must be none.
	Misses uint64 `json:"misses"`

	// FalsePositives are posts that a feed dropped or marked although the ledger does not have the activity.
	FalsePositives uint64 `json:"false_positives"`

	// Late are posts that a feed kept and the next one would not have, whose activity was recorded shortly before the
	// feed began: it was not acknowledged yet, or by another process and within the staleness bound.
	Late uint64 `json:"late"`

	// Undecided are posts of which the ledger says otherwise than the feed did, and nobody can tell since when.
	Undecided uint64 `json:"undecided"`

	Skipped  uint64 `json:"skipped"`  // feeds that were chosen, and not compared, because too much was waiting, or they were too large
	Errors   uint64 `json:"errors"`   // feeds that were not compared because the ledger or the pages could not be read
	Repaired uint64 `json:"repaired"` // pages that were made anew because of a miss
}

// Sampler compares a share of feeds with the ledger, after they were answered, in the background: the ledger is asked
// about every candidate, and not about those alone that the page reports. It tells whether the promise holds that
// nothing acknowledged is missed, and how often a post is dropped wrongly.
//
// It never raises a false alarm: what was recorded or undone while the feed was answered, or while the ledger is asked,
// is told by the sequence of the viewer's page, which every change raises. Kinds with a window have no truth to be
// compared with, and are left out. A page that something is missed on is made anew at once.
//
// It is safe for concurrent use.
type Sampler struct {
	activities activity.Activities
	recorder   *activity.Recorder // nil without a ledger: nothing is compared
	rate       atomic.Uint64      // the bits of a float64
	log        *slog.Logger
	hashID     func(string) string

	queue chan *sample
	start func() // once something is to be compared
	stop  context.CancelFunc
	ended sync.WaitGroup

	feeds, candidates, misses, falsePositives atomic.Uint64
	late, undecided, skipped, errors          atomic.Uint64
	repaired                                  atomic.Uint64
}

// NewSampler returns a Sampler of feeds of activities, which the caller closes before these. Without a ledger nothing is sampled.
func NewSampler(activities activity.Activities, c SamplerConfig) (*Sampler, error) {
	s := &Sampler{activities: activities, log: c.Logger, hashID: c.HashID, queue: make(chan *sample, maxQueued)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.recorder, _ = activities.(*activity.Recorder)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.start = sync.OnceFunc(func() {
		for range samplers {
			s.ended.Go(func() { s.run(ctx) })
		}
	})
	if err := s.SetRate(c.Rate); err != nil {
		stop()
		return nil, err
	}
	return s, nil
}

// SetRate changes the share of feeds that are compared with the ledger from now on, 0 to 1. Without a ledger nothing is sampled. It is
// not to be called during [Sampler.Close] or after it.
func (s *Sampler) SetRate(rate float64) error {
	if !(rate >= 0 && rate <= 1) {
		return fmt.Errorf("sample rate %g is not in 0 to 1", rate)
	}
	if s.recorder == nil {
		return nil
	}
	if rate > 0 {
		s.start()
	}
	s.rate.Store(math.Float64bits(rate))
	return nil
}

// Close gives up what is waiting, and returns when nothing of the Sampler is running.
func (s *Sampler) Close() {
	s.stop()
	s.ended.Wait()
}

// Stats returns the counts as they stand.
func (s *Sampler) Stats() SampleStats {
	return SampleStats{
		Feeds:          s.feeds.Load(),
		Candidates:     s.candidates.Load(),
		Misses:         s.misses.Load(),
		FalsePositives: s.falsePositives.Load(),
		Late:           s.late.Load(),
		Undecided:      s.undecided.Load(),
		Skipped:        s.skipped.Load(),
		Errors:         s.errors.Load(),
		Repaired:       s.repaired.Load(),
	}
}

// Filter is [Filter], and chooses at random whether the feed is to be compared with the ledger: then it is
// returned as Sampled, else nil. A feed that is not chosen pays a random number for it.
func (s *Sampler) Filter(ctx context.Context, req Request) (Answer, *Sampled, error) {
	if rate := math.Float64frombits(s.rate.Load()); rate == 0 || rand.Float64() >= rate { //nolint:gosec // no secret
		a, err := Filter(ctx, s.activities, req)
		return a, nil, err
	}
	sampled := &Sampled{sampler: s, req: req, start: s.recorder.Now()}
	a, err := filter(ctx, s.activities, req, sampled)
	if err != nil {
		return Answer{}, nil, err
	}
	if !slices.ContainsFunc(sampled.checks.all[:sampled.checks.marks], activity.Kind.InLedger) {
		return a, nil, nil // nobody can tell
	}
	sampled.end = s.recorder.Now()
	return a, sampled, nil
}

// Sampled is a feed that was chosen to be compared with the ledger.
type Sampled struct {
	sampler    *Sampler
	req        Request
	start, end time.Time // by the ledger's clock
	checks     checks
	at         activity.PageAt
	answer     Answer
	places     []int          // of Answer.Dropped, in Request.Posts
	confirmed  map[claim]bool // of an exact feed: what the ledger was asked about
}

// dropped notes that post number i is left out.
func (f *Sampled) dropped(i int) {
	if f != nil {
		f.places = append(f.places, i)
	}
}

// answered notes what the answer was, and what it was made of.
func (f *Sampled) answered(l *look, a Answer) {
	if f != nil {
		f.checks, f.at, f.answer, f.confirmed = l.checks, l.view.At(), a, l.confirmed
	}
}

// Compare has the feed compared with the ledger, in the background, unless too much is waiting for that already. It is
// to be called once the answer was sent, while request and answer are still as they were, and copies what it needs of
// them. What is logged of the feed has attrs, and is logged with the values of ctx, whose end does not matter. On nil it does
// nothing.
func (f *Sampled) Compare(ctx context.Context, attrs ...slog.Attr) {
	if f == nil {
		return
	}
	s := f.sampler
	if len(s.queue) == cap(s.queue) {
		s.skipped.Add(1)
		return
	}
	sample := f.sample(context.WithoutCancel(ctx), attrs)
	if sample == nil {
		s.skipped.Add(1)
		return
	}
	select {
	case s.queue <- sample:
	default:
		s.skipped.Add(1)
	}
}

// run compares what is queued until ctx ends.
func (s *Sampler) run(ctx context.Context) {
	for {
		select {
		case sample := <-s.queue:
			s.compare(ctx, sample)
		case <-ctx.Done():
			return
		}
	}
}

// compare compares one feed with the ledger, and counts what comes of it.
func (s *Sampler) compare(ctx context.Context, of *sample) {
	c := comparison{sample: of, recorder: s.recorder}
	err := c.run(ctx)
	if ctx.Err() != nil {
		return
	}
	s.misses.Add(uint64(len(c.misses))) // also where the rest could not be read
	s.falsePositives.Add(c.falsePositives)
	if len(c.misses) > 0 {
		s.report(&c)
		s.repair(ctx, &c)
	}
	if err != nil {
		s.errors.Add(1)
		s.log.DebugContext(ctx, "a feed could not be compared with the ledger", "error", err)
		return
	}
	s.feeds.Add(1)
	s.candidates.Add(uint64(len(of.posts)))
	s.late.Add(c.late)
	s.undecided.Add(c.undecided)
}

// report logs what was missed.
func (s *Sampler) report(c *comparison) {
	for _, m := range c.misses[:min(len(c.misses), maxLogged)] {
		attrs := append(make([]slog.Attr, 0, 9+len(c.sample.attrs)), c.sample.attrs...)
		attrs = append(attrs,
			slog.String("kind", m.kind.Name),
			slog.Any("page", m.at.Page),
			slog.Uint64("sequence", m.at.Sequence),
			slog.Uint64("ledger_sequence", m.ledger),
			slog.Time("since", m.since),
			slog.Int("misses", len(c.misses)))
		if s.hashID != nil {
			attrs = append(attrs, slog.String("viewer_hash", s.hashID(c.sample.viewer)), slog.String("target_hash", s.hashID(m.target)))
		}
		s.log.LogAttrs(c.sample.ctx, slog.LevelError, "a feed missed what the ledger has", attrs...)
	}
}

// repair makes anew the pages that something was missed on.
func (s *Sampler) repair(ctx context.Context, c *comparison) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	done := make(map[uint32]bool)
	for _, m := range c.misses {
		if done[m.at.Page] {
			continue
		}
		done[m.at.Page] = true
		if err := s.recorder.Repair(ctx, activity.PageAt{Page: m.at.Page, Sequence: m.ledger}); err != nil {
			s.log.LogAttrs(ctx, slog.LevelError, "a page that something was missed on could not be made anew",
				slog.Any("page", m.at.Page), slog.Any("error", err))
			continue
		}
		s.repaired.Add(1)
	}
}
