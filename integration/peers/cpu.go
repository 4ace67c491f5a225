package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// clockTicks is how many units /proc counts a second in, on every Linux that Go runs on.
const clockTicks = 100

// processCPU is the meter of a process of this machine, all its threads, as /proc tells it: in
// steps of 10 ms.
func processCPU(pid int) bench.Meter {
	return func(context.Context) (time.Duration, error) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w: %w", pid, bench.ErrUnknown, err)
		}
		return parseStat(stat)
	}
}

// parseStat reads utime and stime, the 14th and 15th field. The second is a name in parentheses
// that may hold anything.
func parseStat(stat []byte) (time.Duration, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0, fmt.Errorf("%w: /proc has %q", bench.ErrUnknown, stat)
	}
	total := time.Duration(0)
	for _, field := range [][]byte{fields[user], fields[system]} {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: /proc has %q", bench.ErrUnknown, stat)
		}
		total += time.Duration(n) * time.Second / clockTicks
	}
	return total, nil
}
