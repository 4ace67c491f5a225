package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// TestMigrate applies migrations, the third of which is broken at first.
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
		if err != nil {
			t.Fatal(err)
		}
		first[file] = &fstest.MapFile{Data: script}
	}
	return first
}

func execute(t *testing.T, l *Ledger, script string) {
	t.Helper()
	if _, err := file(l).writer.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

// TestCreationKilled opens the states that a process may leave if it dies while it creates a
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
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
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

// TestMigrateFirst opens a ledger from before rows could end.
func TestMigrateFirst(t *testing.T) {
	file := temporary(t)
	db, err := connect(file, writerParameters, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), db, only(t, migrationsOf("sqlite"), 1)); err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `
		INSERT INTO meta VALUES ('incarnation', '5'), ('seed', '6'), ('pages', '2');
		INSERT INTO pages VALUES (0, 7, 1000), (1, 3, 2000);
		INSERT INTO entries VALUES (?, 'u', 'mute', 't', 42), (?, 'u', 'hide', 'p', 43)`, stored(1), stored(1<<63))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	l := openFile(t, file, Options{})
	if id := l.Identity(); id.Incarnation == 5 || id.Incarnation == 0 || id.Seed != 6 || id.Pages != 2 {
		t.Errorf("identity %+v", id)
	}
	old := Row{Hash: 1, Owner: "u", Kind: "mute", Target: "t", Since: time.UnixMicro(42).UTC()}
	if rows, s, err := l.Snapshot(t.Context(), 0); err != nil || s.Sequence != 7 || len(rows) != 1 || rows[0] != old {
		t.Errorf("%v at %d, %v, want %v at 7", rows, s.Sequence, err, old)
	}
	poll := func(since Cursor, want map[uint32]uint64) Cursor {
		t.Helper()
		got := map[uint32]uint64{}
		progress, err := l.Changed(t.Context(), since, func(page uint32, s PageState) error {
			got[page] = s.Sequence
			return nil
		})
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("changed %v, %v, want %v", got, err, want)
		}
		return progress.Next
	}
	next := poll("", map[uint32]uint64{0: 7, 1: 3})
	next = poll(next, map[uint32]uint64{})
	ends := old
	ends.Until = time.UnixMicro(50).UTC()
	if _, err := l.Record(t.Context(), time.UnixMicro(44), []Change{{Rows: []Row{ends}}}); err != nil {
		t.Error(err)
	}
	if rows, err := l.Ended(t.Context(), time.UnixMicro(50), 9); err != nil || len(rows) != 1 || rows[0] != ends {
		t.Errorf("ended %v, %v, want %v", rows, err, ends)
	}
	if _, err := l.Record(t.Context(), time.UnixMicro(50), []Change{{Rows: []Row{ends}, Remove: true, Ended: true}}); err != nil {
		t.Error(err)
	}
	poll(next, map[uint32]uint64{0: 8})
	list, err := l.List(t.Context(), ListQuery{Hash: 1 << 63, Owner: "u", Kind: "hide", Limit: 9})
	if err != nil || len(list) != 1 || list[0].Since != time.UnixMicro(43).UTC() {
		t.Errorf("list %v, %v", list, err)
	}
}
