package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// small returns the flags of a run of a second or two.
func small(server *redistest.Server, more ...string) []string {
	return append([]string{"debug", "bench", "--redis", server.URL(), "--activities", "2000", "--duration", "10ms"}, more...)
}

// wantKeys fails the test unless the server has exactly these keys.
func wantKeys(t *testing.T, server *redistest.Server, want ...string) {
	t.Helper()
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	must(t, err)
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
		must(t, server.Client().Set(t.Context(), key, "x", 0).Err())
	}
	t.Setenv("TMPDIR", t.TempDir())
	out := feedfilter(t, 0, small(server)...)
	wantKeys(t, server, others...)
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	wantRows(t, out.stdout)
}

// wantRows fails the test unless the table has a row for each call.
func wantRows(t *testing.T, table string) {
	t.Helper()
	for _, row := range []string{
		"PING +F +F +1.00 +0", "feed check of 500 candidates +F +F +F +2000", "write of one activity +F +F +F +1",
		"fan-out to 10,000 viewers +F +F +F +20000",
	} {
		pattern := "(?m)^" + strings.ReplaceAll(row, "F", `[0-9]+\.[0-9]+`) + "$"
		if !regexp.MustCompile(pattern).MatchString(table) {
			t.Errorf("there is no row %q in\n%s", row, table)
		}
	}
}

// A signal during the run ends it, and no data is left.
func TestBenchInterrupted(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "feedfilter", small(server, "--duration", "10m")...)
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			stderr, err := cmd.StderrPipe()
			must(t, err)
			var stdout bytes.Buffer
			cmd.Stdout = &stdout
			must(t, cmd.Start())
			lines := bufio.NewReader(stderr)
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, " on "+server.Addr()) {
				t.Fatalf("%q, %v", line, err)
			}
			awaitKeys(t, server)
			must(t, cmd.Process.Signal(signal))
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
		must(t, err)
		if len(keys) > 0 {
			return
		}
	}
	t.Fatal("nothing was recorded")
}

func TestLongBenchOnCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	out := feedfilter(t, 0, "debug", "bench", "--redis", cluster.URL(), "--activities", "20000", "--duration", "10ms")
	wantRows(t, out.stdout)
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
