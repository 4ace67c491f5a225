// Package sampler compares a share of the feeds with the ledger.
package sampler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/feed"
)

const (
	// maxQueued is the number of feeds that may wait to be compared with the ledger.
	maxQueued = 16
	// samplers is the number of feeds compared at once.
	samplers = 2
	// maxSampledIDs and maxSampledBytes bound the ids of one sample, and their total length: some 2
	// MiB with everything that belongs to them. A feed with more is not sampled. maxSampledBytes
	// also bounds the texts of one: phrases are not compared in a feed with more.
	maxSampledIDs   = 20_000
	maxSampledBytes = 1 << 20
	// maxSampledPhrases is the largest number of phrases that the viewer of a compared feed has of
	// one kind, up to some 1 MiB.
	maxSampledPhrases = 10_000
	// sampleTimeout is how long one look at the ledger may take.
	sampleTimeout = 10 * time.Second
	// maxLogged is the largest number of misses of one sample that are logged.
	maxLogged = 10
)

// Config configures a [Sampler].
type Config struct {
	_ struct{} // fields are named

	// Rate is the share of feeds that are compared with the ledger, 0 to 1; 0: none. One comparison
	// costs the ledger as many row seeks as the feed has candidates times kinds, in one query, and
	// one more seek. If candidates have texts, it also reads what the viewer has of each kind of
	// phrases.
	Rate float64

	// Logger gets an error for each missed post. Default: discards.
	Logger *slog.Logger

	// HashID returns what is logged in place of the id of a user or a post. Default: no ids are
	// logged.
	HashID func(id string) string
}

// Stats holds the counts of a [Sampler] since it was created.
type Stats struct {
	Feeds      uint64 `json:"feeds"`      // feeds compared with the ledger
	Candidates uint64 `json:"candidates"` // candidates of these feeds that were checked

	// Misses are posts that a feed kept, or did not annotate, although the ledger has the activity,
	// and had it when the feed began. There must be none.
	Misses uint64 `json:"misses"`

	// FalsePositives are posts that a feed dropped or annotated although the ledger does not have
	// the activity.
	FalsePositives uint64 `json:"false_positives"`

	// Late are posts that a feed kept although the next feed would not, and whose activity was
	// recorded shortly before the feed began. Either it was not acknowledged yet, or another
	// process acknowledged it within the staleness bound.
	Late uint64 `json:"late"`

	// Undecided are posts on which feed and ledger disagree, and nothing can tell since when.
	Undecided uint64 `json:"undecided"`

	// Skipped are chosen feeds that were not compared, because too many were waiting, they were too
	// large, or the viewer has more than 10,000 phrases of a kind.
	Skipped uint64 `json:"skipped"`
	// Errors are feeds that were not compared because the ledger or the pages could not be read.
	Errors uint64 `json:"errors"`
	// Repaired are pages that were rebuilt because of a miss.
	Repaired uint64 `json:"repaired"`
}

// Sampler compares a share of the feeds with the ledger, in the background, after they were
// answered. It asks the ledger about every candidate, not only about those that the page reports.
// So it measures whether feeds miss any acknowledged activity, and how often they drop a post
// wrongly.
//
// A Sampler never raises a false alarm. Every change of the viewer's page raises the page's
// sequence, which reveals activities that were recorded or undone during the feed or the
// comparison. Kinds with a window are left out, because nothing else holds what they should
// contain. A page with a miss is rebuilt at once.
//
// A Sampler is safe for concurrent use.
type Sampler struct {
	recorder *activity.Recorder // nil without a ledger: nothing is compared
	rate     atomic.Uint64      // the bits of a float64
	log      *slog.Logger
	hashID   func(string) string

	queue chan *sample
	start func() // called before the first comparison
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu    sync.Mutex
	stats Stats
}

// New returns a Sampler of feeds of the Recorder. The caller closes the Sampler before the
// Recorder. If recorder is nil, because there is no ledger, nothing is sampled. The error says that
// the rate is out of range.
func New(recorder *activity.Recorder, c Config) (*Sampler, error) {
	log := cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	s := &Sampler{
		recorder: recorder,
		log:      log,
		hashID:   c.HashID,
		queue:    make(chan *sample, maxQueued),
	}
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

// SetRate changes the share of feeds that are compared with the ledger, from now on, to rate, 0 to
// 1. Without a ledger nothing is sampled. SetRate must not be called during [Sampler.Close] or
// after it.
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

// Close discards the feeds that wait, and returns when all background work has stopped.
func (s *Sampler) Close() {
	s.stop()
	s.ended.Wait()
}

// Stats returns the current counts.
func (s *Sampler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *Sampler) count(change func(n *Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.stats)
}

// Choose chooses at random whether to compare a feed with the ledger. It is called before the feed.
// If the feed is not chosen, it returns nil, at the cost of one random number.
func (s *Sampler) Choose() *Sampled {
	rate := math.Float64frombits(s.rate.Load())
	if rate == 0 || rand.Float64() >= rate { //nolint:gosec // need not be unpredictable
		return nil
	}
	return &Sampled{sampler: s, start: s.recorder.Now()}
}

// Sampled is a feed that was chosen to be compared with the ledger. On nil, its methods are no-ops.
type Sampled struct {
	sampler    *Sampler
	start, end time.Time // by the ledger's clock
	feed       *feed.Checked
}

// Answered notes the answer, as soon as there is one.
func (f *Sampled) Answered(checked *feed.Checked) {
	if f != nil {
		f.feed, f.end = checked, f.sampler.recorder.Now()
	}
}

// Compare queues the feed for a comparison with the ledger in the background. If too many feeds are
// waiting, or the feed is too large, it only counts the feed as skipped.
//
// Call Compare after the answer was sent, while request and answer are still unchanged: it copies
// what it needs of them. Log lines about the feed have attrs, and are logged with the values of
// ctx, but do not depend on its cancellation.
func (f *Sampled) Compare(ctx context.Context, attrs ...slog.Attr) {
	if f == nil || !slices.ContainsFunc(f.feed.Kinds(), activity.Kind.InLedger) {
		return // nothing can tell
	}
	s := f.sampler
	if len(s.queue) < cap(s.queue) {
		if sample := f.sample(context.WithoutCancel(ctx), attrs); sample != nil {
			select {
			case s.queue <- sample:
				return
			default:
			}
		}
	}
	s.count(func(n *Stats) { n.Skipped++ })
}

// run compares queued feeds until ctx ends.
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

// compare compares one feed with the ledger, and counts the results.
func (s *Sampler) compare(ctx context.Context, of *sample) {
	c := comparison{sample: of, recorder: s.recorder}
	err := c.run(ctx)
	if ctx.Err() != nil {
		return
	}
	s.count(func(n *Stats) { // even after an error
		n.Misses += uint64(len(c.misses))
		n.FalsePositives += c.falsePositives
	})
	if len(c.misses) > 0 {
		s.report(&c)
		s.repair(ctx, &c)
	}
	if errors.Is(err, errTooLarge) {
		s.count(func(n *Stats) { n.Skipped++ })
		return
	}
	if err != nil {
		s.count(func(n *Stats) { n.Errors++ })
		s.log.DebugContext(ctx, "a feed could not be compared with the ledger", "error", err)
		return
	}
	s.count(func(n *Stats) { // last, so that a caller that waits for the feed sees all
		n.Feeds++
		n.Candidates += uint64(len(of.posts))
		n.Late += c.late
		n.Undecided += c.undecided
	})
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
			attrs = append(attrs,
				slog.String("viewer_hash", s.hashID(c.sample.viewer)),
				slog.String("target_hash", s.hashID(m.target)))
		}
		s.log.LogAttrs(c.sample.ctx, slog.LevelError, "a feed missed what the ledger has", attrs...)
	}
}

// repair rebuilds the pages with misses.
func (s *Sampler) repair(ctx context.Context, c *comparison) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	done := make(map[uint32]bool)
	for _, m := range c.misses {
		if done[m.at.Page] {
			continue
		}
		done[m.at.Page] = true
		at := pages.PageAt{Page: m.at.Page, Sequence: m.ledger}
		if err := s.recorder.Repair(ctx, at); err != nil {
			s.log.LogAttrs(ctx, slog.LevelError, "cannot rebuild a page that missed activities",
				slog.Any("page", m.at.Page), slog.Any("error", err))
			continue
		}
		s.count(func(n *Stats) { n.Repaired++ })
	}
}
