package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// TestMigrate applies migrations, the third of which is broken at first. A new ledger gets all or
// none. Another one keeps those before the one that failed.
func TestMigrate(t *testing.T) {
	file := temporary(t)
	db, err := connect(file, writerParameters, 1)
	must(t, err)
	defer db.Close()
	version := func() (version, tables int) {
		t.Helper()
		err := db.QueryRowContext(t.Context(), `SELECT user_version, (SELECT count(*) FROM sqlite_schema)
			FROM pragma_user_version`).Scan(&version, &tables)
		must(t, err)
		return version, tables
	}
	migrations := fstest.MapFS{
		"0001_a.sql": {Data: []byte(`CREATE TABLE a (x); CREATE TABLE aa (x);`)},
		"0002_b.sql": {Data: []byte(`CREATE TABLE b (x); -- a comment at the end`)},
		"0003_c.sql": {Data: []byte(`CREATE TABLE c (x); CREATE TABLE a (y);`)},
		"README.md":  {Data: []byte(`not SQL`)},
	}
	for _, c := range []struct{ before, version, tables int }{{0, 0, 0}, {1, 2, 3}} {
		must(t, migrate(t.Context(), db, only(t, migrations, c.before)))
		err = migrate(t.Context(), db, migrations)
		if err == nil || !strings.Contains(err.Error(), "0003_c.sql") {
			t.Errorf("error %v, want one naming 0003_c.sql", err)
		}
		if version, tables := version(); version != c.version || tables != c.tables {
			t.Errorf("version %d with %d tables, want %d with %d", version, tables, c.version, c.tables)
		}
	}
	migrations["0003_c.sql"].Data = []byte(`CREATE TABLE c (x);`)
	for range 2 {
		must(t, migrate(t.Context(), db, migrations))
		if version, tables := version(); version != 3 || tables != 4 {
			t.Errorf("version %d with %d tables, want 3 with 4", version, tables)
		}
	}
}

func TestTooNew(t *testing.T) {
	file := temporary(t)
	l := openFile(t, file, Options{})
	execute(t, l, `PRAGMA user_version = 99`)
	must(t, l.Close())
	_, err := Open(t.Context(), "sqlite:"+file, Options{})
	if !errors.Is(err, ErrTooNew) {
		t.Fatalf("error %v, want ErrTooNew", err)
	}
	for _, part := range []string{file, "99", "1"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %s", err, part)
		}
	}
}

// only returns the first of the migrations.
func only(t *testing.T, migrations fs.FS, versions int) fs.FS {
	t.Helper()
	files, err := fs.Glob(migrations, "*.sql")
	if err != nil || len(files) <= versions {
		t.Fatalf("migrations %v, %v", files, err)
	}
	first := fstest.MapFS{}
	for _, file := range files[:versions] {
		script, err := fs.ReadFile(migrations, file)
		must(t, err)
		first[file] = &fstest.MapFile{Data: script}
	}
	return first
}

func execute(t *testing.T, l *Ledger, script string) {
	t.Helper()
	_, err := file(l).writer.ExecContext(t.Context(), script)
	must(t, err)
}

// TestCreationKilled opens the states that a process may leave if it dies while it creates a
// ledger.
func TestCreationKilled(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, file string){
		"empty file": func(t *testing.T, file string) {
			must(t, createFile(file))
		},
		"journal mode alone": func(t *testing.T, file string) {
			db, err := connect(file, writerParameters, 1)
			must(t, err)
			defer db.Close()
			must(t, useWriteAheadLog(t.Context(), db))
		},
		"schema without identity": func(t *testing.T, file string) {
			l := openFile(t, file, Options{Pages: 512})
			execute(t, l, `DELETE FROM meta`)
			must(t, l.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := temporary(t)
			leave(t, file)
			l := openFile(t, file, Options{Pages: 1})
			if id := l.Identity(); id.Pages != 1 || id.Incarnation == 0 {
				t.Errorf("identity %+v", id)
			}
			if _, err := l.Record(t.Context(), time.Time{}, numbered(3)); err != nil {
				t.Error(err)
			}
			checkRows(t, l, 3)
		})
	}
}

// TestIdentityDamaged checks that Open refuses a damaged identity.
func TestIdentityDamaged(t *testing.T) {
	for _, script := range []string{
		`DELETE FROM meta WHERE name = 'seed'`,
		`DELETE FROM meta WHERE name = 'incarnation'`,
		`UPDATE meta SET value = '0' WHERE name = 'incarnation'`,
		`UPDATE meta SET value = '0' WHERE name = 'pages'`,
		`UPDATE meta SET value = '3' WHERE name = 'pages'`,
		`UPDATE meta SET value = 'x' WHERE name = 'pages'`,
		`DELETE FROM layouts`,
		`UPDATE layouts SET state = 'leaving'`,
		`UPDATE layouts SET pages = 3`,
	} {
		file := temporary(t)
		l := openFile(t, file, Options{})
		execute(t, l, script)
		must(t, l.Close())
		_, err := Open(t.Context(), "sqlite:"+file, Options{})
		if err == nil || !strings.Contains(err.Error(), "identity") || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: error %v, want one naming the identity and the file", script, err)
		}
	}
}

// TestMigrationNames checks that the order of the names is the order of the numbers.
func TestMigrationNames(t *testing.T) {
	for _, kind := range []string{"sqlite", "postgres"} {
		files, err := fs.Glob(migrationsOf(kind), "*.sql")
		if err != nil || len(files) == 0 {
			t.Fatalf("migrations %v, %v", files, err)
		}
		for i, file := range files {
			var number int
			if _, err := fmt.Sscanf(file, "%04d_", &number); err != nil || number != i+1 {
				t.Errorf("migration %d is named %s", i+1, file)
			}
		}
	}
}

// A ledger from before rows could end keeps its rows, which may end from now on.
func TestMigrateFirst(t *testing.T) {
	l := openFile(t, sqliteOf(t, 1, `
		INSERT INTO meta VALUES ('incarnation', '5'), ('seed', '6'), ('pages', '1');
		INSERT INTO pages VALUES (0, 7, 1000);
		INSERT INTO entries VALUES (1, 'u', 'mute', 't', 42)`), Options{})
	row := Row{Hash: unstored(1), Owner: "u", Kind: "mute", Target: "t", Since: time.UnixMicro(42).UTC()}
	if rows, s, err := l.Snapshot(t.Context(), 0); err != nil || s.Sequence != 7 || !slices.Equal(rows, []Row{row}) {
		t.Errorf("%v at %d, %v, want %v at 7", rows, s.Sequence, err, row)
	}
	row.Until = time.UnixMicro(50).UTC()
	_, err := l.Record(t.Context(), time.UnixMicro(44), []Change{{Rows: []Row{row}}})
	must(t, err)
	if rows, err := l.Ended(t.Context(), time.UnixMicro(50), 9); err != nil || !slices.Equal(rows, []Row{row}) {
		t.Errorf("ended %v, %v, want %v", rows, err, row)
	}
}
