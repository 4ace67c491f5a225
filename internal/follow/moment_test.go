package follow

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// A snapshot has the transactions that were not open, and those before the next one, also where
// transaction ids begin again. All of them commit before it.
func TestSeen(t *testing.T) {
	for text, want := range map[string]map[uint32]bool{
		"":                                      {1: false, 7: false},
		"0/10@750:754:750,752":                  {749: true, 750: false, 751: true, 752: false, 753: true, 754: false, 800: false},
		"0/10@754:754:":                         {753: true, 754: false},
		"0/10@4294967299:4294967300:4294967299": {2: true, 3: false, 4: false, 5: false, 1<<32 - 1: true},
	} {
		s, ok := parseSeen(text)
		if !ok {
			t.Errorf("%q is no snapshot", text)
			continue
		}
		for xid, seen := range want {
			if s.has(transaction{commit: 0xf, xid: xid}) != seen {
				t.Errorf("%q has transaction %d: %v, want %v", text, xid, !seen, seen)
			}
			if s.has(transaction{commit: 0x10, xid: xid}) {
				t.Errorf("%q has transaction %d, which commits later", text, xid)
			}
		}
	}
	for _, text := range []string{"x", "0/10", "0/10@1:2", "0/10@1:x:", "0/10@1:2:x", "0/10@1:2:3,", "y@1:2:"} {
		if _, ok := parseSeen(text); ok {
			t.Errorf("%q is a snapshot", text)
		}
	}
}

// The ledger keeps that a full read has begun in a form that no position has.
func TestBegun(t *testing.T) {
	b := begun{position{timeline: 1, lsn: 0x10, tables: "1f2e3d4c", catalog: 42, system: "7431"}, 751}
	const text = "reading 00000001:0/10 tables=1f2e3d4c catalog=2a system=7431 last=0/0,0,0 next=751"
	if b.String() != text {
		t.Errorf("%q, want %q", b.String(), text)
	}
	if got, ok := parseBegun(text); !ok || got != b {
		t.Errorf("parsed: %+v, %v", got, ok)
	}
	for _, other := range []string{"", b.position.String(), strings.TrimPrefix(text, "reading "), strings.TrimSuffix(text, " next=751"), text + "x"} {
		if got, ok := parseBegun(ledger.Position(other)); ok {
			t.Errorf("%q: %+v", other, got)
		}
	}
	if at, ok := parsePosition(text); ok {
		t.Errorf("a read that has begun is a position: %+v", at)
	}
}

// interrupt runs a follower until the ledger has a position of a kind: begins or ends.
func (a *app) interrupt(at func(position ledger.Position) bool) {
	a.t.Helper()
	var dead atomic.Bool
	end := make(chan struct{})
	recorder, err := activity.Open(a.t.Context(), activity.Config{
		Store: &favfilter.Memory{}, Ledger: a.ledger.Around(func(ctx context.Context, c *ledger.Call, next func(context.Context) error) error {
			if dead.Load() && c.Operation != "renew" { // which ends the lease
				return faulttest.ErrInjected
			}
			err := next(ctx)
			if c.Operation != "follow" {
				return err
			}
			sources, failed := a.ledger.Sources(context.WithoutCancel(ctx))
			if failed == nil && at(sources[0].Position) && dead.CompareAndSwap(false, true) {
				close(end)
			}
			return err
		}),
	})
	must(a.t, err)
	defer recorder.Close()
	f := a.follower("one")
	f.recorder = recorder
	ctx, cancel := context.WithCancel(a.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	<-end
	cancel()
	must(a.t, <-ended)
	if at := a.position(); at.lsn > 0 && at.seen == "" {
		a.t.Fatalf("the follower was interrupted at %v: nothing is tested", at)
	}
}

// begins and ends tell the positions of a full read that has begun, and that went on and has ended.
func begins(position ledger.Position) bool { return position.First() == ledger.Reading }

func ends(position ledger.Position) bool { return strings.Contains(string(position), "seen=") }

// newReadApp returns an app with some rows and room for prepared transactions.
func newReadApp(t *testing.T, settings ...string) *app {
	t.Helper()
	a := openLedger(t, appTables, activity.BuiltinKinds())
	a.server = pgtest.Start(t, append([]string{"wal_level=logical", "max_prepared_transactions=2"}, settings...)...)
	a.connect()
	a.exec(appSQL)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 2), (1, 3), (1, 4)`)
	return a
}

// other returns another connection to the source.
func (a *app) other() (exec func(sql string)) {
	a.t.Helper()
	conn, err := pgx.Connect(a.t.Context(), a.server.URL())
	must(a.t, err)
	a.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func(sql string) {
		a.t.Helper()
		_, err := conn.Exec(a.t.Context(), sql)
		must(a.t, err)
	}
}

// text returns the position as the ledger keeps it.
func (a *app) text() ledger.Position {
	a.t.Helper()
	sources, err := a.ledger.Sources(a.t.Context())
	must(a.t, err)
	if len(sources) == 0 {
		return ""
	}
	return sources[0].Position
}

const (
	// insertUnconfirmed commits, and waits for a synchronous standby that is not there. Other
	// transactions do not see the row until confirmAll ends the wait.
	insertUnconfirmed = `SET synchronous_commit = on; INSERT INTO blocks (blocker_id, blocked_id) VALUES (9, 1)`
	isUnconfirmed     = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')`
	// waitsForUnconfirmed reports whether a process waits for such a transaction.
	waitsForUnconfirmed = `SELECT EXISTS (SELECT FROM pg_locks w JOIN pg_locks h USING (transactionid)
		JOIN pg_stat_activity a ON a.pid = h.pid WHERE NOT w.granted AND h.granted AND a.wait_event = 'SyncRep')`
	confirmAll = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
)

// soonTrue waits until a query of the source returns true.
func (a *app) soonTrue(what, sql string) {
	a.t.Helper()
	soon(a.t, what, func() (is bool) {
		must(a.t, a.conn.QueryRow(a.t.Context(), sql).Scan(&is))
		return is
	})
}

// freed waits until a stopped follower's slot is free. The server process of its stream notices a
// little later that the client has gone.
func (a *app) freed(f *Follower) {
	a.t.Helper()
	a.soonTrue("the slot to be free", `SELECT NOT active FROM pg_replication_slots WHERE slot_name = '`+f.source.name+`'`)
}

// A full read is interrupted, once the ledger has some rows or all. The next process goes on with
// the slot, and does not wait for transactions that are open by then. Each change takes effect
// once, whether the tables had it when they were read or not.
func TestFollowReadResumes(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"while it reads": false, "once it has read": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newReadApp(t, "synchronous_standby_names=absent", "synchronous_commit=local")
			a.interrupt(begins)
			open, prepared, unconfirmed := a.other(), a.other(), a.other()
			open(`BEGIN; INSERT INTO blocks (blocker_id, blocked_id) VALUES (5, 1), (5, 1); DELETE FROM blocks WHERE blocked_id = 4`)
			prepared(`BEGIN; INSERT INTO blocks (blocker_id, blocked_id) VALUES (6, 1); PREPARE TRANSACTION 'late'`)
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (7, 1), (7, 1), (7, 2)`)
			a.exec(`DELETE FROM blocks WHERE id = 1 OR blocked_id = 3`)
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (3, 3)`) // not valid, and corrected
			a.exec(`DELETE FROM blocks WHERE blocker_id = 3`)
			var committing sync.WaitGroup // in the log, and in no snapshot yet
			committing.Go(func() { unconfirmed(insertUnconfirmed) })
			a.soonTrue("a commit to wait for the standby", isUnconfirmed)
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (7, 3)`) // a later transaction, in all snapshots
			if again {
				a.interrupt(ends)
				a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (8, 1)`)
			}
			f := a.follower("two")
			log := new(lockedLog)
			f.logTo(slog.New(slog.NewTextHandler(log, nil)))
			stop := a.start(f)
			soon(t, "the second process to have read", func() bool { return f.Stats().Active })
			a.exec(confirmAll)
			committing.Wait()
			a.after()
			if strings.Contains(log.String(), "creating a replication slot") || again != (f.Stats().Snapshots == 0) {
				t.Errorf("%d full reads:\n%s", f.Stats().Snapshots, log)
			}
			a.exec(`DELETE FROM blocks WHERE id = (SELECT min(id) FROM blocks WHERE blocker_id = 7)`)
			open(`COMMIT`)
			a.exec(`COMMIT PREPARED 'late'`)
			a.after()
			stop()
			a.exec(`DELETE FROM blocks WHERE blocker_id = 7 AND blocked_id = 1`)
			a.exec(`DELETE FROM blocks WHERE id IN (SELECT min(id) FROM blocks WHERE blocker_id = 5)`)
			f = a.follower("three")
			a.start(f)
			a.after()
			a.exec(`DELETE FROM blocks WHERE blocker_id IN (1, 5, 6)`)
			a.after()
			if n := f.Stats().Snapshots; n != 0 || a.position().seen != "" {
				t.Errorf("%d full reads, position %v", n, a.position())
			}
		})
	}
}

// A full read is interrupted, and its slot or the catalog is another one when it could go on. Then
// it begins again with a new slot, and the ledger is as the source.
func TestFollowReadBeginsAgain(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string][]string{
		"slot dropped": {`SELECT pg_drop_replication_slot('feedfilter_app')`},
		"slot created again": {
			`SELECT pg_drop_replication_slot('feedfilter_app')`, `INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 7)`,
			`SELECT pg_create_logical_replication_slot('feedfilter_app', 'pgoutput')`,
		},
		// A transaction is open when the read could go on, whose rows the stream lacks.
		"unpublished for a time": {
			`ALTER PUBLICATION feedfilter_app DROP TABLE ONLY blocks`, "open",
			`ALTER PUBLICATION feedfilter_app ADD TABLE ONLY blocks`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newReadApp(t)
			a.interrupt(begins)
			open := a.other()
			for _, sql := range meanwhile {
				if sql == "open" {
					open(`BEGIN; INSERT INTO blocks (blocker_id, blocked_id) VALUES (5, 1)`)
					continue
				}
				a.exec(sql)
			}
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 8)`)
			a.exec(`DELETE FROM blocks WHERE blocked_id = 3`)
			f := a.follower("two")
			log := new(lockedLog)
			f.logTo(slog.New(slog.NewTextHandler(log, nil)))
			a.start(f)
			soon(t, "a new slot", func() bool { return strings.Contains(log.String(), "creating a replication slot") })
			open(`COMMIT`)
			a.after()
			if strings.Contains(log.String(), "going on with") {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}

// While a source is read for the first time, its kinds are degraded, and no position counts as
// reached. So it is after an interruption.
func TestFollowReadIsDegraded(t *testing.T) {
	t.Parallel()
	a := newReadApp(t)
	a.interrupt(begins)
	r, err := activity.Open(t.Context(), activity.Config{Ledger: a.ledger, Store: &favfilter.Memory{}, FollowedWithin: time.Hour})
	must(t, err)
	t.Cleanup(r.Close)
	block, _ := r.Kinds().Named("block")
	soon(t, "the kind to be degraded", func() bool { return len(r.Behind([]activity.Kind{block})) > 0 })
	err = r.Await(t.Context(), activity.Freshness{After: "0/1"})
	if late, is := errors.AsType[*activity.NotYetError](err); !is || late.Reason != "it has to be read whole first" {
		t.Errorf("a position counts as reached: %v", err)
	}
}

// A commit is in the log before the slot's place, and waits for a synchronous standby. The snapshot
// of a process that could go on lacks it, and so does the stream. So the read begins again.
//
// PostgreSQL 17.12 finds the same place for the slot as 15.18, says its log, but then waits for the
// commit before it exports the snapshot.
func TestFollowReadLacksUnconfirmedCommit(t *testing.T) {
	t.Parallel()
	a := newReadApp(t, "synchronous_standby_names=absent", "synchronous_commit=local")
	var interrupting sync.WaitGroup
	confirmed := a.unconfirmedBehindSlot(func() { interrupting.Go(func() { a.interrupt(begins) }) })
	var waitsToo bool
	soon(t, "the slot, or its wait for the commit", func() bool {
		must(t, a.conn.QueryRow(t.Context(), waitsForUnconfirmed).Scan(&waitsToo))
		return waitsToo || begins(a.text())
	})
	if waitsToo {
		confirmed()
		interrupting.Wait()
		t.Skip("this version of PostgreSQL waits for the commit before it exports the snapshot: there is nothing to lose")
	}
	interrupting.Wait()
	f := a.follower("two")
	a.start(f)
	soon(t, "the new slot to wait for the commit", func() bool {
		return f.Stats().Active || strings.Contains(f.Stats().Trouble, "creating the replication slot waits for")
	})
	confirmed()
	a.after()
}

// unconfirmedBehindSlot inserts a row whose commit waits for a synchronous standby, while a slot is
// created, which create begins. In the log the commit is before the slot's place, but the slot does
// not wait for it: its transaction began while the slot waited for others. confirmed ends the wait.
func (a *app) unconfirmedBehindSlot(create func()) (confirmed func()) {
	a.t.Helper()
	first, second, waits := a.other(), a.other(), a.other()
	first(`BEGIN; CREATE TABLE first ()`)
	create()
	a.soonTrue("the slot to wait", `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)`)
	second(`BEGIN; CREATE TABLE second ()`)
	first(`ROLLBACK`)
	a.soonTrue("the slot to wait for the second", `SELECT EXISTS (SELECT FROM pg_locks w JOIN pg_locks h USING (transactionid)
		JOIN pg_stat_activity a ON a.pid = h.pid WHERE NOT w.granted AND h.granted AND query LIKE '%TABLE second%')`)
	var committing sync.WaitGroup
	committing.Go(func() { waits(insertUnconfirmed) })
	a.soonTrue("a commit to wait for the standby", isUnconfirmed)
	second(`ROLLBACK`)
	return func() { a.exec(confirmAll); committing.Wait() }
}
