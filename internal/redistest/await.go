package redistest

import (
	"context"
	"fmt"
	"time"
)

const (
	pollInterval = 20 * time.Millisecond
	// A cluster and a sentinel are at rest within seconds; the limit is for
	// machines with far too much to do, and keeps a test that waits for what
	// never comes from the limit of the whole run.
	awaitTimeout = time.Minute
)

// await tries again and again until try returns nil, a minute at most. The error
// tells what was awaited, and what try said last.
func await(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // what the end of ctx makes try say explains nothing
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w; the last attempt: %w", what, ctx.Err(), last)
		}
	}
}
