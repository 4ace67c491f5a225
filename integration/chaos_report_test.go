package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// report logs the result of the run as a table.
func (w *world) report(growth *sampler, faults map[string]int) {
	w.t.Helper()
	y := w.tally
	found, _ := y.violations()
	live, _ := w.load.model.count()
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, seed %d, %.0f s, %d keys live at the end\n", w.t.Name(), w.seed, time.Since(y.start).Seconds(), live)
	y.mu.Lock()
	section(&b, "count", y.counts)
	section(&b, "violation", found)
	section(&b, "fault", faults)
	for _, name := range slices.Sorted(maps.Keys(y.repairs)) {
		r := y.repairs[name]
		fmt.Fprintf(&b, "  %-10s %-44s feeds %v, nothing degraded %v, writes %v\n", "repair", name, r.feeds, r.whole, r.writes)
	}
	for _, name := range slices.Sorted(maps.Keys(y.slowest)) {
		fmt.Fprintf(&b, "  %-10s %-44s %v\n", "slowest", name, y.slowest[name])
	}
	latest, afterEnd := y.latest, y.afterEnd
	y.mu.Unlock()
	section(&b, "service", growth.totals())
	fmt.Fprintf(&b, "  lateness: at most %v; grants used up to %v after the end of a fault\n", latest, afterEnd)
	r := w.load.model.rates()
	fmt.Fprintf(&b, "  undone: reported in %d of %d absences, controls in %d; in %d of %d looks, controls in %d; %d of %d keys more often, %d less\n",
		r.UndoneAbsences, r.Absences, r.ControlAbsences, r.UndoneLooks, r.Looks, r.ControlLooks, r.UndoneMore, r.Keys, r.ControlMore)
	fmt.Fprintf(&b, "  kept: in %d looks, dropped by other kinds in %d\n", r.KeptLooks, r.KeptDropped)
	w.t.Log(b.String())
}

func section[V int | float64](b *strings.Builder, name string, values map[string]V) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(b, "  %-10s %-44s %12v\n", name, key, values[key])
	}
}
