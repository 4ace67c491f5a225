package follow

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
)

// after waits until a feed with the present position as after would be answered, and checks that
// the ledger then is the mapping of the source. Each second call does the same for a feed with the
// present time as within.
func (a *app) after() {
	a.t.Helper()
	var at string
	must(a.t, a.conn.QueryRow(a.t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&at))
	since := time.Now()
	a.waits++
	soon(a.t, "position "+at, func() bool {
		want := activity.Freshness{After: at}
		if a.waits%2 == 0 {
			want = activity.Freshness{Within: time.Since(since)}
		}
		err := a.recorder.Await(a.t.Context(), want)
		_, invalid := errors.AsType[*activity.InvalidError](err)
		_, late := errors.AsType[*activity.NotYetError](err)
		if err != nil && !late && !invalid {
			a.t.Fatal(err)
		}
		return err == nil
	})
	a.wantMapped()
}

const newBlocks = `CREATE TABLE blocks (id bigserial PRIMARY KEY, blocker_id bigint, blocked_id bigint, created_at timestamptz, note text);`

// altered are changes of the catalog that the stream does not show, or not completely, each with
// rows that were changed meanwhile. What is separated by -- is executed one after the other.
func altered() map[string]string {
	const block = `INSERT INTO blocks (blocker_id, blocked_id) VALUES (3, 4);`
	return map[string]string{
		"dropped and created in one transaction":    `DROP TABLE blocks; ` + newBlocks + block,
		"dropped and created in several":            `DROP TABLE blocks -- ` + newBlocks + ` -- ` + block,
		"renamed and replaced":                      `ALTER TABLE blocks RENAME TO old; ` + newBlocks + block,
		"names swapped":                             `CREATE TABLE other (LIKE blocks INCLUDING ALL); INSERT INTO other (blocker_id, blocked_id) VALUES (5, 6) -- ALTER TABLE blocks RENAME TO x; ALTER TABLE other RENAME TO blocks; ALTER TABLE x RENAME TO other -- ` + block,
		"names swapped for a time":                  `CREATE TABLE other (LIKE blocks INCLUDING ALL); ALTER TABLE other REPLICA IDENTITY FULL; ALTER TABLE blocks RENAME TO x; ALTER TABLE other RENAME TO blocks; ALTER TABLE x RENAME TO other -- DELETE FROM other; INSERT INTO blocks (blocker_id, blocked_id) VALUES (5, 6) -- ALTER TABLE blocks RENAME TO x; ALTER TABLE other RENAME TO blocks`,
		"in another schema for a time":              `ALTER TABLE blocks SET SCHEMA "App" -- INSERT INTO "App".blocks (blocker_id, blocked_id) VALUES (3, 4) -- ALTER TABLE "App".blocks SET SCHEMA public`,
		"not published for a time":                  `ALTER PUBLICATION feedfilter_app DROP TABLE blocks -- DELETE FROM blocks; ` + block + ` -- ALTER PUBLICATION feedfilter_app ADD TABLE ONLY blocks`,
		"deletes not published for a time":          `ALTER PUBLICATION feedfilter_app SET (publish = 'insert') -- DELETE FROM blocks -- ALTER PUBLICATION feedfilter_app SET (publish = 'insert, update, delete, truncate')`,
		"some rows published for a time":            `ALTER PUBLICATION feedfilter_app SET TABLE ONLY blocks WHERE (blocker_id > 1000), ONLY "App"."Mutes", ONLY list_members -- ` + block + ` -- ALTER PUBLICATION feedfilter_app SET TABLE ONLY blocks, ONLY "App"."Mutes", list_members`,
		"partitions published for a time":           `ALTER PUBLICATION feedfilter_app SET (publish_via_partition_root = false) -- INSERT INTO list_members VALUES (8, 9, 'accepted') -- ALTER PUBLICATION feedfilter_app SET (publish_via_partition_root = true)`,
		"publication dropped":                       `DROP PUBLICATION feedfilter_app -- ` + block,
		"values changed by a type":                  `ALTER TABLE blocks ALTER blocked_id TYPE bigint USING blocked_id + 100 -- ` + block,
		"column dropped and added":                  `ALTER TABLE blocks DROP blocked_id; ALTER TABLE blocks ADD blocked_id bigint DEFAULT 77 -- ` + block,
		"column replaced":                           `ALTER TABLE blocks ADD b2 bigint -- UPDATE blocks SET b2 = blocked_id + 10 -- ALTER TABLE blocks DROP blocked_id; ALTER TABLE blocks RENAME b2 TO blocked_id -- ` + block,
		"a partition detached":                      `ALTER TABLE list_members DETACH PARTITION list_accepted`,
		"a partition dropped":                       `DROP TABLE list_accepted`,
		"a partition truncated":                     `TRUNCATE list_accepted`,
		"a partition attached":                      `CREATE TABLE more (LIKE list_members); ALTER TABLE list_members DETACH PARTITION list_accepted -- INSERT INTO more VALUES (6, 7, 'accepted') -- ALTER TABLE list_members ATTACH PARTITION more FOR VALUES IN ('accepted')`,
		"a partition made, filled and attached":     `ALTER TABLE list_members DETACH PARTITION list_accepted; CREATE TABLE more (LIKE list_members); INSERT INTO more VALUES (6, 7, 'accepted'); ALTER TABLE list_members ATTACH PARTITION more FOR VALUES IN ('accepted')`,
		"a partition detached and attached":         `ALTER TABLE list_members DETACH PARTITION list_accepted -- INSERT INTO list_accepted VALUES (6, 7, 'accepted') -- ALTER TABLE list_members ATTACH PARTITION list_accepted FOR VALUES IN ('accepted')`,
		"a partition made without the old values":   `DROP TABLE list_accepted; CREATE TABLE p (list_id int, member_id bigint, state text PRIMARY KEY) -- ALTER TABLE list_members ATTACH PARTITION p FOR VALUES IN ('accepted') -- INSERT INTO list_members VALUES (6, 7, 'accepted') -- DELETE FROM list_members WHERE list_id = 6`,
		"a partition truncated that was made since": `DROP TABLE list_accepted; CREATE TABLE p PARTITION OF list_members FOR VALUES IN ('accepted'); ALTER TABLE p REPLICA IDENTITY FULL -- INSERT INTO list_members VALUES (6, 7, 'accepted') -- TRUNCATE p`,
	}
}

// The catalog of the source changes while it is followed. Whenever a feed with after is answered,
// the ledger has what the tables say. It takes some 5 changes of 22; TestLongFollowAltered takes
// all.
func TestFollowAltered(t *testing.T) { alter(t, true, oneIn(4)) }

func TestLongFollowAltered(t *testing.T) { alter(t, true, orShort(oneIn(4))) }

// The same, while nobody follows.
func TestLongFollowAlteredMeanwhile(t *testing.T) { alter(t, false, orShort(oneIn(4))) }

// oneIn takes one in n of what a test could do, at random.
func oneIn(n int) (take func() bool) { return func() bool { return rand.IntN(n) == 0 } }

// orShort takes what the argument takes under -short, and otherwise all.
func orShort(take func() bool) func() bool {
	if testing.Short() {
		return take
	}
	return func() bool { return true }
}

func alter(t *testing.T, followed bool, take func() bool) {
	t.Helper()
	for name, sql := range altered() {
		if !take() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApp(t)
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 3); INSERT INTO list_members VALUES (1, 5, 'accepted'), (2, 6, 'asked')`)
			stop := a.start(a.follower("one"))
			a.after()
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 9)`)
			a.after() // now a look has found the catalog as it was
			if !followed {
				stop()
			}
			for step := range strings.SplitSeq(sql, " -- ") {
				a.exec(step)
			}
			if !followed {
				a.start(a.follower("two"))
			}
			a.after()
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (10, 11); INSERT INTO list_members VALUES (10, 11, 'asked')`)
			a.exec(`DELETE FROM blocks WHERE blocker_id = 1; DELETE FROM list_members WHERE list_id = 1`)
			a.after()
		})
	}
}

// Whatever of the catalog a look compares, its rows get other versions when it changes, and when it
// changes back. Otherwise looks would go on to find the known versions.
func TestVersions(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`CREATE TYPE state AS ENUM ('asked', 'accepted'); ALTER TABLE "App"."Mutes" ALTER "Post" TYPE state USING "Post"::state`)
	a.start(a.follower("one"))
	a.reached()
	source := a.follower("two").source
	conn, err := source.connect(t.Context(), false)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	steps := make(map[string]string)
	for name, sql := range altered() {
		steps[name] = "SELECT -- " + sql
	}
	maps.Copy(steps, map[string]string{ // the first step comes before the tables are read
		"a schema renamed":                 `SELECT -- ALTER SCHEMA "App" RENAME TO x -- ALTER SCHEMA x RENAME TO "App"`,
		"a value renamed":                  `SELECT -- ALTER TYPE state RENAME VALUE 'asked' TO 'refused' -- ALTER TYPE state RENAME VALUE 'refused' TO 'asked'`,
		"another identity":                 `SELECT -- ALTER TABLE blocks REPLICA IDENTITY DEFAULT`,
		"another key":                      `ALTER TABLE blocks REPLICA IDENTITY DEFAULT -- ALTER TABLE blocks DROP CONSTRAINT blocks_pkey, ADD PRIMARY KEY (id)`,
		"a partition of one that was made": `SELECT -- CREATE TABLE p PARTITION OF list_members FOR VALUES IN ('x') PARTITION BY LIST (list_id) -- CREATE TABLE q PARTITION OF p FOR VALUES IN (1)`,
		"the publication renamed":          `SELECT -- ALTER PUBLICATION feedfilter_app RENAME TO x -- ALTER PUBLICATION x RENAME TO feedfilter_app`,
		"a policy":                         `CREATE ROLE reader BYPASSRLS; ALTER TABLE blocks ENABLE ROW LEVEL SECURITY; SET ROLE reader -- RESET ROLE; ALTER ROLE reader NOBYPASSRLS; SET ROLE reader`,
	})
	if publishesSchemas(conn) {
		steps["a schema published"] = `ALTER PUBLICATION feedfilter_app ADD TABLES IN SCHEMA "App" -- ALTER PUBLICATION feedfilter_app DROP TABLES IN SCHEMA "App"; ALTER PUBLICATION feedfilter_app ADD TABLES IN SCHEMA "App"`
	}
	for name, sql := range steps {
		var known *catalog
		var versions string // of the known catalog
		looks := 0
		exec("BEGIN")
		for step := range strings.SplitSeq(sql, " -- ") {
			exec("SAVEPOINT step; " + step) // a transaction id of its own
			if known == nil {
				known, err = source.catalogOf(t.Context(), conn)
				must(t, err)
			}
			glance, err := source.glance(t.Context(), conn, known)
			must(t, err)
			now, err := source.catalogOf(t.Context(), conn)
			must(t, err)
			differs := known.difference(now)
			switch {
			case glance.versions != versions:
				looks++
			case differs != "" || len(now.lines) > len(known.lines):
				t.Errorf("%s: after %s the versions are the same, but %q", name, step, differs)
			}
			if differs == "" { // as a watcher does
				known, versions = now, glance.versions
			}
		}
		if looks < 2 {
			t.Errorf("%s: the versions are the same after all steps", name)
		}
		exec("ROLLBACK")
	}
}

// What does not matter to the mapping changes in the catalog. The tables are not read again.
func TestFollowAlteredOtherwise(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	stop := a.start(a.follower("one"))
	a.after()
	f := a.follower("two")
	for n, sql := range []string{
		`CREATE INDEX ON blocks (blocked_id)`, `ANALYZE`, `VACUUM blocks`, `GRANT SELECT ON blocks TO PUBLIC`, `ALTER TABLE blocks ADD extra int DEFAULT 5`,
		`ALTER TABLE blocks DROP note`, `ALTER TABLE blocks ALTER blocker_id SET NOT NULL`, `CREATE TABLE unrelated (x int)`,
		`ALTER TABLE "App"."Mutes" ENABLE ROW LEVEL SECURITY`, // the role is not subject to it
		`CREATE TABLE p PARTITION OF list_members FOR VALUES IN ('x'); ALTER TABLE p REPLICA IDENTITY FULL`,
		`INSERT INTO list_members VALUES (1, 2, 'x')`,
		`CREATE TABLE q PARTITION OF list_members FOR VALUES IN ('y'); ALTER TABLE q REPLICA IDENTITY FULL; GRANT SELECT ON q TO PUBLIC`,
	} {
		if n%2 == 1 {
			stop()
		}
		a.exec(sql)
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES ($1, 7)`, 100+n)
		if n%2 == 1 {
			stop = a.start(f)
		}
		a.after()
		if read := f.Stats().Snapshots; read > 0 {
			t.Fatalf("%s: the tables were read again", sql)
		}
	}
}

// A table whose rows a policy hides from the role is not followed, neither from the beginning nor
// once the policy is there: the ledger would lose all blocks. A role that bypasses policies
// follows.
func TestFollowRowSecurity(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	stop := a.start(a.follower("one"))
	a.after()
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2); CREATE ROLE reader LOGIN REPLICATION;
		GRANT USAGE ON SCHEMA "App" TO reader; GRANT SELECT ON blocks, "App"."Mutes", list_members TO reader`)
	a.after()
	stop()
	limited := func(holder string) *Follower {
		f := a.follower(holder)
		f.source.url, f.options.Create = strings.Replace(f.source.url, "postgres@", "reader@", 1), false
		return f
	}
	read := func(want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f := limited(want)
		f.options.Resync, f.whole = true, true
		if err := f.Run(ctx); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Fatalf("error %v, want %q", err, want)
		}
		a.wantMapped()
	}
	read("")
	stopped, end := a.run(limited("three"))
	a.after()
	a.exec(`ALTER TABLE blocks ENABLE ROW LEVEL SECURITY`)
	const hidden = `policies of public.blocks hide rows from the role "reader"; run:` + "\n" + `  ALTER ROLE "reader" BYPASSRLS;`
	if err := stopped(); err == nil || !strings.Contains(err.Error(), hidden) {
		t.Fatalf("a policy appeared: %v", err)
	}
	end()
	read(hidden)
	a.exec(`ALTER ROLE reader BYPASSRLS`)
	read("")
}

// A catalog goes on from another one if only partitions were made since.
func TestCatalogGrew(t *testing.T) {
	of := func(made []string, lines ...string) *catalog {
		c := &catalog{lines: make(map[string]string), made: made}
		for _, line := range lines {
			name, rest, _ := strings.Cut(line, " ")
			c.lines[name] = rest
		}
		return c
	}
	first := of([]string{"p1"}, "t 1", "p1 2", "publication 3")
	for name, c := range map[string]struct {
		now  *catalog
		grew bool
	}{
		"the same":                     {of([]string{"p1"}, "t 1", "p1 2", "publication 3"), true},
		"a partition was made":         {of([]string{"p1", "p2"}, "t 1", "p1 2", "p2 4", "publication 3"), true},
		"two were":                     {of([]string{"p1", "p2", "p3"}, "t 1", "p1 2", "p2 4", "p3 5", "publication 3"), true},
		"one was attached":             {of([]string{"p1"}, "t 1", "p1 2", "p2 4", "publication 3"), false},
		"one was made, one attached":   {of([]string{"p1", "p3"}, "t 1", "p1 2", "p2 4", "p3 5", "publication 3"), false},
		"one is gone":                  {of(nil, "t 1", "publication 3"), false},
		"one is gone, another is made": {of([]string{"p2"}, "t 1", "p2 4", "publication 3"), false},
		"one was altered":              {of([]string{"p1"}, "t 1", "p1 3", "publication 3"), false},
		"the table was":                {of([]string{"p1"}, "t 2", "p1 2", "publication 3"), false},
		"values were exchanged":        {of([]string{"p1"}, "t 2", "p1 1", "publication 3"), false},
		"there is no publication":      {of([]string{"p1"}, "t 1", "p1 2"), false},
	} {
		if grew := c.now.grewFrom(first.sum()); grew != c.grew {
			t.Errorf("%s: grew %v", name, grew)
		}
		if differs := first.difference(c.now); (differs == "") != c.grew {
			t.Errorf("%s: differs %q", name, differs)
		}
	}
	if differs := first.difference(of(nil, "t 2", "p2 4", "publication 3")); differs != "p1 is gone, p2 is new, t was altered" {
		t.Errorf("differs %q", differs)
	}
}

// The old row of a partition may have only its key, although the root has the whole one. It counts
// if the key has all columns of the file. Otherwise an undo would be lost.
func TestKeyOfAPartition(t *testing.T) {
	tables, err := ParseTables([]byte(`{"tables": [{"table": "blocks", "kind": "block", "user": "a", "target": "b"}]}`), activity.BuiltinKinds())
	must(t, err)
	d := newDecoder(newMapper(tables, activity.BuiltinKinds()), newFigures(tables).changes, map[uint32]string{1: "public.blocks"})
	_, err = d.decode(&pglogrepl.RelationMessage{
		RelationID: 1, Namespace: "public", RelationName: "blocks", ReplicaIdentity: 'f',
		Columns: []*pglogrepl.RelationMessageColumn{{Name: "a"}, {Name: "b"}, {Name: "note"}},
	})
	must(t, err)
	value := func(text string) *pglogrepl.TupleDataColumn {
		return &pglogrepl.TupleDataColumn{DataType: pglogrepl.TupleDataTypeText, Data: []byte(text)}
	}
	null := &pglogrepl.TupleDataColumn{DataType: pglogrepl.TupleDataTypeNull}
	for _, c := range []struct {
		b      *pglogrepl.TupleDataColumn
		undone int
	}{{value("2"), 1}, {null, 0}} {
		old := &pglogrepl.TupleData{Columns: []*pglogrepl.TupleDataColumn{value("1"), c.b, null}}
		changes, err := d.decode(&pglogrepl.DeleteMessage{RelationID: 1, OldTupleType: pglogrepl.DeleteMessageTupleTypeKey, OldTuple: old})
		if len(changes) != c.undone || (err == nil) != (c.undone > 0) || err != nil && !errors.Is(err, errAltered) {
			t.Errorf("%d undos, error %v, want %d", len(changes), err, c.undone)
		}
	}
}

// TestFollowAlteredBeforeTheRead alters the source after it was inspected, and before the moment in
// which the tables are read: the creation of the slot waits for an open transaction. The stream
// lacks changes from the beginning, and no look finds another catalog.
func TestFollowAlteredBeforeTheRead(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"not published":   `ALTER PUBLICATION feedfilter_app DROP TABLE blocks`,
		"without deletes": `ALTER PUBLICATION feedfilter_app SET (publish = 'insert')`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a := newApp(t)
			stop := a.start(a.follower("one"))
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 3)`)
			a.after()
			stop()
			soon(t, "the end of the slot, so that the tables are read", func() bool {
				_, err := a.conn.Exec(t.Context(), `SELECT pg_drop_replication_slot('feedfilter_app')`)
				return err == nil // or it is still in use
			})
			open, err := pgx.Connect(t.Context(), a.server.URL())
			must(t, err)
			t.Cleanup(func() { _ = open.Close(context.Background()) })
			_, err = open.Exec(t.Context(), `BEGIN; SELECT pg_current_xact_id()`)
			must(t, err)
			a.start(a.follower("two"))
			soon(t, "the slot", func() (waits bool) {
				must(t, a.conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)
					OR EXISTS (SELECT FROM pg_replication_slots WHERE confirmed_flush_lsn IS NULL)`).Scan(&waits))
				return waits
			})
			a.exec(sql)
			_, err = open.Exec(t.Context(), `COMMIT`)
			must(t, err)
			soon(t, "the stream", func() (streams bool) {
				must(t, a.conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')`).Scan(&streams))
				return streams
			})
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 4)`)
			a.exec(`DELETE FROM blocks WHERE blocked_id = 2`)
			a.after()
			a.after()
		})
	}
}

// TestFollowReadMeetsAlter alters a table while the follower reads it. That waits for the read, and
// all who look at the table meanwhile wait behind it. The follower does not wait for itself.
func TestFollowReadMeetsAlter(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`INSERT INTO blocks (blocked_id) SELECT n FROM generate_series(1, 200000) n`) // give nothing
	a.start(a.follower("one"))
	soon(t, "the read", func() (reads bool) {
		must(t, a.conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND state <> 'idle' AND query LIKE 'SELECT %ONLY "public"."blocks"')`).Scan(&reads))
		return reads
	})
	a.exec(`ALTER TABLE blocks REPLICA IDENTITY FULL`)
	a.after()
}
