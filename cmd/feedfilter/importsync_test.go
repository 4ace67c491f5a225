package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// syncFile is a list that differs from another in 9 activities: it lacks 4, and has 5 more. The
// other one is what the user us has before.
func syncFile(t *testing.T, dir string) (file string, before, after map[string]bool) {
	t.Helper()
	before, after = map[string]bool{"them hide p1": true}, map[string]bool{"them hide p1": true}
	both := func(rows map[string]bool, i int) {
		rows[fmt.Sprint("us block u", i)] = true
		rows[fmt.Sprintf("u%d blocked-by us", i)] = true
	}
	var text strings.Builder
	old := "them,hide,p1\n"
	for i := range 25 {
		if i < 20 {
			both(before, i)
			old += fmt.Sprintf("us,block,u%d\n", i)
		}
		if i >= 4 {
			both(after, i)
			fmt.Fprintf(&text, "u%d\n", i)
		}
	}
	file = filepath.Join(dir, "us.csv")
	writeFile(t, file, text.String())
	writeFile(t, filepath.Join(dir, "before.csv"), old)
	feedfilter(t, 0, "import", "--data-dir", dir, "--pages=4", filepath.Join(dir, "before.csv"))
	return file, before, after
}

// TestSyncKilled kills a sync before and after each of its calls. Until the first write, nothing
// has changed; run again, each gives the same result, and counts what was left to do.
func TestSyncKilled(t *testing.T) {
	const batch, differ = 4, 9
	const writes = (differ + batch - 1) / batch
	const calls = 1 + writes + 1 // a listing, and the end
	for n := 1; n <= calls; n++ {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s %d", when, n), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				file, before, after := syncFile(t, dir)
				args := []string{
					"import", "--sync", "--user=us", "--kind=block", "--max-removed=4", "--data-dir", dir,
					fmt.Sprintf("--batch=%d", batch), file,
				}
				hit := runCommand(t, []string{fmt.Sprintf("HIT=%s %d SIGKILL", when, n)}, "feedfilter-hit", args...)
				if hit.code != -1 || hit.stdout != "" {
					t.Fatalf("not killed: exit code %d\n%s%s", hit.code, hit.stdout, hit.stderr)
				}
				written := n - 1 // calls that have taken effect, but for the listing
				if when == "before" {
					written--
				}
				written = min(max(written, 0)*batch, differ)
				if written == 0 {
					wantState(t, dir, before)
				}
				again := feedfilter(t, 0, args...)
				removed := min(written, 4)
				want := fmt.Sprintf("added %d, updated 0, removed %d, unchanged %d in ", 5-(written-removed), 4-removed, 16+written-removed)
				wantContains(t, again.stdout, want)
				wantState(t, dir, after)
			})
		}
	}
}

// TestSyncKilledWhileCalling kills a sync with kill -9 while a service has one of its calls, which
// takes effect or not. The file is another one each time. The last sync makes the two equal.
func TestSyncKilledWhileCalling(t *testing.T) {
	dir := t.TempDir()
	running := serve(t, "--data-dir", dir, "--pages=1")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: running.addr()})
	var (
		calls    atomic.Int64 // until the kill
		effect   atomic.Bool  // of the call during which the command is killed
		starting sync.Mutex   // guards command
		command  *exec.Cmd
	)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(-1) != 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err == nil && effect.Load() {
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		starting.Lock()
		defer starting.Unlock()
		_ = command.Process.Kill() // Wait tells if it was not
	}))
	t.Cleanup(front.Close)
	file := filepath.Join(dir, "us.txt")
	args := []string{
		"import", "--sync", "--user=us", "--kind=hide", "--max-removed=100%", "--server", front.URL, "--batch=5", file,
	}
	want := make(map[string]bool)
	for range 8 {
		clear(want)
		var text strings.Builder
		for i := range 100 {
			if rand.IntN(2) == 0 {
				fmt.Fprintf(&text, "p%d\n", i)
				want[fmt.Sprint("us hide p", i)] = true
			}
		}
		writeFile(t, file, text.String())
		calls.Store(1 + rand.Int64N(6)) // kinds, a listing, and four of some ten batches
		effect.Store(rand.IntN(2) == 0)
		cmd := exec.CommandContext(t.Context(), "feedfilter", args...)
		starting.Lock()
		command = cmd
		err := cmd.Start()
		starting.Unlock()
		must(t, err)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != -1 {
			t.Errorf("not killed: %v", err)
		}
	}
	feedfilter(t, 0, args...)
	wantContains(t, feedfilter(t, 0, args...).stdout, fmt.Sprintf("added 0, updated 0, removed 0, unchanged %d in ", len(want)))
	running.signal(syscall.SIGTERM)
	running.wantExit(0)
	wantState(t, dir, want)
}

// A signal ends a sync after the batch.
func TestSyncInterrupted(t *testing.T) {
	dir := t.TempDir()
	file, _, after := syncFile(t, dir)
	args := []string{"import", "--sync", "--user=us", "--kind=block", "--max-removed=4", "--data-dir", dir, "--batch=2", file}
	hit := runCommand(t, []string{"HIT=before 4 SIGTERM"}, "feedfilter-hit", args...)
	if hit.code != 143 || hit.stdout != "" {
		t.Errorf("exit code %d and %q, want 143 and nothing", hit.code, hit.stdout)
	}
	wantContains(t, hit.stderr, "interrupted (terminated); added 2, updated 0 and removed 4: run the same command again")
	wantContains(t, feedfilter(t, 0, args...).stdout, "added 3, updated 0, removed 0, unchanged 18 in ")
	wantState(t, dir, after)
}

// A blocked read of standard input does not delay the end of the process, and changes nothing.
func TestSyncInterruptedWhileReading(t *testing.T) {
	dir := t.TempDir()
	_, before, _ := syncFile(t, dir)
	cmd := exec.CommandContext(t.Context(), "feedfilter", "import", "--sync", "--user=us", "--kind=block", "--data-dir", dir, "--format=text", "-")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	// More than a pipe and a buffer hold. Once it is written, the command is reading.
	_, err = stdin.Write(bytes.Repeat([]byte("u1\n"), 1<<20))
	must(t, err)
	must(t, cmd.Process.Signal(os.Interrupt))
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("ended with %v, want exit code 130", err)
	}
	wantContains(t, stderr.String(), "import stdin: interrupted (interrupt); nothing was changed")
	wantState(t, dir, before)
}

// TestSyncBesideServices: a feed that begins after a sync has what the sync has changed, of each
// service of a fleet. Afterwards, no page differs from the ledger.
func TestSyncBesideServices(t *testing.T) {
	data := []string{"--ledger", pgtest.Start(t).Schema(), "--redis", redistest.Start(t).URL(), "--pages=4"}
	dir := t.TempDir()
	var services []*service
	for i := range 2 {
		services = append(services, serve(t, append([]string{"--data-dir", filepath.Join(dir, fmt.Sprint(i))}, data...)...))
	}
	sync := func(text string) {
		t.Helper()
		file := filepath.Join(dir, "list.txt")
		writeFile(t, file, text)
		args := append([]string{"import", "--sync", "--user=list", "--kind=block", "--max-removed=100%", "--data-dir", dir, file}, data...)
		feedfilter(t, 0, args...)
	}
	shows := func(want string) {
		t.Helper()
		for _, s := range services {
			_, answer := s.do(http.MethodPost, "/v1/feed/filter", `{"viewer":"1","lists":["list"],"answer":"dropped","posts":[
				{"id":"p0","author":"u0"},{"id":"p1","author":"u1"},{"id":"p2","author":"u2"}]}`)
			if got := strings.Count(answer, "index"); !strings.Contains(answer, want) || got != strings.Count(want, "index") {
				t.Errorf("a feed is %s, want %s", answer, want)
			}
		}
	}
	const of = `{"index":%d,"kind":"block","actor":"u%[1]d","list":"list"}`
	shows(`"dropped":[]`)
	sync("u0\nu1\n")
	shows(`"dropped":[` + fmt.Sprintf(of, 0) + "," + fmt.Sprintf(of, 1) + "]")
	sync("u1\nu2\n")
	shows(`"dropped":[` + fmt.Sprintf(of, 1) + "," + fmt.Sprintf(of, 2) + "]")
	sync("u3\n")
	shows(`"dropped":[]`)
}

// TestSyncThroughService: with --server, a list follows a file while the service of a SQLite ledger
// runs, also while some of its calls fail.
func TestSyncThroughService(t *testing.T) {
	dir := t.TempDir()
	file, _, after := syncFile(t, dir)
	running := serve(t, "--data-dir", dir)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: running.addr()})
	var calls atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/kinds" && calls.Add(1)%2 == 1 {
			if calls.Load()%4 == 1 {
				proxy.ServeHTTP(httptest.NewRecorder(), r) // it takes effect, and nobody hears of it
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	args := []string{"import", "--sync", "--user=us", "--kind=blocks", "--server", front.URL, "--batch=3", file}
	r := feedfilter(t, 1, args...)
	wantContains(t, r.stderr, "the file lacks 4 of the 20 activities of us, and --max-removed 10% allows 2: nothing was changed")
	r = feedfilter(t, 0, append(args, "--max-removed=20%")...)
	wantContains(t, r.stdout, "added ", "unchanged ")
	wantContains(t, feedfilter(t, 0, args...).stdout, "added 0, updated 0, removed 0, unchanged 21 in ")
	var many strings.Builder
	for i := range 11_000 { // more than a request may have
		fmt.Fprintf(&many, "p%d\n", i)
	}
	long := filepath.Join(dir, "long.txt")
	writeFile(t, long, many.String())
	for _, want := range []string{"added 11000, ", "added 0, updated 0, removed 0, unchanged 11000 in "} {
		r = feedfilter(t, 0, "import", "--sync", "--user=many", "--kind=hide", "--server", "http://"+running.addr(), long)
		wantContains(t, r.stdout, want)
	}
	r = feedfilter(t, 1, "import", "--sync", "--user=us", "--kind=block", "--data-dir", dir, file)
	wantContains(t, r.stderr, "another feedfilter uses this data: stop it first, or use it with --server")
	running.signal(syscall.SIGTERM)
	running.wantExit(0)
	wantState(t, dir, after)
}

// A dry run prints lines that import reads, and writes nothing.
func TestSyncDryRun(t *testing.T) {
	dir := t.TempDir()
	file, before, after := syncFile(t, dir)
	files := contents(t, dir)
	args := []string{"import", "--sync", "--user=us", "--kind=block", "--data-dir", dir, "--dry-run", file}
	r := feedfilter(t, 1, args...)
	wantContains(t, r.stderr, "would add 5, update 0, remove 4 and leave 16 unchanged\n", "the file lacks 4 of the 20")
	if r = feedfilter(t, 0, append(args, "--max-removed=4")...); strings.Count(r.stdout, "\n") != 9 {
		t.Errorf("it prints %s", r.stdout)
	}
	if now := contents(t, dir); !maps.Equal(files, now) {
		t.Error("it has changed the data")
	}
	wantState(t, dir, before)
	changes := filepath.Join(dir, "changes.ndjson")
	writeFile(t, changes, r.stdout)
	feedfilter(t, 0, "import", "--data-dir", dir, changes)
	wantState(t, dir, after)
	running := serve(t, "--data-dir", dir)
	writeFile(t, file, "u4\n")
	r = feedfilter(t, 0, "import", "--sync", "--user=us", "--kind=block", "--server", "http://"+running.addr(), "--dry-run", "--max-removed=100%", file)
	wantContains(t, r.stderr, "would add 0, update 0, remove 20 and leave 1 unchanged\n")
	running.signal(syscall.SIGTERM)
	running.wantExit(0)
	wantState(t, dir, after)
}

// contents returns the files of a directory by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		must(t, err)
		all[entry.Name()] = string(text)
	}
	return all
}
