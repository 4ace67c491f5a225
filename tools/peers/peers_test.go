package main

import (
	"context"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// small runs a comparison that takes a few seconds, and returns its rows by their first cell,
// without the heads.
func small(t *testing.T, more ...string) map[string][]string {
	t.Helper()
	var out strings.Builder
	args := append([]string{"-activities", "5000", "-users", "100", "-duration", "5ms"}, more...)
	if err := execute(t.Context(), args, &out); err != nil {
		if strings.Contains(err.Error(), "THIS TEST NEEDS") && os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	rows := make(map[string][]string)
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "|   ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[cells[0]] = append(rows[cells[0]], cells[1:]...)
	}
	return rows
}

// want checks that there are rows of these names, each with that many cells, which hold figures
// above 0 except where may names the index.
func want(t *testing.T, rows map[string][]string, cells int, may []int, names ...string) {
	t.Helper()
	for _, name := range names {
		if len(rows[name]) != cells {
			t.Errorf("%s: %d cells, want %d: %q", name, len(rows[name]), cells, rows[name])
			continue
		}
		for i, cell := range rows[name] {
			if !slices.Contains(may, i) && figure(cell) <= 0 {
				t.Errorf("%s: cell %d is %q", name, i, cell)
			}
		}
	}
}

// figure returns the number that a cell begins with, or -1.
func figure(cell string) float64 {
	text, _, _ := strings.Cut(strings.ReplaceAll(cell, ",", ""), " ")
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return -1
	}
	return x
}

// TestComparison checks that every way has every figure. The run itself fails if a way keeps a
// candidate that must be dropped, or if an exact one drops another.
func TestComparison(t *testing.T) {
	rows := small(t)
	const redisCPU, wrong = 5, 9
	want(t, rows, 6, []int{redisCPU}, "PING")
	want(t, rows, 10, []int{redisCPU, wrong}, "feedfilter (ours)", "exact sets, SMISMEMBER x 4 (sets)",
		"Bloom filter by Lua over BITFIELD (lua)", "PostgreSQL, anti-join (postgres)")
	want(t, rows, 10, []int{redisCPU, wrong, 8}, "one flat bitmap, BITFIELD GETs (flat)")
	for name, cells := range rows {
		if len(cells) == 10 && figure(cells[wrong]) > 0.3 {
			t.Errorf("%s drops %s of the clean candidates", name, cells[wrong])
		}
	}
}

// TestGrowth checks that -growth measures every size, number of users and of activities, and draws
// charts. A point is simulated if it has more activities than may be recorded.
func TestGrowth(t *testing.T) {
	dir := t.TempDir()
	rows := small(t, "-growth", "-plot", dir, "-skip", "lua,flat,postgres",
		"-grow-users", "2000", "-grow-activities", "3000", "-grow-mean", "10", "-grow-recorded", "10000")
	want(t, rows, 9, nil, "feedfilter (ours)", "exact sets, SMISMEMBER x 4 (sets)")
	const memory, pages, made = 5, 6, 7
	want(t, rows, 8, []int{memory, made}, "50", "5,000", "3,000")
	if got := rows["2,000"]; len(got) != 3*8 { // candidates, users, activities
		t.Fatalf("2,000: %q", got)
	}
	users := rows["2,000"][8:16]
	if figure(users[memory]) <= 0 || users[pages] != "16,384" || users[made] != "one in 2: **simulated**" {
		t.Errorf("2,000 users: %q", users)
	}
	// The reply contains the whole page for any number of candidates.
	if few, many := figure(rows["50"][4]), figure(rows["5,000"][4]); few <= 0 || many > 1.2*few || few > 1.2*many {
		t.Errorf("feeds of 50 read %g KB, of 5,000 %g", few, many)
	}
	for name, words := range map[string][]string{
		"growth-peers.svg":      {"PING", "ours", "sets"},
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
}

// TestWire checks that -wire fills every figure of every row, with those of seen posts.
func TestWire(t *testing.T) {
	rows := small(t, "-wire")
	cpu := []int{2, 3, 4, 5, 6, 10} // /proc counts in steps of 10 ms
	want(t, rows, 11, append(cpu, 1, 9), "PING")
	want(t, rows, 11, cpu, "exact sets, SMISMEMBER x 4 (sets)", "exact sets, SMISMEMBER x 10, seen in 7 parts (sets-window)",
		"sets of numbers, tuned, x 4 (ints)", "sets of numbers, tuned, x 10, seen in 7 parts (ints-window)", "service, JSON (json)",
		"service, JSON, only what is dropped (json-dropped)", "service, Protobuf, as package client does (protobuf)",
		"service, gRPC over HTTP/2, generated client (grpc)", "service, Protobuf over a Unix socket (socket)")
	sets, ints := figure(rows["exact sets, SMISMEMBER x 4 (sets)"][9]), figure(rows["sets of numbers, tuned, x 4 (ints)"][9])
	if ints > sets/2 {
		t.Errorf("sets of numbers take %g bytes an activity, sets of text %g; want less", ints, sets)
	}
	want(t, rows, 2, nil, "a set a user, which forgets nothing", "7 sets a user, with a time to live", "a sorted set a user, by time",
		"numbers: a set a user, which forgets nothing", "numbers: 7 sets a user, with a time to live", "feedfilter")
}

// TestLoad checks that -load has a row in both formats for each number of connections, each rate
// and each size of feeds, and that none fails.
func TestLoad(t *testing.T) {
	rows := small(t, "-load")
	for _, word := range []string{"json", "protobuf"} {
		cells := rows[word]
		if len(cells) != 12*8+4*2 {
			t.Fatalf("%s: %d cells: %q", word, len(cells), cells)
		}
		for row := range slices.Chunk(cells[:12*8], 8) {
			if figure(row[1]) <= 0 || row[4] != "0" || figure(row[5]) <= 0 || figure(row[6]) < figure(row[5]) || figure(row[7]) < 1 {
				t.Errorf("%s: %q", word, row)
			}
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

// TestMedians checks that each figure has its own median.
func TestMedians(t *testing.T) {
	got := medians([]figures{{perSecond: 3, wholeCPU: 10}, {perSecond: 1, wholeCPU: 30}, {perSecond: 2, wholeCPU: 20}})
	if want := (figures{perSecond: 2, wholeCPU: 20}); got != want {
		t.Errorf("got %v, want %v", got, want)
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

// TestWrongWay checks that a way that keeps a candidate which must be dropped ends the run, and an
// exact one that drops a clean candidate too.
func TestWrongWay(t *testing.T) {
	people, err := bench.NewPopulation(20, 1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	exact := sets{client: redistest.Start(t).Client(), id: asIs}
	if err := exact.add(t.Context(), entriesOf(people.Activities())); err != nil { // without what was seen
		t.Fatal(err)
	}
	all := each(func(_ context.Context, _ *bench.Feed, dropped []bool) error {
		for i := range dropped {
			dropped[i] = true
		}
		return nil
	})
	for name, w := range map[string]way{"forgetful": {checks: exact.checks}, "eager": {checks: all, exact: true}} {
		if w.name = name; w.verify(t.Context(), people.Feeds(100)) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSkip(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	rows := small(t, "-skip", "lua,postgres,sets,bf")
	want(t, rows, 10, []int{5, 8, 9}, "feedfilter (ours)", "one flat bitmap, BITFIELD GETs (flat)")
	if len(rows) != 3 {
		t.Errorf("%d rows", len(rows))
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-plot", "."}, {"-growth", "-grow-users", "999"}, {"-wire", "-load"}, {"-wire", "-growth"}, {"-wire", "-service", "/nowhere/feedfilter"}, {"-rate", "0"}, {"-rate", "nan"}, {"rest"}, {"-users", "1"}} {
		if err := execute(t.Context(), args, os.Stdout); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
