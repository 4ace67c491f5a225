package sampler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// held is a ledger that keeps who asks about activities waiting, or fails.
type held struct {
	asked chan struct{} // one for each who waits
	open  chan struct{}
	err   error

	inside atomic.Int64 // who has not got an answer yet
}

func (l *held) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	if c.Operation != "lookup" {
		return next(ctx)
	}
	l.inside.Add(1)
	defer l.inside.Add(-1)
	if l.err != nil {
		return l.err
	}
	l.asked <- struct{}{}
	select {
	case <-l.open:
		return next(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// However slow the ledger is, feeds are answered; what waits is bounded, and the rest is skipped.
func TestSamplerSkips(t *testing.T) {
	l := &held{asked: make(chan struct{}, 100), open: make(chan struct{})}
	s := newSampled(t, activity.Config{}, l.around)
	record(t, s.Recorder, "1 hide a")
	req := feed.Request{Viewer: "1", Posts: posts("2", "a", "b")}
	for range 2 { // those that are compared at a time
		s.feed(t, req)
		<-l.asked
	}
	for range 20 {
		if got := kept(s.feed(t, req)); !slices.Equal(got, []string{"b"}) {
			t.Fatalf("kept %s", got)
		}
	}
	if got := s.Stats(); got != (sampler.Stats{Skipped: 4}) {
		t.Errorf("while the ledger hangs: %+v", got)
	}
	close(l.open)
	if got := s.compared(t); got != (sampler.Stats{Feeds: 18, Candidates: 36, Skipped: 4}) {
		t.Errorf("then: %+v", got)
	}
	many := feed.Post{ID: "a", Actors: []string{"3", "4", "5"}} // an author who is left out counts
	long := feed.Post{ID: "a", Author: "2", Actors: slices.Repeat([]string{strings.Repeat("x", 256)}, feed.MaxActors)}
	for i, large := range []feed.Request{
		{Viewer: "1", Posts: slices.Repeat([]feed.Post{many}, feed.MaxPosts/2), Kinds: []string{"hide"}},
		{Viewer: "1", Posts: slices.Repeat([]feed.Post{long}, 50)},
	} {
		s.feed(t, large)
		s.want(t, sampler.Stats{Skipped: 5 + uint64(i)})
	}
}

// A ledger that cannot be read is an error. The sampler then reports no miss.
func TestSamplerWithoutLedger(t *testing.T) {
	l := &held{err: errors.New("down")}
	s := newSampled(t, activity.Config{}, l.around)
	record(t, s.Recorder, "1 hide a")
	s.tamper(t, []string{"1 hide a"}, []string{"1 hide b"})
	for range 3 {
		s.feed(t, feed.Request{Viewer: "1", Posts: posts("2", "a", "b")})
	}
	if got := s.compared(t); got != (sampler.Stats{Errors: 3}) {
		t.Errorf("counted %+v", got)
	}
}

// A Sampler that is closed while it waits for the ledger ends at once. After Close has returned, it
// does not use the ledger.
func TestSamplerCloses(t *testing.T) {
	l := &held{asked: make(chan struct{}, 100), open: make(chan struct{})}
	s := newSampled(t, activity.Config{}, l.around)
	for range 5 {
		s.feed(t, feed.Request{Viewer: "1", Posts: posts("2", "a")})
	}
	<-l.asked
	s.Close()
	if n := l.inside.Load(); n != 0 {
		t.Errorf("%d still ask the ledger", n)
	}
	if got := s.Stats(); got != (sampler.Stats{}) {
		t.Errorf("counted %+v", got)
	}
}
