package follow

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
)

// wantHas checks what the ledger has once it has all that the source has committed.
func (a *app) wantHas(after string, want ...string) {
	a.t.Helper()
	a.reached()
	if got := a.has(); !slices.Equal(got, want) {
		a.t.Fatalf("after %s: %q, want %q", after, got, want)
	}
}

// publication returns what tells the publication from another one, and from itself once altered.
func (a *app) publication() (text string) {
	a.t.Helper()
	must(a.t, a.conn.QueryRow(a.t.Context(), `SELECT concat_ws(' ', oid, xmin) FROM pg_publication WHERE pubname = 'feedfilter_app'`).Scan(&text))
	return text
}

const partitionedSQL = `CREATE TABLE t (u text NOT NULL, v text NOT NULL, PRIMARY KEY (u, v)) PARTITION BY LIST (u);
	CREATE TABLE t1 PARTITION OF t FOR VALUES IN ('1'); CREATE TABLE t2 PARTITION OF t DEFAULT;
	CREATE TABLE other (x int PRIMARY KEY);`

// TestWidePublications: a publication of all tables, or of the tables of a schema, is used as it is
// if it publishes what is needed. Nothing is lost when the schema leaves it for a time.
func TestWidePublications(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]string{"all tables": "ALL TABLES", "a schema": "TABLES IN SCHEMA public", "both": "TABLE other, TABLES IN SCHEMA public"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAppOf(t, partitionedSQL, identityFile, activity.BuiltinKinds())
			a.exec(`CREATE PUBLICATION feedfilter_app FOR ` + of + ` WITH (publish_via_partition_root = true)`)
			made := a.publication()
			a.exec(`INSERT INTO t VALUES ('1', '2'), ('2', '3')`)
			f := a.follower("one")
			a.start(f)
			a.wantHas("a full read", "block 1 2", "block 2 3")
			if is := a.publication(); is != made {
				t.Errorf("the publication was %s, and is %s", made, is)
			}
			a.exec(`INSERT INTO t VALUES ('1', '4'); DELETE FROM t WHERE u = '2'; INSERT INTO other VALUES (1); UPDATE other SET x = 2; TRUNCATE other`)
			a.wantHas("writes", "block 1 2", "block 1 4")
			if read := f.Stats().Snapshots; read != 1 {
				t.Errorf("the tables were read %d times", read)
			}
			if name == "all tables" {
				return
			}
			for _, sql := range []string{
				`ALTER PUBLICATION feedfilter_app DROP TABLES IN SCHEMA public`, `DELETE FROM t WHERE v = '2'`, `INSERT INTO t VALUES ('1', '5')`,
				`ALTER PUBLICATION feedfilter_app ADD TABLES IN SCHEMA public`,
			} {
				a.exec(sql)
			}
			a.wantHas("the schema was not published", "block 1 4", "block 1 5")
		})
	}
}

// TestWidePublicationLacks: a publication of all tables that lacks something is not replaced. The
// follower stops, and says what to run.
func TestWidePublicationLacks(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"ALL TABLES", "TABLES IN SCHEMA public"} {
		a := newAppOf(t, partitionedSQL, identityFile, activity.BuiltinKinds())
		a.exec(`CREATE PUBLICATION feedfilter_app FOR ` + how)
		made := a.publication()
		err := a.follower("one").Run(t.Context())
		if _, stop := errors.AsType[*StopError](err); !stop || !strings.Contains(err.Error(), `ALTER PUBLICATION "feedfilter_app" SET (`) {
			t.Errorf("%s: %v", how, err)
		}
		if is := a.publication(); is != made {
			t.Errorf("%s: the publication was %s, and is %s", how, made, is)
		}
		a.exec(`ALTER PUBLICATION "feedfilter_app" SET (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)`)
		report, err := a.follower("one").Check(t.Context(), false)
		if err != nil || len(report.Problems) > 0 {
			t.Errorf("%s: mended: %q, %v", how, report.Problems, err)
		}
	}
}

// TestNamedPublication: a publication of the app, whatever its name, is used as it is. If it lacks
// something, it is not replaced, and what others get from it stays. One that is missing is created.
func TestNamedPublication(t *testing.T) {
	t.Parallel()
	const name = `It's "all", of them`
	a := newAppOf(t, `CREATE TABLE t (u text, v text, PRIMARY KEY (u, v)); CREATE TABLE other (x int PRIMARY KEY); INSERT INTO t VALUES ('1', '2')`,
		identityFile, activity.BuiltinKinds())
	follower := func() *Follower {
		return New(a.recorder, Options{
			Name: "app", URL: a.server.URL(), Publication: name, Tables: slices.Clone(a.tables), Holder: "one", Create: true,
			TempDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
	}
	of := func() (text string) {
		must(t, a.conn.QueryRow(t.Context(), `SELECT coalesce(max(concat_ws(' ', oid, xmin)), 'none') FROM pg_publication WHERE pubname = $1`, name).Scan(&text))
		return text
	}
	a.exec(`CREATE PUBLICATION ` + quote(name) + ` FOR TABLE other WITH (publish = 'insert')`)
	made := of()
	err := follower().Run(t.Context())
	if _, stop := errors.AsType[*StopError](err); !stop || !strings.Contains(err.Error(), "ALTER PUBLICATION "+quote(name)+" SET (") {
		t.Errorf("a publication that lacks the table: %v", err)
	}
	if is := of(); is != made {
		t.Errorf("the publication was %s, and is %s", made, is)
	}
	a.exec(`DROP PUBLICATION ` + quote(name))
	report, err := follower().Check(t.Context(), false)
	must(t, err)
	for _, p := range report.Problems { // somebody may run it later, when the app has made its own
		if strings.Contains(p.Mend, "DROP PUBLICATION") {
			t.Errorf("%s", p)
		}
	}
	for _, how := range []string{"it is made", "it is there"} {
		if how == "it is there" {
			a.exec(`DROP PUBLICATION ` + quote(name) + `; CREATE PUBLICATION ` + quote(name) + ` FOR ALL TABLES`) // without partitions
		}
		f := follower()
		made = of()
		stop := a.start(f)
		a.exec(`INSERT INTO t VALUES ('1', '3')`)
		a.wantHas(how, "block 1 2", "block 1 3")
		a.exec(`DELETE FROM t WHERE v = '3'`)
		a.wantHas(how+", and a delete", "block 1 2")
		stop()
		if is := of(); is != made && made != "none" {
			t.Errorf("%s: the publication was %s, and is %s", how, made, is)
		}
	}
}

// TestColumnGrants: a role needs to read the columns of the file, and no others. What it may not
// read is named.
func TestColumnGrants(t *testing.T) {
	t.Parallel()
	a := newAppOf(t, `CREATE TABLE t (u text, v text, secret text); ALTER TABLE t REPLICA IDENTITY FULL;
		CREATE PUBLICATION feedfilter_app FOR TABLE ONLY t WITH (publish_via_partition_root = true);
		CREATE ROLE reader LOGIN REPLICATION; INSERT INTO t VALUES ('1', '2', 'x')`, identityFile, activity.BuiltinKinds())
	f := a.follower("one")
	f.source.url, f.options.Create = strings.Replace(f.source.url, "postgres@", "reader@", 1), false
	for _, want := range []string{
		"public.t may not be read; run:\n  GRANT SELECT ON public.t TO \"reader\";",
		"public.t: \"v\" may not be read; run:\n  GRANT SELECT (\"v\") ON public.t TO \"reader\";",
	} {
		report, err := f.Check(t.Context(), true)
		must(t, err)
		if len(report.Problems) != 1 || report.Problems[0].String() != want {
			t.Errorf("problems %q, want %q", report.Problems, want)
		}
		a.exec(`GRANT SELECT (u) ON t TO reader`)
	}
	a.exec(`GRANT SELECT (v) ON t TO reader`)
	report, err := f.Check(t.Context(), true)
	if err != nil || len(report.Problems) > 0 || report.Counted[0].Count != 1 {
		t.Fatalf("with the columns: %+v, %v", report, err)
	}
	a.start(f)
	a.exec(`INSERT INTO t VALUES ('1', '3', 'y')`)
	a.exec(`UPDATE t SET v = '4' WHERE v = '2'`)
	a.wantHas("writes", "block 1 3", "block 1 4")
}

// TestEnumAltered: a value of an enum is renamed, also of one within a domain or an array. The
// stream does not show it, and the rows have another text.
func TestEnumAltered(t *testing.T) {
	t.Parallel()
	for kind, value := range map[string]string{"mood": "'red'", "tone": "'red'", "mood[]": "'{red}'"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := identityFile
			if strings.HasSuffix(kind, listMark) {
				file = strings.Replace(file, `"v"`, `"v[]"`, 1)
			}
			a := newAppOf(t, typesSQL+`CREATE TABLE t (u text, v `+kind+`); INSERT INTO t VALUES ('1', `+value+`)`, file, activity.BuiltinKinds())
			a.start(a.follower("one"))
			a.wantHas("a full read", "block 1 red")
			a.exec(`ALTER TYPE mood RENAME VALUE 'red' TO 'blue'`)
			a.exec(`INSERT INTO t SELECT '2', v FROM t`)
			a.wantHas("the value was renamed", "block 1 blue", "block 2 blue")
		})
	}
}
