package sampler_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// deaf keeps from a process what others write to the ledger.
type deaf struct{ hears, down atomic.Bool }

func (l *deaf) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	switch {
	case c.Operation == "lookup" && l.down.Load():
		return errors.New("down")
	case c.Operation == "changed" && l.hears.Load():
		c.Since = "" // what it has not heard before
	case c.Operation == "changed":
		c.Each = func(uint32, ledger.PageState) error { return nil }
	}
	return next(ctx)
}

// process is one of two on a ledger. Each has its own store, so the writes of one do not reach the
// pages of the other.
type process struct {
	*activity.Recorder
	*sampler.Sampler

	t *testing.T
}

func startProcess(t *testing.T, l *ledger.Ledger) *process {
	t.Helper()
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}, FalsePositiveRate: 1e-8})
	must(t, err)
	s, err := sampler.New(r, sampler.Config{Rate: 1})
	must(t, err)
	return &process{r, s, t}
}

func (p *process) close() {
	p.Sampler.Close()
	p.Recorder.Close()
}

// feed answers a feed of post p for user 1, and reports whether it was dropped. compare compares
// the feed with the ledger.
func (p *process) feed() (dropped bool, compare func()) {
	p.t.Helper()
	a, chosen, err := ask(p.t.Context(), p.Sampler, p.Recorder, feed.Request{Viewer: "1", Posts: posts("2", "p", "clean")})
	must(p.t, err)
	return len(a.Dropped) == 1, func() { chosen.Compare(p.t.Context()) }
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

// TestSamplerTellsLateFromMissed checks how the sampler judges writes of another process. A write
// that was acknowledged within the staleness bound is late. A write that was recorded after the
// feed began does not count. A write whose recorded time is long past cannot be judged. A process
// that never hears of a write misses it, and repairs its page.
func TestSamplerTellsLateFromMissed(t *testing.T) {
	const bound = time.Second
	for _, c := range []struct {
		name string
		do   func(a, b *process, b2 *deaf)
		want sampler.Stats
	}{
		{"seen within the bound", func(a, b *process, l *deaf) {
			a.record(activity.Activity{})
			_, compare := b.feed()
			compare()
			l.hears.Store(true)
		}, sampler.Stats{Late: 1}},
		{"recorded after the feed", func(a, b *process, l *deaf) {
			_, compare := b.feed()
			time.Sleep(2 * time.Second)
			a.record(activity.Activity{})
			compare()
			l.hears.Store(true)
		}, sampler.Stats{}},
		{"recorded after the feed, and another one missed", func(a, b *process, _ *deaf) {
			_, compare := b.feed()
			time.Sleep(2 * time.Second)
			a.record(activity.Activity{})
			compare()
		}, sampler.Stats{Misses: 1, Repaired: 1}},
		{"recorded with a time long past", func(a, b *process, l *deaf) {
			_, compare := b.feed()
			a.record(activity.Activity{Since: time.Now().Add(-24 * time.Hour)})
			compare()
			l.hears.Store(true)
		}, sampler.Stats{Undecided: 1}},
		{"recorded with a time as far past as a write may take", func(a, b *process, l *deaf) {
			_, compare := b.feed()
			a.record(activity.Activity{Since: time.Now().Add(-30*time.Second - bound/2)})
			compare()
			l.hears.Store(true)
		}, sampler.Stats{Late: 1}},
		{"long acknowledged, heard of after the feed", func(a, b *process, l *deaf) {
			a.record(activity.Activity{})
			time.Sleep(35 * time.Second) // longer than a write and the bound may take
			_, compare := b.feed()
			compare()
			l.hears.Store(true)
		}, sampler.Stats{Undecided: 1}},
		{"never heard of", func(a, b *process, _ *deaf) {
			a.record(activity.Activity{})
			_, compare := b.feed()
			compare()
		}, sampler.Stats{Misses: 1, Repaired: 1}},
		{"removed and recorded again meanwhile", func(a, b *process, _ *deaf) {
			a.record(activity.Activity{})
			_, compare := b.feed()
			compare()
			time.Sleep(bound / 2)
			a.record(activity.Activity{Remove: true})
			a.record(activity.Activity{})
		}, sampler.Stats{Undecided: 1}},
		{"undone before anybody looked", func(a, b *process, _ *deaf) {
			a.record(activity.Activity{})
			_, compare := b.feed()
			a.record(activity.Activity{Remove: true})
			compare()
		}, sampler.Stats{}},
		{"over when the feed was answered", func(a, b *process, _ *deaf) {
			a.record(activity.Activity{Until: time.Now().Add(100 * time.Millisecond)})
			time.Sleep(100 * time.Millisecond)
			_, compare := b.feed()
			compare()
		}, sampler.Stats{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			twoProcesses(t, func(a, b *process, alone *deaf) {
				c.do(a, b, alone)
				wait(5 * time.Second)
				c.want.Feeds, c.want.Candidates = 1, 2
				if got := b.Sampler.Stats(); got != c.want {
					t.Errorf("counted %+v, want %+v", got, c.want)
				}
				if dropped, _ := b.feed(); c.want.Misses > 0 && !dropped {
					t.Error("the page was not mended")
				}
			})
		})
	}
}

// twoProcesses starts two processes on one ledger. The second does not poll, and its page is from
// before the first write.
func twoProcesses(t *testing.T, do func(a, b *process, alone *deaf)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 1})
		must(t, err)
		alone := &deaf{}
		a, b := startProcess(t, l), startProcess(t, l.Around(alone.around))
		b.feed()
		do(a, b, alone)
		a.close()
		b.close()
		must(t, l.Close())
	})
}

// A ledger that fails before all is decided leaves the feed uncompared.
func TestSamplerOfLedgerThatFails(t *testing.T) {
	twoProcesses(t, func(a, b *process, alone *deaf) {
		a.record(activity.Activity{})
		_, compare := b.feed()
		compare()
		synctest.Wait() // what the first look left open is waiting for the second
		alone.down.Store(true)
		wait(10 * time.Second)
		if got := b.Sampler.Stats(); got != (sampler.Stats{Errors: 1}) {
			t.Errorf("counted %+v", got)
		}
	})
}

// An exact feed asks the ledger about an activity, and the activity has ended. Then it may be
// recorded again, with a time long past, and the page does not change. The feed was right.
func TestSamplerOfWhatIsRecordedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 1})
		must(t, err)
		p := startProcess(t, l)
		p.record(activity.Activity{Until: time.Now().Add(100 * time.Millisecond)})
		time.Sleep(100 * time.Millisecond)
		a, chosen, err := ask(t.Context(), p.Sampler, p.Recorder, feed.Request{Viewer: "1", Posts: posts("2", "p"), Exact: true})
		if err != nil || len(a.Kept) != 1 {
			t.Fatalf("answered %+v, %v", a, err)
		}
		p.record(activity.Activity{Since: time.Now().Add(-time.Hour)})
		chosen.Compare(t.Context())
		wait(10 * time.Second)
		if got := p.Sampler.Stats(); got != (sampler.Stats{Feeds: 1, Candidates: 1}) {
			t.Errorf("counted %+v", got)
		}
		p.close()
		must(t, l.Close())
	})
}

// An activity that ends or is undone while the feed is compared is no false positive.
func TestSamplerAfterAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 1})
		must(t, err)
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
		if got, want := p.Sampler.Stats(), (sampler.Stats{Feeds: 81, Candidates: 162, Undecided: 1}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		p.close()
		must(t, l.Close())
	})
}
