package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// chaosSummary is the result of a run, in the format of -chaos.report.
type chaosSummary struct {
	Test          string             `json:"test"`
	Seed          uint64             `json:"seed"`
	Seconds       float64            `json:"seconds"`
	Counts        map[string]int     `json:"counts"`
	Violations    map[string]int     `json:"violations"`
	Faults        map[string]int     `json:"faults"`
	Repairs       map[string]float64 `json:"longest_repair_ms"`
	LatestMillis  float64            `json:"longest_lateness_ms"`
	Rates         rates              `json:"rates"`
	LatencyMillis map[string]float64 `json:"latency_ms"`
	Service       map[string]float64 `json:"service"` // /v1/stats, summed over all lives
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// report logs the summary as a table, and adds it to the file of -chaos.report.
func (w *world) report(growth *sampler, faults map[string]int) {
	w.t.Helper()
	y := w.tally
	found, _ := y.violations()
	s := chaosSummary{
		Test: w.t.Name(), Seed: w.seed, Seconds: time.Since(y.start).Seconds(),
		Violations: found, Faults: faults, Rates: w.load.model.rates(), Service: growth.totals(),
		Repairs: make(map[string]float64), LatencyMillis: make(map[string]float64),
	}
	y.mu.Lock()
	s.Counts = maps.Clone(y.counts)
	s.LatestMillis = millis(y.latest)
	for name, r := range y.repairs {
		s.Repairs[name+": feeds"] = millis(r.feeds)
		s.Repairs[name+": nothing degraded"] = millis(r.whole)
		s.Repairs[name+": writes"] = millis(r.writes)
	}
	names := slices.Sorted(maps.Keys(y.times))
	y.mu.Unlock()
	for _, name := range names {
		s.LatencyMillis[name+" p50"] = millis(y.quantile(name, 0.50))
		s.LatencyMillis[name+" p99"] = millis(y.quantile(name, 0.99))
		s.LatencyMillis[name+" max"] = millis(y.quantile(name, 1))
	}
	live, _ := w.load.model.count()
	s.Counts["live at the end"] = live
	w.t.Log("\n" + s.String())
	s.appendTo(w)
}

// String returns the summary as a table.
func (s chaosSummary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d, %.0f s\n", s.Test, s.Seed, s.Seconds)
	section := func(name string, values map[string]float64) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			fmt.Fprintf(&b, "  %-14s %-44s %12.6g\n", name, key, values[key])
		}
	}
	section("count", floats(s.Counts))
	section("violation", floats(s.Violations))
	section("fault", floats(s.Faults))
	section("repair ms", s.Repairs)
	section("latency ms", s.LatencyMillis)
	section("service", s.Service)
	fmt.Fprintf(&b, "  lateness: at most %.0f ms\n", s.LatestMillis)
	r := s.Rates
	fmt.Fprintf(&b, "  undone: reported in %d of %d absences, controls in %d; in %d of %d looks, controls in %d; %d of %d keys more often, %d less\n",
		r.UndoneAbsences, r.Absences, r.ControlAbsences, r.UndoneLooks, r.Looks, r.ControlLooks, r.UndoneMore, r.Keys, r.ControlMore)
	fmt.Fprintf(&b, "  kept: in %d looks, dropped by other kinds in %d\n", r.KeptLooks, r.KeptDropped)
	return b.String()
}

func floats(counts map[string]int) map[string]float64 {
	f := make(map[string]float64, len(counts))
	for name, n := range counts {
		f[name] = float64(n)
	}
	return f
}

func (s chaosSummary) appendTo(w *world) {
	w.t.Helper()
	if *chaosReport == "" {
		return
	}
	line, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	file, err := os.OpenFile(*chaosReport, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		w.t.Error(err)
	}
	if err := file.Close(); err != nil {
		w.t.Error(err)
	}
}
