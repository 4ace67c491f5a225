package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// minRounds is how often calls are timed at least, however little time there is.
const minRounds = 5

// Samples are how long calls of one kind took, in the order of the calls.
type Samples []time.Duration

// Quantile returns the q-quantile, q from 0 to 1; 0 without samples.
func (s Samples) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Median returns the 0.5-quantile.
func (s Samples) Median() time.Duration { return s.Quantile(0.5) }

// Call is what is timed.
type Call struct {
	Name string
	// Do is called with the number of the round, from 0 on. What takes turns with it gets the same.
	Do func(ctx context.Context, round int) error
	// Before, if there is one, goes before Do, and is not timed.
	Before func(ctx context.Context, round int) error
	// Every has Do called in one of so many rounds only, for calls that would slow the others'
	// rounds; 0: in all.
	Every int
}

// Interleave times calls in turn, one round of them after another, for d or a few rounds at least.
// Each round begins with another call, so that none always follows the same one. The samples are in
// the order of calls. It ends with the first error, which names the call.
func Interleave(ctx context.Context, d time.Duration, calls ...Call) ([]Samples, error) {
	samples := make([]Samples, len(calls))
	for i := range calls {
		if _, err := calls[i].time(ctx, 0); err != nil { // not counted: connections are made, caches filled
			return nil, err
		}
	}
	begun, counted := time.Now(), 0
	for round := 0; counted < minRounds || time.Since(begun) < d; round++ {
		for n := range calls {
			i := (n + round) % len(calls)
			if every := calls[i].Every; every > 1 && round%every != 0 {
				continue
			}
			took, err := calls[i].time(ctx, round)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], took)
		}
		counted = shortest(samples)
	}
	return samples, nil
}

func shortest(samples []Samples) int {
	least := len(samples[0])
	for _, s := range samples {
		least = min(least, len(s))
	}
	return least
}

func (c *Call) time(ctx context.Context, round int) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	if c.Before != nil {
		if err := c.Before(ctx, round); err != nil {
			return 0, fmt.Errorf("prepare %s: %w", c.Name, err)
		}
	}
	start := time.Now()
	err := c.Do(ctx, round)
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", c.Name, err)
	}
	return took, nil
}

// Repeat calls c, one call after another, for d, and returns how many calls that were.
func Repeat(ctx context.Context, d time.Duration, c Call) (int, error) {
	begun := time.Now()
	for n := 0; ; n++ {
		if n >= minRounds && time.Since(begun) >= d {
			return n, nil
		}
		if _, err := c.time(ctx, n); err != nil {
			return n, err
		}
	}
}

// Parallel has so many goroutines call c for d, and returns how many calls a second they made
// together. No two calls get the same number.
func Parallel(ctx context.Context, d time.Duration, goroutines int, c Call) (perSecond float64, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var calls atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		wg.Go(func() {
			for time.Since(begun) < d {
				if _, err := c.time(ctx, int(calls.Add(1)-1)); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return float64(calls.Load()) / time.Since(begun).Seconds(), nil
}
