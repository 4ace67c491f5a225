package bench_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/bench"
)

func TestQuantiles(t *testing.T) {
	s := bench.Samples{5, 1, 4, 2, 3}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.9: 5, 1: 5} {
		if got := s.Quantile(q); got != want {
			t.Errorf("quantile %g is %d, want %d", q, got, want)
		}
	}
	if !slices.Equal(s, bench.Samples{5, 1, 4, 2, 3}) {
		t.Errorf("the samples are in another order: %v", s)
	}
	if got := (bench.Samples{}).Median(); got != 0 {
		t.Errorf("the median without samples is %v", got)
	}
}

// TestInterleave checks that every call is in every round, except rarer ones, and that no call
// always follows the same other one.
func TestInterleave(t *testing.T) {
	var log []string
	call := func(name string, every int) bench.Call {
		return bench.Call{Name: name, Every: every, Do: func(_ context.Context, round int) error {
			log = append(log, name+string(rune('0'+round)))
			return nil
		}}
	}
	samples, err := bench.Interleave(t.Context(), 0, call("a", 0), call("b", 0), call("c", 2))
	if err != nil {
		t.Fatal(err)
	}
	want := "a0 b0 c0 a0 b0 c0 b1 a1 c2 a2 b2 a3 b3 b4 c4 a4"
	if got := strings.Join(log, " "); !strings.HasPrefix(got, want) {
		t.Errorf("called %s, want it to begin with %s", got, want)
	}
	if len(samples) != 3 || len(samples[0]) != len(samples[1]) || len(samples[2]) < 5 || len(samples[0]) < 2*len(samples[2])-1 {
		t.Errorf("%d, %d and %d samples", len(samples[0]), len(samples[1]), len(samples[2]))
	}
}

func TestInterleaveLeavesPreparationOut(t *testing.T) {
	prepared := 0
	samples, err := bench.Interleave(t.Context(), 0, bench.Call{
		Before: func(context.Context, int) error {
			prepared++
			for begun := time.Now(); time.Since(begun) < 20*time.Millisecond; { // busy loop
				continue
			}
			return nil
		},
		Do: func(context.Context, int) error { return nil },
	})
	if err != nil || prepared != len(samples[0])+1 {
		t.Fatalf("prepared %d times for %d samples, %v", prepared, len(samples[0]), err)
	}
	if least := samples[0].Quantile(0); least > 10*time.Millisecond {
		t.Errorf("a call without work took %v", least)
	}
}

func TestErrorsNameTheCall(t *testing.T) {
	boom := errors.New("boom")
	fails := bench.Call{Name: "the ninth", Do: func(_ context.Context, round int) error {
		if round >= 3 {
			return boom
		}
		return nil
	}}
	_, interleaved := bench.Interleave(t.Context(), time.Hour, fails)
	_, repeated := bench.Repeat(t.Context(), time.Hour, fails)
	_, parallel := bench.Parallel(t.Context(), time.Hour, 4, fails)
	_, used := bench.Use(t.Context(), time.Hour, nil, fails)
	for _, err := range []error{interleaved, repeated, parallel, used} {
		if !errors.Is(err, boom) || !strings.Contains(err.Error(), "the ninth") {
			t.Errorf("got %v", err)
		}
	}
}

func TestMeasuringEndsWithItsContext(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	c := bench.Call{Do: func(_ context.Context, round int) error {
		if round == 100 {
			stop(stopped)
		}
		return nil
	}}
	if _, err := bench.Interleave(ctx, time.Hour, c); !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
	if _, err := bench.Parallel(ctx, time.Hour, 4, c); !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
}

// TestParallel checks that goroutines get different numbers, and run concurrently.
func TestParallel(t *testing.T) {
	const goroutines = 4
	var mu sync.Mutex
	seen := make(map[int]bool)
	together := make(chan struct{})
	_, err := bench.Parallel(t.Context(), 10*time.Millisecond, goroutines, bench.Call{Do: func(ctx context.Context, n int) error {
		mu.Lock()
		if seen[n] {
			t.Errorf("%d twice", n)
		}
		seen[n] = true
		if len(seen) == goroutines {
			close(together)
		}
		mu.Unlock()
		select {
		case <-together:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUse(t *testing.T) {
	var clock time.Duration
	meter := func(context.Context) (time.Duration, error) { return clock, nil }
	untold := func(context.Context) (time.Duration, error) { return 0, bench.ErrUnknown }
	costs := func(d time.Duration) bench.Call {
		return bench.Call{Do: func(context.Context, int) error { clock += d; return nil }}
	}
	usages, err := bench.Use(t.Context(), 0, []bench.Meter{meter, untold}, costs(3*time.Microsecond), costs(7*time.Microsecond))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{3, 7} {
		if got := usages[i].PerCall(0); got != want {
			t.Errorf("call %d used %g us, want %g", i, got, want)
		}
		if got := usages[i].PerCall(1); got != -1 {
			t.Errorf("unknown CPU time is %g", got)
		}
	}
}

func TestOwnCPU(t *testing.T) {
	before, err := bench.OwnCPU(t.Context())
	if errors.Is(err, bench.ErrUnknown) {
		t.Skip(err)
	}
	for begun := time.Now(); ; {
		after, err := bench.OwnCPU(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if after-before > 10*time.Millisecond {
			return // it counts what this loop uses
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("a minute of work used %v", after-before)
		}
	}
}
