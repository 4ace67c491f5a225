package sampler_test

import (
	"math"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// How many feeds are chosen follows the rate.
func TestSampleRate(t *testing.T) {
	s := newSampled(t, activity.Config{}, nil)
	req := feed.Request{Viewer: "1", Posts: posts("2", "a")}
	chosen := func(rate float64) (n int) {
		s.sample(t, rate)
		for range 4000 {
			_, chosen, err := s.Filter(t.Context(), req)
			must(t, err)
			if chosen != nil {
				n++
			}
		}
		return n
	}
	// Of 4,000, 800 to 1,200 are 7 standard deviations.
	if none, some, all := chosen(0), chosen(0.25), chosen(1); none != 0 || some < 800 || some > 1200 || all != 4000 {
		t.Errorf("chosen of 4000: %d at a rate of 0, %d at 0.25, %d at 1", none, some, all)
	}
	for _, rate := range []float64{-0.1, 1.1} {
		if _, err := sampler.New(s.Recorder, sampler.Config{Rate: rate}); err == nil {
			t.Errorf("a rate of %g is taken", rate)
		}
	}
	without, err := sampler.New(nil, sampler.Config{Rate: 1})
	must(t, err)
	defer without.Close()
	if without.Choose() != nil {
		t.Error("a feed is chosen without a ledger")
	}
}

// TestSamplerSetRate has the share change while feeds are answered.
func TestSamplerSetRate(t *testing.T) {
	s := newSampled(t, activity.Config{}, nil)
	s.sample(t, 0)
	req := feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "p", Author: "2"}}}
	chosen := func() bool {
		t.Helper()
		_, sampled, err := s.Filter(t.Context(), req)
		must(t, err)
		return sampled != nil
	}
	if chosen() {
		t.Error("a feed is chosen, and none is to be")
	}
	must(t, s.SetRate(1))
	s.feed(t, req)
	if got := s.compared(t); got.Feeds != 1 {
		t.Errorf("%+v, want one feed compared", got)
	}
	for _, wrong := range []float64{-0.1, 1.1, math.NaN()} {
		if s.SetRate(wrong) == nil {
			t.Errorf("%g is no share", wrong)
		}
	}
	if !chosen() {
		t.Error("a wrong share has changed something")
	}
	if err := s.SetRate(0); err != nil || chosen() {
		t.Errorf("a feed is chosen, and none is to be any more: %v", err)
	}
}
