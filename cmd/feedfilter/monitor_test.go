package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestFollowMetrics: a process that follows alone has metrics and probes, under the access control
// of the service, and nothing else.
func TestFollowMetrics(t *testing.T) {
	source, postgres := pgtest.Start(t, "wal_level=logical"), pgtest.Start(t)
	conn, err := pgx.Connect(t.Context(), source.URL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), `CREATE TABLE blocks (blocker int, blocked int, PRIMARY KEY (blocker, blocked))`)
	must(t, err)
	dir := t.TempDir()
	tables, tokens := filepath.Join(dir, "tables.json"), filepath.Join(dir, "tokens.json")
	must(t, os.WriteFile(tables, []byte(`{"tables":[{"table":"blocks","kind":"blocks","user":"blocker","target":"blocked"}]}`), 0o600))
	data := []string{"--ledger=" + postgres.URL(), "--pages=16", "--data-dir=" + dir}
	args := append([]string{"follow", "--create", "--tables=" + tables, "--source=" + source.URL()}, data...)
	r := feedfilter(t, 2, append(args, "--metrics-addr=0.0.0.0:0")...)
	wantContains(t, r.stderr, "--metrics-addr 0.0.0.0:0: other machines can reach 0.0.0.0 without authentication")

	token := strings.TrimSpace(strings.SplitN(feedfilter(t, 0, "token", "new", "--name=x", "--scope=ops:read", "--auth-file="+tokens).stdout, "\n", 2)[0])
	s, _ := launchAs(t, exec.CommandContext(t.Context(), "feedfilter", append(args, "--metrics-addr=127.0.0.1:0", "--auth-file="+tokens)...))
	s.first = s.awaitLog("metrics")
	s.awaitLog("following the source")
	_, err = conn.Exec(t.Context(), `INSERT INTO blocks VALUES (1, 2)`)
	must(t, err)
	if code, answer := s.do("GET", "/metrics", ""); code != 401 {
		t.Errorf("without a token: %d %s", code, answer)
	}
	for _, probe := range []string{"/healthz", "/readyz"} {
		if code, answer := s.do("GET", probe, ""); code != 200 {
			t.Errorf("%s: %d %s", probe, code, answer)
		}
	}
	get := func(path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr()+path, http.NoBody)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(text)
	}
	want := []string{`feedfilter_follow_active{source="app"} 1`, `feedfilter_follow_changes_total{result="recorded",source="app",table="blocks"} 1`, "feedfilter_ledger_call_seconds_count"}
	eventually(t, "metrics of the follower", func() bool {
		code, text := get("/metrics")
		return code == 200 && !slices.ContainsFunc(want, func(line string) bool { return !strings.Contains(text, line) })
	})
	for _, path := range []string{"/v1/feed/filter", "/v1/stats", "/ops", "/v1/users/1/blocks/2"} {
		if code, answer := get(path); code != 404 {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
	released := feedfilter(t, 0, append([]string{"follow", "--release=blocks"}, data...)...)
	wantContains(t, released.stderr, "block is an ordinary kind now")
}
