package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// A check counts the rows of each table that have an effect, and those that have none by reason.
// What it counts is what the ledger has after the tables were read.
func TestCheckCountsRows(t *testing.T) {
	t.Parallel()
	const sql = `CREATE TABLE b (u text, v text, since text, until timestamptz, ok boolean, gone timestamptz, state char(8));
		INSERT INTO b (u, v, ok, state) VALUES ('1', '2', true, 'on'), ('1', '1', true, 'on'), ('', '2', true, 'on'),
			('1', repeat('x', 257), true, 'on'), ('1', E'a\tb', true, 'on'), ('1', NULL, true, 'on'),
			('1', '7', false, 'on'), ('1', '8', NULL, 'on'), ('1', '10', true, 'off'), ('1', '11', true, NULL);
		INSERT INTO b (u, v, until, ok, state) VALUES ('1', '3', 'infinity', true, 'on'), ('1', '4', '20000-01-01', true, 'on'),
			('1', '5', now() - interval '1 hour', true, 'on'), ('1', '6', '-infinity', true, 'on');
		INSERT INTO b (u, v, ok, gone, state) VALUES ('1', '9', true, now(), 'on');
		CREATE TABLE m (u int, "list" text[]);
		INSERT INTO m VALUES (1, '{2,3}'), (2, '{2,3}'), (3, '{}'), (4, NULL), (5, '{5}')`
	a := newAppOf(t, sql, `{"tables": [
		{"table": "b", "kind": "block", "user": "u", "target": "v", "until": "until", "while": ["ok"], "unless": ["gone"], "where": {"state": "on"}},
		{"table": "m", "kind": "block", "user": "u", "target": "list[]"}]}`, activity.BuiltinKinds())
	report, err := a.follower("one").Check(t.Context(), true)
	must(t, err)
	var text strings.Builder
	must(t, report.Print(&text))
	for _, want := range []string{
		"\nb as block: 2 of 15 rows count; not: 1 control, 1 empty, 2 ended, 1 null, 1 self, 1 time, 1 too_long, 1 unless, 2 where, 2 while\n",
		"\nm as block: 2 of 5 rows count; not: 2 null, 2 self\n", // a row of them counts with its other element
		"\n7 rows are not valid, such as:\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	f := a.follower("one")
	f.invalid.skip = true
	a.start(f)
	a.reached()
	if got, want := a.has(), []string{"block 1 2", "block 1 3", "block 2 3"}; !slices.Equal(got, want) {
		t.Errorf("has %q, want %q", got, want)
	}
	want := "map[control:1 empty:1 self:3 time:1 too_long:1]"
	if got := fmt.Sprint(f.Stats().Skipped); got != want {
		t.Errorf("skipped %s, want %s", got, want)
	}
}

// has returns the activities of the ledger, such as "block 1 2".
func (a *app) has() []string { return activitiesOf(a.t, a.recorder) }

// With a pooler in front of the source, a check and a follower end with one sentence, whether the
// pooler refuses what it does not know or ignores it.
func TestPooler(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	for _, mode := range []string{"session", "transaction"} {
		for _, settings := range [][]string{nil, {"ignore_startup_parameters=row_security,plan_cache_mode,jit,default_transaction_isolation,statement_timeout,replication"}} {
			b := a.server.StartBouncer(mode, settings...)
			f := a.follower("one")
			f.source.url = b.URL(f.source.url)
			_, checked := f.Check(t.Context(), true)
			for what, err := range map[string]error{"check": checked, "follow": f.Run(t.Context())} {
				if _, stop := errors.AsType[*StopError](err); !stop || !strings.Contains(err.Error(), "connection pooler such as PgBouncer") {
					t.Errorf("%s, %s, %q: %v", what, mode, settings, err)
				}
			}
		}
	}
	conn, err := a.follower("one").source.connect(t.Context(), false) // as if a pooler had ignored replication
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := serverOf(t.Context(), conn); err == nil || !strings.Contains(err.Error(), "connection pooler") {
		t.Errorf("a connection that does not replicate: %v", err)
	}
}

// A prepared transaction that nobody ends is named, since a new slot waits for it: also one of
// another database.
func TestCheckPrepared(t *testing.T) {
	t.Parallel()
	a := openLedger(t, appTables, activity.BuiltinKinds())
	a.server = pgtest.Start(t, "wal_level=logical", "max_prepared_transactions=2")
	a.connect()
	a.exec(appSQL)
	f := a.follower("one")
	report, err := f.Check(t.Context(), false)
	must(t, err)
	if len(report.Notes) > 0 {
		t.Errorf("notes %q", report.Notes)
	}
	a.exec(`CREATE DATABASE elsewhere TEMPLATE template0`)
	url := strings.Replace(a.server.URL(), "/postgres?", "/elsewhere?", 1)
	other, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = other.Close(context.Background()) })
	for _, sql := range []string{`BEGIN`, `CREATE TABLE x (y int)`, `PREPARE TRANSACTION 'it''s'`} {
		_, err = other.Exec(t.Context(), sql)
		must(t, err)
	}
	report, err = f.Check(t.Context(), false)
	must(t, err)
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], `waits for the prepared transaction "it's" of database "elsewhere", `) {
		t.Errorf("notes %q", report.Notes)
	}
	conn, err := f.source.connect(t.Context(), true)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	look, err := f.source.connect(t.Context(), false)
	must(t, err)
	t.Cleanup(func() { _ = look.Close(context.Background()) })
	created := make(chan error, 1)
	go func() {
		_, err := f.createSlot(t.Context(), conn, look, &reading{slot: f.source.name})
		created <- err
	}()
	soon(t, "the creation of the slot to wait", func() (waits bool) {
		must(t, a.conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)`).Scan(&waits))
		return waits
	})
	_, err = other.Exec(t.Context(), `ROLLBACK PREPARED 'it''s'`)
	must(t, err)
	must(t, <-created)
}

// A role replicates with REPLICATION, or elsewhere as a member of rds_replication, also through
// another role. If the server refuses it all the same, the check says the SQL.
func TestCheckRole(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`CREATE ROLE rds_replication; CREATE ROLE apps; GRANT rds_replication TO apps;
		CREATE ROLE plain LOGIN; CREATE ROLE member LOGIN; GRANT apps TO member; CREATE ROLE replicates LOGIN REPLICATION;
		GRANT SELECT ON blocks, "App"."Mutes", list_members TO PUBLIC; GRANT USAGE ON SCHEMA "App" TO PUBLIC`)
	conn, err := pgx.Connect(t.Context(), a.server.URL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	check := func(role string) (roles []string) {
		t.Helper()
		f := a.follower("one")
		f.source.url = strings.Replace(f.source.url, "postgres@", role+"@", 1)
		report, err := f.Check(t.Context(), false)
		must(t, err)
		for _, p := range report.Problems {
			if strings.Contains(p.String(), "ROLE") {
				roles = append(roles, p.String())
			}
		}
		return roles
	}
	refused := func(role string) []string {
		return []string{`the role "` + role + `" may not replicate; run:` + "\n  " + `ALTER ROLE "` + role + `" REPLICATION;`}
	}
	if got := check("plain"); !slices.Equal(got, refused("plain")) {
		t.Errorf("plain: %q", got)
	}
	if got := check("member"); !slices.Equal(got, refused("member")) { // there is no RDS here, whose server accepts it
		t.Errorf("member: %q", got)
	}
	if got := check("replicates"); got != nil {
		t.Errorf("replicates: %q", got)
	}
	f := a.follower("one")
	f.source.url = strings.Replace(f.source.url, "postgres@", "member@", 1)
	member, err := f.source.connect(t.Context(), false)
	must(t, err)
	t.Cleanup(func() { _ = member.Close(context.Background()) })
	report, err := f.source.inspect(t.Context(), member)
	must(t, err)
	if report.lacksRole {
		t.Error("a member of a member of rds_replication may replicate, and is said not to")
	}
}
