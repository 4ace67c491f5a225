package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrUnknown means that a figure is unavailable on this machine.
var ErrUnknown = errors.New("unknown here")

// Meter reads the CPU time that something has used until now. Where it cannot be told, the error
// wraps [ErrUnknown].
type Meter func(ctx context.Context) (time.Duration, error)

// Usage is what a number of calls have used.
type Usage struct {
	Calls int
	CPU   []time.Duration // by each meter, of all calls together; -1: unknown
}

// PerCall is what a call used by the i-th meter, in microseconds; -1 if it is not known.
func (u Usage) PerCall(i int) float64 {
	if u.CPU[i] < 0 || u.Calls == 0 {
		return -1
	}
	return float64(u.CPU[i]) / float64(u.Calls) / float64(time.Microsecond)
}

// Use measures the CPU time of each of calls: blocks of them take turns, each call has d in all.
// What runs beside them in the same processes is counted too, so d should be a second or more.
func Use(ctx context.Context, d time.Duration, meters []Meter, calls ...Call) ([]Usage, error) {
	const blocks = 3
	usages := make([]Usage, len(calls))
	for i := range usages {
		usages[i].CPU = make([]time.Duration, len(meters))
	}
	for range blocks {
		for i := range calls {
			before, err := readAll(ctx, meters)
			if err != nil {
				return nil, err
			}
			n, err := Repeat(ctx, d/blocks, calls[i])
			if err != nil {
				return nil, err
			}
			after, err := readAll(ctx, meters)
			if err != nil {
				return nil, err
			}
			usages[i].Calls += n
			for m := range meters {
				if before[m] < 0 || after[m] < 0 {
					usages[i].CPU[m] = -1
				} else {
					usages[i].CPU[m] += after[m] - before[m]
				}
			}
		}
	}
	return usages, nil
}

func readAll(ctx context.Context, meters []Meter) ([]time.Duration, error) {
	read := make([]time.Duration, len(meters))
	for i, meter := range meters {
		var err error
		read[i], err = meter(ctx)
		switch {
		case errors.Is(err, ErrUnknown):
			read[i] = -1
		case err != nil:
			return nil, fmt.Errorf("read CPU time: %w", err)
		}
	}
	return read, nil
}
