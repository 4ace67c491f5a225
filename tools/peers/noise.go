package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// Limits of noise, above which figures do not count.
const (
	maxDrift  = 1.15 // between the PINGs of the first and the last third of a run
	maxSpread = 2.0  // of PING's 90th percentile to its median
	maxLoad   = 1.0  // average of a minute, before a run
)

// loadAverage returns the load average of the last minute; false if the system does not report it.
func loadAverage() (float64, bool) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	var load float64
	_, err = fmt.Sscan(string(text), &load)
	return load, err == nil
}

// noise returns the reasons why a machine was too busy for its figures to count: a load average
// above 1 before the run, or uneven PINGs. Without PINGs it checks only the load.
func noise(load float64, pings ...bench.Samples) (reasons []string) {
	if load > maxLoad {
		reasons = append(reasons, fmt.Sprintf("the load average was %.2f at the start, above %.0f", load, maxLoad))
	}
	for _, s := range pings {
		third := len(s) / 3
		if third == 0 {
			continue
		}
		first, last := s[:third].Median(), s[len(s)-third:].Median()
		if drift := float64(max(first, last)) / float64(min(first, last)); drift > maxDrift {
			reasons = append(reasons, fmt.Sprintf("a PING took %v in the first third of a run and %v in the last, more than 15 %% apart",
				short(first), short(last)))
		}
		median, slow := s.Median(), s.Quantile(0.9)
		if float64(slow) > maxSpread*float64(median) {
			reasons = append(reasons, fmt.Sprintf("a tenth of the PINGs took %v or more, over twice the median of %v",
				short(slow), short(median)))
		}
	}
	return reasons
}

func short(d time.Duration) time.Duration { return d.Round(100 * time.Nanosecond) }

// machine describes this machine in a line.
func machine() string {
	model := cpuModel()
	if model != "" {
		model = " (" + model + ")"
	}
	return fmt.Sprintf("%d CPUs%s, %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
