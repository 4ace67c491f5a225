// The drill provokes each alert on a real service with a real Redis and PostgreSQL. The engine of
// Prometheus evaluates the rules on what the service exports. The drill then follows the runbook
// until the alert ends. It takes minutes; `make drill` runs it.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// scenario says how to provoke an alert and how to end it.
type scenario struct {
	alert     string
	how       string // how the alert is provoked, for the table of results
	recovered string
	change    *strings.Replacer                // shortens durations in the rules; nil: no change
	prepare   func(d *drill)                   // runs before the service starts
	busy      func(d *drill)                   // makes the load before the fault
	provoke   func(d *drill)                   // causes the fault, and may set drill.each
	most      time.Duration                    // upper bound until the alert fires
	words     func(d *drill) map[string]string // replacements in the runbook's commands
	files     func(d *drill) map[string]string // files that the runbook's commands read
	mended    func(d *drill)                   // runs after the runbook's commands
	ends      time.Duration                    // upper bound until the alert ends
}

func TestDrill(t *testing.T) {
	if os.Getenv("DRILL") == "" {
		t.Skip("it takes minutes: make drill")
	}
	bin := commands(t)
	postgres := pgtest.Start(t)
	all := slices.Concat(truthScenarios(), serviceScenarios(), storeScenarios(), accessScenarios(), followScenarios())
	rows := make(map[string]string)
	for _, s := range all {
		t.Run(s.alert, func(t *testing.T) {
			begin := time.Now()
			rows[s.alert] = s.run(t, bin, postgres)
			t.Logf("%s (in %v)", rows[s.alert], time.Since(begin).Round(time.Second))
		})
	}
	if os.Getenv("DRILL") != "all" || t.Failed() {
		return
	}
	table(t, rows)
}

// run runs the scenario, and returns its row of the table.
func (s scenario) run(t *testing.T, bin string, postgres *pgtest.Server) string {
	d := newDrill(t, bin, postgres, s.change)
	if s.prepare != nil {
		s.prepare(d)
	}
	d.start()
	d.await("feedfilter_scrub_rounds_total", above(0))
	if s.busy != nil {
		s.busy(d)
	}
	d.rest(5 * time.Minute)
	s.provoke(d)
	fired := d.until(s.most, "fired", func() bool { return d.fires(s.alert) })
	t.Logf("what fires: %v", d.firing())
	var words, files map[string]string
	if s.words != nil {
		words = s.words(d)
	}
	if s.files != nil {
		files = s.files(d)
	}
	d.follow(s.alert, words, files)
	if s.mended != nil {
		s.mended(d)
	}
	ended := d.until(s.ends, "ended", func() bool { return d.rests(s.alert) })
	return fmt.Sprintf("| [%s](../../docs/OPERATIONS.md#%s) | %s | %v | %s | %v |", s.alert, strings.ToLower(s.alert), s.how, short(fired), s.recovered, short(ended))
}

// short returns a duration as the table prints it.
func short(d time.Duration) string {
	return strings.TrimSuffix(strings.Replace(d.Round(time.Second).String(), "m0s", "m", 1), "h0m")
}

// table compares the table in the README with the results of this run. It ignores the times, which
// differ from run to run. With UPDATE=1 it writes the table instead.
func table(t *testing.T, rows map[string]string) {
	t.Helper()
	groups, err := parseRules(alerts)
	must(t, err)
	var text strings.Builder
	text.WriteString("| alert | provoked by | fired after | recovered by | ended after |\n|---|---|---|---|---|\n")
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if row := rows[r.Alert]; row != "" {
				text.WriteString(row + "\n")
				rows[r.Alert] = ""
			} else if _, done := rows[r.Alert]; !done && r.Alert != "" {
				t.Errorf("nothing provokes %s", r.Alert)
			}
		}
	}
	before, rest, ok := strings.Cut(read(t, results), "<!-- drill -->\n")
	old, after, ok2 := strings.Cut(rest, "<!-- /drill -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", results)
	}
	if os.Getenv("UPDATE") != "" {
		must(t, os.WriteFile(results, []byte(before+"<!-- drill -->\n"+text.String()+"<!-- /drill -->"+after), 0o600))
		return
	}
	if got, want := withoutTimes(old), withoutTimes(text.String()); got != want {
		t.Errorf("%s has another table than this run; UPDATE=1 make drill writes the table\n%s\nwant\n%s", results, got, want)
	}
}

// withoutTimes removes the columns of times from a table.
func withoutTimes(table string) string {
	var b strings.Builder
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); len(cells) == 5 {
			fmt.Fprintln(&b, cells[0], cells[1], cells[3])
		}
	}
	return b.String()
}
