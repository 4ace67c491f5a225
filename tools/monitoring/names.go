package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// metric is a row of the catalogue.
type metric struct {
	kind   string
	labels []string
	always bool // exported by every service that has a ledger
}

// catalogue holds the metrics that docs/METRICS.md lists, and those of Prometheus' own collectors.
type catalogue map[string]metric

// checkNames checks that rules and dashboard parse and use only metrics and labels of the
// catalogue. It also checks that the catalogue lists what a service exports.
func checkNames(catalogueFile, program, rulesFile, dashboardFile string) error {
	known, err := readCatalogue(catalogueFile)
	if err != nil {
		return err
	}
	errs := []error{known.compare(program)}
	if err := known.addCollectors(); err != nil {
		return err
	}
	groups, err := parseRules(rulesFile)
	if err != nil {
		return err
	}
	rules := known.checkRules(groups, filepath.Join(filepath.Dir(catalogueFile), "OPERATIONS.md"))
	asked, dashboard := known.checkDashboard(dashboardFile)
	if err := errors.Join(append(errs, rules, dashboard)...); err != nil {
		return err
	}
	asked += len(expressions(groups))
	fmt.Printf("%s, %s: %d expressions ask for what is exported\n", rulesFile, dashboardFile, asked)
	return nil
}

// readCatalogue reads the rows of tables: | `name{labels}` (histogram) | meaning |. The metrics
// of a section that says "Exported only with" are not always exported.
func readCatalogue(name string) (catalogue, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	row := regexp.MustCompile(
		"(?m)^\\| `([a-z_0-9]+)(?:{([a-z_,]+)})?`( \\(histogram\\))? \\| [^|]+ \\|$",
	)
	known := make(catalogue)
	for _, section := range strings.Split(string(text), "\n## ") {
		always := !strings.Contains(section, "\nExported only with")
		for _, m := range row.FindAllStringSubmatch(section, -1) {
			known[m[1]] = metric{
				kind:   kindOf(m[1], m[3] != ""),
				labels: strings.Split(m[2], ","),
				always: always,
			}
		}
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("%s: no table of metrics", name)
	}
	return known, nil
}

func kindOf(name string, histogram bool) string {
	switch {
	case histogram:
		return strings.ToLower(dto.MetricType_HISTOGRAM.String())
	case strings.HasSuffix(name, "_total"):
		return strings.ToLower(dto.MetricType_COUNTER.String())
	}
	return strings.ToLower(dto.MetricType_GAUGE.String())
}

// compare returns an error for each difference between the catalogue and what a service exports.
func (known catalogue) compare(program string) error {
	exported, err := scrape(program)
	if err != nil {
		return fmt.Errorf("scrape: %w", err)
	}
	var errs []error
	for name, m := range known {
		if exported[name] == nil && m.always {
			errs = append(errs, fmt.Errorf(
				"%s is always there by the catalogue, and the service does not export it", name,
			))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		m, ok := known[name]
		kind := exported[name].GetType()
		listed := ok && m.kind == strings.ToLower(kind.String())
		if strings.HasPrefix(name, "feedfilter_") && !listed {
			errs = append(errs, fmt.Errorf(
				"the service exports %s, a %s, and the catalogue does not list it so", name, kind,
			))
		}
	}
	return errors.Join(errs...)
}

// addCollectors adds the metrics that Prometheus exports for any process, and "up".
func (known catalogue) addCollectors() error {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	families, err := r.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		known[f.GetName()] = metric{kind: strings.ToLower(f.GetType().String())}
	}
	known["up"] = metric{kind: strings.ToLower(dto.MetricType_GAUGE.String())}
	return nil
}

// checkRules checks rules, and adds the series that they record to the catalogue.
func (known catalogue) checkRules(groups *rulefmt.RuleGroups, runbook string) error {
	sections, err := os.ReadFile(runbook)
	if err != nil {
		fmt.Fprintf(os.Stderr, "monitoring: NOT CHECKED: that there is a section for each alert: "+
			"there is no %s\n", runbook)
	}
	var errs []error
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			name := r.Record + r.Alert
			if err := known.check(r.Expr); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
			if r.Record != "" {
				known[r.Record] = metric{kind: "recorded"}
				continue
			}
			for _, wanted := range []string{"summary", "description", "runbook_url"} {
				if r.Annotations[wanted] == "" {
					errs = append(errs, fmt.Errorf("%s has no %s", name, wanted))
				}
			}
			if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
				errs = append(errs, fmt.Errorf("%s has severity %q", name, r.Labels["severity"]))
			}
			url := r.Annotations["runbook_url"]
			if !strings.HasSuffix(url, "/docs/OPERATIONS.md#"+strings.ToLower(name)) {
				errs = append(errs, fmt.Errorf("%s has the runbook %s", name, url))
			}
			if sections != nil && !regexp.MustCompile(`(?m)^#+ `+name+`$`).Match(sections) {
				errs = append(errs, fmt.Errorf("%s has no section in %s", name, runbook))
			}
		}
	}
	return errors.Join(errs...)
}

func expressions(groups *rulefmt.RuleGroups) (all []string) {
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	return all
}

// check parses an expression, and looks up the series that it selects.
func (known catalogue) check(text string) error {
	expr, err := promQL().ParseExpr(text)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	var errs []error
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m, ok := known.find(selector.Name)
		if !ok {
			errs = append(errs, fmt.Errorf("nothing exports %s", selector.Name))
			return nil
		}
		if !strings.HasPrefix(selector.Name, "feedfilter_") {
			return nil
		}
		has := append([]string{"__name__", "job", "instance", "le"}, m.labels...)
		for _, matcher := range selector.LabelMatchers {
			if l := matcher.Name; !slices.Contains(has, l) {
				errs = append(errs, fmt.Errorf("%s has no label %s", selector.Name, l))
			}
		}
		return nil
	})
	return errors.Join(errs...)
}

// find looks up a series. A histogram has three: _bucket, _sum and _count.
func (known catalogue) find(series string) (metric, bool) {
	if m, ok := known[series]; ok && m.kind != "histogram" {
		return m, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(series, suffix); cut {
			m, ok := known[base]
			return m, ok && (m.kind == "histogram" || m.kind == "summary")
		}
	}
	return metric{}, false
}

// dashboard holds the parts of a dashboard that are checked.
type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	Targets     []struct{ Expr, RefID string }
	FieldConfig struct {
		Defaults struct{ Unit string }
	}
	GridPos struct{ H, W, X, Y int }
}

// checkDashboard checks a dashboard, and returns how many expressions it has.
func (known catalogue) checkDashboard(name string) (asked int, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	var errs []error
	want := func(holds bool, format string, args ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf("%s: "+format, append([]any{name}, args...)...))
		}
	}
	want(d.UID != "" && d.Title != "", "it has no uid, or no title")
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	for _, v := range []string{"datasource", "job", "instance"} {
		want(slices.Contains(variables, v), "it has no variable %s", v)
	}
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, p := range d.Panels {
		want(!ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				want(taken[[2]int{x, y}] == "", "%q lies over %q", p.Title, taken[[2]int{x, y}])
				taken[[2]int{x, y}] = p.Title
			}
		}
		want(p.GridPos.X+p.GridPos.W <= 24, "%q is over the edge", p.Title)
		if p.Type == "row" {
			continue
		}
		want(
			len(p.Targets) > 0 && p.Description != "" && p.FieldConfig.Defaults.Unit != "",
			"%q has no query, description or unit", p.Title,
		)
		variables := strings.NewReplacer("$__rate_interval", "1m", "$job", "j", "$instance", "i")
		for _, target := range p.Targets {
			asked++
			expr := variables.Replace(target.Expr)
			want(
				strings.Contains(target.Expr, `job=~"$job"`),
				"%q does not ask for the job chosen", p.Title,
			)
			if err := known.check(expr); err != nil {
				errs = append(errs, fmt.Errorf("%s: %q: %w", name, p.Title, err))
			}
		}
	}
	return asked, errors.Join(errs...)
}
