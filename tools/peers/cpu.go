package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTicks is the number of units per second in which /proc counts CPU time on every Linux that
// Go supports.
const clockTicks = 100

// meter returns the CPU time that a process has used so far.
type meter func(ctx context.Context) (time.Duration, error)

// processCPU returns a meter of the CPU time of a process on this machine, all threads included. It
// reads /proc, which counts in steps of 10 ms.
func processCPU(pid int) meter {
	return func(context.Context) (time.Duration, error) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
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
		return 0, fmt.Errorf("/proc has %q", stat)
	}
	total := time.Duration(0)
	for _, field := range [][]byte{fields[user], fields[system]} {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc has %q", stat)
		}
		total += time.Duration(n) * time.Second / clockTicks
	}
	return total, nil
}

// readMeters reads all meters that are not nil.
func readMeters(ctx context.Context, meters []meter) ([]time.Duration, error) {
	read := make([]time.Duration, len(meters))
	for i, meter := range meters {
		if meter == nil {
			continue
		}
		var err error
		if read[i], err = meter(ctx); err != nil {
			return nil, err
		}
	}
	return read, nil
}
