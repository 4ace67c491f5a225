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

// clockTicks is the number of units per second in which /proc counts CPU time on every Linux that
// Go supports.
const clockTicks = 100

// processCPU returns a meter of the CPU time of a process on this machine, all threads included. It
// reads /proc, which counts in steps of 10 ms.
func processCPU(pid int) bench.Meter {
	return func(context.Context) (time.Duration, error) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w: %w", pid, bench.ErrUnknown, err)
		}
		return parseStat(stat)
	}
}

// parseStat returns the sum of utime and stime, the 14th and 15th field. The second field is a name
// in parentheses, and may contain any character.
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
