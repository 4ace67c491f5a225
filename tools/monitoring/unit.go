package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"go.yaml.in/yaml/v3"
)

// testFile is a file of tests in the format of promtool test rules, with the parts that are used
// here. Other than promtool, it does not compare annotations; it only checks that their templates
// work.
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []testCase     `yaml:"tests"`
}

type testCase struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []alertTest `yaml:"alert_rule_test"`
}

type alertTest struct {
	EvalTime  model.Duration `yaml:"eval_time"`
	Alertname string         `yaml:"alertname"`
	Want      []struct {
		Labels map[string]string `yaml:"exp_labels"`
	} `yaml:"exp_alerts"`
}

// wanted returns the alerts that should fire, sorted.
func (a alertTest) wanted() []string {
	all := make([]string, len(a.Want))
	for i, w := range a.Want {
		of := labels.NewBuilder(labels.FromMap(w.Labels)).Set(labels.AlertName, a.Alertname).Labels()
		all[i] = of.String()
	}
	slices.Sort(all)
	return all
}

// testRules runs the tests of a file. Each alert needs a test for each severity in which it fires,
// and one in which it does not fire.
func testRules(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var file testFile
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, rule := range file.RuleFiles {
		file.RuleFiles[i] = filepath.Join(filepath.Dir(name), rule)
	}
	var errs []error
	for _, c := range file.Tests {
		if err := c.run(file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %q: %w", name, c.Name, err))
		}
	}
	errs = append(errs, file.covers())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("%s: %d tests\n", name, len(file.Tests))
	return nil
}

// covers returns an error for each severity of an alert that no test expects, and for each alert
// that every test expects to fire.
func (f testFile) covers() error {
	type severe struct{ alert, severity string }
	fires, rests := make(map[severe]bool), make(map[string]bool)
	for _, c := range f.Tests {
		for _, a := range c.Alerts {
			rests[a.Alertname] = rests[a.Alertname] || len(a.Want) == 0
			for _, w := range a.Want {
				fires[severe{a.Alertname, w.Labels["severity"]}] = true
			}
		}
	}
	var errs []error
	for _, name := range f.RuleFiles {
		groups, err := parseRules(name)
		if err != nil {
			return err
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				if r.Alert == "" {
					continue
				}
				if s := r.Labels["severity"]; !fires[severe{r.Alert, s}] {
					errs = append(errs, fmt.Errorf("no test has %s fire as %s", r.Alert, s))
				}
				if !rests[r.Alert] {
					errs = append(errs, fmt.Errorf("no test has %s not fire", r.Alert))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// parseRules parses rules as Prometheus does.
func parseRules(name string) (*rulefmt.RuleGroups, error) {
	log := promslog.NewNopLogger()
	groups, errs := rulefmt.ParseFile(name, false, model.LegacyValidation, promQL(), log)
	return groups, errors.Join(errs...)
}

func promQL() parser.Parser { return parser.NewParser(parser.Options{}) }

// run evaluates the rules over the series from time 0, and compares which alerts fire.
func (c testCase) run(f testFile) (err error) {
	var load strings.Builder
	fmt.Fprintf(&load, "load %s\n", c.Interval)
	for _, s := range c.InputSeries {
		fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
	}
	suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, suite.Close()) }()
	interval := time.Duration(f.EvaluationInterval)
	suite.SubqueryInterval = interval
	query := rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage())
	groups, err := loadRules(interval, query, suite.Storage(), f.RuleFiles...)
	if err != nil {
		return err
	}
	var errs []error
	last := time.Duration(0)
	for _, a := range c.Alerts {
		last = max(last, time.Duration(a.EvalTime))
	}
	for at := time.Duration(0); at <= last; at += interval {
		if err := c.evaluate(suite, groups, at); err != nil {
			return err
		}
		for _, a := range c.Alerts {
			if time.Duration(a.EvalTime) != at {
				continue
			}
			if got, want := firing(groups, a.Alertname), a.wanted(); !slices.Equal(got, want) {
				errs = append(errs, fmt.Errorf(
					"after %s, of %s fire\n  %v, want\n  %v", a.EvalTime, a.Alertname, got, want,
				))
			}
		}
	}
	return errors.Join(errs...)
}

// loadRules returns the groups of rules in the order of evaluation: first those that record series.
func loadRules(
	interval time.Duration, query rules.QueryFunc, record storage.Appendable, files ...string,
) ([]*rules.Group, error) {
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  query,
		Appendable: record,
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     promQL(),
	})
	loaded, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, files...)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	groups := slices.Collect(maps.Values(loaded))
	slices.SortFunc(groups, func(a, b *rules.Group) int {
		inA, inB := strings.HasSuffix(a.Name(), "-recorded"), strings.HasSuffix(b.Name(), "-recorded")
		return boolOrder(inB) - boolOrder(inA)
	})
	return groups, nil
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (testCase) evaluate(
	suite *promqltest.LazyLoader, groups []*rules.Group, at time.Duration,
) (err error) {
	then := time.Unix(0, 0).UTC().Add(at)
	suite.WithSamplesTill(then, func(loadErr error) {
		if err = loadErr; err != nil {
			return
		}
		for _, g := range groups {
			g.Eval(suite.Context(), then)
			for _, r := range g.Rules() {
				if r.LastError() != nil {
					err = errors.Join(err, fmt.Errorf("%s at %s: %w", r.Name(), at, r.LastError()))
				}
			}
		}
	})
	return err
}

// firing returns the alerts of that name that fire, with their labels. It adds an annotation whose
// template failed, so that the comparison fails.
func firing(groups []*rules.Group, name string) []string {
	all := []string{}
	for _, g := range groups {
		for _, r := range g.Rules() {
			alerting, ok := r.(*rules.AlertingRule)
			if !ok || alerting.Name() != name {
				continue
			}
			for _, a := range alerting.ActiveAlerts() {
				if a.State != rules.StateFiring {
					continue
				}
				said := a.Labels.String()
				a.Annotations.Range(func(l labels.Label) {
					if strings.Contains(l.Value, "error expanding template") ||
						strings.Contains(l.Value, "<no value>") {
						said += " " + l.Value
					}
				})
				all = append(all, said)
			}
		}
	}
	slices.Sort(all)
	return all
}
