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
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// While the ledger or the source is down, feeds without a position go on, and those with one that
// was not recorded get 503 not_yet. Without Redis they have it. Nothing is lost, and another
// instance follows for one that was stopped or killed.
func TestFollowOutages(t *testing.T) {
	source, postgres, redis := pgtest.Start(t, "wal_level=logical"), pgtest.Start(t), redistest.Start(t)
	var conn *pgx.Conn
	commit := func(sql string) (position string) {
		t.Helper()
		if conn == nil || conn.IsClosed() {
			var err error
			conn, err = pgx.Connect(t.Context(), source.URL())
			must(t, err)
			t.Cleanup(func() { _ = conn.Close(context.Background()) })
		}
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
		must(t, conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&position))
		return position
	}
	commit(`CREATE TABLE blocks (blocker int, blocked int, PRIMARY KEY (blocker, blocked))`)
	commit(`CREATE PUBLICATION feedfilter_app FOR TABLE ONLY blocks WITH (publish_via_partition_root = true)`)
	first := commit(`INSERT INTO blocks VALUES (1, 2)`)
	tables := filepath.Join(t.TempDir(), "tables.json")
	must(t, os.WriteFile(tables, []byte(`{"tables":[{"table":"blocks","kind":"block","user":"blocker","target":"blocked"}]}`), 0o600))
	var instances []*service
	for range 2 {
		instances = append(instances, serve(t, "--follow="+tables, "--source="+source.URL(), "--ledger="+postgres.URL(), "--redis="+redis.URL(),
			"--pages=16", "--data-dir="+t.TempDir(), "--after-timeout=300ms"))
	}
	ask := func(s *service, after string, author int) string {
		code, answer := s.do("POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":"1","posts":[{"id":"p","author":"%d"}],"after":%q}`, author, after))
		return fmt.Sprint(code, " ", answer)
	}
	dropped := func(after string, author int) {
		t.Helper()
		for _, s := range instances {
			must(t, servertest.Await(t.Context(), "the feed has the block", func(context.Context) error {
				answer := ask(s, after, author)
				if strings.Contains(answer, `"kind":"block"`) {
					return nil
				}
				if strings.HasPrefix(answer, "200") {
					t.Fatalf("author %d after %s: %s", author, after, answer)
				}
				return fmt.Errorf("author %d after %s: %s", author, after, answer)
			}))
		}
	}
	wantNotYet := func(after string) {
		t.Helper()
		for _, s := range instances {
			if answer := ask(s, after, 2); !strings.HasPrefix(answer, "503") || !strings.Contains(answer, "not_yet") && !strings.Contains(answer, "unavailable") {
				t.Errorf("not recorded: %s", answer)
			}
			if answer := ask(s, "", 2); !strings.Contains(answer, `"kind":"block"`) {
				t.Errorf("without a position: %s", answer)
			}
		}
	}
	dropped(first, 2)

	postgres.Kill()
	position := commit(`INSERT INTO blocks VALUES (1, 3)`)
	wantNotYet(position)
	postgres.Restart()
	dropped(position, 3)

	redis.Kill()
	position = commit(`INSERT INTO blocks VALUES (1, 4)`)
	dropped(position, 4)
	redis.Restart()
	position = commit(`INSERT INTO blocks VALUES (1, 5)`)
	dropped(position, 5)

	position = commit(`INSERT INTO blocks VALUES (1, 6)`)
	source.Kill()
	_ = conn.Close(t.Context())
	wantNotYet("7FFFFFFF/0")
	source.Restart()
	dropped(position, 6)
	dropped(commit(`INSERT INTO blocks VALUES (1, 7)`), 7)

	all := instances // one of them follows: either the first, which stops, or the one that is killed
	all[0].signal(syscall.SIGSTOP)
	instances = all[1:]
	dropped(commit(`INSERT INTO blocks VALUES (1, 8)`), 8)
	all[0].signal(syscall.SIGCONT)
	instances = all
	dropped(commit(`INSERT INTO blocks VALUES (1, 9)`), 9)
	all[1].signal(syscall.SIGKILL)
	instances = all[:1]
	dropped(commit(`INSERT INTO blocks VALUES (1, 10)`), 10)
}

// While nobody can follow the source, a feed that has to be fresh gets 503 not_yet, and after a
// time every answer names the kind as degraded.
func TestFollowedWithin(t *testing.T) {
	source := pgtest.Start(t, "wal_level=logical")
	conn, err := pgx.Connect(t.Context(), source.URL())
	must(t, err)
	_, err = conn.Exec(t.Context(), `CREATE TABLE blocks (blocker int, blocked int, PRIMARY KEY (blocker, blocked)); INSERT INTO blocks VALUES (1, 2);
		CREATE PUBLICATION feedfilter_app FOR TABLE ONLY blocks WITH (publish_via_partition_root = true)`)
	must(t, err)
	must(t, conn.Close(t.Context()))
	tables := filepath.Join(t.TempDir(), "tables.json")
	must(t, os.WriteFile(tables, []byte(`{"tables":[{"table":"blocks","kind":"block","user":"blocker","target":"blocked"}]}`), 0o600))
	s := serve(t, "--follow="+tables, "--source="+source.URL(), "--pages=16", "--data-dir="+t.TempDir(), "--followed-within=5s")
	until := func(what string, done func(status int, answer string) bool, path, body string) {
		t.Helper()
		try := func() error {
			if status, answer := s.do("POST", path, body); !done(status, answer) {
				return fmt.Errorf("%d %s", status, answer)
			}
			return nil
		}
		must(t, servertest.Await(t.Context(), what, func(context.Context) error { return try() }))
	}
	const filter, fanout, explain = "/v1/feed/filter", "/v1/fanout/filter", "/v1/feed/explain"
	calls := map[string]string{
		filter:  `{"viewer":"1","posts":[{"id":"p","author":"2"}]`,
		fanout:  `{"viewers":["1"],"author":"2"`,
		explain: `{"viewer":"1","post":{"id":"p","author":"2"}`,
	}
	fresh := func(status int, answer string) bool {
		return status == 200 && strings.Contains(answer, `"degraded":[]`)
	}
	for path, body := range calls {
		until(path+" is fresh", fresh, path, body+`,"within":"3s"}`)
	}
	source.Kill()
	for path, body := range calls {
		until(path+" is late", func(status int, answer string) bool {
			return status == 503 && strings.Contains(answer, `"not_yet"`) && strings.Contains(answer, `"field":"within"`)
		}, path, body+`,"within":"3s"}`)
		until(path+" is degraded", func(status int, answer string) bool {
			return status == 200 && strings.Contains(answer, `"degraded":[{"kind":"block","reason":"its source \"app\" has not been followed for `)
		}, path, body+`}`)
	}
	until("other kinds are not degraded", fresh, filter, calls[filter]+`,"kinds":["hide"],"within":"3s"}`)
	source.Restart()
	for path, body := range calls {
		until(path+" is fresh again", fresh, path, body+`,"within":"3s"}`)
	}
}
