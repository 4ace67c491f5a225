package main

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func makeLedger(t *testing.T, url string, pages uint32) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: pages})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestDoctorSQLite(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	file := filepath.Join(directory, "ledger.db")
	url := "sqlite:" + file
	g := diagnose(t, "--ledger", url)
	g.wantOnly(t)
	g.want(t, "redis", "skip", "in the process")
	g.want(t, "ledger", "warn", file, "first start")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("doctor created a ledger: %v", err)
	}

	l := makeLedger(t, url, 64)
	g = diagnose(t, "--ledger", url)
	g.wantOnly(t)
	g.want(t, "ledger", "ok", "SQLite 3.", file)
	g.want(t, "ledger", "ok", "schema version", "64 pages")
	diagnose(t, "--ledger", url, "--pages=64").want(t, "ledger", "ok", "64")
	g = diagnose(t, "--ledger", url, "--pages=128")
	g.wantOnly(t, "ledger")
	g.want(t, "ledger", "fail", "64 pages, but --pages is 128", "--pages 64")
	must(t, l.Close())

	for version, want := range map[string][]string{
		"1": {"fail", "Start version 0.1.0"}, "7": {"warn", "the service migrates it"}, "99": {"fail", "Use the version"},
	} {
		db, err := sql.Open("sqlite", file)
		must(t, err)
		if _, err := db.ExecContext(t.Context(), "PRAGMA user_version = "+version); err != nil {
			t.Fatal(err)
		}
		db.Close()
		diagnose(t, "--ledger", url).want(t, "ledger", want[0], "version "+version, want[1])
	}
	must(t, os.WriteFile(file, []byte(strings.Repeat("no database", 100)), 0o600))
	g = diagnose(t, "--ledger", url)
	g.wantOnly(t, "ledger")
	g.want(t, "ledger", "fail", file, "Check the file")
	g = diagnose(t, "--ledger", "none")
	g.wantOnly(t)
	g.want(t, "ledger", "skip", "none")
}

// A wrong --ledger, --redis or --filter shows as pages of another ledger.
func TestDoctorPages(t *testing.T) {
	t.Parallel()
	r, dir := redistest.Start(t), t.TempDir()
	file := filepath.Join(dir, "a.csv")
	must(t, os.WriteFile(file, []byte("1,block,2\n"), 0o600))
	own, other := "sqlite:"+filepath.Join(dir, "own.db"), "sqlite:"+filepath.Join(dir, "other.db")
	feedfilter(t, 0, "import", "--pages=1", "--redis", r.URL(), "--ledger", own, file)
	diagnose(t, "--redis", r.URL(), "--ledger", own).want(t, "pages", "ok", "1 pages read, 1 exist, 0 damaged, 0 of another ledger")
	makeLedger(t, other, 1)
	g := diagnose(t, "--redis", r.URL(), "--ledger", other)
	g.wantOnly(t)
	g.want(t, "pages", "warn", "1 of another ledger", "correct --ledger, --redis or --filter")
}

func TestDoctorPostgres(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "fsync=on")
	url := s.Schema()
	diagnose(t, "--ledger", url).want(t, "ledger", "warn", "no ledger yet")
	makeLedger(t, url, 64)
	r := redistest.Start(t)
	g := diagnose(t, "--ledger", url, "--redis", r.URL())
	g.wantOnly(t)
	g.want(t, "ledger", "ok", "PostgreSQL 1", s.Addr())

	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	for _, c := range []struct{ set, check, status, says string }{
		{"ALTER SYSTEM SET full_page_writes = off", "ledger", "warn", "full_page_writes is off"},
		{"ALTER SYSTEM RESET full_page_writes", "ledger", "ok", "PostgreSQL"},
		{"ALTER SYSTEM SET default_transaction_read_only = on", "ledger", "fail", "default_transaction_read_only"},
		{"ALTER SYSTEM RESET ALL", "ledger", "ok", ""},
	} {
		for _, statement := range []string{"SET default_transaction_read_only = off", c.set, "SELECT pg_reload_conf()"} {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		// The server takes a moment to read its settings.
		var g diagnosis
		for deadline := time.Now().Add(time.Minute); ; {
			if g = diagnose(t, "--ledger", url); g.check(t, c.check).Status == c.status || time.Now().After(deadline) {
				break
			}
		}
		g.want(t, c.check, c.status, c.says)
	}
	s.Kill()
	g = diagnose(t, "--redis", r.URL(), "--ledger", strings.Replace(url, "postgres@", "postgres:secret@", 1))
	g.wantOnly(t, "ledger")
	g.want(t, "ledger", "fail", s.Addr(), "Check that the server runs", "needs CREATE")
	g.want(t, "commands", "ok")
	for _, c := range g.Checks {
		if strings.Contains(c.Found+c.Todo, "secret") {
			t.Errorf("the password shows: %+v", c)
		}
	}
}
