package main

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/plotter"
)

// write writes the report as Markdown.
func (g *growthReport) write(b *strings.Builder) {
	g.Candidates.write(b, "Candidates of a feed", "candidates", func(c cost) []string {
		return []string{scaled(c.Memory, 1e6)}
	}, "Redis' memory, MB")
	g.Users.write(b, "Users", "users", func(c cost) []string {
		held := "all"
		if c.Simulated {
			held = "**simulated**"
		}
		return []string{scaled(c.Memory, 1e6), scaled(c.Computed, 1e6), grouped(int(c.Pages)), held}
	}, "Redis' memory, MB", "computed, MB", "pages", "of them held")
	g.Activities.write(b, "Activities of the viewer", "activities", func(c cost) []string {
		return []string{scaled(c.Memory, 1e3), c.How}
	}, "memory of the page, KB", "looked at")
}

// write writes the table of a series. more returns the cells of the columns in heads.
func (s *series) write(b *strings.Builder, title, what string, more func(cost) []string, heads ...string) {
	fmt.Fprintf(b, "\n%s: %s.\n", title, s.Data)
	if s.Simulated != "" {
		fmt.Fprintf(b, "Simulated: %s.\n", s.Simulated)
	}
	b.WriteString("\n")
	head := append([]string{what, "median, us", "p99, us", "PING, us", "median x PING", "KB read"}, heads...)
	table(b, [][]string{head}, s.Points, func(p cost) []string {
		return append([]string{
			grouped(p.At), significant(p.Check), significant(p.P99), significant(p.Ping), significant(p.XPing),
			scaled(p.Read, 1e3),
		}, more(p)...)
	})
	b.WriteString("\n")
}

func grouped(n int) string { return significant(float64(n)) }

// scaled returns a number in a unit, or "" for an unknown value.
func scaled(bytes, unit float64) string {
	if bytes <= 0 {
		return ""
	}
	return significant(bytes / unit)
}

// charts draws each series. The keys are names of files.
func (g *growthReport) charts(machine string) map[string]*chart {
	charts := map[string]*chart{
		"growth-candidates.svg": g.Candidates.chart("candidates", false),
		"growth-users.svg":      g.Users.chart("users", true),
		"growth-activities.svg": g.Activities.chart("activities of the viewer", false),
	}
	for _, c := range charts {
		c.notes = append([]string{machine}, c.notes...)
	}
	return charts
}

// chart draws time, bytes and memory. If planned is set, the points with another number of pages
// than the first get their own lines.
func (s *series) chart(what string, planned bool) *chart {
	c := &chart{notes: []string{s.Data}}
	if s.Simulated != "" {
		c.notes = append(c.notes, "Simulated: "+s.Simulated)
	}
	first, median := func(cost) bool { return true }, "median"
	if planned && len(s.Points) > 0 {
		pages := s.Points[0].Pages
		first = func(p cost) bool { return p.Pages == pages }
		median = "median, " + grouped(int(pages)) + " pages"
	}
	other := func(p cost) bool { return !first(p) }
	check := func(p cost) float64 { return p.Check }
	read := func(p cost) float64 { return p.Read / 1e3 }
	const plan = "pages as a plan says"
	c.panels = []panel{
		{"Time of a feed check", what, "us", []line{
			s.line(median, first, check),
			s.line("99th percentile", first, func(p cost) float64 { return p.P99 }),
			s.line("PING", first, func(p cost) float64 { return p.Ping }),
			s.line("median, "+plan, other, check),
		}},
		{"Bytes read by a feed check", what, "KB", []line{s.line("feed check", first, read), s.line(plan, other, read)}},
	}
	if memory := s.line("Redis", first, cost.megabytes); len(memory.points) > 0 {
		c.panels = append(c.panels, panel{"Redis' memory", what, "MB", []line{memory}})
	}
	return c
}

// megabytes returns the measured memory, or else the computed memory.
func (c cost) megabytes() float64 {
	if c.Memory > 0 {
		return c.Memory / 1e6
	}
	return c.Computed / 1e6
}

// line returns the values of the points for which belongs returns true.
func (s *series) line(name string, belongs func(cost) bool, value func(cost) float64) line {
	l := line{name: name}
	for _, p := range s.Points {
		at := plotter.XY{X: float64(p.At), Y: value(p)}
		if !belongs(p) || at.Y <= 0 {
			continue
		}
		l.points = append(l.points, at)
		if p.Simulated {
			l.rings = append(l.rings, at)
		}
	}
	return l
}
