package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
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
	migrations := []migration{
		{"0004_a.sql", `CREATE TABLE a (x); CREATE TABLE aa (x);`, 4},
		{"0005_b.sql", `CREATE TABLE b (x); -- a comment at the end`, 5},
		{"0006_c.sql", `CREATE TABLE c (x); CREATE TABLE a (y);`, 6},
	}
	for _, c := range []struct{ before, version, tables int }{{0, 0, 0}, {1, 5, 3}} {
		if c.before > 0 {
			must(t, migrate(t.Context(), db, migrations[:c.before]))
		}
		err = migrate(t.Context(), db, migrations)
		if err == nil || !strings.Contains(err.Error(), "0006_c.sql") {
			t.Errorf("error %v, want one naming 0006_c.sql", err)
		}
		if version, tables := version(); version != c.version || tables != c.tables {
			t.Errorf("version %d with %d tables, want %d with %d", version, tables, c.version, c.tables)
		}
	}
	migrations[2].script = `CREATE TABLE c (x);`
	for range 2 {
		must(t, migrate(t.Context(), db, migrations))
		if version, tables := version(); version != 6 || tables != 4 {
			t.Errorf("version %d with %d tables, want 6 with 4", version, tables)
		}
	}
}

// TestUnsupported opens ledgers with the schema of a later version, and of one before the first
// release.
func TestUnsupported(t *testing.T) {
	file := temporary(t)
	l := openFile(t, file, Options{})
	oldest, latest := supported(migrationsFor(t, "sqlite"))
	must(t, l.Close())
	for version, c := range map[int]struct {
		want  error
		names []string
	}{
		latest + 1: {ErrTooNew, []string{file, fmt.Sprint(latest + 1), fmt.Sprint("at most ", latest)}},
		oldest - 1: {ErrTooOld, []string{file, fmt.Sprint(oldest - 1), fmt.Sprint("at least ", oldest), "start version 0.1.0"}},
		1:          {ErrTooOld, []string{file, "1", fmt.Sprint("at least ", oldest), "start version 0.1.0"}},
	} {
		setVersion(t, file, version)
		_, err := Open(t.Context(), "sqlite:"+file, Options{})
		if !errors.Is(err, c.want) {
			t.Errorf("version %d: error %v, want %v", version, err, c.want)
			continue
		}
		for _, part := range c.names {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not name %s", err, part)
			}
		}
		if now := queryFile(file)(t, `PRAGMA user_version`); number(now[0][0]) != int64(version) {
			t.Errorf("version %v after a refusal, want %d", now, version)
		}
	}
	setVersion(t, file, latest)
	openFile(t, file, Options{})
}

func setVersion(t *testing.T, file string, version int) {
	t.Helper()
	db, err := connect(file, writerParameters, 1)
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), fmt.Sprint(`PRAGMA user_version = `, version))
	must(t, err)
}

func migrationsFor(t *testing.T, kind string) []migration {
	t.Helper()
	all, err := migrationsOf(kind)
	must(t, err)
	return all
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

// TestMigrationVersions checks that the first migration leads to the version of release 0.1.0, and
// each later one to the next version.
func TestMigrationVersions(t *testing.T) {
	for kind, released := range map[string]int{"sqlite": 7, "postgres": 6} {
		for i, m := range migrationsFor(t, kind) {
			if m.version != released+i {
				t.Errorf("migration %d of %s is %s, want version %d", i+1, kind, m.file, released+i)
			}
		}
	}
}
