package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // reads the file of windows

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// awaitRows waits until the file of windows in dir has at least n rows.
func awaitRows(t *testing.T, dir string, n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "windows.db")+"?mode=ro")
	must(t, err)
	defer db.Close()
	rows := -1
	for deadline := time.Now().Add(limit); rows < n; time.Sleep(10 * time.Millisecond) {
		err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pages`).Scan(&rows)
		if time.Now().After(deadline) {
			t.Fatalf("the file of windows has %d rows, want %d: %v", rows, n, err)
		}
	}
}

// wantSeen fails the test unless the viewer's feed drops the post as seen. If want is false, the
// feed must keep it.
func (s *service) wantSeen(viewer, post string, want bool) {
	s.t.Helper()
	code, answer := s.do("POST", "/v1/feed/filter", `{"viewer":"`+viewer+`","posts":[{"id":"`+post+`","author":"a"}]}`)
	if got := strings.Contains(answer, `"kind":"seen"`); code != 200 || got != want {
		s.t.Errorf("feed of %s with %s: %d %s, want it dropped as seen: %v", viewer, post, code, answer, want)
	}
}

func (s *service) see(viewer, post string) {
	s.t.Helper()
	code, answer := s.do("POST", "/v1/activities", `{"activities":[{"user":"`+viewer+`","kind":"seen","target":"`+post+`","op":"add"}]}`)
	if code != 200 {
		s.t.Fatalf("see: %d %s", code, answer)
	}
}

// Seen posts survive a stop, and a kill some seconds later.
func TestServeKeepsWindows(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, "--data-dir", dir, "--pages=1")
	if n := s.awaitLog("windows restored")["pages"]; n != 0.0 {
		t.Errorf("%v windows of new data", n)
	}
	s.see("1", "p")
	awaitRows(t, dir, 1)
	s.signal(syscall.SIGKILL)
	s.wantExit(-1)

	s = serve(t, "--data-dir", dir)
	if n := s.awaitLog("windows restored")["pages"]; n != 1.0 {
		t.Errorf("%v windows restored, want 1", n)
	}
	s.wantSeen("1", "p", true)
	s.wantSeen("1", "q", false)
	s.see("1", "q")
	s.signal(syscall.SIGTERM)
	s.wantExit(0)

	s = serve(t, "--data-dir", dir)
	s.wantSeen("1", "p", true)
	s.wantSeen("1", "q", true)
	s.wantSeen("1", "r", false)
}

// Deleted data stays deleted, even if the process is killed after the answer.
func TestServeForgetsForGood(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, "--data-dir", dir, "--pages=1")
	s.see("1", "p")
	awaitRows(t, dir, 1)
	if code, answer := s.do("DELETE", "/v1/users/1", ""); code != 200 {
		t.Fatalf("%d %s", code, answer)
	}
	s.signal(syscall.SIGKILL)
	s.wantExit(-1)
	s = serve(t, "--data-dir", dir)
	s.wantSeen("1", "p", false)
}

// Without a ledger, acknowledged writes survive a kill. The service does not mix data with and
// without a ledger.
func TestServeWithoutLedger(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		s := serve(t, "--data-dir", dir, "--pages=4", "--ledger=none")
		target := strconv.Itoa(i)
		if code, answer := s.do("PUT", "/v1/users/1/hides/p"+target, ""); code != 200 {
			t.Fatalf("%d %s", code, answer)
		}
		s.signal(syscall.SIGKILL)
		s.wantExit(-1)
	}
	s := serve(t, "--data-dir", dir, "--ledger=none")
	for i := range 5 {
		target := strconv.Itoa(i)
		code, answer := s.do("POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p`+target+`","author":"a"}]}`)
		if code != 200 || !strings.Contains(answer, `"kind":"hide"`) {
			t.Errorf("p%d: %d %s", i, code, answer)
		}
	}
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	wantContains(t, feedfilter(t, 1, "serve", "--addr=127.0.0.1:0", "--data-dir", dir).stderr, "filter.db", "--ledger none")
	dir = t.TempDir()
	s = serve(t, "--data-dir", dir)
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	wantContains(t, feedfilter(t, 1, "serve", "--addr=127.0.0.1:0", "--data-dir", dir, "--ledger=none").stderr, "ledger.db", "--ledger none")
}

// Without a ledger, a service whose filter was damaged refuses to start once.
func TestServeDamagedFilter(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, "--data-dir", dir, "--pages=4", "--ledger=none")
	if code, answer := s.do("PUT", "/v1/users/1/hides/p", ""); code != 200 {
		t.Fatalf("%d %s", code, answer)
	}
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	must(t, os.WriteFile(filepath.Join(dir, "filter.db"), []byte("no database"), 0o600))
	r := feedfilter(t, 1, "serve", "--addr=127.0.0.1:0", "--data-dir", dir, "--ledger=none")
	wantContains(t, r.stderr, "filter.db.damaged", "start again to continue without")
	s = serve(t, "--data-dir", dir, "--ledger=none")
	if code, answer := s.do("PUT", "/v1/users/1/hides/p", ""); code != 200 || answer != `{"changed":true}` {
		t.Errorf("%d %s", code, answer)
	}
}

// The service starts even if it cannot read its windows.
func TestServeDamagedWindows(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "windows.db")
	writeFile(t, file, strings.Repeat("no database\n", 1000))
	s := serve(t, "--data-dir", dir, "--pages=1")
	line := s.awaitLog("windows file unreadable, renamed")
	if line["level"] != "ERROR" || line["file"] != file+".damaged" {
		t.Errorf("logged %v", line)
	}
	s.see("1", "p")
	s.wantSeen("1", "p", true)
}

// The file of windows has its own lock, because the ledger may be elsewhere.
func TestServeWindowsInUse(t *testing.T) {
	dir := t.TempDir()
	serve(t, "--data-dir", dir)
	r := feedfilter(t, 1, "serve", "--addr=127.0.0.1:0", "--data-dir", dir, "--ledger=sqlite:"+filepath.Join(t.TempDir(), "other.db"))
	wantContains(t, r.stderr, dir+"/windows.db.lock is locked", "another feedfilter uses this --data-dir")
	if strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("it prints %q, want one line", r.stderr)
	}
}

// An import adds to the windows of a stopped service, which has them after its next start.
func TestImportIntoWindows(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, "--data-dir", dir, "--pages=1")
	s.see("1", "p")
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	writeFile(t, dir+"/a.csv", "1,seen,q\n2,seen,p\n")
	r := feedfilter(t, 0, "import", dir+"/a.csv", "--data-dir", dir)
	if r.stderr != "" {
		t.Errorf("it prints %q, want nothing", r.stderr)
	}
	s = serve(t, "--data-dir", dir)
	for _, c := range []struct {
		viewer, post string
		want         bool
	}{{"1", "p", true}, {"1", "q", true}, {"2", "p", true}, {"2", "q", false}} {
		s.wantSeen(c.viewer, c.post, c.want)
	}
}

// An import reports damaged windows, and continues without them.
func TestImportDamagedWindows(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "windows.db"), strings.Repeat("no database\n", 1000))
	writeFile(t, dir+"/a.csv", "1,seen,q\n")
	r := feedfilter(t, 0, "import", dir+"/a.csv", "--data-dir", dir)
	wantContains(t, r.stderr, "windows file unreadable, renamed", "windows.db.damaged")
	serve(t, "--data-dir", dir).wantSeen("1", "q", true)
}

// With a shared ledger, an import may run beside a service with windows in the same data directory.
// The import reports that it could not add to them.
func TestImportBesideWindowsInUse(t *testing.T) {
	dir := t.TempDir()
	ledger := "--ledger=" + pgtest.Start(t).Schema()
	s := serve(t, "--data-dir", dir, "--pages=1", ledger)
	writeFile(t, dir+"/a.csv", "1,seen,p\n1,hide,q\n")
	r := feedfilter(t, 0, "import", dir+"/a.csv", "--data-dir", dir, ledger)
	wantContains(t, r.stdout, "imported 2 activities (2 changed, 0 skipped)")
	wantContains(t, r.stderr, "warning: 1 activities are of kinds with a window, and are lost: "+
		"another feedfilter uses the data directory")
	s.wantSeen("1", "p", false)
	elsewhere := t.TempDir()
	r = feedfilter(t, 0, "import", dir+"/a.csv", "--data-dir", elsewhere, ledger)
	wantContains(t, r.stderr, "warning: 1 activities are of kinds with a window, and are in the data directory "+
		elsewhere+": only a service with this --data-dir and without --redis has them\n")
	code, answer := s.do("POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"q","author":"a"}]}`)
	if code != 200 || !strings.Contains(answer, `"kind":"hide"`) {
		t.Errorf("feed after the import: %d %s", code, answer)
	}
}
