package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// followTables is the file of tables of the drills.
const followTables = `{"tables":[{"table":"blocks","kind":"block","user":"blocker_id","target":"blocked_id"}]}`

// follows makes the service follow a database of an app. In the runbook's commands SOURCE is its
// URL. Server settings are those of the database.
func follows(d *drill, server ...string) {
	d.t.Helper()
	d.source = pgtest.Start(d.t, append(server, "wal_level=logical")...)
	d.env = append(d.env, "SOURCE="+d.source.URL())
	d.sql(d.source.URL(), `CREATE TABLE blocks (blocker_id int, blocked_id int, PRIMARY KEY (blocker_id, blocked_id))`)
	d.sql(d.source.URL(), `CREATE PUBLICATION feedfilter_app FOR TABLE ONLY blocks WITH (publish_via_partition_root = true)`)
	d.sql(d.source.URL(), `CREATE ROLE follower LOGIN REPLICATION; GRANT SELECT ON blocks TO follower`)
	write(d.t, d.path("feedfilter-tables.json"), followTables)
	d.settings["follow"], d.settings["source"] = d.path("feedfilter-tables.json"), strings.Replace(d.source.URL(), "postgres@", "follower@", 1)
}

// sql runs statements.
func (d *drill) sql(url, statements string) {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), url)
	must(d.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.PgConn().Exec(d.t.Context(), statements).ReadAll(); err != nil {
		d.t.Fatalf("%s: %v", statements, err)
	}
}

// wal makes the source write n segments of WAL.
func (d *drill) wal(n int) {
	for range n {
		d.sql(d.source.URL(), `SELECT pg_logical_emit_message(false, 'drill', 'x'); SELECT pg_switch_wal()`)
	}
}

// overdue stops the service, and makes the last comparison of the source three days old. Then it
// does more in the ledger, and starts the service again.
func (d *drill) overdue(more string) {
	d.t.Helper()
	must(d.t, d.terminate())
	ledger, _ := d.settings["ledger"].(string)
	conn, err := pgx.Connect(d.t.Context(), ledger)
	must(d.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var schema string
	must(d.t, conn.QueryRow(d.t.Context(), `SELECT schemaname FROM pg_tables WHERE tablename = 'sources'`).Scan(&schema))
	const old = `UPDATE sources SET position = regexp_replace(position, 'audited=\d+', 'audited=' || (extract(epoch FROM now())::bigint - 3 * 86400))`
	if _, err := conn.PgConn().Exec(d.t.Context(), `SET search_path = `+pgx.Identifier{schema}.Sanitize()+`; `+old+`; `+more).ReadAll(); err != nil {
		d.t.Fatal(err)
	}
	d.start()
}

func followScenarios() []scenario {
	followed := func(d *drill) { d.await("feedfilter_follow_followed", is(1)) }
	return []scenario{
		{
			alert: "FeedfilterNotFollowed", how: "The service restarted without `--follow`.", recovered: "`--follow` again.",
			prepare: func(d *drill) { follows(d) }, busy: followed,
			provoke: func(d *drill) {
				must(d.t, d.terminate())
				delete(d.settings, "follow")
				delete(d.settings, "source")
				d.start()
				d.await("feedfilter_follow_followed", is(0))
			},
			most: 5 * time.Minute, mended: followed, ends: time.Minute,
		},
		{
			alert: "FeedfilterFollowBehind", how: "A session locks the ledger's rows.", recovered: "PostgreSQL restarted.",
			prepare: func(d *drill) { follows(d) }, busy: followed,
			provoke: func(d *drill) {
				ledger, _ := d.settings["ledger"].(string)
				conn, err := pgx.Connect(d.t.Context(), ledger)
				must(d.t, err)
				d.t.Cleanup(func() { _ = conn.Close(context.Background()) })
				var table string
				must(d.t, conn.QueryRow(d.t.Context(), `SELECT format('%I.entries', schemaname) FROM pg_tables WHERE tablename = 'entries'`).Scan(&table))
				if _, err := conn.PgConn().Exec(d.t.Context(), `BEGIN; LOCK TABLE `+table+` IN EXCLUSIVE MODE`).ReadAll(); err != nil {
					d.t.Fatal(err)
				}
				d.sql(d.source.URL(), `INSERT INTO blocks SELECT 1, n FROM generate_series(2, 1000) n`)
				d.await("feedfilter_follow_behind_seconds", above(31))
			},
			most:   5 * time.Minute,
			mended: func(d *drill) { followed(d); d.await("feedfilter_follow_behind_bytes", is(0)) }, ends: time.Minute,
		},
		{
			alert: "FeedfilterFollowSkipped", how: "A user who blocks themselves.",
			recovered: "The row deleted; a quarter of an hour passed.",
			prepare:   func(d *drill) { follows(d) }, busy: followed,
			provoke: func(d *drill) {
				d.moves(`feedfilter_follow_changes_total{result="skipped"`, func() { d.sql(d.source.URL(), `INSERT INTO blocks VALUES (7, 7)`) })
			},
			most: time.Minute, ends: 20 * time.Minute,
		},
		{
			alert: "FeedfilterFollowDiffered", how: "A row deleted from the ledger by hand; a day passed.",
			recovered: "Corrected by itself; an hour passed.",
			prepare:   func(d *drill) { follows(d) },
			busy: func(d *drill) {
				followed(d)
				d.sql(d.source.URL(), `INSERT INTO blocks SELECT 1, n FROM generate_series(2, 100) n`)
				d.moves(`feedfilter_follow_changes_total{result="recorded"`, func() { d.sql(d.source.URL(), `INSERT INTO blocks VALUES (1, 1000)`) })
			},
			provoke: func(d *drill) {
				d.overdue(`DELETE FROM entries WHERE owner = '1' AND target = '7'`)
				d.await(`feedfilter_follow_differences_total{difference="missing"`, is(1))
			},
			most: time.Minute, ends: 70 * time.Minute,
		},
		{
			alert: "FeedfilterFollowUnproved", how: "Three days passed, and a transaction of the app does not end.",
			recovered: "The transaction ended, and a comparison.",
			prepare:   func(d *drill) { follows(d) }, busy: followed,
			provoke: func(d *drill) {
				conn, err := pgx.Connect(d.t.Context(), d.source.URL())
				must(d.t, err)
				d.t.Cleanup(func() { _ = conn.Close(context.Background()) })
				if _, err := conn.PgConn().Exec(d.t.Context(), `BEGIN; INSERT INTO blocks VALUES (8, 9)`).ReadAll(); err != nil {
					d.t.Fatal(err)
				}
				d.overdue("")
			},
			most:  10 * time.Minute,
			words: func(*drill) map[string]string { return map[string]string{"10 minutes": "1 second"} },
			mended: func(d *drill) {
				d.await("feedfilter_follow_proved_timestamp_seconds", above(float64(time.Now().Add(-time.Hour).Unix())))
			},
			ends: time.Minute,
		},
		{
			alert: "FeedfilterFollowWALKept", how: "The follower's role loses REPLICATION: an idle slot with a limit of 256 MiB.",
			recovered: "The right granted.",
			prepare:   func(d *drill) { follows(d, "max_slot_wal_keep_size=256MB") }, busy: followed,
			provoke: func(d *drill) {
				d.sql(d.source.URL(), `ALTER ROLE follower NOREPLICATION; SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots`)
				d.await("feedfilter_follow_followed", is(0))
				d.wal(10)
				d.await("feedfilter_follow_wal_kept_bytes", above(128<<20))
			},
			most: 10 * time.Minute,
			mended: func(d *drill) {
				followed(d)
				d.await("feedfilter_follow_wal_kept_bytes", func(v float64) bool { return v < 64<<20 })
			},
			ends: time.Minute,
		},
	}
}
