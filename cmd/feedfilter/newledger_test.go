package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A ledger in which nothing was recorded must not replace the one whose pages Redis has.
func TestNewLedgerBesideOldPages(t *testing.T) {
	redis := redistest.Start(t)
	postgres := pgtest.Start(t)
	start := func(args ...string) []string {
		return append([]string{"--addr=127.0.0.1:0", "--redis", redis.URL()}, args...)
	}
	old := serve(t, start("--data-dir", t.TempDir(), "--pages=64")...)
	if code, answer := old.do("PUT", "/v1/users/1/blocks/2", ""); code != 200 {
		t.Fatalf("block: %d %s", code, answer)
	}
	old.signal(syscall.SIGTERM)
	old.wantExit(0)

	dir, schema := t.TempDir(), postgres.Schema()
	empty := "sqlite:" + filepath.Join(t.TempDir(), "empty.db")
	must(t, makeLedger(t, empty, 64).Close())
	refused := func(what string) {
		t.Helper()
		for _, place := range [][]string{{"--data-dir", dir}, {"--data-dir", dir, "--ledger", schema}, {"--data-dir", dir, "--ledger", empty}} {
			s := launch(t, start(place...)...)
			s.lines.Scan()
			if strings.Contains(s.lines.Text(), "listening") {
				t.Fatalf("the service starts with %v", place)
			}
			wantContains(t, s.lines.Text(), what, "nothing was recorded in ledger")
			s.wantExit(1)
		}
		if _, err := os.Stat(filepath.Join(dir, "ledger.db")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a ledger was created: %v", err)
		}
		if _, err := ledger.Inspect(t.Context(), schema); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a ledger was created: %v", err)
		}
	}
	refused("Redis has pages of another one")

	elsewhere := t.TempDir()
	restored := serve(t, start("--data-dir", elsewhere, "--ledger-restored")...)
	if code, answer := restored.do("PUT", "/v1/users/1/blocks/2", ""); code != 200 {
		t.Errorf("block: %d %s", code, answer)
	}
	restored.signal(syscall.SIGTERM)
	restored.wantExit(0)
	again := serve(t, start("--data-dir", elsewhere)...) // it is not empty any more
	again.signal(syscall.SIGTERM)
	again.wantExit(0)

	must(t, redis.Client().FlushAll(t.Context()).Err())
	serve(t, start("--data-dir", t.TempDir())...)
	redis.Kill()
	refused("it needs Redis")
}

// Commands that only read a ledger do not create one.
func TestNoLedgerToRead(t *testing.T) {
	schema := pgtest.Start(t).Schema()
	for _, args := range [][]string{
		{"export", "--kind", "block"}, {"reshape", "--pages=64"},
		{"debug", "inspect", "page", "1", "--redis=redis://127.0.0.1:1"},
	} {
		r := feedfilter(t, 1, append(args, "--data-dir", t.TempDir(), "--ledger", schema)...)
		wantContains(t, r.stderr, "no ledger at postgres://")
	}
}
