package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

// step is the time between two scrapes, by the clock of the engine.
const step = 15 * time.Second

// engine is a Prometheus without its server: a database, PromQL and the rules. Each scrape moves
// its clock.
type engine struct {
	t      *testing.T
	db     *tsdb.DB
	groups []*rules.Group
	now    time.Time
	parsed map[string]labels.Labels
	there  map[string]bool // the series of the last scrape
}

// newEngine starts the clock now, because the service exports times. If change is not nil,
// newEngine applies it to the text of the rules.
func newEngine(t *testing.T, change *strings.Replacer) *engine {
	t.Helper()
	options := tsdb.DefaultOptions()
	options.RetentionDuration = (100 * 24 * time.Hour).Milliseconds()
	db, err := tsdb.Open(t.TempDir(), promslog.NewNopLogger(), nil, options, nil)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	text, err := os.ReadFile(alerts)
	must(t, err)
	if change != nil {
		text = []byte(change.Replace(string(text)))
	}
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	language := promql.NewEngine(promql.EngineOpts{
		Logger: promslog.NewNopLogger(), MaxSamples: 50_000_000, Timeout: 5 * time.Minute, EnableAtModifier: true, Parser: promQL(),
	})
	groups, err := loadRules(step, rules.EngineQueryFunc(language, db), db, file)
	must(t, err)
	return &engine{t: t, db: db, groups: groups, now: time.Now(), parsed: make(map[string]labels.Labels)}
}

// take stores the metrics of a scrape (nil if the scrape failed), and evaluates the rules. As in
// Prometheus, a series that the scrape lacks becomes stale.
func (e *engine) take(text []byte, after time.Duration) {
	e.t.Helper()
	e.now = e.now.Add(after)
	at := e.now.UnixMilli()
	to := e.db.Appender(context.Background())
	add := func(series string, v float64) {
		if _, err := to.Append(0, e.labelsOf(series), at, v); err != nil {
			e.t.Fatalf("%s: %v", series, err)
		}
	}
	there := make(map[string]bool)
	for line := range bytes.Lines(text) {
		s := strings.TrimSpace(string(line))
		cut := strings.LastIndexByte(s, ' ')
		if s == "" || s[0] == '#' || strings.HasPrefix(s, "go_") || strings.HasPrefix(s, "process_") {
			continue
		}
		v, err := strconv.ParseFloat(s[cut+1:], 64)
		if err != nil {
			e.t.Fatalf("cannot parse the line %q of /metrics: %v", s, err)
		}
		add(s[:cut], v)
		there[s[:cut]] = true
	}
	for series := range e.there {
		if !there[series] {
			add(series, math.Float64frombits(value.StaleNaN))
		}
	}
	e.there = there
	add("up", float64(boolOrder(text != nil)))
	must(e.t, to.Commit())
	for _, g := range e.groups {
		g.Eval(context.Background(), e.now)
		for _, r := range g.Rules() {
			if r.LastError() != nil {
				e.t.Fatalf("%s: %v", r.Name(), r.LastError())
			}
		}
	}
}

// labelsOf returns the labels of a series, and those that a scrape configuration adds.
func (e *engine) labelsOf(series string) labels.Labels {
	l, ok := e.parsed[series]
	if !ok {
		parsed, err := promQL().ParseMetric(series)
		if err != nil {
			e.t.Fatalf("%s: %v", series, err)
		}
		b := labels.NewBuilder(parsed)
		l = b.Set("job", "feedfilter").Set("instance", "feedfilter-1:8080").Labels()
		e.parsed[series] = l
	}
	return l
}

// firing returns the alerts that fire, as name/severity. An annotation whose template fails is an
// error.
func (e *engine) firing() []string { return e.active(rules.StateFiring) }

// active returns the alerts that are in the state or in a later one: pending, then firing.
func (e *engine) active(state rules.AlertState) []string {
	names := make(map[string]bool)
	for _, g := range e.groups {
		for _, r := range g.Rules() {
			a, ok := r.(*rules.AlertingRule)
			if !ok {
				continue
			}
			for _, active := range a.ActiveAlerts() {
				if active.State < state {
					continue
				}
				names[a.Name()+"/"+active.Labels.Get("severity")] = true
				active.Annotations.Range(func(l labels.Label) {
					if strings.Contains(l.Value, "error expanding template") || strings.Contains(l.Value, "<no value>") {
						e.t.Errorf("%s: %s", a.Name(), l.Value)
					}
				})
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// fires reports whether an alert fires with each severity that the file of rules has for it.
func (e *engine) fires(alert string) bool {
	firing := e.firing()
	for _, s := range e.severities(alert) {
		if !slices.Contains(firing, alert+"/"+s) {
			return false
		}
	}
	return true
}

// rests reports whether an alert fires with no severity.
func (e *engine) rests(alert string) bool {
	return !slices.ContainsFunc(e.firing(), func(name string) bool { return strings.HasPrefix(name, alert+"/") })
}

func (e *engine) severities(alert string) []string {
	all := make(map[string]bool)
	for _, g := range e.groups {
		for _, r := range g.Rules() {
			if a, ok := r.(*rules.AlertingRule); ok && a.Name() == alert {
				all[a.Labels().Get("severity")] = true
			}
		}
	}
	if len(all) == 0 {
		e.t.Fatal(fmt.Errorf("no rule is called %s", alert))
	}
	return slices.Sorted(maps.Keys(all))
}
