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

// scrub runs a scrub on request to its end.
func (g *rig) scrub(t *testing.T, rate int) ScrubProgress {
	t.Helper()
	if started, err := g.scrubber.Scrub(rate); !started || err != nil {
		t.Fatalf("started: %v, %v", started, err)
	}
	for {
		p := g.scrubber.ScrubStatus()
		if !p.Running {
			return p
		}
		if p.Done > p.All || p.Started.IsZero() || !p.Ended.IsZero() {
			t.Fatalf("running: %+v", p)
		}
		time.Sleep(time.Millisecond)
	}
}

// A scrub on request checks every page once. When it ends, it has rebuilt every page that was
// wrong.
func TestScrubOnRequest(t *testing.T) {
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
		p := g.scrub(t, MaxScrubRate)
		if p.Done != 257 || p.All != 257 || p.Unasked != 0 || p.Failed != 0 || p.Err != nil || p.Ended.Before(p.Started) {
			t.Errorf("it ended as %+v", p)
		}
		return p
	}
	scrubbed := g.Stats().Scrubbed
	if p := run(); len(p.Found) != 0 {
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
	if p := run(); !maps.Equal(p.Found, map[string]int{"damaged": 2}) {
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
	if p.Found["missing"] < want["missing"] || len(p.Found) != 1 {
		t.Errorf("after a flush: %+v, want %v or more", p, want)
	}
	g.wantWhole(t)
}

// unwritable is a store that fails to replace pages.
type unwritable struct{ favfilter.Store }

func (unwritable) Replace(context.Context, favfilter.Replacement) (bool, error) {
	return false, faulttest.ErrInjected
}

// A scrub on request reports pages that it cannot read or cannot rebuild.
func TestScrubFailures(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 128)
	_, err := g.Record(t.Context(), []act{add("1", "hide", "p")})
	must(t, err)
	g.useStore(faulttest.Down())
	if p := g.scrub(t, MaxScrubRate); p.Unasked != 128 || p.Done != 128 || p.Failed != 0 || len(p.Found) != 0 {
		t.Errorf("store down: %+v", p)
	}
	g.useStore(unwritable{&favfilter.Memory{}})
	if p := g.scrub(t, MaxScrubRate); p.Unasked != 0 || !maps.Equal(p.Found, map[string]int{"missing": 1}) || p.Failed != 1 {
		t.Errorf("unwritable store: %+v", p)
	}
	for _, rate := range []int{-1, MaxScrubRate + 1} {
		if started, err := g.scrubber.Scrub(rate); started || !isInvalid(err, CodeOutOfRange, "rate") {
			t.Errorf("at %d pages a second: started %v, %v", rate, started, err)
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

// A scrub on request pauses between looks as its rate says. Pages that the store did not report on
// count as unasked.
func TestScrubOnRequestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, &favfilter.Memory{}, 256)
		const more = 3 * time.Millisecond // three pauses, each a millisecond longer
		for _, c := range []struct {
			rate        int
			takes, want time.Duration
		}{
			{64, 0, 3*time.Second + more},
			{64, time.Second / 4, 3*time.Second + more + time.Second/4},
			{640, time.Second / 5, 4*time.Second/5 + more},
			{6400, 0, 30*time.Millisecond + more},
			{0, 0, 3*time.Second*64/10_000 + more},
		} {
			g.useStore(slowStore{&favfilter.Memory{}, c.takes})
			scrubbed := g.Stats().Scrubbed
			p := g.scrub(t, c.rate)
			if took := p.Ended.Sub(p.Started); took != c.want || p.Done != 256 || p.Unasked != 4*22 || g.Stats().Scrubbed-scrubbed != 256-4*22 {
				t.Errorf("at %d a second, looks that take %v: %v, want %v: %+v", c.rate, c.takes, took, c.want, p)
			}
		}
	})
}

// A scrub on request that a reshape outruns has read the old pages: it leaves no survey.
func TestScrubOutrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, &favfilter.Memory{}, 128)
		g.record(t, true, add("1", "hide", "p"))
		started, err := g.scrubber.Scrub(64) // its second step comes after a second
		if !started || err != nil {
			t.Fatalf("started: %v, %v", started, err)
		}
		synctest.Wait()
		must(t, g.grower.growTo(t.Context(), 256))
		time.Sleep(2 * time.Second)
		if p := g.scrubber.ScrubStatus(); p.Running || p.Done != 128 || g.Survey().Whole {
			t.Errorf("it ended as %+v, with the survey %+v", p, g.Survey())
		}
		g.scrub(t, 0)
		if s := g.Survey(); !s.Whole || s.Looked != 256 || s.Keys() != 1 {
			t.Errorf("of all pages: %+v", s)
		}
	})
}

// A scrub on request runs once at a time, and ends with the Recorder.
func TestScrubEnds(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 128)
	if p := g.scrubber.ScrubStatus(); p.Running || !p.Started.IsZero() || p.All != 0 {
		t.Errorf("before: %+v", p)
	}
	if started, err := g.scrubber.Scrub(1); err != nil || !started { // its second step comes after a minute
		t.Fatalf("started: %v, %v", started, err)
	}
	if started, err := g.scrubber.Scrub(1); err != nil || started {
		t.Fatalf("started beside another: %v, %v", started, err)
	}
	if p := g.scrubber.ScrubStatus(); !p.Running || p.Started.IsZero() {
		t.Errorf("running: %+v", p)
	}
	g.Close()
	if p := g.scrubber.ScrubStatus(); p.Running || !errors.Is(p.Err, ErrClosed) || p.Done != 64 {
		t.Errorf("closed: %+v", p)
	}
	if _, err := g.scrubber.Scrub(1); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
