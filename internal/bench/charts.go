package bench

import "github.com/feedfilter/feedfilter/internal/chart"

// Charts draws how cost grows with the candidates, by the names of files. What is not known is left out.
func (r *Report) Charts() map[string]*chart.Chart {
	const candidates = "candidates"
	notes := []string{r.Data, r.Machine + "; pages in: " + r.Server}
	charts := map[string]*chart.Chart{
		"time.svg": {
			Title: "Feed checks against the number of candidates",
			Lines: []string{"median", "90th percentile", "PING", "16 goroutines"},
			Notes: notes,
			Panels: []chart.Panel{
				{
					Title: "Time of a feed check, one at a time", X: candidates, Unit: "us",
					Lines: [][]chart.Point{
						r.line(func(p Point) float64 { return p.Check }),
						r.line(func(p Point) float64 { return p.Slow }),
						r.line(func(p Point) float64 { return p.Ping }),
					},
				},
				{
					Title: "Feed checks a second", X: candidates,
					Lines: [][]chart.Point{nil, nil, nil, r.line(func(p Point) float64 { return p.PerSecond })},
				},
			},
		},
	}
	client := r.line(func(p Point) float64 { return p.ClientCPU })
	server := r.line(func(p Point) float64 { return p.ServerCPU })
	if drawn(client) || drawn(server) {
		charts["cpu.svg"] = &chart.Chart{
			Title: "CPU time of a feed check against the number of candidates", Lines: []string{"client", "Redis"}, Notes: notes,
			Panels: []chart.Panel{{Title: "CPU time", X: candidates, Unit: "us", Lines: [][]chart.Point{client, server}}},
		}
	}
	return charts
}

func (r *Report) line(value func(Point) float64) []chart.Point {
	line := make([]chart.Point, len(r.Points))
	for i, p := range r.Points {
		line[i] = chart.Point{X: float64(p.Candidates), Y: value(p)}
	}
	return line
}

func drawn(line []chart.Point) bool {
	for _, p := range line {
		if p.Y > 0 {
			return true
		}
	}
	return false
}
