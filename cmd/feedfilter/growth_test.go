package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// The command measures up to where it is told, draws, and leaves nothing behind.
func TestBenchGrowth(t *testing.T) {
	server := redistest.Start(t)
	t.Setenv("TMPDIR", t.TempDir())
	plots := filepath.Join(t.TempDir(), "plots")
	out := feedfilter(t, 0, "bench", "growth", "--redis", server.URL(), "--candidates", "30", "--users", "1000", "--activities", "20",
		"--mean", "5", "--duration", "10ms", "--plot", plots, "--output=json")
	wantKeys(t, server)
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	var g bench.Growth
	if err := json.Unmarshal([]byte(out.stdout), &g); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		series bench.Series
		want   []int
	}{
		"candidates": {g.Candidates, []int{10, 20, 30}}, "users": {g.Users, []int{1000}}, "activities": {g.Activities, []int{1, 10, 20}},
	} {
		var got []int
		for _, p := range c.series.Points {
			got = append(got, p.At)
		}
		if len(got) != len(c.want) || got[len(got)-1] != c.want[len(c.want)-1] {
			t.Errorf("%s: measured at %v, want %v", name, got, c.want)
		}
		if svg, err := os.ReadFile(filepath.Join(plots, "growth-"+name+".svg")); err != nil || !strings.HasPrefix(string(svg), "<svg") {
			t.Errorf("%s: %v, %.20s", name, err, svg)
		}
	}
}

func TestBenchGrowthRefuses(t *testing.T) {
	for _, flags := range [][]string{
		{"--users", "999"}, {"--candidates", "9"}, {"--activities", "0"}, {"--mean", "101"}, {"--memory", "0"}, {"--duration", "9ms"},
		{"--filter", "feed"}, {"--redis", "http://x"},
	} {
		r := feedfilter(t, exitUsage, append([]string{"bench", "growth", "--redis", "redis://127.0.0.1:1"}, flags...)...)
		wantContains(t, r.stderr, "feedfilter: "+flags[0]+": ")
	}
	wantContains(t, feedfilter(t, exitUsage, "bench", "growth").stderr, "--redis")
}
