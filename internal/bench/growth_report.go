package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/feedfilter/feedfilter/internal/chart"
)

// WriteText writes the report as Markdown.
func (g *Growth) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\nPages in: %s.\n", g.Machine, g.Server)
	g.Candidates.write(&b, "Candidates of a feed", "candidates", func(c Cost) []string {
		return []string{megabytes(c.Memory)}
	}, "Redis' memory, MB")
	g.Users.write(&b, "Users", "users", func(c Cost) []string {
		held := "all"
		if c.Simulated {
			held = "**simulated**"
		}
		return []string{megabytes(c.Memory), megabytes(c.Computed), grouped(int(c.Pages)), held}
	}, "Redis' memory, MB", "computed, MB", "pages", "of them held")
	g.Activities.write(&b, "Activities of the viewer", "activities", func(c Cost) []string {
		return []string{kilobytes(c.Memory), c.How}
	}, "memory of the page, KB", "looked at")
	WriteNoise(&b, g.Noise)
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes the table of a series: what all have in common, and further columns.
func (s *Series) write(b *strings.Builder, title, what string, more func(Cost) []string, heads ...string) {
	fmt.Fprintf(b, "\n%s: %s.\n", title, s.Data)
	if s.Simulated != "" {
		fmt.Fprintf(b, "Simulated: %s.\n", s.Simulated)
	}
	b.WriteString("\n")
	table := make([][]string, 0, 1+len(s.Points))
	table = append(table, append([]string{what, "median, us", "p99, us", "PING, us", "median x PING", "KB read"}, heads...))
	for _, p := range s.Points {
		table = append(table, append([]string{
			grouped(p.At), Significant(p.Check), Significant(p.P99), Significant(p.Ping), Significant(p.XPing), kilobytes(p.Read),
		}, more(p)...))
	}
	WriteTable(b, table)
}

func grouped(n int) string { return group(strconv.Itoa(n)) }

func kilobytes(bytes float64) string { return scaled(bytes, 1e3) }

func megabytes(bytes float64) string { return scaled(bytes, 1e6) }

// scaled is "" for what is not known.
func scaled(bytes, unit float64) string {
	if bytes <= 0 {
		return ""
	}
	return Significant(bytes / unit)
}

// Charts draws the series, by the names of files.
func (g *Growth) Charts() map[string]*chart.Chart {
	charts := map[string]*chart.Chart{
		"growth-candidates.svg": g.Candidates.chart("candidates", false),
		"growth-users.svg":      g.Users.chart("users", true),
		"growth-activities.svg": g.Activities.chart("activities of the viewer", false),
	}
	for _, c := range charts {
		c.Notes = append([]string{g.Machine + "; pages in: " + g.Server}, c.Notes...)
	}
	return charts
}

// chart draws time, bytes and memory. Where planned is set, points on another number of pages than the first have lines of their own.
func (s *Series) chart(what string, planned bool) *chart.Chart {
	c := &chart.Chart{
		Title: "Feed checks against the number of " + what,
		Lines: []string{"median", "99th percentile", "PING", "per feed check", "Redis"},
		Notes: []string{s.Data},
	}
	if s.Simulated != "" {
		c.Ring, c.Notes = "simulated", []string{"simulated: " + s.Simulated}
	}
	first := func(Cost) bool { return true }
	if planned && len(s.Points) > 0 {
		pages := s.Points[0].Pages
		first = func(p Cost) bool { return p.Pages == pages }
		c.Lines[0] = fmt.Sprintf("median, %s pages", grouped(int(pages)))
	}
	times := [][]chart.Point{
		s.line(first, func(p Cost) float64 { return p.Check }),
		s.line(first, func(p Cost) float64 { return p.P99 }),
		s.line(first, func(p Cost) float64 { return p.Ping }),
	}
	read := [][]chart.Point{nil, nil, nil, s.line(first, func(p Cost) float64 { return p.Read / 1e3 })}
	memory := [][]chart.Point{nil, nil, nil, nil, s.line(first, Cost.megabytes)}
	other := func(p Cost) bool { return !first(p) }
	if more := s.line(other, func(p Cost) float64 { return p.Check }); len(more) > 0 {
		c.Lines = append(c.Lines, "median, pages as a plan says")
		times = append(times, nil, nil, more)
		read = append(read, nil, s.line(other, func(p Cost) float64 { return p.Read / 1e3 }))
	}
	c.Panels = []chart.Panel{
		{Title: "Time of a feed check", X: what, Unit: "us", Lines: times},
		{Title: "Bytes read by a feed check", X: what, Unit: "KB", Lines: read},
	}
	if drawn(memory[4]) {
		c.Panels = append(c.Panels, chart.Panel{Title: "Redis' memory", X: what, Unit: "MB", Lines: memory})
	}
	return c
}

// megabytes is the memory, measured or else computed.
func (c Cost) megabytes() float64 {
	if c.Memory > 0 {
		return c.Memory / 1e6
	}
	return c.Computed / 1e6
}

// line is a value of the points that belong to it, each with a ring if it is simulated.
func (s *Series) line(belongs func(Cost) bool, value func(Cost) float64) []chart.Point {
	var line []chart.Point
	for _, p := range s.Points {
		if belongs(p) {
			line = append(line, chart.Point{X: float64(p.At), Y: value(p), Ring: p.Simulated})
		}
	}
	return line
}
