package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// minRounds is the minimum number of timed rounds.
const minRounds = 5

// Samples holds the durations of calls of one kind, in the order of the calls.
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

// Call is a call to time.
type Call struct {
	Name string
	// Do is called with the number of the round, from 0 on. All calls of a round get the same
	// number.
	Do func(ctx context.Context, round int) error
	// Before, unless nil, is called before Do, and is not timed.
	Before func(ctx context.Context, round int) error
	// Every calls Do only in every n-th round, for calls that would slow the rounds of others; 0:
	// in all.
	Every int
}

// Interleave times calls in turn, for d and at least a few rounds. Each round begins with another
// call, so that no call always follows the same one. The samples are in the order of calls.
// Interleave ends at the first error, which names the call.
func Interleave(ctx context.Context, d time.Duration, calls ...Call) ([]Samples, error) {
	samples := make([]Samples, len(calls))
	for i := range calls {
		// The first call opens connections and fills caches, so it is not counted.
		if _, err := calls[i].time(ctx, 0); err != nil {
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
		byLength := func(a, b Samples) int { return cmp.Compare(len(a), len(b)) }
		counted = len(slices.MinFunc(samples, byLength))
	}
	return samples, nil
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
