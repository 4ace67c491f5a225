package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ErrUnknown says that a figure cannot be had here.
var ErrUnknown = errors.New("unknown here")

// Meter reads the CPU time that something has used until now. Where it cannot be told, the error wraps
// [ErrUnknown].
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

// Use measures the CPU time of each of calls: blocks of them take turns, each call has d in all. What runs beside them in the same
// processes is counted too, so d should be a second or more.
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

// ticks is how many units /proc counts a second in, on every Linux that Go runs on.
const ticks = 100

// ProcessCPU is the meter of a process of this machine, all its threads, as /proc tells it: in steps of 10 ms.
func ProcessCPU(pid int) Meter {
	return func(context.Context) (time.Duration, error) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w: %w", pid, ErrUnknown, err)
		}
		return parseStat(stat)
	}
}

// parseStat reads utime and stime, the 14th and 15th field. The second is a name in parentheses that may hold anything.
func parseStat(stat []byte) (time.Duration, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0, fmt.Errorf("%w: /proc has %q", ErrUnknown, stat)
	}
	total := time.Duration(0)
	for _, field := range [][]byte{fields[user], fields[system]} {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: /proc has %q", ErrUnknown, stat)
		}
		total += time.Duration(n) * time.Second / ticks
	}
	return total, nil
}
