package ledger_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, url string, o ledger.Options) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), url, o)
	must(t, err)
	t.Cleanup(func() { shut(t, l) })
	return l
}

func shut(t testing.TB, l *ledger.Ledger) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func record(t testing.TB, l *ledger.Ledger, changes ...ledger.Change) {
	t.Helper()
	_, err := l.Record(t.Context(), time.Time{}, changes)
	must(t, err)
}

// scattered spreads the numbers 0, 1, 2, ... over all hashes (Fibonacci hashing).
func scattered(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }

// twoWay returns a two-way block, mostly on two pages.
func twoWay(i int) ledger.Change {
	a, b := scattered(2*i+1), scattered(2*i+2)
	since := time.UnixMicro(1_700_000_000_000_000 + int64(i))
	owner, target := fmt.Sprintf("user%d", 2*i+1), fmt.Sprintf("user%d", 2*i+2)
	return ledger.Change{Rows: []ledger.Row{
		{Hash: a, Owner: owner, Kind: "block", Target: target, Since: since},
		{Hash: b, Owner: target, Kind: "blocked-by", Target: owner, Since: since},
	}}
}

func oneWay(i int) ledger.Change { return ledger.Change{Rows: twoWay(i).Rows[:1]} }

func checkMode(t *testing.T, name string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Error(err)
	} else if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", name, got, want)
	}
}

func TestModes(t *testing.T) {
	existing := t.TempDir()
	must(t, os.Chmod(existing, 0o755))
	file := filepath.Join(existing, "a", "b", "ledger.db")
	record(t, open(t, "sqlite:"+file, ledger.Options{}), oneWay(1))
	checkMode(t, existing, 0o755)
	checkMode(t, filepath.Join(existing, "a"), 0o700)
	checkMode(t, filepath.Join(existing, "a", "b"), 0o700)
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		checkMode(t, file+suffix, 0o600)
	}
}

// TestFileNames opens files whose names have a meaning in a URI.
func TestFileNames(t *testing.T) {
	directory := t.TempDir()
	t.Chdir(directory)
	for _, name := range []string{
		"ledger.db", "./a b.db", "what?mode=ro&x=y.db", "100%.db", "%41.db", "#1.db", "a+b;c.db",
		"ä'\".db", "file:x.db", ":memory:", "\xff.db", "sqlite:x.db",
		filepath.Join(directory, "abs?olute", "ledger.db"), "//" + filepath.Join(directory, "three"),
	} {
		l := open(t, "sqlite:"+name, ledger.Options{})
		record(t, l, oneWay(1))
		shut(t, l)
		info, err := os.Stat(name)
		if err != nil || info.Size() < 4096 {
			t.Errorf("no ledger at %q: %v", name, err)
		}
		if got := count(t, open(t, "sqlite:"+name, ledger.Options{})); got != 1 {
			t.Errorf("%d rows in %q, want 1", got, name)
		}
	}
}

// count returns the number of rows of the ledger.
func count(t testing.TB, l *ledger.Ledger) (n int) {
	t.Helper()
	_, err := l.Changed(t.Context(), "", func(page uint32, _ ledger.PageState) error {
		rows, _, err := l.Snapshot(t.Context(), page)
		n += len(rows)
		return err
	})
	must(t, err)
	return n
}

func TestBadURLs(t *testing.T) {
	t.Chdir(t.TempDir())
	for url, names := range map[string]string{
		"":                         "sqlite:<file>",
		"ledger.db":                "sqlite:<file>",
		"sqlite:":                  "sqlite:<file>",
		"sqlite://ledger.db":       "without //",
		"SQLite:ledger.db":         `"SQLite"`,
		"mysql://u:secret@host/db": `"mysql"`,
		"sqlite:a\x00b":            "invalid argument",
	} {
		_, err := ledger.Open(t.Context(), url, ledger.Options{})
		if err == nil || !strings.Contains(err.Error(), names) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v for %q, want one naming %s", err, url, names)
		}
	}
	if left, err := os.ReadDir("."); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestNoLedger opens files that are not ledgers.
func TestNoLedger(t *testing.T) {
	directory := t.TempDir()
	foreign := filepath.Join(directory, "foreign.db")
	db, err := sql.Open("sqlite", foreign)
	must(t, err)
	_, err = db.ExecContext(t.Context(), `CREATE TABLE precious (x); INSERT INTO precious VALUES (1)`)
	must(t, err)
	must(t, db.Close())
	for name, content := range map[string]string{
		"short": "hello", "text": strings.Repeat("hello\n", 2000), "zeros": strings.Repeat("\x00", 8192),
	} {
		must(t, os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600))
	}
	for name, says := range map[string]string{
		"foreign.db": "not a ledger", "short": "not a database", "text": "not a database", "zeros": "not a database",
	} {
		file := filepath.Join(directory, name)
		before, err := os.ReadFile(file)
		must(t, err)
		_, err = ledger.Open(t.Context(), "sqlite:"+file, ledger.Options{})
		if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v for %s, want one naming the file and %q", err, name, says)
		}
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s was written to (%v)", name, err)
		}
	}
	for _, name := range []string{directory, filepath.Join(directory, "text", "ledger.db"), os.DevNull} {
		_, err := ledger.Open(t.Context(), "sqlite:"+name, ledger.Options{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v for %s, want one naming it", err, name)
		}
	}
}

// TestDamaged opens damaged ledgers. Open or a read of the rows must return an error.
func TestDamaged(t *testing.T) {
	const rows = 3000
	file := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, "sqlite:"+file, ledger.Options{Pages: 1})
	var changes []ledger.Change
	for i := range rows {
		changes = append(changes, oneWay(i))
	}
	record(t, l, changes...)
	shut(t, l)
	intact, err := os.ReadFile(file)
	must(t, err)
	for name, damage := range map[string]func(b []byte) []byte{
		"schema overwritten":  func(b []byte) []byte { return overwrite(b, 100, 4096) },
		"header overwritten":  func(b []byte) []byte { return overwrite(b, 0, 100) },
		"rows overwritten":    func(b []byte) []byte { return overwrite(b, 4096, len(b)) },
		"second half missing": func(b []byte) []byte { return b[:len(b)/2] },
		"all but one page":    func(b []byte) []byte { return b[:4096] },
	} {
		must(t, os.WriteFile(file, damage(bytes.Clone(intact)), 0o600))
		l, err := ledger.Open(t.Context(), "sqlite:"+file, ledger.Options{})
		if err != nil {
			if !strings.Contains(err.Error(), file) {
				t.Errorf("%s: error %q does not name the file", name, err)
			}
			continue
		}
		if got, _, err := l.Snapshot(t.Context(), 0); err == nil {
			t.Errorf("%s: %d rows of %d and no error", name, len(got), rows)
		}
		shut(t, l)
	}
}

func overwrite(b []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		b[i] = byte(i*i>>3) | 1
	}
	return b
}

func TestReadOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions do not bind root")
	}
	directory := t.TempDir()
	file := filepath.Join(directory, "ledger.db")
	shut(t, open(t, "sqlite:"+file, ledger.Options{}))
	refused := func(name string) {
		t.Helper()
		_, err := ledger.Open(t.Context(), "sqlite:"+name, ledger.Options{})
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want fs.ErrPermission naming %s", err, name)
		}
	}
	chmod := func(name string, mode fs.FileMode) {
		t.Helper()
		must(t, os.Chmod(name, mode))
	}
	chmod(file, 0o400)
	refused(file)
	chmod(file, 0o600)
	chmod(directory, 0o500)
	refused(filepath.Join(directory, "another.db"))
	refused(filepath.Join(directory, "another", "ledger.db"))
	chmod(directory, 0o700)
	shut(t, open(t, "sqlite:"+file, ledger.Options{}))
}
