package known

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Times come from the ledger's clock, not from this machine's. Options may replace it.
func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKnown(t, newLedger(t, 1), time.Second)
		theirs := time.Now().Add(10 * time.Minute)
		k.clock.read.Store(&clockReading{clock: theirs, at: time.Now()}) // as a poll does that has just ended
		earliest, latest := k.Bounds()
		if now := k.Now(); now != theirs || earliest != theirs || latest != theirs {
			t.Errorf("now %v, between %v and %v, want %v", now, earliest, latest, theirs)
		}
		own := time.Unix(7, 0)
		k.options.Now = func() time.Time { return own }
		earliest, latest = k.Bounds()
		if now := k.Now(); now != own || earliest != own || latest != own {
			t.Errorf("now %v, between %v and %v, want %v", now, earliest, latest, own)
		}
	})
}

// A poll reads the ledger's clock.
func TestPollReadsTheClock(t *testing.T) {
	k := newKnown(t, newLedger(t, 1), time.Second)
	read := k.clock.read.Load()
	if read == nil || time.Since(read.at) > time.Hour || read.clock.Sub(read.at).Abs() > time.Hour {
		t.Fatalf("after the first poll: %+v", read)
	}
	must(t, k.PollSince(t.Context(), k.life.Elapsed()))
	if k.clock.read.Load() == read {
		t.Error("a later poll does not read it")
	}
}

// After a machine was suspended, its wall clock has advanced and its monotonic clock has not. Its
// readers then wait for one poll.
func TestSuspended(t *testing.T) {
	for _, set := range []time.Duration{10 * time.Minute, 300 * time.Millisecond} {
		l := newLedger(t, 1)
		k := newKnown(t, l, time.Second)
		record(t, l, 7, "p")
		keepUp := func() {
			t.Helper()
			at := Position{User: 7}
			k.KeepUp(t.Context(), 0, &at)
			if !at.Known || at.Err != nil {
				t.Errorf("after a pause of %v: %+v", set, at)
			}
		}
		keepUp()
		if n, _ := k.Polls(); n != 1 {
			t.Fatalf("%d polls, want the first only", n)
		}
		k.poller.polls.wall.Add(-int64(set)) // as if the wall clock had advanced
		for range 10 {
			keepUp()
		}
		if n, _ := k.Polls(); n != 2 || k.sequences.Of(0).Required.Load() == 0 {
			t.Errorf("after a pause of %v: %d polls, want 2", set, n)
		}
	}
}

// The age of what is known counts once at its peak, although a poll has ended it.
func TestTakePeakAge(t *testing.T) {
	k := newKnown(t, newLedger(t, 1), 0)
	k.poller.polls.start.Add(-int64(time.Hour))
	for range 2 { // the second poll is in time
		must(t, k.PollSince(t.Context(), k.life.Elapsed()))
	}
	for _, c := range []struct{ back, least, most time.Duration }{
		{0, time.Hour, 2 * time.Hour}, {0, 0, time.Hour}, {2 * time.Hour, 2 * time.Hour, 3 * time.Hour},
	} {
		k.poller.polls.start.Add(-int64(c.back))
		if age := k.TakePeakAge(); age < c.least || age >= c.most {
			t.Errorf("age %v, want %v to %v", age, c.least, c.most)
		}
	}
}

// A reader that is canceled while it asks changes nothing that is known of the ledger.
func TestCanceledQuestion(t *testing.T) {
	var fails atomic.Bool
	fail := errors.New("injected")
	l := newLedger(t, 1).Around(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		if c.Operation == "changed" && fails.Load() {
			return fail
		}
		return next(ctx)
	})
	k := newKnown(t, l, time.Minute)
	fails.Store(true)
	if err := k.PollSince(t.Context(), k.life.Elapsed()); !errors.Is(err, fail) || k.Access() != Behind {
		t.Fatalf("polls fail, and pings do not: error %v, access %d", err, k.Access())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	at := Position{User: 7}
	k.KeepUp(ended, k.life.Elapsed(), &at)
	if _, blamed := errors.AsType[*UnavailableError](at.Err); blamed || !errors.Is(at.Err, context.Canceled) || k.Access() != Behind {
		t.Errorf("error %v, access %d, want canceled, and %d as before", at.Err, k.Access(), Behind)
	}
	k.KeepUp(t.Context(), k.life.Elapsed(), &at)
	if !at.Known || at.Err != nil {
		t.Errorf("the next reader: %+v", at)
	}
}

// A ping that fails does not say that the ledger cannot be reached, if the ledger has answered
// another call since the ping began.
func TestPingBesideAnAnswer(t *testing.T) {
	reads := func(err error) func(t *testing.T, k *Ledger) error {
		return func(t *testing.T, k *Ledger) error {
			if got := k.WhileReachable(t.Context(), func(context.Context) error { return err }); !errors.Is(got, err) {
				return fmt.Errorf("a read that ended with %w: %w", err, got)
			}
			return nil
		}
	}
	fail := errors.New("injected")
	for name, c := range map[string]struct {
		call    func(t *testing.T, k *Ledger) error
		answers bool
	}{
		"no call":                {func(*testing.T, *Ledger) error { return nil }, false},
		"a poll":                 {func(t *testing.T, k *Ledger) error { return k.PollSince(t.Context(), k.life.Elapsed()) }, true},
		"a question":             {func(t *testing.T, k *Ledger) error { _, err := k.Ahead(t.Context(), 0, 1); return err }, true},
		"a longer read":          {reads(nil), true},
		"a read of what is gone": {reads(ledger.ErrGone), true},
		"a read that failed":     {reads(fail), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			free := make(chan struct{})
			k := newKnown(t, newLedger(t, 1).Around(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
				if c.Operation == "ping" {
					<-free
					return fail
				}
				return next(ctx)
			}), time.Minute)
			lost := make(chan bool)
			go func() { lost <- k.available.lost(t.Context(), fail) }()
			synctest.Wait()
			time.Sleep(time.Millisecond) // the ping began before the answer
			must(t, c.call(t, k))
			close(free)
			if got := <-lost; got == c.answers || (k.Access() == Unreachable) != got {
				t.Errorf("%s: lost %v, access %d", name, got, k.Access())
			}
		})
	}
}
