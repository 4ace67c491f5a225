package sampler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// shake adds and undoes activities of six users at random until the returned function is called.
// Some of them have ends. Some have times long past, as an import has them.
func shake(t *testing.T, r *activity.Recorder) (writes *atomic.Int64, stop func()) {
	t.Helper()
	var running sync.WaitGroup
	var ended atomic.Bool
	writes = &atomic.Int64{}
	for n := range uint64(3) {
		running.Go(func() {
			random := rand.New(rand.NewPCG(7, n))
			for !ended.Load() {
				a := activity.Activity{
					User: fmt.Sprint(random.IntN(6)), Kind: []string{"block", "hide", "like"}[random.IntN(3)], Remove: random.IntN(2) == 0,
				}
				if a.Target = fmt.Sprint("p", random.IntN(6)); a.Kind == "block" {
					a.Target = fmt.Sprint(6 + random.IntN(4))
				}
				switch times := random.IntN(4); {
				case a.Remove:
				case times == 0:
					a.Until = time.Now().Add(time.Millisecond + rand.N(3*time.Second))
				case times == 1:
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
	return writes, func() {
		ended.Store(true)
		running.Wait()
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

// The test runs writers and readers while users get dedicated pages and pages are lost. As long as
// every promise is kept, the sampler reports neither a miss nor a false positive, however much
// changes during a feed and its comparison.
func TestSamplerRaisesNoFalseAlarm(t *testing.T) { samplerRaisesNoFalseAlarm(t, 60) }

func TestLongSamplerRaisesNoFalseAlarm(t *testing.T) { samplerRaisesNoFalseAlarm(t, 400) }

func samplerRaisesNoFalseAlarm(t *testing.T, enough uint64) {
	t.Helper()
	for _, maxSharedKeys := range []int{0, pages.MinSharedKeys} {
		t.Run(fmt.Sprint("dedicated pages from ", maxSharedKeys), func(t *testing.T) {
			store := &favfilter.Memory{}
			s := newSampled(t, activity.Config{Store: store, MaxSharedKeys: maxSharedKeys, ScrubRate: 1000}, nil)
			if maxSharedKeys > 0 {
				for i := range 40 { // so that some have enough for a dedicated page
					record(t, s.Recorder, fmt.Sprintf("%d hide q%d", i%4, i/4+i))
				}
			}
			writes, stop := shake(t, s.Recorder)
			var asked atomic.Uint64
			done := func() uint64 {
				now := s.Stats()
				return now.Feeds + now.Skipped + now.Errors
			}
			var readers sync.WaitGroup
			for n := range uint64(2) {
				readers.Go(func() {
					random := rand.New(rand.NewPCG(8, n))
					for i := 0; s.Stats().Feeds < enough || writes.Load() < 50; i++ {
						if i%50 == 49 && n == 0 { // the page is lost
							if loaded, _, err := store.Load(t.Context(), []favfilter.PageID{{}}); err == nil {
								_, _ = store.Replace(t.Context(), favfilter.Replacement{Seen: loaded[0].Version})
							}
						}
						_, chosen, err := s.Filter(t.Context(), anything(random))
						if err != nil {
							t.Error(err)
							return
						}
						chosen.Compare(t.Context())
						for n := asked.Add(1); n > done()+8; { // so that few are skipped
							time.Sleep(100 * time.Microsecond)
						}
					}
				})
			}
			readers.Wait()
			stop()
			s.asked = asked.Load()
			got := s.compared(t)
			t.Logf("%d writes: %+v", writes.Load(), got)
			if got.Misses > 0 || got.FalsePositives > 0 || got.Errors > 0 || got.Repaired > 0 {
				t.Errorf("a false alarm: %+v; %v", got, s.log.lines(t, "a feed missed what the ledger has"))
			}
		})
	}
}

// forgetful is a store that drops one key of what is added, once.
type forgetful struct {
	favfilter.Store

	key      atomic.Pointer[favfilter.Hash]
	replaced atomic.Int64 // pages rebuilt
}

func (f *forgetful) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	key := f.key.Load()
	for i := range batches {
		for n, h := range batches[i].Add {
			if key != nil && h == *key {
				add := append(append([]favfilter.Hash{}, batches[i].Add[:n]...), batches[i].Add[n+1:]...)
				batches[i].Add = add
				break
			}
		}
	}
	return f.Store.Apply(ctx, batches)
}

func (f *forgetful) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	f.replaced.Add(1)
	return f.Store.Replace(ctx, r)
}

// However fast a page changes, a key that is missing on it is found. A rebuild for others' writes
// has the key, so rounds with one do not count. Most have none.
func TestSamplerFindsMissesUnderLoad(t *testing.T) {
	store := &forgetful{Store: &favfilter.Memory{}}
	s := newSampled(t, activity.Config{Store: store}, nil)
	record(t, s.Recorder, "1 hide p9")
	_, stop := shake(t, s.Recorder)
	defer stop()
	for round, judged := 0, 0; judged < 5; round++ {
		if round == 100 {
			t.Fatalf("%d misses found in %d rounds: %+v", judged, round, s.Stats())
		}
		target := fmt.Sprint("lost", round)
		key := faulttest.Key(s.ledger.Identity().Seed, "1 hide "+target)
		store.key.Store(&key)
		record(t, s.Recorder, "1 hide "+target)
		store.key.Store(nil)
		before, replaced := s.compared(t), store.replaced.Load()
		missed := len(s.feed(t, feed.Request{Viewer: "1", Posts: posts("2", "other", target)}).Kept) == 2
		n := s.compared(t).Misses - before.Misses
		// The sampler rebuilds the page of a miss, so it counts as one rebuild itself.
		rebuilt := store.replaced.Load() - replaced - int64(n)
		switch {
		case !missed && n > 0:
			t.Fatalf("round %d: %d misses found, want none", round, n)
		case missed && rebuilt == 0 && n != 1:
			t.Fatalf("round %d: %d misses found, want 1: %+v", round, n, s.Stats())
		case missed && n == 1:
			judged++
		}
		after, err := feed.Filter(t.Context(), s.Recorder, feed.Request{Viewer: "1", Posts: posts("2", target)})
		if err != nil || len(after.Kept) == 1 {
			t.Fatalf("round %d: the post is still shown", round)
		}
	}
}
