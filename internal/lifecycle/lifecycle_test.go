package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/internal/lifecycle"
)

// Any two events have an order, even if the clock stands still: Elapsed never returns a time twice,
// and is ahead of the clock by less than MaxAhead.
func TestElapsedIsUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lifecycle.New(t.Context())
		var mu sync.Mutex
		var all []int64
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				var own []int64
				for range 100 {
					own = append(own, l.Elapsed())
				}
				if !slices.IsSorted(own) {
					t.Errorf("one caller gets %d", own)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, own...)
			})
		}
		callers.Wait()
		slices.Sort(all)
		if n := len(slices.Compact(slices.Clone(all))); n != 400 || all[399] >= int64(lifecycle.MaxAhead) {
			t.Errorf("%d of 400 times differ, the last one is %v ahead", n, time.Duration(all[399]))
		}
		time.Sleep(time.Second)
		if at := l.Elapsed(); at != int64(time.Second) {
			t.Errorf("%v after a second", time.Duration(at))
		}
	})
}

// Close waits for work in flight. Work that begins later is refused, and waits end.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		caller, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
		l := lifecycle.New(caller)
		cancel() // of the call that opened it
		ticks := 0
		l.Go(func() { l.Every(time.Second, func() { ticks++ }) })
		var ended bool
		if !l.Background(func() {
			if err := l.Rest(l.Base, time.Hour); !errors.Is(err, lifecycle.ErrClosed) {
				t.Errorf("a wait during Close: error %v", err)
			}
			if l.Base.Err() != nil || l.Base.Value(key{}) != "trace" {
				t.Error("the context of work in flight has ended, or lacks the values of the opener")
			}
			time.Sleep(time.Minute)
			ended = true
		}) {
			t.Fatal("refused while it is open")
		}
		if err := errors.Join(l.Going(l.Base), l.Rest(l.Base, time.Millisecond)); err != nil || l.IsClosed() {
			t.Errorf("while it is open: %v", err)
		}
		time.Sleep(3*time.Second + time.Millisecond)
		l.Close()
		if !ended || ticks != 3 {
			t.Errorf("work in flight has ended: %v; %d ticks, want 3", ended, ticks)
		}
		if l.Base.Err() == nil || l.Open.Err() == nil || !errors.Is(l.Going(t.Context()), lifecycle.ErrClosed) {
			t.Error("it is not closed")
		}
		if l.Background(func() { t.Error("work begins after Close") }) {
			t.Error("work after Close is not refused")
		}
	})
}
