package pages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// ScrubNow checks every page once. When it returns, it has rebuilt every page that was wrong.
func TestScrubNow(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	g := newRig(t, redisStore(t, server), 256)
	_, err := g.Record(t.Context(), someActivities(0))
	must(t, err)
	must(t, g.applier.dedicate(t.Context(), g.hashOf("7")))
	_, err = g.Record(t.Context(), someActivities(1))
	must(t, err)
	run := func() ScrubProgress {
		t.Helper()
		var last ScrubProgress
		calls := 0
		p, err := g.scrubber.ScrubNow(t.Context(), MaxScrubRate, func(p ScrubProgress) {
			if p.Done < last.Done || p.Running != (p.Done < p.All) || p.All != 257 || p.Started.IsZero() || p.Ended.IsZero() != p.Running {
				t.Errorf("after %+v: %+v", last, p)
			}
			last = p
			calls++
		})
		must(t, err)
		if p.Done != 257 || p.All != 257 || p.Running || p.Unasked != 0 || p.Err != nil || last.Done != 257 || calls != 6 {
			t.Errorf("after %d calls, %+v, it ended as %+v", calls, last, p)
		}
		return p
	}
	scrubbed := g.Stats().Scrubbed
	if p := run(); len(p.Found) != 0 || p.Failed != 0 || p.Faulty() {
		t.Errorf("of sound pages: %+v", p)
	}
	if n := g.Stats().Scrubbed - scrubbed; n != 257 {
		t.Errorf("%d pages count as scrubbed", n)
	}
	hurt := func(user string) string {
		return fmt.Sprintf("fav:{feed/%d}", g.pageOf(user))
	}
	own := fmt.Sprintf("fav:{feed/%d}:p2147483648:regions", g.storage.slot(g.hashOf("7")))
	if n := client.Del(t.Context(), hurt("1")+":regions", own).Val(); n != 2 {
		t.Fatalf("%d strings deleted", n)
	}
	if p := run(); !maps.Equal(p.Found, map[string]int{"damaged": 2}) || p.Failed != 0 || p.Faulty() {
		t.Errorf("of two damaged pages: %+v", p)
	}
	g.wantWhole(t)
	if p := run(); len(p.Found) != 0 {
		t.Errorf("after their rebuild: %+v", p)
	}
	want := map[string]int{"missing": 0}
	for i, n := range g.Survey().Shared.Keys.Counts {
		if i > 0 { // pages with keys
			want["missing"] += int(n)
		}
	}
	must(t, client.FlushAll(t.Context()).Err())
	p := run()
	if p.Found["missing"] < want["missing"] || len(p.Found) != 1 || p.Faulty() {
		t.Errorf("after a flush: %+v, want %v or more", p, want)
	}
	g.wantWhole(t)
}

// unwritable is a store that fails to replace pages.
type unwritable struct{ favfilter.Store }

func (unwritable) Replace(context.Context, favfilter.Replacement) (bool, error) {
	return false, faulttest.ErrInjected
}

// ScrubNow reports pages that it cannot read or cannot rebuild.
func TestScrubNowFailures(t *testing.T) {
	store := &favfilter.Memory{}
	g := newRig(t, store, 128)
	_, err := g.Record(t.Context(), []act{add("1", "hide", "p")})
	must(t, err)
	g.useStore(faulttest.Down())
	if p, err := g.scrubber.ScrubNow(t.Context(), MaxScrubRate, nil); err != nil || p.Unasked != 128 || p.Done != 128 || !p.Faulty() || p.Failed != 0 {
		t.Errorf("store down: %+v, %v", p, err)
	}
	g.useStore(unwritable{&favfilter.Memory{}})
	p, err := g.scrubber.ScrubNow(t.Context(), MaxScrubRate, nil)
	if err != nil || p.Unasked != 0 || !maps.Equal(p.Found, map[string]int{"missing": 1}) || p.Failed != 1 || !p.Faulty() {
		t.Errorf("unwritable store: %+v, %v", p, err)
	}
	g.useStore(store)
	ctx, cancel := context.WithCancel(t.Context())
	p, err = g.scrubber.ScrubNow(ctx, 1, func(ScrubProgress) { cancel() })
	if !errors.Is(err, context.Canceled) || !errors.Is(p.Err, context.Canceled) || p.Done != 64 || !p.Faulty() || p.Running || p.Ended.IsZero() {
		t.Errorf("cancelled: %+v, %v", p, err)
	}
	for _, rate := range []int{-1, MaxScrubRate + 1} {
		if _, err := g.scrubber.ScrubNow(t.Context(), rate, nil); !isInvalid(err, CodeOutOfRange, "rate") {
			t.Errorf("at %d pages a second: %v", rate, err)
		}
	}
}

// slowStore is a store whose looks take long, and fail for every third page.
type slowStore struct {
	favfilter.Store
	takes time.Duration
}

func (s slowStore) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	time.Sleep(s.takes)
	statuses, err := s.Store.Peek(ctx, ids)
	for i := 0; i < len(statuses); i += 3 {
		statuses[i].Err = faulttest.ErrInjected
	}
	return statuses, err
}

// ScrubNow pauses between looks as its rate says, and can stop there. Pages that the store did not
// report on count as unasked.
func TestScrubNowPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, &favfilter.Memory{}, 256)
		scrub := func(rate int, takes time.Duration, givenUp bool) (ScrubProgress, time.Duration) {
			g.useStore(slowStore{&favfilter.Memory{}, takes})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			start := time.Now()
			p, _ := g.scrubber.ScrubNow(ctx, rate, func(ScrubProgress) {
				if givenUp {
					cancel()
				}
			})
			return p, time.Since(start)
		}
		const more = 3 * time.Millisecond // three pauses, each a millisecond longer
		for _, c := range []struct {
			rate        int
			takes, want time.Duration
		}{
			{64, 0, 3*time.Second + more},
			{64, time.Second / 4, 3*time.Second + more + time.Second/4},
			{640, time.Second / 5, 4 * time.Second / 5},
			{6400, 0, 30*time.Millisecond + more},
			{0, 0, 3*time.Second*64/10_000 + more},
		} {
			scrubbed := g.Stats().Scrubbed
			p, took := scrub(c.rate, c.takes, false)
			if took != c.want || p.Done != 256 || p.Unasked != 4*22 || g.Stats().Scrubbed-scrubbed != 256-4*22 {
				t.Errorf("at %d a second, looks that take %v: %v, want %v: %+v", c.rate, c.takes, took, c.want, p)
			}
		}
		if p, took := scrub(640, time.Second/5, true); p.Done != 64 || took != time.Second/5 || !errors.Is(p.Err, context.Canceled) {
			t.Errorf("canceled: %+v after %v", p, took)
		}
		g.Close()
		if _, err := g.scrubber.ScrubNow(t.Context(), 1, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Faulty reports whether pages remain that are wrong or were not checked.
func TestScrubFaulty(t *testing.T) {
	for want, all := range map[bool][]ScrubProgress{
		false: {{}, {Done: 2, All: 2, Found: map[string]int{"missing": 1}}},
		true:  {{Done: 2, All: 2, Failed: 1}, {Done: 2, All: 2, Unasked: 1}, {Done: 1, All: 2}, {Done: 2, All: 2, Err: ErrClosed}},
	} {
		for _, p := range all {
			if p.Faulty() != want {
				t.Errorf("%+v: Faulty() = %v", p, !want)
			}
		}
	}
}

// A background scrub continues after StartScrub, and ends with the Recorder.
func TestStartScrub(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 128)
	if p := g.scrubber.ScrubStatus(); p.Running || !p.Started.IsZero() || p.All != 0 {
		t.Errorf("before: %+v", p)
	}
	start := func(rate int, want bool) {
		t.Helper()
		if started, err := g.scrubber.StartScrub(rate); err != nil || started != want {
			t.Fatalf("started: %v, %v, want %v", started, err, want)
		}
	}
	start(MaxScrubRate, true)
	for deadline := time.Now().Add(10 * time.Second); g.scrubber.ScrubStatus().Running; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", g.scrubber.ScrubStatus())
		}
	}
	if p := g.scrubber.ScrubStatus(); p.Done != 128 || p.Faulty() || p.Started.IsZero() || p.Ended.Before(p.Started) {
		t.Errorf("after: %+v", p)
	}
	start(1, true) // its second step comes after a minute
	start(1, false)
	if p := g.scrubber.ScrubStatus(); !p.Running || p.Started.IsZero() {
		t.Errorf("running: %+v", p)
	}
	g.Close()
	if p := g.scrubber.ScrubStatus(); p.Running || !errors.Is(p.Err, ErrClosed) || p.Done != 64 || !p.Faulty() {
		t.Errorf("closed: %+v", p)
	}
	if _, err := g.scrubber.StartScrub(1); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
