package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// small runs a comparison that takes a few seconds.
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

// TestComparison checks that every peer has every figure. The run itself fails if a peer keeps a
// candidate that must be dropped.
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
			t.Errorf("%s: %g of the removals have no effect", p.Name, *p.Stuck)
		}
		for _, n := range feedSizes() {
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
	var b strings.Builder
	if err := r.writeText(&b); err != nil {
		t.Fatal(err)
	}
	for _, n := range feedSizes() {
		if r.PingsPerSecond[n] <= 0 {
			t.Errorf("%g PINGs a second beside feeds of %d", r.PingsPerSecond[n], n)
		}
	}
	for _, want := range []string{"| feedfilter (ours)", "| PING ", "x PING", " ours |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestThroughputTable checks the ratio of our rate to each peer's, and that an absent peer has
// none.
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

// TestGrowth checks that -growth measures the time of every size and the growth of our cost, draws
// charts of both, and measures nothing else.
func TestGrowth(t *testing.T) {
	dir := t.TempDir()
	r := small(t, "-growth", "-plot", dir, "-skip", "lua,counting,postgres",
		"-grow-users", "2000", "-grow-activities", "3000", "-grow-mean", "10", "-grow-memory", "1")
	for _, p := range r.Peers {
		for _, n := range moreSizes() {
			if f := p.Times[n]; p.Absent == "" && (f.Micros <= 0 || f.P99 < f.Micros || f.XPing <= 0) {
				t.Errorf("%s at %d candidates: %+v", p.Name, n, f)
			}
		}
		if len(p.PerSecond) > 0 {
			t.Errorf("%s: feeds a second were measured", p.Name)
		}
	}
	checkGrowth(t, r.Growth)
	for name, words := range map[string][]string{
		"growth-peers.svg":      {"PING", "ours", "sets", "flat"},
		"growth-candidates.svg": {"99th percentile", "candidates"},
		"growth-users.svg":      {"median, 16,384 pages", "Redis, simulated"},
		"growth-activities.svg": {"activities of the viewer"},
	} {
		svg, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(svg, new(struct{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, word := range words {
			if !strings.Contains(string(svg), ">"+word+"<") {
				t.Errorf("%s: no %q", name, word)
			}
		}
	}
	var b strings.Builder
	if err := r.writeGrowth(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" 5,000 |", "Simulated: ", "| **simulated** |", " dedicated page, read |", "RedisBloom"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// checkGrowth checks that each point has its figures. Exactly the points whose pages take more than
// 1 MB must be simulated. It does not check times.
func checkGrowth(t *testing.T, g *growthReport) {
	t.Helper()
	for name, s := range map[string]series{"candidates": g.Candidates, "users": g.Users, "activities": g.Activities} {
		for _, p := range s.Points {
			if p.Check <= 0 || p.P99 < p.Check || p.Ping <= 0 || p.XPing < 0.99*p.Check/p.Ping || p.XPing > 1.01*p.Check/p.Ping {
				t.Errorf("%s: %+v", name, p)
			}
			if p.Read < 300 || p.Read > 100_000 {
				t.Errorf("%s: %g bytes read at %d", name, p.Read, p.At)
			}
			if p.Simulated == (p.Memory > 0) || p.Computed > 1e6 != p.Simulated {
				t.Errorf("%s: %+v: a simulated point, and no other, has no memory of its own", name, p)
			}
			if p.Computed > 0 && !p.Simulated && (p.Memory < p.Computed/1.5 || p.Memory > 1.5*p.Computed) {
				t.Errorf("%g bytes of memory, computed %g", p.Memory, p.Computed)
			}
		}
	}
	if len(g.Candidates.Points) != len(moreSizes()) || len(g.Users.Points) != 2 || len(g.Activities.Points) != 6 {
		t.Fatalf("points: %d, %d, %d", len(g.Candidates.Points), len(g.Users.Points), len(g.Activities.Points))
	}
	// The reply contains the whole page for any number of candidates.
	if few, many := g.Candidates.Points[0].Read, g.Candidates.Points[6].Read; many > 1.2*few || few > 1.2*many {
		t.Errorf("feeds of 10 read %g bytes, of 1,000 %g", few, many)
	}
	for i, how := range map[int]string{0: sharedRead, 5: ownRead} {
		if p := g.Activities.Points[i]; p.How != how {
			t.Errorf("the page of a viewer with %d activities: %q, want %q", p.At, p.How, how)
		}
	}
}

// TestWire checks that -wire fills every figure of every row, with those of seen posts, and
// measures nothing else.
func TestWire(t *testing.T) {
	r := small(t, "-wire")
	if len(r.Peers) > 0 || len(r.Wire.Rows) != 11 {
		t.Fatalf("%d peers, %d rows", len(r.Peers), len(r.Wire.Rows))
	}
	for _, row := range r.Wire.Rows {
		isPing, isService := row.Word == "", strings.HasPrefix(row.Name, "service")
		switch {
		case row.Absent != "":
			if row.Word != "bf" {
				t.Errorf("%s: %s", row.Name, row.Absent)
			}
		case row.PerSecond <= 0 || row.P50 <= 0 || row.P99 < row.P50:
			t.Errorf("%s: %+v", row.Name, row.wireFigures)
		case !isService && (row.Service > 0 || row.Wrong > 0) || row.Wrong > 0.003:
			t.Errorf("%s: %g us of CPU of the service, %g of the clean candidates dropped", row.Name, row.Service, row.Wrong)
		case !isPing && row.Bytes < 1:
			t.Errorf("%s takes %g bytes an activity", row.Name, row.Bytes)
		}
	}
	if sets, ints := r.Wire.find(setsWord).Bytes, r.Wire.find("ints").Bytes; ints > sets/2 {
		t.Errorf("sets of numbers take %g bytes an activity, sets of text %g; want less", ints, sets)
	}
	for _, s := range r.Wire.Seen {
		if s.Absent == "" && s.Live < 1 {
			t.Errorf("%s: %+v", s.Name, s)
		}
	}
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"(sets-window)", "service, Protobuf, as package client does (protobuf)", "| feedfilter "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestLoad checks that -load has a row in both formats for each number of connections and for each
// rate, and that each row has answers.
func TestLoad(t *testing.T) {
	r := small(t, "-load")
	l := r.Wire.Load
	if len(l.Closed) != 2*len(loadConnections()) || len(l.Open) != 12 || len(l.Sizes) != 2*len(feedSizes()) {
		t.Fatalf("%d, %d and %d rows", len(l.Closed), len(l.Open), len(l.Sizes))
	}
	for _, row := range append(l.Closed, l.Open...) {
		if row.PerSecond <= 0 || row.P50 <= 0 || row.P99 < row.P50 || row.P999 < row.P99 || row.RSS < 1<<20 {
			t.Errorf("%+v", row)
		}
		if row.Failed > 0 {
			t.Errorf("%s over %d connections: %s", row.Name, row.Connections, row.Error)
		}
		if row.Refused > 0 && row.Connections <= 512 {
			t.Errorf("the service accepts 512 requests at a time, but it refused some of %d connections: %+v", row.Connections, row)
		}
	}
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The service at rest: ", "Knee, Protobuf: ", "| offered/s |", "| Protobuf |      1,000 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestLoadFails checks that a run without an answered feed fails with the first error. Degraded
// answers and failures are counted separately.
func TestLoadFails(t *testing.T) {
	begun := time.Now().Add(-time.Second)
	answers := []error{&degradedError{"seen", "away"}, errors.New("cut off"), &client.Error{Status: 500}, nil}
	run := func(answers []error) (*driver, error) {
		d := &driver{feeds: len(answers), rate: 100, begun: begun, until: begun.Add(time.Second), check: func(_ context.Context, i int, _ []bool) error {
			return answers[i]
		}}
		err := d.run(t.Context(), 1)
		return d, err
	}
	if _, err := run(answers[1:3]); !errors.Is(err, answers[1]) {
		t.Errorf("got %v, want the first error", err)
	}
	d, err := run(answers)
	if err != nil || d.degraded.Load() != 25 || d.failures.Load() != 50 || len(d.took) != 25 {
		t.Errorf("%v: %d degraded, %d failed, %d answered; want 25, 50 and 25", err, d.degraded.Load(), d.failures.Load(), len(d.took))
	}
}

// TestOpenLoop checks that refusals are counted and do not slow down the open loop. Latency is
// measured from the time at which a feed was due.
func TestOpenLoop(t *testing.T) {
	begun := time.Now().Add(-time.Second)
	var asked atomic.Int64
	d := &driver{feeds: 1, rate: 100, begun: begun, until: begun.Add(time.Second), check: func(context.Context, int, []bool) error {
		if asked.Add(1)%4 == 0 {
			return &client.Error{Status: 503}
		}
		return nil
	}}
	if err := d.run(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if len(d.took) != 75 || d.refused.Load() != 25 {
		t.Errorf("%d answered, %d refused, want 75 and 25", len(d.took), d.refused.Load())
	}
	if least := slices.Min(d.took); least <= 0 {
		t.Errorf("a feed that was due before the run began took %v", least)
	}
}

// TestRecovered checks that recovered waits for a hundred complete answers in a row.
func TestRecovered(t *testing.T) {
	asked := 0
	err := recovered(t.Context(), func(context.Context, int, []bool) error {
		asked++
		if asked == 50 {
			return &degradedError{"seen", "away"}
		}
		return nil
	})
	if err != nil || asked != 150 {
		t.Errorf("%v after %d answers, want 100 without an error in a row", err, asked)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := recovered(ctx, func(ctx context.Context, _ int, _ []bool) error { return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestKnee(t *testing.T) {
	rows := func(perSecond ...float64) []loadResult {
		all := make([]loadResult, len(perSecond))
		for i, n := range perSecond {
			all[i] = loadResult{Connections: 1 << i, PerSecond: n}
		}
		return all
	}
	for _, c := range []struct {
		rows []loadResult
		want int
	}{
		{rows(10, 20, 30, 31, 29), 4}, {rows(10, 10.5, 20), 0}, {rows(10, 9), 1}, {nil, 0},
	} {
		if got := knee(c.rows); got != c.want {
			t.Errorf("%v: %d connections, want %d", c.rows, got, c.want)
		}
	}
}

func TestParseResident(t *testing.T) {
	if got, err := parseResident([]byte("Name:\tx\nVmRSS:\t   2048 kB\n")); err != nil || got != 2<<20 {
		t.Errorf("got %g, %v, want 2 MiB", got, err)
	}
	for _, text := range []string{"Name:\tx\n", "VmRSS:\t1 MB\n", "VmRSS:\tx kB\n"} {
		if got, err := parseResident([]byte(text)); err == nil {
			t.Errorf("%q: got %g", text, got)
		}
	}
}

// TestMedians checks that each figure has its own median.
func TestMedians(t *testing.T) {
	rounds := []wireFigures{{PerSecond: 3, Whole: 10}, {PerSecond: 1, Whole: 30}, {PerSecond: 2, Whole: 20}}
	if got := medians(rounds); got.PerSecond != 2 || got.Whole != 20 || got.P99 != 0 {
		t.Errorf("%+v", got)
	}
}

// TestIndexes finds the indexes of dropped posts by their ids if the answer has no indexes. An id
// that occurs twice is found in order.
func TestIndexes(t *testing.T) {
	all := []client.Post{{ID: "a"}, {ID: "b"}, {ID: "a"}, {ID: "c"}}
	got := indexes(all, []client.Dropped{{ID: "a"}, {ID: "a"}, {ID: "c"}}, false)
	if !slices.Equal(got, []int{0, 2, 3}) {
		t.Errorf("got %v", got)
	}
	if err := mark(make([]bool, 2), []int{-1}); err == nil {
		t.Error("mark accepts a negative index")
	}
}

func TestParseStat(t *testing.T) {
	const stat = "4711 (a) b (c) S 1 4711 4711 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 5 0 1 2 3"
	if got, err := parseStat([]byte(stat)); err != nil || got != 3*time.Second {
		t.Errorf("got %v, %v, want 3s", got, err)
	}
	if got, err := parseStat([]byte("4711 (x) S 1")); err == nil {
		t.Errorf("got %v from an incomplete text", got)
	}
}

// TestWrongPeer checks that a peer that keeps a candidate which must be dropped ends the run.
func TestWrongPeer(t *testing.T) {
	people, err := bench.NewPopulation(20, 1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	exact := sets{redistest.Start(t).Client()}
	if err := exact.load(t.Context(), people); err != nil { // without loadSeen
		t.Fatal(err)
	}
	r := &run{people: people, peers: []contender{{peer: exact, name: "forgetful"}}, report: report{Peers: []*result{{Name: "forgetful"}}}}
	if err := r.verify(t.Context()); err == nil || !strings.Contains(err.Error(), "forgetful: ") {
		t.Errorf("got %v", err)
	}
}

// reserving is a peer that allocates all its memory when it is opened, as RedisBloom does.
type reserving struct{ sets }

func (reserving) load(context.Context, *bench.Population) error { return nil }

func (reserving) loadSeen(context.Context, *bench.Population) error { return nil }

// TestMemoryBeforeLoading checks that memory which a peer allocates in open counts as its memory.
func TestMemoryBeforeLoading(t *testing.T) {
	people, err := bench.NewPopulation(20, 1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	client := redistest.Start(t).Client()
	r := &run{people: people, server: redisServer{client: client}}
	const reserved = 1 << 20
	err = r.join(t.Context(), candidate{contender: contender{name: "reserving"}, open: func(ctx context.Context) (peer, error) {
		return reserving{sets{client}}, client.SetRange(ctx, "reserved", reserved-1, "x").Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.report.Peers[0].Bytes * float64(people.Entries()); got < reserved || got > 1.5*reserved {
		t.Errorf("a peer that reserves %d bytes takes %.0f", reserved, got)
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
	for _, args := range [][]string{{"-plot", "."}, {"-growth", "-grow-users", "999"}, {"-wire", "-load"}, {"-wire", "-growth"}, {"-wire", "-service", "/nowhere/feedfilter"}, {"-rate", "0"}, {"-rate", "nan"}, {"rest"}, {"-users", "1"}, {"-redis-server", "/nowhere/redis-server"}} {
		if err := execute(t.Context(), args, os.Stdout); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
