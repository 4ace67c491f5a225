//go:build unix

package bench

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// OwnCPU is the [Meter] of this process, all its threads.
func OwnCPU(context.Context) (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("CPU time of this process: %w: %w", ErrUnknown, err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
