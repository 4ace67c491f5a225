package bench_test

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// Each point has its figures; those whose pages would take more than they may are simulated, and no others. Times themselves
// are not looked at.
func TestGrow(t *testing.T) {
	client := redistest.Start(t).Client()
	const most = 1e6
	g, err := bench.Grow(t.Context(), bench.GrowthConfig{
		Open:   func(filter string) (favfilter.Store, error) { return redisstore.New(client, filter) },
		Filter: "bench-growth", Server: &bench.Server{Client: client},
		Dir: t.TempDir(), Seed: 1, Mean: 10, Memory: most,
		Candidates: []int{10, 1000}, Users: []int{200, 5000}, Activities: []int{1, 3000},
		Duration: 5 * time.Millisecond, Progress: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]bench.Series{"candidates": g.Candidates, "users": g.Users, "activities": g.Activities} {
		if len(s.Points) != 2 {
			t.Fatalf("%s: %d points, want 2", name, len(s.Points))
		}
		for _, p := range s.Points {
			if p.Check <= 0 || p.P99 < p.Check || p.Ping <= 0 || p.XPing < 0.99*p.Check/p.Ping || p.XPing > 1.01*p.Check/p.Ping {
				t.Errorf("%s: %+v", name, p)
			}
			if p.Read < 300 || p.Read > 100_000 {
				t.Errorf("%s: %g bytes are read for %d", name, p.Read, p.At)
			}
			if p.Simulated == (p.Memory > 0) {
				t.Errorf("%s: %+v: what is simulated has no memory of its own, and all else has", name, p)
			}
		}
	}
	for i, simulated := range []bool{false, true} {
		if p := g.Users.Points[i]; p.Simulated != simulated || p.Computed > most != simulated {
			t.Errorf("%+v, want it simulated: %v", p, simulated)
		}
	}
	if p := g.Users.Points[0]; p.Memory < p.Computed/1.5 || p.Memory > 1.5*p.Computed {
		t.Errorf("%g bytes of memory, computed %g", p.Memory, p.Computed)
	}
	if g.Users.Simulated == "" || g.Candidates.Simulated != "" {
		t.Errorf("simulated: users %q, candidates %q", g.Users.Simulated, g.Candidates.Simulated)
	}
	// The reply has the page, whatever is asked of it.
	if few, many := g.Candidates.Points[0].Read, g.Candidates.Points[1].Read; many > 1.2*few || few > 1.2*many {
		t.Errorf("feeds of 10 read %g bytes, of 1,000 %g", few, many)
	}
	for i, how := range []string{"shared page, read", "own page, read"} {
		if p := g.Activities.Points[i]; p.How != how {
			t.Errorf("the page of who has %d activities: %q, want %q", p.At, p.How, how)
		}
	}
}

func someGrowth() *bench.Growth {
	point := bench.Cost{At: 10, Pages: 16384, Check: 60, P99: 200, Ping: 30, XPing: 2, Read: 8000, Memory: 2e6}
	far, planned := point, point
	far.At, far.Simulated, far.Memory, far.Computed = 1e6, true, 0, 9e8
	planned.At, planned.Pages = 1e5, 32768
	viewer := point
	viewer.How = "own page, probed"
	return &bench.Growth{
		Machine: "M", Server: "S",
		Candidates: bench.Series{Data: "some", Points: []bench.Cost{point}},
		Users:      bench.Series{Data: "many", Simulated: "too many", Points: []bench.Cost{point, far, planned}},
		Activities: bench.Series{Data: "one", Points: []bench.Cost{viewer}},
	}
}

func TestGrowthTables(t *testing.T) {
	var b strings.Builder
	if err := someGrowth().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Users: many.\nSimulated: too many.\n",
		"| 10        |         60 |     200 |       30 |             2 |       8 |                 2 |              | 16,384 |           all |",
		"| 1,000,000 |         60 |     200 |       30 |             2 |       8 |                   |          900 | 16,384 | **simulated** |",
		"| own page, probed |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// Each chart can be drawn, says what is simulated, and marks it.
func TestGrowthCharts(t *testing.T) {
	charts := someGrowth().Charts()
	var names []string
	for name, c := range charts {
		names = append(names, name)
		var b strings.Builder
		if err := c.WriteSVG(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: not XML: %v", name, err)
			}
		}
		// In each of the three panels: the point by median, 99th percentile and PING, that of bytes and that of memory.
		rings := strings.Count(b.String(), `<circle class="line ring`)
		if users := name == "growth-users.svg"; users && rings != 5 || !users && rings != 0 {
			t.Errorf("%s: %d rings", name, rings)
		} else if users && (!strings.Contains(b.String(), "simulated: too many") || !strings.Contains(b.String(), ">median, pages as a plan says<")) {
			t.Errorf("%s does not say what it shows\n%s", name, b.String())
		}
	}
	slices.Sort(names)
	if want := []string{"growth-activities.svg", "growth-candidates.svg", "growth-users.svg"}; !slices.Equal(names, want) {
		t.Errorf("charts %q, want %q", names, want)
	}
}
