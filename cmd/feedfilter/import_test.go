package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// churn writes a file of n activities that repeat and undo each other. The final state depends on
// their order. churn returns that state: the rows of the ledger.
func churn(n int) (file string, state map[string]bool) {
	random := rand.New(rand.NewPCG(1, 2))
	state = make(map[string]bool)
	var b strings.Builder
	for range n {
		user, other := random.IntN(5), 5+random.IntN(5)
		op := []string{"add", "remove"}[random.IntN(2)]
		rows := []string{fmt.Sprintf("%d hide %d", user, other)}
		kind := []string{"hide", "block"}[random.IntN(2)]
		if kind == "block" {
			rows = []string{fmt.Sprintf("%d block %d", user, other), fmt.Sprintf("%d blocked-by %d", other, user)}
		}
		fmt.Fprintf(&b, "%d,%s,%d,%s\n", user, kind, other, op)
		for _, row := range rows {
			if op == "add" {
				state[row] = true
			} else {
				delete(state, row)
			}
		}
	}
	return b.String(), state
}

// rowsOf returns the rows of the ledger in a data directory that no process uses.
func rowsOf(t testing.TB, dir string) map[string]bool {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{})
	must(t, err)
	defer l.Close()
	rows := make(map[string]bool)
	for page := range l.Identity().Pages {
		entries, _, err := l.Keys(t.Context(), page)
		must(t, err)
		for _, e := range entries {
			rows[e.Owner+" "+e.Kind+" "+e.Target] = true
		}
	}
	return rows
}

func wantState(t testing.TB, dir string, want map[string]bool) {
	t.Helper()
	if got := rowsOf(t, dir); !maps.Equal(got, want) {
		t.Errorf("the ledger has %v, want %v", got, want)
	}
}

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(text), 0o600))
}

// TestImportKilled kills an import at some of the places, chosen at random: 5 of 22.
// TestLongImportKilled takes all.
func TestImportKilled(t *testing.T) { wantSameAfterKill(t, 5) }

func TestLongImportKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("TestImportKilled takes some of them")
	}
	wantSameAfterKill(t, 22)
}

// wantSameAfterKill kills imports before or after they save a checkpoint, at so many places chosen
// at random. Run again, each gives the same result.
func wantSameAfterKill(t *testing.T, places int) {
	t.Helper()
	const lines, batch = 200, 20
	const notes = lines/batch + 1 // one for each batch, and one for the end
	text, state := churn(lines)
	for _, place := range rand.Perm(2 * notes)[:places] {
		n, when := place/2+1, []string{"before", "after"}[place%2]
		t.Run(fmt.Sprintf("%s %d", when, n), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "a.csv")
			writeFile(t, file, text)
			args := []string{"import", "--data-dir", dir, "--pages=4", fmt.Sprintf("--batch=%d", batch), file}
			hit := runCommand(t, []string{fmt.Sprintf("HIT=%s %d SIGKILL", when, n)}, "feedfilter-hit", args...)
			if hit.code != -1 || hit.stdout != "" {
				t.Fatalf("not killed: exit code %d\n%s%s", hit.code, hit.stdout, hit.stderr)
			}
			done := n
			if when == "before" {
				done--
			}
			again := feedfilter(t, 0, args...)
			want := ""
			if done > 0 && done < notes {
				want = fmt.Sprintf("continuing %s at line %d, after %d activities\n", file, done*batch+1, done*batch)
			}
			if again.stderr != want {
				t.Errorf("run again, it prints %q, want %q", again.stderr, want)
			}
			wantContains(t, again.stdout, fmt.Sprintf("imported %d activities", lines))
			wantState(t, dir, state)
		})
	}
}

// The import is killed repeatedly, and the file grows in between.
func TestImportKilledRepeatedly(t *testing.T) {
	const lines, batch = 300, 20
	text, state := churn(lines)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.csv")
	args := []string{"import", "--data-dir", dir, "--pages=1", fmt.Sprintf("--batch=%d", batch), file}
	records := strings.SplitAfter(text, "\n")
	for end := 60; end < lines; end += 60 {
		writeFile(t, file, strings.Join(records[:end], "")) // the earlier lines, and more
		for _, at := range []string{"before 1", "after 1", "before 2"} {
			hit := runCommand(t, []string{"HIT=" + at + " SIGKILL"}, "feedfilter-hit", args...)
			if hit.code != -1 {
				t.Fatalf("not killed %s at %d lines: exit code %d\n%s%s", at, end, hit.code, hit.stdout, hit.stderr)
			}
		}
	}
	writeFile(t, file, text)
	again := feedfilter(t, 0, args...)
	wantContains(t, again.stderr, "continuing ")
	wantContains(t, again.stdout, fmt.Sprintf("imported %d activities", lines))
	wantState(t, dir, state)
}

// An import with --restart is killed at once. The next run must not continue at the old checkpoint,
// because that would skip lines.
func TestImportRestartedAndKilled(t *testing.T) {
	const lines, batch = 100, 10
	text, state := churn(lines)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.csv")
	writeFile(t, file, text)
	args := []string{"import", "--data-dir", dir, "--pages=1", fmt.Sprintf("--batch=%d", batch), file}
	runCommand(t, []string{"HIT=after 8 SIGKILL"}, "feedfilter-hit", args...)
	// The second run first removes the old checkpoint.
	hit := runCommand(t, []string{"HIT=before 2 SIGKILL"}, "feedfilter-hit", append(args, "--restart")...)
	if hit.code != -1 {
		t.Fatalf("not killed: exit code %d\n%s%s", hit.code, hit.stdout, hit.stderr)
	}
	again := feedfilter(t, 0, args...)
	if again.stderr != "" {
		t.Errorf("run again, it prints %q, want it to begin at the start", again.stderr)
	}
	wantState(t, dir, state)
}

// A last line without a line break may still be growing. The import saves no checkpoint within it,
// so that the rest of the line does not count as a line.
func TestImportKilledWithinALine(t *testing.T) {
	for at, continuing := range map[string]string{
		"before 2": "at line 2, after 1 activities\n",
		"after 2":  "", // the import is complete, and the ledger says so
	} {
		t.Run(at, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.csv")
			writeFile(t, file, "1,hide,p0\n1,hide,p1")
			args := []string{"import", "--data-dir", dir, "--pages=1", "--batch=1", file}
			hit := runCommand(t, []string{"HIT=" + at + " SIGKILL"}, "feedfilter-hit", args...)
			if hit.code != -1 {
				t.Fatalf("not killed: exit code %d\n%s%s", hit.code, hit.stdout, hit.stderr)
			}
			wantState(t, dir, map[string]bool{"1 hide p0": true, "1 hide p1": true})
			writeFile(t, file, "1,hide,p0\n1,hide,p12\n1,hide,p3\n")
			again := feedfilter(t, 0, args...)
			if !strings.HasSuffix(again.stderr, continuing) || (again.stderr == "") != (continuing == "") {
				t.Errorf("run again, it prints %q, want %q", again.stderr, continuing)
			}
			wantState(t, dir, map[string]bool{"1 hide p0": true, "1 hide p1": true, "1 hide p12": true, "1 hide p3": true})
		})
	}
}

func TestImportInterrupted(t *testing.T) {
	const lines, batch = 100, 10
	text, state := churn(lines)
	for name, code := range map[string]int{"SIGINT": 130, "SIGTERM": 143} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.csv")
			writeFile(t, file, text)
			args := []string{"import", "--data-dir", dir, "--pages=1", fmt.Sprintf("--batch=%d", batch), file}
			// The signal arrives during a batch, which is completed.
			hit := runCommand(t, []string{"HIT=before 3 " + name}, "feedfilter-hit", args...)
			if hit.code != code || hit.stdout != "" {
				t.Errorf("exit code %d and %q, want %d and nothing", hit.code, hit.stdout, code)
			}
			wantContains(t, hit.stderr, "interrupted", "30 activities before line 31 are imported; run the same command again to continue")
			again := feedfilter(t, 0, args...)
			wantContains(t, again.stderr, "continuing "+file+" at line 31, after 30 activities")
			wantState(t, dir, state)
		})
	}
}

// A blocked read of standard input does not delay the end of the process.
func TestImportInterruptedWhileWaiting(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "feedfilter", "import", "--data-dir", dir, "--batch=100", "--format=csv", "-")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	// More than a pipe and a buffer hold. Once it is written, the command is reading.
	const line = "1,hide,p1\n"
	if _, err := io.WriteString(stdin, strings.Repeat(line, 1<<20/len(line))); err != nil {
		t.Fatal(err)
	}
	must(t, cmd.Process.Signal(os.Interrupt))
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("ended with %v, want exit code 130", err)
	}
	wantContains(t, stderr.String(), "import stdin: interrupted", "and the import cannot be continued")
}

func TestImportIntoRedis(t *testing.T) {
	server := redistest.Start(t)
	text, state := churn(500)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.csv")
	writeFile(t, file, text+"1,seen,p1\n")
	r := feedfilter(t, 0, "import", "--data-dir", dir, "--pages=4", "--redis", server.URL(), "--filter=blue", file)
	wantContains(t, r.stdout, "imported 501 activities")
	if r.stderr != "" {
		t.Errorf("it prints %q, want nothing", r.stderr)
	}
	wantState(t, dir, state)
	keys, err := server.Client().Keys(t.Context(), "fav:{blue/*").Result()
	must(t, err)
	var ledgerPages, windows int
	for _, key := range keys {
		switch {
		case strings.Contains(key, "seen"):
			windows++
		case strings.HasSuffix(key, ":bits"):
			ledgerPages++
		}
	}
	if ledgerPages == 0 || windows == 0 {
		t.Errorf("Redis has the keys %q, want pages of the ledger and a window", keys)
	}
}
