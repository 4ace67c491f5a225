package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// parallel calls c from a number of goroutines for d, and returns the calls per second of all
// together. Each call gets a different round number.
func parallel(ctx context.Context, d time.Duration, goroutines int, c bench.Call) (perSecond float64, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var calls atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		wg.Go(func() {
			for time.Since(begun) < d {
				if ctx.Err() != nil {
					return
				}
				if err := c.Do(ctx, int(calls.Add(1)-1)); err != nil {
					stop(fmt.Errorf("measure %s: %w", c.Name, err))
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
