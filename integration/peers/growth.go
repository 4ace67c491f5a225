package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/chart"
)

const growthChart = "growth-peers.svg"

// writeGrowth writes how the time of feed checks grows with the candidates.
func (r *report) writeGrowth(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\nServer: %s.\nData: %s.\n\n", r.Machine, r.Server, r.Data)
	b.WriteString("Feed checks by candidates, median x PING; and the 99th percentile in us behind a slash:\n\n")
	head, pings := r.heads(len(r.Sizes))
	for i, n := range r.Sizes {
		head, pings = append(head, bench.Significant(float64(n))), append(pings, micros(r.Pings[i]))
	}
	table(&b, [][]string{head, pings}, r.Peers, func(p *result) []string {
		cells := append(make([]string, 0, 1+len(r.Sizes)), p.Name)
		for i, n := range r.Sizes {
			switch {
			case p.Absent == "":
				cells = append(cells, bench.Significant(p.Times[n].XPing)+" / "+bench.Significant(p.Times[n].P99))
			case i == 0:
				cells = append(cells, p.Absent)
			default:
				cells = append(cells, "")
			}
		}
		return cells
	})
	bench.WriteNoise(&b, r.Noise)
	_, err := io.WriteString(w, b.String())
	return err
}

// chart draws the same. Peers that are not on the server are left out.
func (r *report) chart() *chart.Chart {
	c := &chart.Chart{
		Title: "Feed checks against the number of candidates, beside other ways of keeping who did what",
		Lines: []string{pingRow}, Notes: []string{r.Machine + "; " + r.Server, r.Data},
	}
	pings := make([]chart.Point, len(r.Sizes))
	for i, n := range r.Sizes {
		pings[i] = chart.Point{X: float64(n), Y: r.Pings[i]}
	}
	lines := [][]chart.Point{pings}
	for _, p := range r.Peers {
		if p.Absent != "" {
			continue
		}
		line := make([]chart.Point, len(r.Sizes))
		for i, n := range r.Sizes {
			line[i] = chart.Point{X: float64(n), Y: p.Times[n].Micros}
		}
		c.Lines, lines = append(c.Lines, p.Word), append(lines, line)
	}
	c.Panels = []chart.Panel{{Title: "Median time of a feed check, one at a time", X: "candidates", Unit: "us", Lines: lines}}
	return c
}

// draw writes the chart into a directory.
func (r *report) draw(dir string) error {
	file, err := os.Create(filepath.Join(dir, growthChart))
	if err != nil {
		return fmt.Errorf("-plot: %w", err)
	}
	return errors.Join(r.chart().WriteSVG(file), file.Close())
}
