package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/internal/pause"
)

func TestAbout(t *testing.T) {
	least, most := time.Hour, time.Duration(0)
	for range 10_000 {
		d := pause.About(time.Second)
		least, most = min(least, d), max(most, d)
	}
	// That all of them miss a hundredth at one end happens once in 10^43 times.
	if least < 500*time.Millisecond || least > 510*time.Millisecond {
		t.Errorf("the shortest of 10,000 pauses of about 1 s is %v", least)
	}
	if most >= 1500*time.Millisecond || most < 1490*time.Millisecond {
		t.Errorf("the longest of 10,000 pauses of about 1 s is %v", most)
	}
}

func TestDoubled(t *testing.T) {
	for failures, want := range map[int]int64{
		0: 1, 1: 1, 2: 2, 3: 4, 7: 64, 8: 100, 9: 100, 64: 100, 1 << 40: 100,
	} {
		got := pause.Doubled(time.Millisecond, 100*time.Millisecond, failures).Milliseconds()
		if got != want {
			t.Errorf("after %d failures: %d ms, want %d", failures, got, want)
		}
	}
}

func TestSleep(t *testing.T) {
	for _, test := range []struct {
		name   string
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		slept  bool
		passed time.Duration
	}{
		{"without an end", context.WithCancel, true, time.Second},
		{"before the deadline", within(time.Second + 1), true, time.Second},
		{"at the deadline", within(time.Second), false, 0},
		{"after the deadline", within(time.Millisecond), false, 0},
		{"cancelled meanwhile", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, cancel)
			return ctx, cancel
		}, false, time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := test.ctx(t.Context())
				defer cancel()
				start := time.Now()
				if slept := pause.Sleep(ctx, time.Second); slept != test.slept {
					t.Errorf("slept: %v, want %v", slept, test.slept)
				}
				if passed := time.Since(start); passed != test.passed {
					t.Errorf("%v passed, want %v", passed, test.passed)
				}
			})
		})
	}
}

func within(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, d)
	}
}
