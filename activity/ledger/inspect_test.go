package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

func inspect(t testing.TB, url string) ledger.Inspection {
	t.Helper()
	i, err := ledger.Inspect(t.Context(), url)
	must(t, err)
	return i
}

// files returns the files of a directory, with their contents.
func files(t *testing.T, directory string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	entries, err := os.ReadDir(directory)
	must(t, err)
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		must(t, err)
		all[entry.Name()] = string(content)
	}
	return all
}

// alterSQLite runs statements on a ledger that is not open.
func alterSQLite(t *testing.T, file string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	must(t, err)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Inspect reads a ledger that is open, and one that is closed, and leaves no file behind.
func TestInspectSQLite(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	file := filepath.Join(directory, "ledger #1?.db")
	l := open(t, "sqlite:"+file, ledger.Options{Pages: 64})
	record(t, l, oneWay(1))
	must(t, l.BeginLayout(t.Context(), 128))
	i := inspect(t, "sqlite:"+file)
	if i.Layouts != (ledger.Layouts{Current: 64, Building: 128}) {
		t.Errorf("layouts %+v", i.Layouts)
	}
	if i.Name != file || i.Engine != "SQLite" || !strings.HasPrefix(i.Version, "3.") || i.Identity != l.Identity() {
		t.Errorf("%+v of %+v", i, l.Identity())
	}
	if i.Schema < 5 || i.Schema != i.Known {
		t.Errorf("schema %d of %d", i.Schema, i.Known)
	}
	record(t, l, oneWay(2))
	shut(t, l)
	before := files(t, directory)
	again := inspect(t, "sqlite:"+file)
	if again.Clock = i.Clock; !reflect.DeepEqual(again, i) {
		t.Errorf("closed: %+v\nopen:   %+v", again, i)
	}
	for name, content := range files(t, directory) {
		if was, there := before[name]; !there || was != content {
			t.Errorf("Inspect created or changed %s", name)
		}
	}
}

// Inspect reads the write-ahead log that a killed process has left.
func TestInspectSQLiteAfterCrash(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	l := open(t, "sqlite:"+filepath.Join(directory, "ledger.db"), ledger.Options{Pages: 64})
	record(t, l, oneWay(1))
	crashed := t.TempDir()
	for name, content := range files(t, directory) {
		if strings.HasSuffix(name, "-shm") || strings.HasSuffix(name, ".lock") {
			continue
		}
		must(t, os.WriteFile(filepath.Join(crashed, name), []byte(content), 0o600))
	}
	if i := inspect(t, "sqlite:"+filepath.Join(crashed, "ledger.db")); i.Identity != l.Identity() {
		t.Errorf("%+v of %+v", i, l.Identity())
	}
	opened := open(t, "sqlite:"+filepath.Join(crashed, "ledger.db"), ledger.Options{})
	if n := count(t, opened); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestInspectSQLiteNone(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	empty := filepath.Join(directory, "empty.db")
	must(t, os.WriteFile(empty, nil, 0o600))
	for _, file := range []string{filepath.Join(directory, "none.db"), filepath.Join(directory, "no", "directory.db"), empty} {
		if i, err := ledger.Inspect(t.Context(), "sqlite:"+file); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file) {
			t.Errorf("%+v, %v, want fs.ErrNotExist naming %s", i, err, file)
		}
	}
	if left := files(t, directory); len(left) != 1 || left["empty.db"] != "" {
		t.Errorf("left behind: %q", left)
	}
	text := filepath.Join(directory, "text.db")
	must(t, os.WriteFile(text, []byte(strings.Repeat("no database ", 100)), 0o600))
	below := filepath.Join(text, "ledger.db") // below a file, not a directory
	if _, err := ledger.Inspect(t.Context(), "sqlite:"+below); err == nil || !strings.Contains(err.Error(), "inspect ledger "+below+": ") {
		t.Errorf("%v, want an error that names %s", err, below)
	}
	for _, url := range []string{"sqlite:" + below, "sqlite:" + text, "sqlite:" + directory, "sqlite:", "mysql://u:secret@h"} {
		_, err := ledger.Inspect(t.Context(), url)
		if err == nil || errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v", url, err)
		}
	}
}

// Inspect reports older and later schemas, and does not change them. Those that Open refuses are
// before Oldest or after Known.
func TestInspectSchema(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	file := filepath.Join(t.TempDir(), "ledger.db")
	url := server.Schema()
	for _, url := range []string{"sqlite:" + file, url} {
		shut(t, open(t, url, ledger.Options{Pages: 8}))
	}
	conn := raw(t, url)
	setVersion := func(version string) {
		t.Helper()
		alterSQLite(t, file, `PRAGMA user_version = `+version)
		execute(t, conn, `UPDATE ledger_version SET version = `+version)
	}
	for version, refused := range map[string]bool{"1": true, "7": false, "99": true} {
		setVersion(version)
		for range 2 {
			for _, url := range []string{"sqlite:" + file, url} {
				i := inspect(t, url)
				if fmt.Sprint(i.Schema) != version || i.Identity.Pages != 8 || (i.Schema < i.Oldest || i.Schema > i.Known) != refused {
					t.Errorf("%s: schema %d of %d to %d, %d pages, want %s of 8 pages", i.Name, i.Schema, i.Oldest, i.Known, i.Identity.Pages, version)
				}
			}
		}
	}
	setVersion("99")
	// A later version may store its identity elsewhere. A known version may not.
	alterSQLite(t, file, `DROP TABLE meta`)
	execute(t, conn, `DROP TABLE meta`)
	for _, url := range []string{"sqlite:" + file, url} {
		if i := inspect(t, url); i.Schema != 99 || i.Identity != (ledger.Identity{}) {
			t.Errorf("%+v", i)
		}
	}
	setVersion("7")
	for _, url := range []string{"sqlite:" + file, url} {
		if i, err := ledger.Inspect(t.Context(), url); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v, %v, want an error", i, err)
		}
	}
	shared{server}.testInspectPostgres(t)
}

func (server shared) testInspectPostgres(t testing.TB) {
	t.Helper()
	url := server.Schema()
	_, err := ledger.Inspect(t.Context(), url)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
	var made bool
	conn := raw(t, url)
	if err := conn.QueryRow(t.Context(), `SELECT to_regnamespace(current_setting('search_path')) IS NOT NULL`).Scan(&made); err != nil || made {
		t.Errorf("Inspect created the schema: %v, %v", made, err)
	}
	l := open(t, url, ledger.Options{Pages: 32})
	must(t, errors.Join(l.BeginLayout(t.Context(), 64), l.SwitchLayout(t.Context(), 64)))
	i := inspect(t, url)
	if i.Layouts != (ledger.Layouts{Current: 64, Leaving: 32}) {
		t.Errorf("layouts %+v", i.Layouts)
	}
	if i.Engine != "PostgreSQL" || i.Version == "" || i.Identity != l.Identity() || i.Schema != i.Known || i.Schema < 4 {
		t.Errorf("%+v of %+v", i, l.Identity())
	}
	if i.Standby || i.ReadOnly || i.Fsync || !i.FullPageWrites || i.SynchronousCommit != "on" {
		t.Errorf("%+v", i)
	}
	if local := inspect(t, url+"&synchronous_commit=local"); local.SynchronousCommit != "local" {
		t.Errorf("%+v", local)
	}
	execute(t, conn, `CREATE ROLE stranger LOGIN`)
	_, err = ledger.Inspect(t.Context(), url+"&user=stranger")
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "user stranger may not use schema") {
		t.Errorf("error %v", err)
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := ledger.Inspect(ctx, url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v of a server that hangs", err)
	}
	server.Kill()
	if _, err := ledger.Inspect(t.Context(), url+"&password=secret"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

// Inspect reports the state of a server that Open refuses, unless another server is better.
func TestInspectReadOnly(t *testing.T) {
	t.Parallel()
	readOnly, primary := pgtest.Start(t, "default_transaction_read_only=on"), pgtest.Start(t, "fsync=on")
	const schema = "&search_path=feedfilter"
	there := open(t, readOnly.URL()+schema+"&default_transaction_read_only=off", ledger.Options{Pages: 16})
	here := open(t, primary.URL()+schema, ledger.Options{Pages: 16})
	if i := inspect(t, readOnly.URL()+schema); !i.ReadOnly || i.Standby || i.Identity != there.Identity() {
		t.Errorf("%+v", i)
	}
	both := strings.Replace(primary.URL(), primary.Addr(), readOnly.Addr()+","+primary.Addr(), 1) + schema
	if i := inspect(t, both); i.ReadOnly || !i.Fsync || i.Identity != here.Identity() {
		t.Errorf("%+v", i)
	}
}
