package main

import (
	"fmt"
	"io"
	"strings"

	"gonum.org/v1/plot/plotter"
)

const growthChart = "growth-peers.svg"

// writeGrowth writes how the time of feed checks grows with the candidates.
func (r *report) writeGrowth(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\nServer: %s.\n", r.Machine, r.Server)
	r.Growth.write(&b)
	fmt.Fprintf(&b, "\nOther ways: %s.\n\n", r.Data)
	b.WriteString("Feed checks by candidates, median x PING; and the 99th percentile in us behind a slash:\n\n")
	head, pings := r.heads(len(r.Sizes))
	for i, n := range r.Sizes {
		head, pings = append(head, significant(float64(n))), append(pings, micros(r.Pings[i]))
	}
	table(&b, [][]string{head, pings}, r.Peers, func(p *result) []string {
		cells := append(make([]string, 0, 1+len(r.Sizes)), p.Name)
		for i, n := range r.Sizes {
			switch {
			case p.Absent == "":
				cells = append(cells, significant(p.Times[n].XPing)+" / "+significant(p.Times[n].P99))
			case i == 0:
				cells = append(cells, p.Absent)
			default:
				cells = append(cells, "")
			}
		}
		return cells
	})
	writeNoise(&b, r.Noise)
	_, err := io.WriteString(w, b.String())
	return err
}

// charts draws the times of writeGrowth and the growth of our cost. It leaves out absent peers.
func (r *report) charts() map[string]*chart {
	of := func(name string, value func(i int, n int) float64) line {
		l := line{name: name}
		for i, n := range r.Sizes {
			l.points = append(l.points, plotter.XY{X: float64(n), Y: value(i, n)})
		}
		return l
	}
	times := panel{title: "Median time of a feed check", x: "candidates", y: "us"}
	times.lines = []line{of(pingRow, func(i, _ int) float64 { return r.Pings[i] })}
	for _, p := range r.Peers {
		if p.Absent == "" {
			times.lines = append(times.lines, of(p.Word, func(_, n int) float64 { return p.Times[n].Micros }))
		}
	}
	machine := r.Machine + "; " + r.Server
	charts := r.Growth.charts(machine)
	charts[growthChart] = &chart{notes: []string{machine, r.Data}, panels: []panel{times}}
	return charts
}
