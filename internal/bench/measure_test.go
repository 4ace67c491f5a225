package bench_test

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	_, err := bench.Interleave(t.Context(), time.Hour, fails)
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "the ninth") {
		t.Errorf("got %v", err)
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
}
