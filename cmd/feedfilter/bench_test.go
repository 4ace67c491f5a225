package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// small returns the flags of a run of a second or two.
func small(server *redistest.Server, more ...string) []string {
	return append([]string{"bench", "--redis", server.URL(), "--activities", "2000", "--users", "40", "--duration", "10ms"}, more...)
}

// wantKeys fails the test unless the server has exactly these keys.
func wantKeys(t *testing.T, server *redistest.Server, want ...string) {
	t.Helper()
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	if !slices.Equal(keys, want) {
		t.Errorf("there are keys %.10q, want %q", keys, want)
	}
}

// On Redis, every row has a figure, and existing keys stay unchanged.
func TestBenchOnRedis(t *testing.T) {
	server := redistest.Start(t)
	others := []string{"fav:{bench-mine/0}:bits", "fav:{feed/0}:bits"}
	for _, key := range others {
		if err := server.Client().Set(t.Context(), key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", t.TempDir())
	out := feedfilter(t, 0, small(server, "--output=json")...)
	wantKeys(t, server, others...)
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	var report bench.Report
	if err := json.Unmarshal([]byte(out.stdout), &report); err != nil {
		t.Fatal(err)
	}
	rows, goals := make(map[string]bench.Row), 0
	for _, row := range report.Rows {
		rows[row.Name] = row
		if row.Unknown != "" {
			t.Errorf("%s is unknown: %s", row.Name, row.Unknown)
		}
		if row.Met != nil {
			goals++
		}
	}
	if goals != 15 {
		t.Errorf("%d goals are met or not, want 15", goals)
	}
	for _, name := range []string{"feed check of 50 candidates", "feed check of 1000 candidates", "one write", "100 keys on one page"} {
		if row := rows[name]; row.Value <= 0 || row.XPing <= 0 {
			t.Errorf("%s: %+v", name, row)
		}
	}
	if ping, check := rows["PING"].Value, rows["feed check of 500 candidates"]; ping <= 0 || check.Value/ping < check.XPing*0.99 || check.Value/ping > check.XPing*1.01 {
		t.Errorf("a PING took %g, a feed check %g, %g times as long", ping, check.Value, check.XPing)
	}
	for _, p := range report.Points {
		if p.Check <= 0 || p.Slow < p.Check || p.Ping <= 0 || p.PerSecond <= 0 || p.ClientCPU <= 0 {
			t.Errorf("point %+v", p)
		}
	}
	if got := rows["bytes an activity, all overhead in"].Value; got < 1 || got > 50 {
		t.Errorf("%g bytes an activity", got)
	}
}

func TestBenchRefusesAFilterThatExists(t *testing.T) {
	server := redistest.Start(t)
	const key = "fav:{bench-mine-w/3}:bits"
	if err := server.Client().Set(t.Context(), key, "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r := feedfilter(t, exitUsage, small(server, "--filter", "bench-mine")...)
	wantContains(t, r.stderr, "filter bench-mine already exists on "+server.Addr())
	wantKeys(t, server, key)
}

// A signal during the run ends it, and no data is left.
func TestBenchInterrupted(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "feedfilter", small(server, "--filter", "bench-x", "--duration", "10m")...)
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stdout bytes.Buffer
			cmd.Stdout = &stdout
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(stderr)
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "measuring with the temporary filter bench-x on "+server.Addr()) {
				t.Fatalf("%q, %v", line, err)
			}
			awaitKeys(t, server)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			rest := new(strings.Builder)
			_, _ = lines.WriteTo(rest)
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(signal) {
				t.Errorf("%v, want exit code %d", err, 128+int(signal))
			}
			if want := "feedfilter: bench: interrupted (" + signal.String() + ")\n"; rest.String() != want || stdout.Len() > 0 {
				t.Errorf("got %q and %q, want %q", rest.String(), stdout.String(), want)
			}
			wantKeys(t, server)
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// awaitKeys waits until the server has a viewer's window, the last data recorded.
func awaitKeys(t *testing.T, server *redistest.Server) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < limit; {
		keys, err := server.Client().Keys(t.Context(), "*seen*").Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) > 0 {
			return
		}
	}
	t.Fatal("nothing was recorded")
}

func TestLongBenchOnCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	out := feedfilter(t, 0, "bench", "--redis", cluster.URL(), "--activities", "20000", "--duration", "10ms", "--output=json")
	var report bench.Report
	if err := json.Unmarshal([]byte(out.stdout), &report); err != nil {
		t.Fatal(err)
	}
	for _, row := range report.Rows {
		if row.Unknown != "" {
			t.Errorf("%s is unknown: %s", row.Name, row.Unknown)
		}
	}
	for _, node := range cluster.Nodes() {
		wantKeys(t, node)
	}
}

// The error names a server that is down.
func TestBenchWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	r := feedfilter(t, exitFailure, small(server)...)
	wantContains(t, r.stderr, "feedfilter: bench: redis at "+server.Addr())
}
