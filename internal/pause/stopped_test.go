package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/internal/pause"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// TestWithinStopped fails calls of a process that was stopped meanwhile, and of one that was not.
func TestWithinStopped(t *testing.T) {
	failed := errors.New("failed")
	ended, end := context.WithCancel(t.Context())
	defer end()
	for name, c := range map[string]struct {
		ctx   context.Context
		stops int // the first calls are stopped
		fails int // the first calls fail
		calls int
	}{
		"fails":                    {t.Context(), 0, 9, 1},
		"stopped":                  {t.Context(), 1, 0, 1},
		"stopped and fails":        {t.Context(), 1, 1, 2},
		"fails for good":           {t.Context(), 1, 9, 2},
		"stopped and fails twice":  {t.Context(), 2, 9, 2},
		"of a caller that is gone": {ended, 1, 9, 1},
	} {
		calls := 0
		err := pause.Within(c.ctx, time.Minute, func(ctx context.Context) error {
			calls++
			if end, ok := ctx.Deadline(); !ok || time.Until(end) < 55*time.Second {
				t.Errorf("%s: call %d has until %v", name, calls, end)
			}
			if calls <= c.stops {
				servertest.StopTest(t, 400*time.Millisecond) //nolint:contextcheck // it ends by itself
			}
			if c.ctx == ended {
				end()
			}
			if calls <= c.fails {
				return failed
			}
			return nil
		})
		if calls != c.calls || (err != nil) != (calls <= c.fails) {
			t.Errorf("%s: %d calls, want %d, error %v", name, calls, c.calls, err)
		}
	}
}

// TestWatch runs for long without a stop, and notices one at any time.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pause.StartWatch()
		time.Sleep(time.Hour)
		if w.Stop() {
			t.Error("a process that ran counts as stopped")
		}
	})
	at := pause.StartWatch()
	servertest.StopTest(t, 400*time.Millisecond)
	if !at.Stop() {
		t.Error("a stop is not noticed at its end")
	}
	before := pause.StartWatch()
	servertest.StopTest(t, 400*time.Millisecond)
	<-time.After(200 * time.Millisecond) // beats
	if !before.Stop() {
		t.Error("a stop is forgotten")
	}
}
