package sizing

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/chart"
)

// charted is the chart for in, at those prices.
func charted(t *testing.T, in Input, prices Prices) *chart.Chart {
	t.Helper()
	plans, err := around(in, prices)
	must(t, err)
	return drawing(in, plans)
}

// The chart has what the plans say, for a hundredth of the users to ten times as many.
func TestChart(t *testing.T) {
	t.Parallel()
	in := example()
	c := charted(t, in, DefaultPrices())
	if c.Mark.X != in.Users || len(c.Panels) != 2 {
		t.Fatalf("marked: %v, %d panels", c.Mark, len(c.Panels))
	}
	for at, times := range map[int]float64{0: 0.01, 10: 0.1, 20: 1, 30: 10} {
		then := in
		then.Users, then.FeedsPerSecond = in.Users*times, in.FeedsPerSecond*times
		for i, w := range planned(t, then).Ways {
			if c.Lines[i] != w.Name {
				t.Errorf("line %d is called %s, want %s", i, c.Lines[i], w.Name)
			}
			memory, cost := c.Panels[0].Lines[i], c.Panels[1].Lines[i]
			if len(memory) != 31 || len(cost) != 31 {
				t.Fatalf("%s: %d and %d points, want 31", w.Name, len(memory), len(cost))
			}
			if want := (chart.Point{X: then.Users, Y: w.Memory / (1 << 30)}); memory[at] != want {
				t.Errorf("%s, memory of %g times the users: %v, want %v", w.Name, times, memory[at], want)
			}
			if want := (chart.Point{X: then.Users, Y: w.Cluster.USDMonth}); cost[at] != want {
				t.Errorf("%s, cost of %g times the users: %v, want %v", w.Name, times, cost[at], want)
			}
		}
	}
}

// What cannot be planned is left out, what is planned for never is.
func TestChartAtLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Input)
		panels int
		points int
	}{
		"one user":       {func(in *Input) { in.Users = 1 }, 2, 11},
		"all users":      {func(in *Input) { in.Users = MaxUsers }, 2, 21},
		"one, all feeds": {func(in *Input) { in.Users, in.FeedsPerSecond = 1, MaxFeeds }, 2, 1},
		"nothing done":   {func(in *Input) { in.ActivitiesPerUser, in.FeedsPerSecond = 0, 0 }, 2, 31},
		"few pages":      {func(in *Input) { in.Users, in.Pages = 1e8, 1024 }, 2, 24},
		"no cluster": {func(in *Input) {
			in.Users, in.ActivitiesPerUser, in.FeedsPerSecond, in.Candidates = 10, 1e5, MaxFeeds, MaxCandidates
		}, 1, 11},
	} {
		in, prices := example(), DefaultPrices()
		c.change(&in)
		prices.Source = `<"&'>`
		drawn := charted(t, in, prices)
		if len(drawn.Panels) != c.panels || len(drawn.Panels[0].Lines[0]) != c.points {
			t.Errorf("%s: %d panels of %d points, want %d of %d", name, len(drawn.Panels), len(drawn.Panels[0].Lines[0]), c.panels, c.points)
		}
		var b strings.Builder
		must(t, WriteChart(&b, in, prices))
		text := textOf(t, b.String())
		if strings.Contains(text, prices.Source) == strings.Contains(text, "No cost is drawn") || strings.Contains(text, prices.Source) != (c.panels == 2) {
			t.Errorf("%s: either what it costs, with the prices' source, or why not: %q", name, drawn.Notes)
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%s: not a number in\n%s", name, b.String())
		}
	}
	if err := WriteChart(io.Discard, Input{}, DefaultPrices()); err == nil {
		t.Error("a chart of nothing")
	}
}

// textOf is the text in an image, which has to be XML.
func textOf(t *testing.T, image string) string {
	t.Helper()
	text := ""
	for d := xml.NewDecoder(strings.NewReader(image)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text
		}
		must(t, err)
		if data, ok := token.(xml.CharData); ok {
			text += string(data)
		}
	}
}
