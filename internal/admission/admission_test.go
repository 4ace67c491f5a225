package admission

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// fill takes every processor, and returns a function that frees them.
func fill(t *testing.T, l *Limiter) (free func()) {
	t.Helper()
	var all []func()
	for {
		done, ok := Run(l.Begin(t.Context()))
		if !ok {
			return func() {
				for _, done := range all {
					done()
				}
			}
		}
		all = append(all, done)
	}
}

// A request whose time to wait was up while the process was stopped waits on.
func TestRunStopped(t *testing.T) {
	l := NewLimiter()
	free := fill(t, l)
	var waited sync.WaitGroup
	waited.Go(func() {
		if _, ok := Run(l.Begin(t.Context())); !ok {
			t.Error("no processor, because the process was stopped")
		}
	})
	servertest.StopTest(t, patience+200*time.Millisecond)
	free()
	waited.Wait()
}

// A request that waits holds no processor, and takes one before it continues.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		ctx := l.Begin(t.Context())
		done, ok := Run(ctx)
		if !ok {
			t.Fatal("no processor is free")
		}
		free := fill(t, l) // all others
		first, second := Pause(ctx), Pause(ctx)
		other, ok := Run(l.Begin(t.Context()))
		if !ok {
			t.Fatal("a request that waits holds a processor")
		}
		first()
		var resumed sync.WaitGroup
		resumed.Go(second)
		synctest.Wait()
		if _, ok := Run(l.Begin(t.Context())); ok {
			t.Fatal("one processor runs two requests")
		}
		other()
		resumed.Wait()
		if _, ok := Run(l.Begin(t.Context())); ok {
			t.Fatal("a request continues without a processor")
		}
		done()
		free()
		fill(t, l)()
	})
}

// A request that cannot resume gives back nothing at its end.
func TestResumeAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		base, cancel := context.WithCancel(t.Context())
		ctx := l.Begin(base)
		done, _ := Run(ctx)
		resume := Pause(ctx)
		free := fill(t, l)
		cancel()
		resume()
		done()
		if _, ok := Run(l.Begin(t.Context())); ok {
			t.Error("a processor was given back twice")
		}
		free()
	})
}

// A request waits for a processor for a second, not for as long as its caller does.
func TestRunGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		defer fill(t, l)()
		start := time.Now()
		if _, ok := Run(l.Begin(t.Context())); ok || time.Since(start) != patience {
			t.Errorf("%v after %v", ok, time.Since(start))
		}
	})
}

// A request counts once among those that wait for the ledger, however many of its parts do.
func TestPauseForLedger(t *testing.T) {
	l := NewLimiter()
	l.SetMaxWaiting(2)
	first, second, third := l.Begin(t.Context()), l.Begin(t.Context()), l.Begin(t.Context())
	done, _ := Run(first)
	defer done()
	var resumes []func()
	for _, ctx := range []context.Context{first, first, second} {
		resume, ok := PauseForLedger(ctx)
		if !ok {
			t.Fatal("two requests may not wait, limit 2")
		}
		resumes = append(resumes, resume)
	}
	for i := range 3 {
		if _, ok := PauseForLedger(third); ok != (i == 2) {
			t.Errorf("after %d resumed: %v", i, ok)
		}
		resumes[i]()
	}
	// Work for no request is not limited.
	for range 3 {
		for _, ctx := range []context.Context{t.Context(), Detach(first)} {
			if _, ok := PauseForLedger(ctx); !ok {
				t.Error("a context of no request is limited")
			}
		}
	}
}
