package follow

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
)

// identities are tables t with each key and replica identity that there is. PostgreSQL refuses a
// deferrable index as an identity.
func identities() map[string]string {
	const plain = `CREATE TABLE t (id int NOT NULL, u text NOT NULL, v text NOT NULL, note text); `
	const parts = `CREATE TABLE t (id int NOT NULL, u text NOT NULL, v text NOT NULL, note text) PARTITION BY LIST (v);
		CREATE TABLE t2 PARTITION OF t FOR VALUES IN ('2'); CREATE TABLE t_rest PARTITION OF t DEFAULT; `
	all := map[string]string{
		"no key":                           ``,
		"another primary key":              `ALTER TABLE t ADD PRIMARY KEY (id, v);`,
		"a primary key":                    `ALTER TABLE t ADD PRIMARY KEY (u, v);`,
		"a deferrable primary key":         `ALTER TABLE t ADD PRIMARY KEY (u, v) DEFERRABLE;`,
		"a deferrable unique key":          `ALTER TABLE t ADD UNIQUE (u, v) DEFERRABLE;`,
		"an index":                         `CREATE UNIQUE INDEX x ON t (u, v); ALTER TABLE t REPLICA IDENTITY USING INDEX x;`,
		"an index of other columns":        `CREATE UNIQUE INDEX x ON t (id, v); ALTER TABLE t REPLICA IDENTITY USING INDEX x;`,
		"an index, and a key":              `ALTER TABLE t ADD PRIMARY KEY (u, v); CREATE UNIQUE INDEX x ON t (id, v); ALTER TABLE t REPLICA IDENTITY USING INDEX x;`,
		"an index that was dropped":        `CREATE UNIQUE INDEX x ON t (u, v); ALTER TABLE t REPLICA IDENTITY USING INDEX x; DROP INDEX x;`,
		"full":                             `ALTER TABLE t REPLICA IDENTITY FULL;`,
		"nothing":                          `ALTER TABLE t REPLICA IDENTITY NOTHING;`,
		"nothing, and a key":               `ALTER TABLE t ADD PRIMARY KEY (u, v); ALTER TABLE t REPLICA IDENTITY NOTHING;`,
		"full, and a deferrable key":       `ALTER TABLE t ADD PRIMARY KEY (u, v) DEFERRABLE; ALTER TABLE t REPLICA IDENTITY FULL;`,
		"a key of the partitions, invalid": `ALTER TABLE ONLY t ADD PRIMARY KEY (u, v);`,
	}
	tables := make(map[string]string)
	for name, sql := range all {
		tables["plain: "+name] = plain + sql
		tables["partitioned: "+name] = parts + sql
		if leaf := strings.NewReplacer("TABLE t ", "TABLE t2 ", "ON t ", "ON t2 ", "ONLY t ", "t2 ").Replace(sql); sql != "" {
			tables["a partition: "+name] = parts + leaf
		}
	}
	return tables
}

const identityFile = `{"tables": [{"table": "t", "kind": "block", "user": "u", "target": "v"}]}`

// TestIdentities makes tables with some of the keys and identities ready, chosen at random: some 6
// of 41. TestLongIdentities takes all.
func TestIdentities(t *testing.T) {
	t.Parallel()
	wantReady(t, oneIn(7))
}

func TestLongIdentities(t *testing.T) {
	if testing.Short() {
		t.Skip("TestIdentities takes some of them")
	}
	wantReady(t, func() bool { return true })
}

// wantReady makes tables ready, by --create or by what a check says. Then the app's INSERT, UPDATE
// and DELETE succeed, and what they change is followed.
func wantReady(t *testing.T, takes func() bool) {
	t.Helper()
	a := newAppOf(t, "", identityFile, activity.BuiltinKinds())
	for name, sql := range identities() {
		if !takes() {
			continue
		}
		for _, create := range []bool{true, false} {
			t.Logf("%s, create %v", name, create)
			a.exec(sql)
			f := a.follower("one")
			f.options.Create = create
			if !create { // somebody runs what the check says
				report, err := f.Check(t.Context(), true)
				must(t, err)
				for _, p := range report.Problems {
					a.exec(p.Mend)
				}
			}
			stop := a.start(f)
			a.reached()
			a.wantWrites()
			stop()
			a.exec(`DROP PUBLICATION feedfilter_app; DROP TABLE t`)
		}
	}
}

// wantWrites writes to the table t as an app does, and checks that it is followed.
func (a *app) wantWrites() {
	a.t.Helper()
	for _, step := range []struct {
		sql  string
		want []string
	}{
		{`INSERT INTO t VALUES (1, '1', '2'), (2, '1', '3'), (3, '1', '4')`, []string{"block 1 2", "block 1 3", "block 1 4"}},
		{`UPDATE t SET note = 'x'`, []string{"block 1 2", "block 1 3", "block 1 4"}},
		{`UPDATE t SET u = '7' WHERE v = '3'`, []string{"block 1 2", "block 1 4", "block 7 3"}},
		{`UPDATE t SET v = '5' WHERE v = '2'`, []string{"block 1 4", "block 1 5", "block 7 3"}}, // of another partition
		{`DELETE FROM t WHERE v = '4'`, []string{"block 1 5", "block 7 3"}},
		{`DELETE FROM t`, nil},
	} {
		a.exec(step.sql)
		a.reached()
		if got := a.has(); !slices.Equal(got, step.want) {
			a.t.Fatalf("after %s: %q, want %q", step.sql, got, step.want)
		}
	}
}

// TestIdentitiesUnready: while a table cannot be followed for another reason, neither --create nor
// somebody who runs all the SQL that a check prints makes a write of the app fail.
func TestIdentitiesUnready(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, file string }{
		"other columns":   {"", strings.NewReplacer(`"u"`, `"a"`, `"v"`, `"b"`).Replace(identityFile)},
		"another column":  {"", strings.Replace(identityFile, `"v"`, `"b"`, 1)},
		"a missing table": {"", strings.Replace(identityFile, `[{`, `[{"table": "gone", "kind": "hide", "user": "a", "target": "b"}, {`, 1)},
		"an unlogged table": {
			"CREATE UNLOGGED TABLE fast (a int, b int)",
			strings.Replace(identityFile, `[{`, `[{"table": "fast", "kind": "hide", "user": "a", "target": "b"}, {`, 1),
		},
		"no rights": {"CREATE ROLE reader LOGIN REPLICATION", identityFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const table = `CREATE TABLE t (id int, u text, v text, note text);`
			a := newAppOf(t, table+c.sql, c.file, activity.BuiltinKinds())
			write := func(after string) {
				t.Helper()
				for _, sql := range []string{`INSERT INTO t VALUES (1, '1', '2')`, `UPDATE t SET v = '3'`, `DELETE FROM t`} {
					if _, err := a.conn.Exec(t.Context(), sql); err != nil {
						t.Errorf("after %s: %s: %v", after, sql, err)
					}
				}
			}
			f := a.follower("one")
			if strings.Contains(c.sql, "reader") {
				f.source.url = strings.Replace(f.source.url, "postgres@", "reader@", 1)
			} else if err := f.Run(t.Context()); err == nil {
				t.Error("it is followed")
			}
			write("--create")
			report, err := f.Check(t.Context(), true)
			must(t, err)
			for _, p := range report.Problems {
				if p.Mend != "" {
					_, _ = a.conn.Exec(t.Context(), p.Mend) // some of it may fail
				}
			}
			write("what the check says")
		})
	}
}

// TestToasted: columns that are stored out of line, and that an update does not change, are not in
// the stream. What they say is followed all the same, whether they are part of the key or not.
func TestToasted(t *testing.T) {
	t.Parallel()
	user, long := strings.Repeat("u", 200), strings.Repeat("x", 10_000)
	a := newAppOf(t, "", identityFile, activity.BuiltinKinds())
	want := func(after string, want ...string) {
		t.Helper()
		a.reached()
		if got := a.has(); !slices.Equal(got, want) {
			t.Fatalf("after %s: %q", after, got)
		}
	}
	of := func(digit string) string { return strings.Repeat(digit, 200) }
	const columns = `u text NOT NULL, v text NOT NULL, state text, big text, note text`
	for name, sql := range map[string]string{
		"in the key":     `CREATE TABLE t (` + columns + `, PRIMARY KEY (u, v));`,
		"in an index":    `CREATE TABLE t (` + columns + `); CREATE UNIQUE INDEX x ON t (u, v); ALTER TABLE t REPLICA IDENTITY USING INDEX x;`,
		"in no key":      `CREATE TABLE t (` + columns + `); ALTER TABLE t REPLICA IDENTITY FULL;`,
		"in a partition": `CREATE TABLE t (` + columns + `) PARTITION BY HASH (v); CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0);`,
		"in partitions": `CREATE TABLE t (` + columns + `, PRIMARY KEY (u, v)) PARTITION BY LIST (v);
			CREATE TABLE t0 PARTITION OF t FOR VALUES IN ('` + of("2") + `'); CREATE TABLE t1 PARTITION OF t DEFAULT;`,
	} {
		for _, where := range []conditions{nil, {"state": long}} {
			t.Logf("%s, where %d", name, len(where))
			a.tables[0].Where = where
			a.exec(sql)
			a.storeExternally()
			stop := a.start(a.follower("one"))
			a.exec(`INSERT INTO t VALUES ($1, $2, $3, $3)`, user, of("1"), long)
			a.wantStoredExternally(4)
			want("an insert", "block "+user+" "+of("1"))
			a.exec(`UPDATE t SET note = 'x'`)
			want("an update of another column", "block "+user+" "+of("1"))
			a.exec(`UPDATE t SET v = $1`, of("2"))
			want("an update of the target", "block "+user+" "+of("2"))
			a.exec(`UPDATE t SET u = $1`, of("3"))
			want("an update of the user", "block "+of("3")+" "+of("2"))
			a.exec(`UPDATE t SET big = NULL, v = $1`, of("4"))
			want("an update of a large column", "block "+of("3")+" "+of("4"))
			a.exec(`DELETE FROM t`)
			want("a delete")
			stop()
			a.exec(`DROP PUBLICATION feedfilter_app; DROP TABLE t`)
		}
	}
}

// leaves returns a column of pg_class of the tables that have the rows of t.
func (a *app) leaves(column string) (all []string) {
	a.t.Helper()
	rows, err := a.conn.Query(a.t.Context(), `SELECT `+column+`::regclass::text FROM pg_class WHERE relkind = 'r' AND relname ~ '^t[01]?$'`)
	must(a.t, err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	must(a.t, err)
	return all
}

// storeExternally makes the table t store its texts out of line, even short ones.
func (a *app) storeExternally() {
	a.t.Helper()
	for _, leaf := range a.leaves("oid") {
		a.exec(`ALTER TABLE ` + leaf + ` SET (toast_tuple_target = 128)`)
		a.exec(`ALTER TABLE ` + leaf + ` ALTER u SET STORAGE EXTERNAL, ALTER v SET STORAGE EXTERNAL,
			ALTER state SET STORAGE EXTERNAL, ALTER big SET STORAGE EXTERNAL`)
	}
}

// wantStoredExternally checks that so many values of the table t are out of line.
func (a *app) wantStoredExternally(want int) {
	a.t.Helper()
	all := 0
	for _, toast := range a.leaves("reltoastrelid") {
		var n int
		must(a.t, a.conn.QueryRow(a.t.Context(), `SELECT count(DISTINCT chunk_id) FROM `+toast).Scan(&n))
		all += n
	}
	if all != want {
		a.t.Fatalf("%d values are out of line, want %d: nothing is tested", all, want)
	}
}
