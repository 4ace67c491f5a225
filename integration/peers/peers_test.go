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

// small is a run that takes some seconds.
func small(t *testing.T, more ...string) *report {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-activities", "5000", "-users", "100", "-duration", "5ms", "-json"}, more...)
	if err := execute(t.Context(), args, out); err != nil {
		if strings.Contains(err.Error(), "THIS TEST NEEDS") && os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return &r
}

// Every peer answers as the model of the feeds does, but for false positives at the rate given (a run fails otherwise),
// and gets every figure.
func TestComparison(t *testing.T) {
	r := small(t)
	if len(r.Peers) != 8 {
		t.Fatalf("%d peers, want 8", len(r.Peers))
	}
	for _, p := range r.Peers {
		if p.Absent != "" {
			if !strings.HasPrefix(p.Name, "RedisBloom") {
				t.Errorf("%s: %s", p.Name, p.Absent)
			}
			continue
		}
		exact := strings.HasSuffix(p.Name, "(sets)") || strings.HasSuffix(p.Name, "(postgres)")
		if p.Wrong > 0.002 || exact && p.Wrong > 0 {
			t.Errorf("%s drops %g of the clean candidates", p.Name, p.Wrong)
		}
		if p.Stuck != nil && (*p.Stuck > 0.003 || exact && *p.Stuck > 0) {
			t.Errorf("%s: %g of the removals do not take", p.Name, *p.Stuck)
		}
		for _, n := range bench.Sizes() {
			if p.Times[n].Micros <= 0 || p.Times[n].XPing <= 0 || p.PerSecond[n] <= 0 {
				t.Errorf("%s at %d candidates: %+v, %g a second", p.Name, n, p.Times[n], p.PerSecond[n])
			}
		}
		if p.Write.XPing <= 0 || p.WriteMany.XPing <= 0 {
			t.Errorf("%s: writes %+v, %+v", p.Name, p.Write, p.WriteMany)
		}
		if p.Bytes <= 0 && !strings.HasSuffix(p.Name, "(flat)") {
			t.Errorf("%s takes %g bytes an activity", p.Name, p.Bytes)
		}
	}
	if len(r.Process) != 3 || len(r.Goals) != 11 {
		t.Errorf("%d figures in process, %d goals", len(r.Process), len(r.Goals))
	}
	var b strings.Builder
	if err := r.writeText(&b); err != nil {
		t.Fatal(err)
	}
	for _, n := range bench.Sizes() {
		if r.PingsPerSecond[n] <= 0 {
			t.Errorf("%g PINGs a second beside feeds of %d", r.PingsPerSecond[n], n)
		}
	}
	for _, want := range []string{"| feedfilter (ours)", "| not met |", "| PING ", "x PING", " ours |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// How many times as many feeds ours checks is that, and is missing where a peer is.
func TestThroughputTable(t *testing.T) {
	at := func(perSecond float64) map[int]float64 {
		return map[int]float64{50: perSecond, 200: perSecond, 500: perSecond, 1000: perSecond}
	}
	r := report{PingsPerSecond: at(10_000), Peers: []*result{
		{Name: "A (ours)", Word: "ours", PerSecond: at(3000)}, {Name: "B (sets)", Word: "sets", PerSecond: at(1200)},
		{Name: "C (bf)", Word: "bf", Absent: "not here"},
	}}
	var b strings.Builder
	r.writeThroughput(&b)
	for _, want := range []string{
		"| PING     |   10,000 |       | ", "| A (ours) |    3,000 |       | ", "| B (sets) |    1,200 | 2.5 x | ", "| C (bf)   | not here |       | ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// With -growth there is the time of every size, a chart of the peers that are there, and nothing else.
func TestGrowth(t *testing.T) {
	dir := t.TempDir()
	r := small(t, "-growth", "-plot", dir, "-skip", "lua,counting,postgres")
	for _, p := range r.Peers {
		for _, n := range bench.MoreSizes() {
			if f := p.Times[n]; p.Absent == "" && (f.Micros <= 0 || f.P99 < f.Micros || f.XPing <= 0) {
				t.Errorf("%s at %d candidates: %+v", p.Name, n, f)
			}
		}
		if len(p.PerSecond) > 0 {
			t.Errorf("%s: feeds a second were measured", p.Name)
		}
	}
	svg, err := os.ReadFile(filepath.Join(dir, "growth-peers.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"PING", "ours", "sets", "flat"} {
		if !strings.Contains(string(svg), ">"+word+"<") {
			t.Errorf("%s is not in the chart", word)
		}
	}
	var b strings.Builder
	if err := r.writeGrowth(&b); err != nil || !strings.Contains(b.String(), "| 5,000 |") && !strings.Contains(b.String(), " 5,000 |") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// A peer that keeps what has to be dropped ends the run.
func TestWrongPeer(t *testing.T) {
	people, err := bench.NewPopulation(20, 1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	exact := sets{redistest.Start(t).Client()}
	if err := exact.load(t.Context(), people); err != nil { // and not what was seen
		t.Fatal(err)
	}
	r := &run{people: people, peers: []contender{{peer: exact, name: "forgetful"}}, report: report{Peers: []*result{{Name: "forgetful"}}}}
	if err := r.verify(t.Context()); err == nil || !strings.Contains(err.Error(), "forgetful: ") {
		t.Errorf("got %v", err)
	}
}

func TestSkip(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := small(t, "-skip", "lua,counting,postgres,sets,bf,cf")
	if len(r.Peers) != 2 || r.find("flat") == nil || r.find("flat").Bytes <= 0 {
		t.Errorf("%d peers", len(r.Peers))
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-plot", "."}, {"-rate", "0"}, {"-rate", "nan"}, {"rest"}, {"-users", "1"}, {"-redis-server", "/nowhere/redis-server"}} {
		if err := execute(t.Context(), args, os.Stdout); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
