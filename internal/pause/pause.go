// Package pause is how long to wait before another attempt.
//
// Callers that failed together must not try again together. So each pause is random, and so is the
// time between two rounds of what all processes do.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// About returns a random time from half of d up to one and a half times d, d on average. d is
// positive.
func About(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // a pause may be predictable
}

// Doubled returns the pause after that many failures in a row: first after the first, twice as long
// after each further one, and at most longest.
func Doubled(first, longest time.Duration, failures int) time.Duration {
	const most = 32 // doublings, which keeps the product of any sensible first pause in range
	return min(first<<min(max(failures-1, 0), most), longest)
}

// Sleep waits for d, and reports whether ctx has not ended. If ctx would end first, Sleep returns
// false at once.
func Sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
