package main

import (
	"database/sql"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A comparison prints activities that correct the differences, and exits with 0 only without any.
func TestCompare(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	client.SAdd(t.Context(), "blocks:1", "2", "3")
	dir := t.TempDir()
	running := serve(t, "--pages", "4", "--data-dir", dir)
	address := "http://" + running.addr()
	data := []string{"--server", address, "--from", server.URL(), "--keys", "blocks:{user}", "--kind", "block"}
	command := func(code int, args ...string) result {
		return feedfilter(t, code, append(args, data...)...)
	}
	wantContains(t, command(0, "import", "sets").stdout, "imported 2 members of 1 sets (2 changed")
	wantContains(t, command(0, "compare", "sets").stderr, "compared 2 activities of 1 users", "missing   0", "extra     0")
	typo := []string{"--server", address, "--from", server.URL(), "--keys", "block:{user}", "--kind", "hide"}
	wantContains(t, feedfilter(t, 1, append([]string{"import", "sets"}, typo...)...).stderr, "found no sets: check --keys")
	wantContains(t, feedfilter(t, 1, append([]string{"compare", "sets"}, typo...)...).stderr, "nothing to compare")

	client.SRem(t.Context(), "blocks:1", "2")
	client.SAdd(t.Context(), "blocks:4", "1")
	client.Set(t.Context(), "blocks:x", "no set", 0)
	r := command(1, "compare", "sets", "--settle", "0s")
	wantContains(t, r.stderr, "missing   1", "extra     1", "2 activities differ", "skipped 1 keys that are neither sets nor sorted sets")
	if want := `{"user":"1","kind":"block","target":"2","op":"remove"}
{"user":"4","kind":"block","target":"1","op":"add"}
`; r.stdout != want {
		t.Errorf("the differences are\n%s, want\n%s", r.stdout, want)
	}
	differences := filepath.Join(dir, "differences.ndjson")
	writeFile(t, differences, r.stdout)
	running.signal(syscall.SIGTERM)
	running.wantExit(0)
	wantContains(t, feedfilter(t, 0, "import", "--data-dir", dir, differences).stdout, "2 changed")
	running = serve(t, "--pages", "4", "--data-dir", dir)
	data[1] = "http://" + running.addr()
	wantContains(t, command(0, "compare", "sets").stderr, "missing   0", "extra     0")
}

// Calls are repeated while the service is unavailable, and a wrong address fails at once.
func TestSetsService(t *testing.T) {
	running := serve(t, "--data-dir", t.TempDir())
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: running.addr()})
	failures := 3
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/kinds" && failures > 0 {
			failures--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	flags := setsFlags{Kind: "block", Service: serviceFlags{Server: front.URL}}
	service, err := flags.service(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.List(t.Context(), "1"); err != nil || failures > 0 {
		t.Errorf("%v, with %d failures to come", err, failures)
	}
	calls := 0
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(down.Close)
	flags.Service.Server = down.URL
	if _, err := flags.service(t.Context()); err == nil || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// Mistakes are reported before anything is read.
func TestCompareRefused(t *testing.T) {
	for args, want := range map[string]string{
		"import sets --from redis://127.0.0.1:1 --keys blocks --kind block":                  "--keys: the pattern must have {user} exactly once",
		"import sets --from http://127.0.0.1:1 --keys {user} --kind block":                   "--from: ",
		"import sets --from elasticache://x?region=eu --keys {user} --kind block":            "--from: ",
		"import sets --from redis://127.0.0.1:1 --keys {user} --kind block --server ftp://x": "--server: ",
		"compare sets --from redis://127.0.0.1:1 --keys {user} --kind block --settle 11m":    "--settle: 11m0s is not in 0s to 10m0s",
		"compare sets --from redis://127.0.0.1:1 --keys {user} --kind block":                 "--server: required",
		"export --kind mute": `--kind: unknown kind "mute"`,
		"export --kind seen": "--kind: seen has a window",
	} {
		r := feedfilter(t, 2, strings.Fields(args)...)
		wantContains(t, r.stderr, want)
	}
	r := feedfilter(t, 1, "import", "sets", "--server", "http://127.0.0.1:1", "--from", "redis://127.0.0.1:1", "--keys", "{user}", "--kind", "block")
	wantContains(t, r.stderr, "import {user}: ", "connection refused")
}

// An export does nothing in the background: no scrub, no removal of ended activities, no rebuild.
func TestExportIsPassive(t *testing.T) {
	server := redistest.Start(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "blocks.csv")
	writeFile(t, file, "user,kind,target,until\n1,block,2,\n1,block,3,2100-01-01T00:00:00Z\n")
	feedfilter(t, 0, "import", "--data-dir", dir, "--pages", "4", "--redis", server.URL(), file)
	db, err := sql.Open("sqlite", filepath.Join(dir, "ledger.db"))
	must(t, err)
	defer db.Close()
	count := func(t *testing.T) (rows int) {
		t.Helper()
		must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM entries`).Scan(&rows))
		return rows
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE entries SET until = 1 WHERE until IS NOT NULL`); err != nil {
		t.Fatal(err)
	}
	before := count(t)
	must(t, server.Client().FlushAll(t.Context()).Err())
	std := stdio{os.Stdin, os.Stdout, os.Stderr}
	flags := dataFlags{
		DataDir: dir, Redis: server.URL(), Filter: "feed", FalsePositiveRate: 0.001, StalenessBound: time.Second, ScrubRate: 500,
		DedicatedPage: pages.MinSharedKeys, LogLevel: "error",
	}
	d, err := (&exportCmd{Data: flags}).open(t.Context(), std)
	must(t, err)
	if stats := d.activities.Stats(); stats.ScrubRate != 0 {
		t.Errorf("scrub rate %d, want 0", stats.ScrubRate)
	}
	must(t, d.close())
	wantContains(t, feedfilter(t, 0, "export", "--data-dir", dir, "--redis", server.URL(), "--to", "-").stdout, `"target":"2"`)
	wantKeys(t, server)
	if after := count(t); after != before || before != 4 {
		t.Errorf("%d rows became %d", before, after)
	}
}
