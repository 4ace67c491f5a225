package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

// shake adds and undoes activities of six users at random until the returned function is called, with ends, and with times
// long past, as an import has them. avoid is left alone.
func shake(t *testing.T, r *activity.Recorder, writers int, avoid string) (stop func() int64) {
	t.Helper()
	var running sync.WaitGroup
	var ended atomic.Bool
	var writes atomic.Int64
	for n := range uint64(writers) {
		running.Go(func() {
			random := rand.New(rand.NewPCG(7, n))
			for !ended.Load() {
				a := activity.Activity{
					User: fmt.Sprint(random.IntN(6)), Kind: []string{"block", "hide", "like"}[random.IntN(3)], Remove: random.IntN(2) == 0,
				}
				if a.Target = fmt.Sprint("p", random.IntN(6)); a.Kind == "block" {
					a.Target = fmt.Sprint(6 + random.IntN(4))
				}
				switch {
				case a.Target == avoid:
					continue
				case a.Remove:
				case random.IntN(4) == 0:
					a.Until = time.Now().Add(time.Millisecond + rand.N(3*time.Second))
				case random.IntN(4) == 0:
					a.Since = time.Now().Add(-time.Duration(random.IntN(1000)) * time.Hour)
				}
				if _, err := r.Record(t.Context(), []activity.Activity{a}); err != nil && a.Until.IsZero() { // it may be over already
					t.Error(err)
					return
				}
				writes.Add(1)
			}
		})
	}
	return func() int64 {
		ended.Store(true)
		running.Wait()
		return writes.Load()
	}
}

// anything is a feed of all that shake may touch.
func anything(random *rand.Rand) feed.Request {
	req := feed.Request{Viewer: fmt.Sprint(random.IntN(6)), Annotate: []string{"like"}, Exact: random.IntN(4) == 0}
	for i := range 12 {
		req.Posts = append(req.Posts, feed.Post{ID: fmt.Sprint("p", i%8), Author: fmt.Sprint(5 + random.IntN(6)), Actors: []string{fmt.Sprint(random.IntN(10))}})
	}
	return req
}

// Writers, readers, users who move to pages of their own, pages that are lost: as long as the promise is kept, there is
// neither a miss nor a false positive, however much changes while a feed is answered and compared.
func TestSamplerRaisesNoFalseAlarm(t *testing.T) {
	for _, ownPage := range []int{0, activity.MinOwnPage} {
		t.Run(fmt.Sprint("own pages from ", ownPage), func(t *testing.T) {
			store := &favfilter.Memory{}
			s := newSampled(t, activity.Config{Store: store, OwnPage: ownPage, ScrubRate: 1000}, nil)
			if ownPage > 0 {
				for i := range 40 { // so that some have enough for a page of their own
					record(t, s.Recorder, fmt.Sprintf("%d hide q%d", i%4, i/4+i))
				}
			}
			enough := uint64(400)
			if testing.Short() {
				enough = 60
			}
			stop := shake(t, s.Recorder, 3, "")
			var asked atomic.Uint64
			done := func() uint64 {
				now := s.Stats()
				return now.Feeds + now.Skipped + now.Errors
			}
			var readers sync.WaitGroup
			for n := range uint64(2) {
				readers.Go(func() {
					random := rand.New(rand.NewPCG(8, n))
					for i := 0; s.Stats().Feeds < enough; i++ {
						if i%50 == 49 && n == 0 { // the page is lost
							if loaded, err := store.Load(t.Context(), []favfilter.PageID{{}}); err == nil {
								_, _ = store.Replace(t.Context(), favfilter.Replacement{Seen: loaded[0].Version})
							}
						}
						_, chosen, err := s.Filter(t.Context(), anything(random))
						if err != nil {
							t.Error(err)
							return
						}
						chosen.Compare()
						for n := asked.Add(1); n > done()+8; { // so that few are skipped
							time.Sleep(100 * time.Microsecond)
						}
					}
				})
			}
			readers.Wait()
			writes := stop()
			s.asked = asked.Load()
			got := s.compared(t)
			t.Logf("%d writes: %+v", writes, got)
			if got.Misses > 0 || got.FalsePositives > 0 || got.Errors > 0 || got.Repaired > 0 {
				t.Errorf("a false alarm: %+v; %v", got, s.log.lines(t, "a feed missed what the ledger has"))
			}
			if writes < int64(enough)/10 {
				t.Errorf("%d feeds compared during %d writes: too few to say anything", got.Feeds, writes)
			}
		})
	}
}

// forgetful is a store that drops one key of what is added, once.
type forgetful struct {
	favfilter.Store

	key     atomic.Pointer[favfilter.Hash]
	dropped atomic.Int64
}

func (f *forgetful) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	key := f.key.Load()
	for i := range batches {
		for n, h := range batches[i].Add {
			if key != nil && h == *key {
				add := append(append([]favfilter.Hash{}, batches[i].Add[:n]...), batches[i].Add[n+1:]...)
				batches[i].Add = add
				f.dropped.Add(1)
				break
			}
		}
	}
	return f.Store.Apply(ctx, batches)
}

// However fast a page changes, a key that is missing on it is found.
func TestSamplerFindsMissesUnderLoad(t *testing.T) {
	store := &forgetful{Store: &favfilter.Memory{}}
	s := newSampled(t, activity.Config{Store: store}, nil)
	record(t, s.Recorder, "1 hide p9")
	stop := shake(t, s.Recorder, 3, "lost")
	defer stop()
	for round := range 5 {
		target := fmt.Sprint("lost", round)
		key := s.key("1 hide " + target)
		for { // a rebuild, which has the key, may come of others' writes
			store.key.Store(&key)
			record(t, s.Recorder, "1 hide "+target)
			store.key.Store(nil)
			if len(filter(t, s.Recorder, feed.Request{Viewer: "1", Posts: posts("2", target)}).Kept) == 1 {
				break
			}
			if _, err := s.Record(t.Context(), []activity.Activity{{User: "1", Kind: "hide", Target: target, Remove: true}}); err != nil {
				t.Fatal(err)
			}
		}
		before := s.compared(t).Misses
		if len(s.feed(t, feed.Request{Viewer: "1", Posts: posts("2", "other", target)}).Kept) == 1 {
			t.Logf("round %d: mended by a rebuild that was under way", round)
			continue
		}
		if n := s.compared(t).Misses - before; n != 1 {
			t.Errorf("round %d: %d misses found, want 1: %+v", round, n, s.Stats())
		}
		if len(filter(t, s.Recorder, feed.Request{Viewer: "1", Posts: posts("2", target)}).Kept) == 1 {
			t.Errorf("round %d: the post is still shown", round)
		}
	}
}

// deaf is a ledger of which a process does not hear what others write.
type deaf struct {
	*ledger.Ledger

	hears atomic.Bool
}

func (l *deaf) Changed(ctx context.Context, since uint64, each func(page uint32, s ledger.Standing) error) (ledger.Progress, error) {
	if l.hears.Load() {
		since = 0 // what it has not heard before
		return l.Ledger.Changed(ctx, since, each)
	}
	p, err := l.Ledger.Changed(ctx, since, func(uint32, ledger.Standing) error { return nil })
	return p, err
}

// process is one of two on a ledger, each with pages of its own, so that what one writes does not reach the other's.
type process struct {
	*activity.Recorder
	*feed.Sampler

	t *testing.T
}

func startProcess(t *testing.T, l activity.Ledger) *process {
	t.Helper()
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}, FalsePositiveRate: 1e-8})
	if err != nil {
		t.Fatal(err)
	}
	s, err := feed.NewSampler(r, feed.SamplerConfig{Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &process{r, s, t}
}

func (p *process) close() {
	p.Sampler.Close()
	p.Recorder.Close()
}

// feed answers a feed of post p for user 1, and says whether it was dropped; compare has it compared.
func (p *process) feed() (dropped bool, compare func()) {
	p.t.Helper()
	a, chosen, err := p.Filter(p.t.Context(), feed.Request{Viewer: "1", Posts: posts("2", "p", "clean")})
	if err != nil {
		p.t.Fatal(err)
	}
	return len(a.Dropped) == 1, func() { chosen.Compare() }
}

func (p *process) record(a activity.Activity) {
	p.t.Helper()
	a.User, a.Kind, a.Target = "1", "hide", "p"
	if _, err := p.Record(p.t.Context(), []activity.Activity{a}); err != nil {
		p.t.Fatal(err)
	}
}

// wait lets everything come to rest that does not wait for a time, and then that time pass.
func wait(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// What another process acknowledged within the staleness bound is late; what it recorded when the feed had begun is
// nothing at all; of what has a time long past, nobody can tell. A process that never hears of it misses it, and is mended.
func TestSamplerTellsLateFromMissed(t *testing.T) {
	const bound = time.Second
	for _, c := range []struct {
		name string
		do   func(a, b *process, b2 *deaf)
		want feed.SampleStats
	}{
		{"seen within the bound", func(a, b *process, l *deaf) {
			a.record(activity.Activity{})
			_, compare := b.feed()
			compare()
			l.hears.Store(true)
		}, feed.SampleStats{Late: 1}},
		{"recorded after the feed", func(a, b *process, l *deaf) {
			_, compare := b.feed()
			time.Sleep(2 * time.Second)
			a.record(activity.Activity{})
			compare()
			l.hears.Store(true)
		}, feed.SampleStats{}},
		{"recorded after the feed, and another one missed", func(a, b *process, _ *deaf) {
			_, compare := b.feed()
			time.Sleep(2 * time.Second)
			a.record(activity.Activity{})
			compare()
		}, feed.SampleStats{Misses: 1, Repaired: 1}},
		{"recorded with a time long past", func(a, b *process, l *deaf) {
			_, compare := b.feed()
			a.record(activity.Activity{Since: time.Now().Add(-24 * time.Hour)})
			compare()
			l.hears.Store(true)
		}, feed.SampleStats{Undecided: 1}},
		{"long acknowledged, heard of after the feed", func(a, b *process, l *deaf) {
			a.record(activity.Activity{})
			time.Sleep(time.Minute)
			_, compare := b.feed()
			compare()
			l.hears.Store(true)
		}, feed.SampleStats{Undecided: 1}},
		{"never heard of", func(a, b *process, _ *deaf) {
			a.record(activity.Activity{})
			_, compare := b.feed()
			compare()
		}, feed.SampleStats{Misses: 1, Repaired: 1}},
		{"removed and recorded anew meanwhile", func(a, b *process, _ *deaf) {
			a.record(activity.Activity{})
			_, compare := b.feed()
			compare()
			time.Sleep(bound / 2)
			a.record(activity.Activity{Remove: true})
			a.record(activity.Activity{})
		}, feed.SampleStats{Undecided: 1}},
		{"undone before anybody looked", func(a, b *process, _ *deaf) {
			a.record(activity.Activity{})
			_, compare := b.feed()
			a.record(activity.Activity{Remove: true})
			compare()
		}, feed.SampleStats{}},
		{"over when the feed was answered", func(a, b *process, _ *deaf) {
			a.record(activity.Activity{Until: time.Now().Add(100 * time.Millisecond)})
			time.Sleep(100 * time.Millisecond)
			_, compare := b.feed()
			compare()
		}, feed.SampleStats{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 1})
				if err != nil {
					t.Fatal(err)
				}
				alone := &deaf{Ledger: l}
				a, b := startProcess(t, l), startProcess(t, alone)
				b.feed() // it has the page of before
				c.do(a, b, alone)
				wait(10 * time.Second)
				c.want.Feeds, c.want.Candidates = 1, 2
				if got := b.Sampler.Stats(); got != c.want {
					t.Errorf("counted %+v, want %+v", got, c.want)
				}
				if dropped, _ := b.feed(); c.want.Misses > 0 && !dropped {
					t.Error("the page was not mended")
				}
				a.close()
				b.close()
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// What the ledger was asked about by an exact feed, and said that it had ended, may be recorded anew with a time long past
// without a change of the page: the feed was right.
func TestSamplerOfWhatIsRecordedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 1})
		if err != nil {
			t.Fatal(err)
		}
		p := startProcess(t, l)
		p.record(activity.Activity{Until: time.Now().Add(100 * time.Millisecond)})
		time.Sleep(100 * time.Millisecond)
		a, chosen, err := p.Filter(t.Context(), feed.Request{Viewer: "1", Posts: posts("2", "p"), Exact: true})
		if err != nil || len(a.Kept) != 1 {
			t.Fatalf("answered %+v, %v", a, err)
		}
		p.record(activity.Activity{Since: time.Now().Add(-time.Hour)})
		chosen.Compare()
		wait(10 * time.Second)
		if got := p.Sampler.Stats(); got != (feed.SampleStats{Feeds: 1, Candidates: 1}) {
			t.Errorf("counted %+v", got)
		}
		p.close()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// What a page reports that has ended, or is undone while the feed is compared, is no false positive.
func TestSamplerAfterAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 1})
		if err != nil {
			t.Fatal(err)
		}
		p := startProcess(t, l)
		p.record(activity.Activity{Until: time.Now().Add(5 * time.Second)})
		dropped := 0
		for range 80 { // from before its end until after it is removed
			time.Sleep(100 * time.Millisecond)
			was, compare := p.feed()
			if was {
				dropped++
			}
			compare()
			synctest.Wait()
		}
		p.record(activity.Activity{})
		was, compare := p.feed()
		p.record(activity.Activity{Remove: true})
		compare()
		wait(5 * time.Second)
		if !was || dropped < 50 || dropped > 70 {
			t.Errorf("dropped by %d feeds of 80, then %v", dropped, was)
		}
		if got, want := p.Sampler.Stats(), (feed.SampleStats{Feeds: 81, Candidates: 162, Undecided: 1}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		p.close()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
