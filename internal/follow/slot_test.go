package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// newApp17 returns an app whose standbys can keep copies of its slots.
func newApp17(t *testing.T, settings ...string) *app {
	t.Helper()
	server := pgtest.StartAtLeast(t, 17, append([]string{"wal_level=logical", "wal_sender_timeout=5s"}, settings...)...)
	a := openLedger(t, appTables, activity.BuiltinKinds())
	a.server = server
	a.connect()
	a.exec(appSQL)
	return a
}

// standby starts a standby that keeps copies of slots, if copies is "on".
func (a *app) standby(copies string) *pgtest.Server {
	a.t.Helper()
	a.exec(`SELECT pg_create_physical_replication_slot('standby')`)
	return a.server.StartStandby("primary_slot_name=standby", "sync_replication_slots="+copies, "hot_standby_feedback=on",
		"synchronized_standby_slots=")
}

// copied waits until a standby has a copy of the slot that outlives a failover.
func (a *app) copied(standby *pgtest.Server) {
	a.t.Helper()
	conn, err := pgx.Connect(a.t.Context(), standby.URL())
	must(a.t, err)
	defer conn.Close(context.Background())
	soon(a.t, "a copy of the slot", func() (is bool) {
		a.exec(`SELECT pg_log_standby_snapshot()`) // the slot moves, which the copy waits for
		must(a.t, conn.QueryRow(a.t.Context(), `SELECT coalesce(bool_or(synced AND failover AND NOT temporary), false)
			FROM pg_replication_slots WHERE slot_name = 'feedfilter_app'`).Scan(&is))
		return is
	})
}

// failOver kills the source, and promotes its standby.
func (a *app) failOver(standby *pgtest.Server) {
	a.t.Helper()
	a.server.Kill()
	a.server = standby
	a.connect()
	a.exec(`SELECT pg_promote()`)
}

// A slot that is given up ends although the transaction that it waits for goes on, also if the
// request to cancel it is lost.
func TestSlotGivenUp(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`BEGIN; INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	f := a.follower("one")
	look, err := f.source.connect(t.Context(), false)
	must(t, err)
	defer look.Close(context.Background())
	c, err := pgx.ParseConfig(a.server.URL())
	must(t, err)
	c.RuntimeParams["replication"] = "database"
	dialed := atomic.Bool{}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errors.New("a request to cancel is lost")
		}
		return dial(ctx, network, address)
	}
	exporter, err := pgx.ConnectConfig(t.Context(), c)
	must(t, err)
	process := exporter.PgConn().PID()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := f.createSlot(ctx, exporter, look, &reading{slot: "given_up"})
		ended <- err
	}()
	soon(t, "the slot to wait", func() bool {
		_, found, err := waitsFor(t.Context(), a.conn, process)
		must(t, err)
		return found
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	soon(t, "the process to end", func() (gone bool) {
		must(t, a.conn.QueryRow(t.Context(), `SELECT NOT EXISTS (SELECT FROM pg_stat_replication WHERE pid = $1)`, int32(process)).Scan(&gone))
		return gone
	})
}

// The source fails over to a standby that has a copy of the slot and all commits of the ledger. The
// stream goes on: nothing is read whole, nothing is missing, and a feed gets what it waits for.
func TestFollowFailoverGoesOn(t *testing.T) {
	t.Parallel()
	a := newApp17(t, "synchronized_standby_slots=standby")
	standby := a.standby("on")
	stop := a.start(a.follower("one"))
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 3), (1, 4)`)
	a.after()
	a.copied(standby)
	a.exec(`DELETE FROM blocks WHERE blocked_id = 2`)
	a.after()
	stop()
	a.exec(`DELETE FROM blocks WHERE blocked_id = 3`) // nobody follows
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 5)`)
	a.shipped(standby)
	at := a.position()
	a.failOver(standby)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 6)`)
	now := a.mark()
	f := a.follower("two")
	stop = a.start(f)
	a.after()
	must(t, a.recorder.Await(t.Context(), activity.Freshness{After: now}))
	if is := a.position(); f.Stats().Snapshots != 0 || is.timeline != at.timeline+1 {
		t.Errorf("%d full reads, from %v to %v", f.Stats().Snapshots, at, is)
	}
	stop()
	again := a.follower("three") // an audit has a slot of its own
	again.options.Resync = true
	must(t, again.Run(t.Context()))
	if n := again.Stats().Snapshots; n != 0 {
		t.Errorf("%d full reads for a resync", n)
	}
}

// The source fails over to a standby without a copy of the slot: the tables are read whole, and
// nothing is lost. So they are if the copy is there, and the ledger has commits that the standby
// lacks.
func TestFollowFailoverWithoutCopy(t *testing.T) {
	t.Parallel()
	for name, copies := range map[string]string{"no copy": "off", "behind the ledger": "on"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApp17(t)
			standby := a.standby(copies)
			stop := a.start(a.follower("one"))
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 3)`)
			a.after()
			if copies == "on" {
				a.copied(standby)
				standby.Kill()
			}
			a.exec(`DELETE FROM blocks WHERE blocked_id = 2`)
			a.after()
			stop()
			if copies == "on" {
				a.server.Kill() // before the standby gets the rest
				standby.Restart()
			} else {
				a.shipped(standby)
			}
			a.failOver(standby)
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 4)`)
			now := a.mark()
			f := a.follower("two")
			a.start(f)
			soon(t, "position "+now, func() bool { // without the timeline, the old primary got that far
				return a.recorder.Await(t.Context(), activity.Freshness{After: now}) == nil
			})
			a.after()
			if n := f.Stats().Snapshots; n != 1 {
				t.Errorf("%d full reads, want 1", n)
			}
		})
	}
}

// A slot that was made without copies gets them, and the stream goes on.
func TestFollowCopiesExistingSlot(t *testing.T) {
	t.Parallel()
	a := newApp17(t)
	f := a.follower("one")
	stop := a.start(f)
	a.after()
	stop()
	conn, err := f.source.connect(t.Context(), true)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.PgConn().Exec(t.Context(), `ALTER_REPLICATION_SLOT feedfilter_app (FAILOVER false)`).ReadAll()
	must(t, err)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	f = a.follower("two")
	a.start(f)
	a.after()
	var copies bool
	must(t, a.conn.QueryRow(t.Context(), `SELECT failover FROM pg_replication_slots WHERE slot_name = 'feedfilter_app'`).Scan(&copies))
	if n := f.Stats().Snapshots; !copies || n != 0 {
		t.Errorf("a failover slot: %v, %d full reads", copies, n)
	}
}

// A standby that the stream waits for, and that is not there, is named.
func TestCheckNamesAbsentStandby(t *testing.T) {
	t.Parallel()
	a := newApp17(t, `synchronized_standby_slots=standby, gone`)
	a.standby("on")
	soon(t, "the standby", func() (uses bool) {
		must(t, a.conn.QueryRow(t.Context(), `SELECT active FROM pg_replication_slots WHERE slot_name = 'standby'`).Scan(&uses))
		return uses
	})
	report, err := a.follower("one").Check(t.Context(), false)
	must(t, err)
	if !slices.ContainsFunc(report.Notes, func(note string) bool { return strings.Contains(note, "that no standby uses: gone;") }) {
		t.Errorf("notes: %q", report.Notes)
	}
}

// shipped waits until a standby has all that the source has committed.
func (a *app) shipped(standby *pgtest.Server) {
	a.t.Helper()
	var end string
	must(a.t, a.conn.QueryRow(a.t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&end))
	conn, err := pgx.Connect(a.t.Context(), standby.URL())
	must(a.t, err)
	defer conn.Close(context.Background())
	soon(a.t, "the standby", func() (has bool) {
		must(a.t, conn.QueryRow(a.t.Context(), `SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn`, end).Scan(&has))
		return has
	})
}

// While a slot waits for transactions, the log and health name them: one that was prepared and
// forgotten, and one that hangs. Then the follower goes on.
func TestFollowNamesOpenTransactions(t *testing.T) {
	t.Parallel()
	a := openLedger(t, appTables, activity.BuiltinKinds())
	a.server = pgtest.Start(t, "wal_level=logical", "max_prepared_transactions=2")
	a.connect()
	a.exec(appSQL)
	a.exec(`CREATE DATABASE other TEMPLATE template0`) // transactions of which count as well
	other, err := pgx.Connect(t.Context(), strings.Replace(a.server.URL(), "/postgres?", "/other?", 1))
	must(t, err)
	t.Cleanup(func() { _ = other.Close(context.Background()) })
	for _, sql := range []string{"BEGIN", "CREATE TABLE x ()", "PREPARE TRANSACTION 'forgot''ten'"} {
		_, err := other.Exec(t.Context(), sql)
		must(t, err)
	}
	hangs, err := pgx.Connect(t.Context(), a.server.URL()+"&application_name=migration")
	must(t, err)
	t.Cleanup(func() { _ = hangs.Close(context.Background()) })
	_, err = hangs.Exec(t.Context(), `BEGIN; CREATE TABLE unrelated ()`)
	must(t, err)
	f := a.follower("one")
	log := new(lockedLog)
	f.logTo(slog.New(slog.NewTextHandler(log, nil)))
	a.start(f)
	prepared := `the prepared transaction "forgot'ten" of database "other", `
	process := fmt.Sprintf(`the transaction of process %d (application "migration") of database "postgres", `, hangs.PgConn().PID())
	says := func(what string) bool { return strings.Contains(f.Stats().Trouble, what) }
	soon(t, "a name", func() bool { return says(prepared) || says(process) })
	if !strings.HasPrefix(f.Stats().Trouble, "the tables are read whole: the ledger has not read it whole; creating the replication slot waits for ") {
		t.Errorf("trouble: %s", f.Stats().Trouble)
	}
	endPrepared := func() {
		_, err := other.Exec(t.Context(), `ROLLBACK PREPARED 'forgot''ten'`)
		must(t, err)
	}
	endProcess := func() { a.exec(`SELECT pg_terminate_backend($1)`, hangs.PgConn().PID()) }
	if says(prepared) {
		endPrepared()
		soon(t, "the process", func() bool { return says(process) })
		endProcess()
	} else {
		endProcess()
		soon(t, "the prepared transaction", func() bool { return says(prepared) })
		endPrepared()
	}
	a.after()
	soon(t, "health to say that it follows", func() bool { return f.Stats().Trouble == "" })
	for _, want := range []string{
		`forgot'ten`, `run in that database: ROLLBACK PREPARED 'forgot''ten'`, fmt.Sprintf(`run: SELECT pg_terminate_backend(%d)`, hangs.PgConn().PID()),
	} {
		if n := strings.Count(log.String(), want); n == 0 {
			t.Errorf("the log does not say %s:\n%s", want, log)
		}
	}
}

// When the slot is there, health no longer says for whom it waited, while the tables are read.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	open, err := pgx.Connect(t.Context(), a.server.URL())
	must(t, err)
	defer open.Close(context.Background())
	_, err = open.Exec(t.Context(), `BEGIN; CREATE TABLE unrelated ()`)
	must(t, err)
	f := a.follower("one")
	exporter, err := f.source.connect(t.Context(), true)
	must(t, err)
	defer exporter.Close(context.Background())
	f.figures.say("the tables are read")
	ended := make(chan error)
	go func() {
		_, err := f.createSlot(t.Context(), exporter, a.conn, &reading{slot: f.source.name})
		ended <- err
	}()
	soon(t, "for whom it waits", func() bool { return strings.Contains(f.Stats().Trouble, "waits for the transaction of process") })
	_, err = open.Exec(t.Context(), `ROLLBACK`)
	must(t, err)
	must(t, <-ended)
	if got := f.Stats().Trouble; got != "the tables are read" {
		t.Errorf("trouble: %s", got)
	}
}

// lockedLog is a log of several goroutines.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
