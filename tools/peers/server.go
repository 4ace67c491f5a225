package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// infoOf returns a number of a section of INFO.
func infoOf(ctx context.Context, client *redis.Client, section, field string) (int64, error) {
	info := client.InfoMap(ctx, section)
	if err := info.Err(); err != nil {
		return 0, fmt.Errorf("INFO %s: %w", section, err)
	}
	for _, fields := range info.Val() { // one section
		if n, err := strconv.ParseInt(fields[field], 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("INFO %s has no number %s", section, field)
}

// processOf returns the process id of a server.
func processOf(ctx context.Context, client *redis.Client) (int, error) {
	pid, err := infoOf(ctx, client, "server", "process_id")
	return int(pid), err
}

// settling is how long a server takes to notice the size of its clients' buffers, which it checks
// once a second.
const settling = 1200 * time.Millisecond

// memoryOf returns by how many bytes the memory of a server grows while fill runs, without the
// buffers of its clients. It takes two seconds more than fill.
func memoryOf(ctx context.Context, client *redis.Client, fill func() error) (float64, error) {
	before, err := memory(ctx, client)
	if err != nil {
		return 0, err
	}
	if err := fill(); err != nil {
		return 0, err
	}
	after, err := memory(ctx, client)
	return float64(after - before), err
}

func memory(ctx context.Context, client *redis.Client) (int64, error) {
	if err := wait(ctx, settling); err != nil {
		return 0, err
	}
	used, err := infoOf(ctx, client, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	buffers, err := infoOf(ctx, client, "memory", "mem_clients_normal")
	return used - buffers, err
}

// version returns the engine and version that a server reports.
func version(ctx context.Context, client *redis.Client) string {
	for _, fields := range client.InfoMap(ctx, "server").Val() {
		for _, engine := range []string{"valkey", "redis"} {
			if v := fields[engine+"_version"]; v != "" {
				return engine + " " + v
			}
		}
	}
	return "a server of unknown version"
}

// clockTicks is the number of units per second in which /proc counts CPU time on every Linux that
// Go supports.
const clockTicks = 100

// processCPU returns the CPU time that a process on this machine has used, all threads included. It
// reads /proc, which counts in steps of 10 ms.
func processCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return parseStat(stat)
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
	for _, field := range fields[user : system+1] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc has %q", stat)
		}
		total += time.Duration(n) * time.Second / clockTicks
	}
	return total, nil
}

// resident returns the resident memory in bytes of a process on this machine.
func resident(pid int) (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	var size, pages float64
	_, err = fmt.Sscan(string(text), &size, &pages)
	return pages * float64(os.Getpagesize()), err
}

// Limits of noise, above which figures do not count.
const (
	maxDrift  = 1.15 // between the PINGs of the first and the last third of a run
	maxSpread = 2.0  // of PING's 90th percentile to its median
	maxLoad   = 1.0  // average of a minute, before a run
)

// loadAverage returns the load average of the last minute; 0 if the system does not report it.
func loadAverage() (load float64) {
	text, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(text), &load)
	return load
}

// noise returns the reasons why a machine was too busy for its figures to count: a load average
// above 1 before the run, or uneven PINGs. Without PINGs it checks only the load.
func noise(load float64, pings ...bench.Samples) (reasons []string) {
	if load > maxLoad {
		reasons = append(reasons, fmt.Sprintf(
			"the load average was %.2f at the start, above %.0f", load, maxLoad,
		))
	}
	short := func(d time.Duration) time.Duration { return d.Round(100 * time.Nanosecond) }
	for _, s := range pings {
		third := len(s) / 3
		if third == 0 {
			continue
		}
		first, last := s[:third].Median(), s[len(s)-third:].Median()
		if drift := float64(max(first, last)) / float64(min(first, last)); drift > maxDrift {
			reasons = append(reasons, fmt.Sprintf(
				"a PING took %v in the first third of a run and %v in the last, more than 15 %% apart",
				short(first), short(last),
			))
		}
		median, slow := s.Median(), s.Quantile(0.9)
		if float64(slow) > maxSpread*float64(median) {
			reasons = append(reasons, fmt.Sprintf(
				"a tenth of the PINGs took %v or more, over twice the median of %v",
				short(slow), short(median),
			))
		}
	}
	return reasons
}

// machine describes this machine in a line.
func machine() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	model := ""
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = " (" + strings.TrimSpace(value) + ")"
		}
	}
	return fmt.Sprintf(
		"%d CPUs%s, %s/%s, %s",
		runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version(),
	)
}
