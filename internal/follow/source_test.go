package follow

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
)

// A table was not in the publication for a time, so the stream lacks rows. The source is read
// whole.
func TestFollowUnpublished(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	stop := a.start(a.follower("one"))
	a.reached()
	for _, lost := range []string{`ALTER PUBLICATION feedfilter_app DROP TABLE blocks`, `DROP PUBLICATION feedfilter_app`} {
		stop()
		a.exec(lost)
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT 1, count(*) + 2 FROM blocks`)
		if f := a.follower("two"); lost[0] == 'A' {
			f.options.Create = false
			if err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "publication") {
				t.Fatalf("a table is not published: %v", err)
			}
			a.exec(`ALTER PUBLICATION feedfilter_app ADD TABLE ONLY blocks`) // by hand
		}
		stop = a.start(a.follower("three"))
		a.reached()
		a.wantMapped()
	}
}

// Two deployments with ledgers of their own follow one database. The second is refused while it has
// the name of the first, which goes on, and follows with a name of its own.
func TestFollowForTwoLedgers(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	first := a.follower("one")
	a.start(first)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	a.reached()
	soon(t, "the first to use its slot", func() (active bool) { // which the second can tell only then
		must(t, a.conn.QueryRow(t.Context(), `SELECT active FROM pg_replication_slots WHERE slot_name = 'feedfilter_app'`).Scan(&active))
		return active
	})
	other := openLedger(t, appTables, activity.BuiltinKinds())
	other.server, other.conn = a.server, a.conn
	err := other.follower("two").Run(t.Context())
	if _, stop := errors.AsType[*StopError](err); !stop || !strings.Contains(err.Error(), "feedfilter_app is in use for another ledger: give this one a --source-name") {
		t.Errorf("the second deployment: %v", err)
	}
	f := New(other.recorder, Options{
		Name: "second", URL: a.server.URL(), Tables: slices.Clone(other.tables), Holder: "two", Create: true, TempDir: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	other.start(f)
	other.reached()
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 3)`)
	for _, one := range []*app{a, other} {
		one.reached()
		one.wantMapped()
	}
	if first.Stats().Snapshots != 1 || f.Stats().Snapshots != 1 {
		t.Errorf("%d and %d full reads, want one each", first.Stats().Snapshots, f.Stats().Snapshots)
	}
}

// A process that was stopped still holds the slot. Another takes it.
func TestFollowSlotHeld(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f := a.follower("one")
	stop := a.start(f)
	a.reached()
	stop()
	a.freed(f)
	conn, err := f.source.connect(t.Context(), true)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), "SET wal_sender_timeout = 0")
	must(t, err)
	must(t, pglogrepl.StartReplication(t.Context(), conn.PgConn(), f.source.name, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '1'", "publication_names '" + f.source.name + "'"},
	}))
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	a.start(a.follower("two"))
	a.reached()
	a.wantMapped()
}

// The slot is ahead of the ledger, so the stream lacks rows: another process created it again,
// or the ledger was set back. The source is read whole.
func TestFollowSlotAhead(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	f := a.follower("one")
	stop := a.start(f)
	a.reached()
	stop()
	a.exec(`DELETE FROM blocks`)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 3)`)
	must(t, f.source.dropSlot(t.Context(), a.conn))
	a.exec(`SELECT pg_create_logical_replication_slot('feedfilter_app', 'pgoutput')`)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 4)`)
	a.start(a.follower("two"))
	a.reached()
	a.wantMapped()
}

// What a source lacks is reported with the SQL that mends it, and Create runs it.
func TestCheck(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f := a.follower("one")
	report, err := f.Check(t.Context(), false)
	must(t, err)
	var mend []string
	for _, p := range report.Problems {
		mend = append(mend, p.Mend)
	}
	want := []string{
		"ALTER TABLE public.blocks REPLICA IDENTITY FULL", `ALTER TABLE "App"."Mutes" REPLICA IDENTITY FULL`,
		"ALTER TABLE public.list_accepted REPLICA IDENTITY FULL", "ALTER TABLE public.list_members REPLICA IDENTITY FULL",
		"ALTER TABLE public.list_rest REPLICA IDENTITY FULL",
		`DROP PUBLICATION IF EXISTS "feedfilter_app"; CREATE PUBLICATION "feedfilter_app" FOR TABLE "public"."list_members", ONLY "App"."Mutes", ONLY "public"."blocks" WITH (publish_via_partition_root = true)`,
	}
	slices.Sort(mend)
	slices.Sort(want)
	if !slices.Equal(mend, want) {
		t.Errorf("problems:\n%s\nwant\n%s", strings.Join(mend, "\n"), strings.Join(want, "\n"))
	}
	conn, err := f.source.connect(t.Context(), false)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	must(t, f.source.create(t.Context(), conn, report.Problems))
	if report, err = f.Check(t.Context(), false); err != nil || len(report.Problems) > 0 {
		t.Errorf("after it was mended: %v, %v", report.Problems, err)
	}
	f = a.follower("one")
	f.options.Create = false
	a.exec(`ALTER TABLE blocks RENAME blocked_id TO victim_id`)
	if _, stop := errors.AsType[*StopError](f.Run(t.Context())); !stop {
		t.Error("a mapped column is missing, and the follower goes on")
	}
}

// Columns that the stream lacks, or whose type is no id or time, are refused by name.
func TestCheckColumns(t *testing.T) {
	t.Parallel()
	const sql = `CREATE TABLE b (u numeric, v bigint GENERATED ALWAYS AS (1) STORED, since text, until date, PRIMARY KEY (u, since, until));`
	a := newAppOf(t, sql, `{"tables": [{"table": "b", "kind": "block", "user": "u", "target": "v", "since": "since", "until": "until", "while": ["w"]}]}`,
		activity.BuiltinKinds())
	report, err := a.follower("one").Check(t.Context(), false)
	must(t, err)
	var all []string
	for _, p := range report.Problems {
		all = append(all, p.What)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		`column "u" has the type numeric: an id has one of smallint`, `column "v" is generated`, `column "since" has the type text: a time has one of`,
		`b has no column "w"`, `the old value of "v" is not in the stream`,
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not once in\n%s", want, text)
		}
	}
	if len(all) != 6 || strings.Contains(text, `"until"`) { // with the publication
		t.Errorf("%d problems:\n%s", len(all), text)
	}
}

// The size of a table that the server has never counted is not known, and not 0. Afterwards, and of
// an empty table, it is.
func TestCheckOfUncountedTables(t *testing.T) {
	a := newApp(t)
	a.exec(`CREATE TABLE full_one (a int, b int); CREATE TABLE empty_one (a int, b int)`)
	a.exec(`ALTER TABLE full_one SET (autovacuum_enabled = false)`)
	a.exec(`INSERT INTO full_one SELECT i, i + 1 FROM generate_series(1, 5000) i`)
	tables, err := ParseTables([]byte(`{"tables": [{"table": "full_one", "kind": "block", "user": "a", "target": "b"},
		{"table": "empty_one", "kind": "block", "user": "a", "target": "b"}]}`), a.recorder.Kinds())
	must(t, err)
	sizes := func() string {
		t.Helper()
		report, err := New(a.recorder, Options{Name: "sizes", URL: a.server.URL(), Tables: tables, Log: slog.New(slog.DiscardHandler)}).Check(t.Context(), false)
		must(t, err)
		return strings.Join(report.Tables, "; ")
	}
	if got := sizes(); got != "public.full_one: its rows were never counted: run ANALYZE; public.empty_one: some 0 rows" {
		t.Errorf("before: %s", got)
	}
	a.exec(`ANALYZE full_one`)
	if got := sizes(); got != "public.full_one: some 5000 rows; public.empty_one: some 0 rows" {
		t.Errorf("after: %s", got)
	}
}
