package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// An app writes to its own table alone. Each feed after its commit has it, on every process. Others
// cannot write the kind, until it is released. TestFollowOutages kills the follower.
func TestFollow(t *testing.T) {
	source, postgres, redis := pgtest.Start(t, "wal_level=logical"), pgtest.Start(t), redistest.Start(t)
	conn, err := pgx.Connect(t.Context(), source.URL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	commit := func(sql string) (position string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
		must(t, conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&position))
		return position
	}
	commit(`CREATE TABLE blocks (blocker int, blocked int, PRIMARY KEY (blocker, blocked))`)
	commit(`INSERT INTO blocks VALUES (1, 2)`)
	tables := filepath.Join(t.TempDir(), "tables.json")
	must(t, os.WriteFile(tables, []byte(`{"tables":[{"table":"blocks","kind":"block","user":"blocker","target":"blocked"}]}`), 0o600))
	data := []string{"--ledger=" + postgres.URL(), "--redis=" + redis.URL(), "--pages=16"}
	of := []string{"--source=" + source.URL(), "--after-timeout=20s"}
	if r := feedfilter(t, 1, "follow", "--check", "--tables="+tables, of[0]); !strings.Contains(r.stdout, "CREATE PUBLICATION") {
		t.Fatalf("--check: %s", r.stdout)
	}
	commit(`CREATE PUBLICATION feedfilter_app FOR TABLE ONLY blocks WITH (publish_via_partition_root = true)`)
	first := serve(t, append(append([]string{"--follow=" + tables, "--data-dir=" + t.TempDir()}, of...), data...)...)
	second := serve(t, append(append([]string{"--follow=" + tables, "--data-dir=" + t.TempDir()}, of...), data...)...)
	dropped := func(s *service, after string, author int) bool {
		t.Helper()
		code, answer := s.do("POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":"1","posts":[{"id":"p","author":"%d"}],"after":%q}`, author, after))
		if code != 200 {
			t.Fatalf("after %s: %d %s", after, code, answer)
		}
		return strings.Contains(answer, `"kind":"block"`)
	}
	for author := 3; author < 15; author++ {
		position := commit(fmt.Sprintf(`INSERT INTO blocks VALUES (1, %d)`, author))
		if !dropped(second, position, author) || !dropped(first, position, author) || !dropped(second, position, 2) {
			t.Fatalf("author %d is shown after the commit", author)
		}
		position = commit(fmt.Sprintf(`DELETE FROM blocks WHERE blocked = %d`, author))
		if dropped(first, position, author) || dropped(second, position, author) {
			t.Fatalf("author %d is dropped after the undo", author)
		}
	}
	diagnose(t, append([]string{"--follow=" + tables, of[0]}, data...)...).want(t, "sources", "ok", "app is followed by ", "slot in use, keeps ")
	if code, answer := second.do("GET", "/v1/ops/health", ""); code != 200 || !strings.Contains(answer, `"sources":[{"name":"app","followed":true,`) {
		t.Errorf("the sources: %d %s", code, answer)
	}
	if _, text := second.do("GET", "/metrics", ""); !strings.Contains(text, `feedfilter_follow_changes_total{result="recorded",source="app",table="blocks"}`) {
		t.Errorf("no changes in %s", text)
	}
	if code, answer := second.do("PUT", "/v1/users/1/blocks/9", ""); code != 409 || !strings.Contains(answer, `"followed"`) || !strings.Contains(answer, `\"app\"`) {
		t.Errorf("a write of a followed kind: %d %s", code, answer)
	}
	if code, answer := second.do("POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"after":"x"}`); code != 422 || !strings.Contains(answer, `"invalid_position"`) {
		t.Errorf("no position: %d %s", code, answer)
	}
	if code, answer := second.do("DELETE", "/v1/users/1", ""); code != 200 || !strings.Contains(answer, `"left":["block"]`) {
		t.Errorf("a deletion: %d %s", code, answer)
	}
	for _, s := range []*service{first, second} {
		s.signal(syscall.SIGTERM)
		s.wantExit(0)
	}
	diagnose(t, data...).want(t, "sources", "warn", "app is followed by nobody")
	commit(`INSERT INTO blocks VALUES (5, 5)`)
	r := feedfilter(t, 1, "follow", "--check", "--tables="+tables, of[0])
	wantContains(t, r.stdout, "blocks as block: 1 of 2 rows count; not: 1 self\n", "1 rows are not valid", `blocked="5" blocker="5"`)
	feedfilter(t, 0, append([]string{"follow", "--release=block"}, data...)...)
	third := serve(t, append([]string{"--data-dir=" + t.TempDir()}, data...)...)
	if code, answer := third.do("PUT", "/v1/users/1/blocks/9", ""); code != 200 {
		t.Errorf("after the release: %d %s", code, answer)
	}
	if code, answer := third.do("POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"after":"0/1"}`); code != 422 || !strings.Contains(answer, `"not_followed"`) {
		t.Errorf("nothing is followed: %d %s", code, answer)
	}
}
