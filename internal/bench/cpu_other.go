//go:build !unix

package bench

import (
	"context"
	"time"
)

// OwnCPU is the [Meter] of this process, all its threads.
func OwnCPU(context.Context) (time.Duration, error) { return 0, ErrUnknown }
