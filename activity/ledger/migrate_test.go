package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// TestMigrate applies migrations of which the third is broken at first.
func TestMigrate(t *testing.T) {
	file := temporary(t)
	db, err := connect(file, writerParameters, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	version := func() (version, tables int) {
		t.Helper()
		err := db.QueryRowContext(t.Context(), `SELECT user_version, (SELECT count(*) FROM sqlite_schema)
			FROM pragma_user_version`).Scan(&version, &tables)
		if err != nil {
			t.Fatal(err)
		}
		return version, tables
	}
	migrations := fstest.MapFS{
		"0001_a.sql": {Data: []byte(`CREATE TABLE a (x); CREATE TABLE aa (x);`)},
		"0002_b.sql": {Data: []byte(`CREATE TABLE b (x); -- a comment at the end`)},
		"0003_c.sql": {Data: []byte(`CREATE TABLE c (x); CREATE TABLE a (y);`)},
		"README.md":  {Data: []byte(`not SQL`)},
	}
	err = migrate(t.Context(), db, migrations)
	if err == nil || !strings.Contains(err.Error(), "0003_c.sql") {
		t.Errorf("error %v, want one naming 0003_c.sql", err)
	}
	if version, tables := version(); version != 2 || tables != 3 {
		t.Errorf("version %d with %d tables, want 2 with 3", version, tables)
	}
	migrations["0003_c.sql"].Data = []byte(`CREATE TABLE c (x);`)
	for range 2 {
		if err := migrate(t.Context(), db, migrations); err != nil {
			t.Fatal(err)
		}
		if version, tables := version(); version != 3 || tables != 4 {
			t.Errorf("version %d with %d tables, want 3 with 4", version, tables)
		}
	}
}

func TestTooNew(t *testing.T) {
	file := temporary(t)
	l := openFile(t, file, Options{})
	execute(t, l, `PRAGMA user_version = 99`)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
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

func execute(t *testing.T, l *Ledger, script string) {
	t.Helper()
	if _, err := l.writer.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

// TestCreationKilled opens what a process may leave that dies while it makes a
// ledger.
func TestCreationKilled(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, file string){
		"empty file": func(t *testing.T, file string) {
			if err := createFile(file); err != nil {
				t.Fatal(err)
			}
		},
		"journal mode alone": func(t *testing.T, file string) {
			db, err := connect(file, writerParameters, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := useWriteAheadLog(t.Context(), db); err != nil {
				t.Fatal(err)
			}
		},
		"schema without identity": func(t *testing.T, file string) {
			l := openFile(t, file, Options{Pages: 512})
			execute(t, l, `DELETE FROM meta`)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := temporary(t)
			leave(t, file)
			l := openFile(t, file, Options{Pages: 1})
			if id := l.Identity(); id.Pages != 1 || id.Incarnation == 0 {
				t.Errorf("identity %+v", id)
			}
			if _, err := l.Record(t.Context(), numbered(3)); err != nil {
				t.Error(err)
			}
			checkRows(t, l, 3)
		})
	}
}

// TestIdentityDamaged refuses an identity that nothing can be built on.
func TestIdentityDamaged(t *testing.T) {
	for _, script := range []string{
		`DELETE FROM meta WHERE name = 'seed'`,
		`DELETE FROM meta WHERE name = 'incarnation'`,
		`UPDATE meta SET value = '0' WHERE name = 'incarnation'`,
		`UPDATE meta SET value = '0' WHERE name = 'pages'`,
		`UPDATE meta SET value = '3' WHERE name = 'pages'`,
		`UPDATE meta SET value = 'x' WHERE name = 'pages'`,
	} {
		file := temporary(t)
		l := openFile(t, file, Options{})
		execute(t, l, script)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), "sqlite:"+file, Options{})
		if err == nil || !strings.Contains(err.Error(), "identity") || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: error %v, want one naming the identity and the file", script, err)
		}
	}
}

// TestMigrationNames keeps the order of the files that of their numbers.
func TestMigrationNames(t *testing.T) {
	files, err := fs.Glob(sqliteMigrations, "migrations/sqlite/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("migrations %v, %v", files, err)
	}
	for i, file := range files {
		var number int
		name := strings.TrimPrefix(file, "migrations/sqlite/")
		if _, err := fmt.Sscanf(name, "%04d_", &number); err != nil || number != i+1 {
			t.Errorf("migration %d is named %s", i+1, name)
		}
	}
}
