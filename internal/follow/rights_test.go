package follow

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

// limited returns a follower whose role may log in and replicate, and has the rights given.
func (a *app) limited(rights ...string) *Follower {
	a.t.Helper()
	a.exec(`CREATE ROLE limited LOGIN REPLICATION`)
	for _, right := range rights {
		a.exec(right)
	}
	f := a.follower("one")
	f.source.url = strings.Replace(a.server.URL(), "postgres@", "limited@", 1)
	return f
}

const (
	mayRead = `GRANT USAGE ON SCHEMA "App" TO limited; GRANT SELECT ON blocks, "App"."Mutes", list_members TO limited`
	mayAll  = `ALTER TABLE blocks REPLICA IDENTITY FULL; ALTER TABLE "App"."Mutes" REPLICA IDENTITY FULL;
		ALTER TABLE list_members REPLICA IDENTITY FULL; ALTER TABLE list_accepted REPLICA IDENTITY FULL;
		ALTER TABLE list_rest REPLICA IDENTITY FULL;
		CREATE PUBLICATION feedfilter_app FOR TABLE list_members, ONLY "App"."Mutes", ONLY blocks WITH (publish_via_partition_root = true)`
)

// A role that lacks a right ends the follower with what to run, as whom.
func TestFollowDenied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rights []string
		want   []string
	}{
		"not the owner": {[]string{mayRead}, []string{
			`the role "limited" lacks a right (ERROR: must be owner of table blocks (SQLSTATE 42501)); as the owner of the tables or a superuser, run:`,
			"\n  ALTER TABLE public.blocks REPLICA IDENTITY FULL;\n", `CREATE PUBLICATION "feedfilter_app" FOR TABLE`,
		}},
		"no schema": {[]string{mayAll, `GRANT SELECT ON blocks, "App"."Mutes", list_members TO limited`}, []string{
			"permission denied for schema App", `GRANT USAGE ON SCHEMA "App" TO "limited";`,
		}},
		"no connection": {[]string{`REVOKE CONNECT ON DATABASE postgres FROM PUBLIC`}, []string{
			`run:` + "\n" + `  GRANT CONNECT ON DATABASE "postgres" TO "limited";`,
		}},
		"no replication": {[]string{mayRead, mayAll, `ALTER ROLE limited NOREPLICATION`}, []string{
			`ALTER ROLE "limited" REPLICATION;`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApp(t)
			err := a.limited(c.rights...).Run(t.Context())
			if _, stop := errors.AsType[*StopError](err); !stop {
				t.Fatalf("the follower ended with: %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) || !strings.Contains(trouble(err), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if strings.Contains(trouble(err), a.server.Addr()) {
				t.Errorf("health has the address: %s", trouble(err))
			}
		})
	}
}

// A role that may not end the connection which uses the slot ends the follower with what to run.
func TestFollowMayNotFreeSlot(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f := a.limited(mayRead, mayAll)
	stop := a.start(f)
	a.after()
	stop()
	a.freed(f)
	owner := a.follower("two") // a superuser
	conn, err := owner.source.connect(t.Context(), true)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	must(t, pglogrepl.StartReplication(t.Context(), conn.PgConn(), f.source.name, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '1'", "publication_names '" + f.source.name + "'"},
	}))
	err = f.Run(t.Context())
	if _, stop := errors.AsType[*StopError](err); !stop || !strings.Contains(err.Error(), `GRANT pg_signal_backend TO "limited"`) {
		t.Errorf("the follower ended with: %v", err)
	}
}

// A transaction uses a table that --create alters. The app's queries of the table do not wait for
// its end, and the log says what waits. The follower goes on once it has ended.
func TestFollowCreateWaits(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	open := a.other()
	open(`BEGIN; INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	f := a.follower("one")
	log := new(lockedLog)
	f.logTo(slog.New(slog.NewTextHandler(log, nil)))
	a.start(f)
	a.soonTrue("the follower to wait", `SELECT EXISTS (SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted)`)
	asked, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var n int
	must(t, a.conn.QueryRow(asked, `SELECT count(*) FROM blocks`).Scan(&n))
	soon(t, "the log to say what waits", func() bool {
		return strings.Contains(log.String(), "ALTER TABLE public.blocks REPLICA IDENTITY FULL: ERROR: canceling statement due to lock timeout")
	})
	open(`COMMIT`)
	a.after()
}
