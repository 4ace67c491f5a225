package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

const (
	comparedText  = "compared source and ledger"
	noDifferences = "map[block:map[changed:0 missing:0 stray:0] hide:map[changed:0 missing:0 stray:0]]"
)

// auditing returns a follower that audits all the time, and its log.
func (a *app) auditing(holder string) (*Follower, *logBuffer) {
	f, log := a.follower(holder), new(logBuffer)
	f.options.ResyncEvery, f.limits.auditAgain = time.Nanosecond, time.Millisecond
	f.logTo(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	return f, log
}

// positions are what has digits in a log beside ids.
var positions = regexp.MustCompile(`position="[^"]*"|time=\S+|(same|differences)=\d+`)

// audits waits until that many more audits have ended.
func (a *app) audits(log *logBuffer, more int) {
	a.t.Helper()
	had := strings.Count(log.String(), comparedText)
	soon(a.t, "audits", func() bool { return strings.Count(log.String(), comparedText) >= had+more })
}

// onPostgres moves the app's ledger to a PostgreSQL, and returns a connection to it.
func (a *app) onPostgres() *pgx.Conn {
	a.t.Helper()
	server := pgtest.Start(a.t)
	var err error
	// Calls may take as long as it takes beside other tests.
	patient := server.URL() + "&statement_timeout=2min&lock_timeout=2min&idle_in_transaction_session_timeout=2min"
	a.ledger, err = ledger.Open(a.t.Context(), patient, ledger.Options{Pages: 16})
	must(a.t, err)
	a.recorder, err = activity.Open(a.t.Context(), activity.Config{Ledger: a.ledger, Store: &favfilter.Memory{}})
	must(a.t, err)
	l, r := a.ledger, a.recorder
	a.t.Cleanup(func() { r.Close(); _ = l.Close() })
	conn, err := pgx.Connect(a.t.Context(), server.URL())
	must(a.t, err)
	a.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	var schema string
	must(a.t, conn.QueryRow(a.t.Context(), `SELECT schemaname FROM pg_tables WHERE tablename = 'entries'`).Scan(&schema))
	_, err = conn.Exec(a.t.Context(), "SET search_path = "+quote(schema))
	must(a.t, err)
	return conn
}

// An audit gives way to somebody who alters a table that it reads, and is tried again.
func TestAuditMeetsAlter(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`INSERT INTO blocks (blocked_id) SELECT n FROM generate_series(1, 200000) n`) // give nothing, and take 10 s
	f, log := a.auditing("one")
	a.start(f)
	soon(t, "an audit that reads", func() (reads bool) {
		must(t, a.conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND state <> 'idle' AND query LIKE 'SELECT %ONLY "public"."blocks"')`).Scan(&reads))
		return reads && strings.Contains(log.String(), comparedText) // not the full read
	})
	a.exec(`ALTER TABLE blocks ADD extra int; DELETE FROM blocks WHERE blocker_id IS NULL`)
	if text := log.String(); strings.Count(text, comparedText) != 1 || !strings.Contains(text, errInTheWay.Error()) {
		t.Errorf("the audit ended otherwise:\n%s", text)
	}
	a.audits(log, 1)
	a.after()
}

// writes changes users beside those that a test looks at, until end is called. The follower keeps
// up.
func (a *app) writes() (end func()) {
	ctx := a.t.Context()
	quit, cancel := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() {
		conn, err := pgx.Connect(ctx, a.server.URL())
		if err != nil {
			a.t.Error(err)
			return
		}
		defer conn.Close(ctx)
		for n := 0; quit.Err() == nil; n++ {
			for _, sql := range []string{
				fmt.Sprintf(`INSERT INTO blocks (blocker_id, blocked_id) SELECT %d, n FROM generate_series(300, 320) n`, 600+n%20),
				fmt.Sprintf(`DELETE FROM blocks WHERE blocker_id = %d`, 600+(n+7)%20),
				fmt.Sprintf(`UPDATE blocks SET blocked_id = 1000 + (blocked_id + 1) %% 50 WHERE id %% 20 = %d AND blocker_id BETWEEN 600 AND 700`, n%20),
			} {
				if _, err := conn.Exec(ctx, sql); err != nil {
					a.t.Error(err)
				}
			}
			var written pglogrepl.LSN
			if err := conn.QueryRow(ctx, `SELECT pg_current_wal_flush_lsn()::text`).Scan(&written); err != nil {
				a.t.Error(err)
			}
			for quit.Err() == nil && a.position().lsn < written { //nolint:contextcheck // ends with the test
				time.Sleep(time.Millisecond)
			}
		}
	})
	end = sync.OnceFunc(func() { cancel(); writing.Wait() })
	a.t.Cleanup(end)
	return end
}

// damage changes the ledger by hand: a row is lost, one is too many, and one ends at another time.
// So it does with the mirrors of other blocks.
func damage(t *testing.T, conn *pgx.Conn, user string) {
	t.Helper()
	for _, sql := range []string{
		`DELETE FROM entries WHERE owner = $1 AND kind = 'block' AND target = '41101'`,
		`INSERT INTO entries (hash, owner, kind, target, since) SELECT hash, owner, kind, '41999', since FROM entries
			WHERE owner = $1 AND kind = 'block' AND target = '41102'`,
		`UPDATE entries SET until = since + 9e15 WHERE owner = $1 AND kind = 'block' AND target = '41103'`,
		`DELETE FROM entries WHERE kind LIKE 'block%' AND kind <> 'block' AND target = $1 AND owner = '41106'`,
		`INSERT INTO entries (hash, owner, kind, target, since) SELECT hash, owner, kind, '41998', since FROM entries
			WHERE kind LIKE 'block%' AND kind <> 'block' AND target = $1 AND owner = '41107'`,
		`UPDATE entries SET until = since + 9e15 WHERE kind LIKE 'block%' AND kind <> 'block' AND target = $1 AND owner = '41108'`,
	} {
		tag, err := conn.Exec(t.Context(), sql, user)
		must(t, err)
		if tag.RowsAffected() != 1 {
			t.Fatalf("%s: %d rows", sql, tag.RowsAffected())
		}
	}
}

// An audit finds what is wrong in the ledger, whether that happened while nobody followed or since.
// It mends exactly that, beside a writer, counts it, and logs no ids.
func TestAudit(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	conn := a.onPostgres()
	stop := a.start(a.follower("one"))
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT u, b FROM generate_series(47110, 47114) u, generate_series(41101, 41110) b`)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (47110, 41105)`) // two rows give it
	a.reached()
	stop()
	damage(t, conn, "47111")
	f, log := a.auditing("two")
	a.start(f)
	soon(t, "the follower", func() bool { return f.Stats().Active })
	end := a.writes()
	want := func(n uint64) {
		t.Helper()
		soon(t, "all to be mended", func() bool { d := f.Stats().Differences["block"]; return d["missing"]+d["stray"]+d["changed"] >= 3*n })
		a.audits(log, 2) // nothing is left, and nothing else is found
		if d := fmt.Sprint(f.Stats().Differences); d != fmt.Sprintf("map[block:map[changed:%d missing:%[1]d stray:%[1]d] hide:map[changed:0 missing:0 stray:0]]", n) {
			t.Errorf("differences %s, want %d of each", d, n)
		}
	}
	want(2)
	damage(t, conn, "47112")
	want(4)
	end()
	a.reached()
	a.wantMapped()
	text := log.String()
	if !strings.Contains(text, `level=WARN msg="the ledger differed from the source: recorded as the source has it" kind=block tables=blocks missing=2 stray=2 changed=2`) {
		t.Errorf("the log does not tell of it:\n%s", text)
	}
	if regexp.MustCompile(`\b(4711|411|41999|6\d\d|10\d\d)\d*\b`).MatchString(positions.ReplaceAllString(text, "")) {
		t.Errorf("the log shows ids:\n%s", text)
	}
}

// The audit of a ledger that is right finds nothing and changes nothing, whatever the source
// writes, ends or rolls back meanwhile.
func TestAuditFindsNothing(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f, log := a.auditing("one")
	a.start(f)
	soon(t, "the follower", func() bool { return f.Stats().Active })
	rng := rand.New(rand.NewPCG(7, 8))
	for end, n := strings.Count(log.String(), comparedText)+5, 0; strings.Count(log.String(), comparedText) < end; n++ {
		a.transaction(rng)
		// Activities that end while they are compared.
		a.exec(`INSERT INTO "App"."Mutes" SELECT '00000000-0000-0000-0000-000000000009', 'ends' || $1 || '-' || n, now() + n * interval '3 ms'
			FROM generate_series(1, 30) n`, fmt.Sprint(n))
		if n%20 == 19 { // so the ledger is behind when most audits begin
			a.reached()
		}
	}
	if d := fmt.Sprint(f.Stats().Differences); d != noDifferences {
		t.Errorf("differences %s\n%s", d, log.String())
	}
	if n := f.Stats().Snapshots; n != 1 {
		t.Errorf("%d full reads, want the first", n)
	}
	soon(t, "the activities to end", func() (ended bool) {
		must(t, a.conn.QueryRow(t.Context(), `SELECT count(*) = 0 FROM "App"."Mutes" WHERE "Post" LIKE 'ends%' AND expires_at > now()`).Scan(&ended))
		return ended
	})
	a.reached()
	a.wantMapped()
}

// A commit waits for a synchronous standby: the ledger has it from the stream, and no query of the
// source shows it. An audit finds nothing wrong, neither then nor when it is confirmed.
func TestAuditBesideUnconfirmedCommit(t *testing.T) {
	t.Parallel()
	a := newReadApp(t, "synchronous_standby_names=absent", "synchronous_commit=local")
	f, log := a.auditing("one")
	a.start(f)
	a.audits(log, 1)
	confirmed := a.unconfirmedBehindSlot(func() {}) // audits begin all the time
	soon(t, "the commit in the ledger", func() bool { return slices.Contains(a.has(), "block 9 1") })
	had := strings.Count(log.String(), comparedText)
	soon(t, "an audit, or one that waits for the commit", func() (waits bool) {
		must(t, a.conn.QueryRow(t.Context(), waitsForUnconfirmed).Scan(&waits))
		return waits || strings.Count(log.String(), comparedText) > had
	})
	if !slices.Contains(a.has(), "block 9 1") {
		t.Error("an audit took a commit away")
	}
	confirmed()
	a.audits(log, 2)
	a.after()
	if d := fmt.Sprint(f.Stats().Differences); d != noDifferences {
		t.Errorf("differences %s\n%s", d, log.String())
	}
}

// An audit that fails says what to do, and is tried again. Following goes on.
func TestAuditFails(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.start(a.follower("zero"))()
	var other *pgx.Conn
	var senders []*pgx.Conn
	for name, c := range map[string]struct {
		prepare, mend func(f *Follower)
		log           string
	}{
		"no free slot": {
			func(*Follower) {
				a.exec(`SELECT pg_create_physical_replication_slot('used' || n) FROM generate_series(1, current_setting('max_replication_slots')::int
					- (SELECT count(*)::int FROM pg_replication_slots)) n`)
			},
			func(*Follower) {
				a.exec(`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'used%'`)
			},
			`do="raise max_replication_slots of the source: a comparison needs a second slot for a moment"`,
		},
		"no free sender": {
			func(*Follower) {
				var free int
				must(t, a.conn.QueryRow(t.Context(), `SELECT current_setting('max_wal_senders')::int - count(*) FROM pg_stat_replication`).Scan(&free))
				for range free - 1 { // the stream takes one
					conn, err := a.follower("sender").source.connect(t.Context(), true)
					must(t, err)
					senders = append(senders, conn)
				}
			},
			func(*Follower) {
				for _, conn := range senders {
					must(t, conn.Close(t.Context()))
				}
			},
			`do="raise max_wal_senders or max_connections of the source: a comparison needs some connections"`,
		},
		"an open transaction": {
			func(f *Follower) {
				f.limits.patience = 20 * time.Millisecond
				_, err := other.Exec(t.Context(), `BEGIN; INSERT INTO blocks (blocker_id, blocked_id) VALUES (70, 71)`)
				must(t, err)
			},
			func(*Follower) {
				_, err := other.Exec(t.Context(), `COMMIT`)
				must(t, err)
			},
			`do="end the oldest transaction in pg_stat_activity or pg_prepared_xacts of the source"`,
		},
		"no place for files": {
			func(f *Follower) { f.options.TempDir = filepath.Join(t.TempDir(), "missing") },
			func(f *Follower) { must(t, os.Mkdir(f.options.TempDir, 0o700)) },
			"no such file or directory",
		},
	} {
		var err error
		other, err = pgx.Connect(t.Context(), a.server.URL())
		must(t, err)
		f, log := a.auditing("one")
		ready := a.follower("first")
		stop := a.start(ready) // the slot of the stream is there
		a.reached()
		stop()
		soon(t, "the senders to end", func() (gone bool) {
			must(t, a.conn.QueryRow(t.Context(), `SELECT count(*) = 0 FROM pg_stat_replication`).Scan(&gone))
			return gone
		})
		c.prepare(f)
		before := a.position().audited
		stop = a.start(f)
		soon(t, "audits to fail", func() bool { return strings.Count(log.String(), "cannot compare source and ledger") > 2 })
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
		a.reached()
		text := log.String()
		if !f.Stats().Active || f.Stats().Trouble != "" || strings.Count(text, "following the source") != 1 || a.position().audited != before {
			t.Errorf("%s: following does not go on: %+v\n%s", name, f.Stats(), text)
		}
		if !strings.Contains(text, c.log) {
			t.Errorf("%s: the log does not say %s:\n%s", name, c.log, text)
		}
		stop()
		soon(t, "the slot of the failed audit to end", func() (gone bool) {
			must(t, a.conn.QueryRow(t.Context(), `SELECT count(*) = 0 FROM pg_replication_slots WHERE temporary`).Scan(&gone))
			return gone
		})
		c.mend(f)
		stop = a.start(f)
		a.audits(log, 1)
		stop()
		must(t, other.Close(t.Context()))
		a.reachedBy(a.follower("last"))
		a.wantMapped()
	}
}

// reachedBy has a follower record all that was committed.
func (a *app) reachedBy(f *Follower) {
	a.t.Helper()
	stop := a.start(f)
	defer stop()
	a.reached()
}

// When the last audit was is in the ledger. It is due once for all processes and restarts.
func TestAuditIsDueOnce(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	const slot = "creating a replication slot"
	var followers []*Follower
	var logs []*logBuffer
	for _, holder := range []string{"one", "two", "three"} {
		f, log := a.auditing(holder)
		f.options.ResyncEvery = time.Hour
		followers, logs = append(followers, f), append(logs, log)
	}
	before := time.Now().Unix()
	a.reachedBy(followers[0])
	if at := a.position().audited; at < before || at > time.Now().Unix() || strings.Count(logs[0].String(), slot) != 1 {
		t.Fatalf("the full read does not count: %d, after %d\n%s", at, before, logs[0].String())
	}
	soon(t, "each process to know", func() bool { return a.status(nil).Proved.Unix() == a.position().audited })
	old := a.position()
	old.audited = before - 7200
	var src *activity.Source
	soon(t, "the lease", func() (ok bool) {
		var err error
		src, err = a.recorder.Follow(t.Context(), "app", "by hand", a.tables.Kinds(), time.Millisecond, true)
		return err == nil
	})
	must(t, src.Record(t.Context(), old.text(), nil))
	stop := a.start(followers[1])
	soon(t, "one to follow", func() bool { return followers[1].Stats().Active })
	stop2 := a.start(followers[2])
	soon(t, "the audit", func() bool { return a.position().audited >= before })
	proved := a.position().audited
	stop()
	soon(t, "the other to follow", func() bool { return followers[2].Stats().Active })
	for range 10 { // there is time for another one
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
		a.reached()
	}
	stop2()
	a.reachedBy(followers[0])
	if n := strings.Count(logs[0].String()+logs[1].String()+logs[2].String(), slot); n != 2 || a.position().audited != proved {
		t.Errorf("%d reads, want the first and one audit; %d, then %d", n, proved, a.position().audited)
	}
}

// An audit that is due says so, whatever the clock.
func TestAuditDue(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		audited int64
		want    time.Duration
	}{
		{0, 0}, {now.Unix() - 90000, 0}, {now.Unix() - 86400, 0}, {now.Unix() - 86399, time.Second}, {now.Unix(), 24 * time.Hour},
		{now.Unix() + 1e6, 24 * time.Hour}, // the clock was set back
	} {
		if got := auditDue(c.audited, 24*time.Hour, now); got != c.want {
			t.Errorf("audited at %d: due in %v, want %v", c.audited, got, c.want)
		}
	}
}

// slicing is an auditor without a stream, for a source of n rows and an empty ledger. mend takes
// what would be recorded.
func slicing(t *testing.T, n, most int, mend func(u *auditor, changes []activity.SourceChange)) (*app, *auditor, *logBuffer) {
	t.Helper()
	a := newApp(t)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT n, n + 1 FROM generate_series(1, $1::int) n`, n)
	f, log := a.auditing("one")
	src, err := a.recorder.Follow(t.Context(), "app", "one", a.tables.Kinds(), time.Hour, false)
	must(t, err)
	conn, err := f.source.connect(t.Context(), false)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	report, err := f.source.inspect(t.Context(), conn)
	must(t, err)
	must(t, f.source.create(t.Context(), conn, report.Problems))
	known, err := f.source.catalogOf(t.Context(), conn)
	must(t, err)
	repl, err := f.source.connect(t.Context(), true)
	must(t, err)
	defer repl.Close(t.Context())
	is, err := serverOf(t.Context(), repl)
	must(t, err)
	f.progress.recorded.Store(math.MaxInt64)
	mends := make(chan *mending)
	u := &auditor{f: f, src: src, known: known, server: is, touched: newTouched(partsOf(src)), mend: mends}
	u.touched.most = most
	var serving sync.WaitGroup
	serving.Go(func() {
		for m := range mends {
			if m.audited != 0 {
				f.progress.audited.Store(m.audited)
			} else {
				mend(u, changesOf(m.found))
			}
			m.done <- nil
		}
	})
	t.Cleanup(func() { close(mends); serving.Wait() })
	return a, u, log
}

// An audit beside which the stream changes more than there is room to remember compares in slices,
// and all of the users in the end.
func TestAuditInSlices(t *testing.T) {
	t.Parallel()
	const rows = 3000
	mended, called := make(map[string]bool), 0
	_, u, log := slicing(t, rows, 20, func(u *auditor, changes []activity.SourceChange) {
		for _, c := range changes {
			mended[c.User] = true
		}
		called++
		if called%40 == 0 { // some of each part, and room for those of about one
			for n := range 4000 {
				u.touched.add(item{"block", fmt.Sprint("other", n), "1"}, math.MaxInt64)
			}
		}
	})
	must(t, u.audit(t.Context()))
	if n := strings.Count(log.String(), "creating a replication slot"); n < 4 || n > 10 {
		t.Errorf("%d slices", n)
	}
	if len(mended) != rows {
		t.Errorf("%d users were compared, want %d", len(mended), rows)
	}
	if d := u.f.Stats().Differences["block"]["missing"]; d < rows || u.f.progress.audited.Load() == 0 {
		t.Errorf("%d differences, audited at %d", d, u.f.progress.audited.Load())
	}
}

// An audit compares once the ledger has all that the tables said when they were read.
func TestAuditAwaitsStream(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	var mended atomic.Int64
	a, u, log := slicing(t, 100, maxTouched, func(_ *auditor, changes []activity.SourceChange) {
		mended.Add(int64(len(changes)))
		if !ready.Load() {
			t.Error("compared before the stream was recorded")
		}
	})
	u.f.progress.recorded.Store(0)
	var auditing sync.WaitGroup
	auditing.Go(func() {
		if err := u.audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
	soon(t, "the rows", func() bool { return strings.Contains(log.String(), `msg="read the tables"`) })
	for range 100 { // there is time to compare
		a.exec(`SELECT 1`)
	}
	ready.Store(true)
	u.f.progress.recorded.Store(math.MaxInt64)
	auditing.Wait()
	if mended.Load() != 100 {
		t.Errorf("%d activities were compared, want 100", mended.Load())
	}
}

// An audit that has no room for a single part ends, and says so.
func TestAuditOfBusySource(t *testing.T) {
	t.Parallel()
	_, u, _ := slicing(t, 100, 0, func(*auditor, []activity.SourceChange) {})
	u.touched.hash = func(string) uint64 { // each user is of each part
		u.f.progress.recorded.Store(math.MaxInt64)
		return 0
	}
	u.f.progress.recorded.Store(0) // the read waits until the stream has touched something
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var touching sync.WaitGroup
	defer touching.Wait()
	touching.Go(func() {
		for ctx.Err() == nil {
			u.touched.add(item{"block", "1", "2"}, math.MaxInt64)
			time.Sleep(time.Millisecond)
		}
	})
	if err := u.audit(ctx); !errors.Is(err, errBusy) {
		t.Errorf("%v, want %v", err, errBusy)
	}
	cancel()
}

// Nothing is mended from tables that were altered since the stream began: the look of the stream
// finds that too, and they are read whole.
func TestAuditOfAlteredTables(t *testing.T) {
	t.Parallel()
	a, u, _ := slicing(t, 100, maxTouched, func(_ *auditor, changes []activity.SourceChange) {
		t.Errorf("%d activities were mended", len(changes))
	})
	a.exec(`ALTER TABLE blocks ALTER COLUMN blocked_id TYPE int USING -blocked_id`)
	if err := u.audit(t.Context()); !errors.Is(err, errAltered) {
		t.Errorf("%v, want %v", err, errAltered)
	}
	u.server.timeline++
	if err := u.audit(t.Context()); err == nil || !strings.Contains(err.Error(), "failed over") {
		t.Errorf("on another timeline: %v", err)
	}
}

// A check says what an audit would lack: neither is a reason not to follow.
func TestCheckOfRoom(t *testing.T) {
	t.Parallel()
	a := openLedger(t, appTables, activity.BuiltinKinds())
	a.server = pgtest.Start(t, "wal_level=logical", "max_replication_slots=2", "max_wal_senders=2")
	a.connect()
	a.exec(appSQL)
	f := a.follower("one")
	notes := func() string {
		t.Helper()
		report, err := f.Check(t.Context(), false)
		must(t, err)
		var text strings.Builder
		must(t, report.Print(&text))
		for _, note := range report.Notes {
			if !strings.Contains(text.String(), note+"\n") {
				t.Errorf("the report lacks %q:\n%s", note, text.String())
			}
		}
		return strings.Join(report.Notes, "\n")
	}
	if got := notes(); got != "" {
		t.Errorf("there is room, and a check says: %s", got)
	}
	a.exec(`SELECT pg_create_physical_replication_slot('other')`)
	const slots = "max_replication_slots is 2, and following takes 2 with others: none is free for the daily comparison with the ledger; raise it"
	if got := notes(); got != slots {
		t.Errorf("before it follows: %s", got)
	}
	a.start(f)
	a.reached()
	// The sender of the full read may still be there.
	soon(t, "that only a slot is lacking while it follows", func() bool { return notes() == slots })
	a.exec(`SELECT pg_drop_replication_slot('other')`)
	soon(t, "that nothing is lacking", func() bool { return notes() == "" })
	if report, err := f.Check(t.Context(), false); err != nil || len(report.Problems) > 0 {
		t.Errorf("a check while there is one sender left: %+v, %v", report.Problems, err)
	}
	var other *pgx.Conn
	soon(t, "the sender of the last check to end", func() bool {
		var err error
		other, err = f.source.connect(t.Context(), true)
		return err == nil
	})
	defer other.Close(t.Context())
	if report, err := f.Check(t.Context(), false); err != nil || len(report.Problems) > 0 {
		t.Errorf("a check while no sender is left: %+v, %v", report.Problems, err)
	}
	soon(t, "the other sender", func() bool {
		return notes() == "max_wal_senders is 2, and following takes 2 with others: none is free for the daily comparison with the ledger; raise it"
	})
}

// While an audit reads the tables, its slot is gone: the source need not keep log for it.
func TestAuditFreesSlot(t *testing.T) {
	t.Parallel()
	a, u, _ := slicing(t, 1, maxTouched, nil)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (7, 7)`) // not valid
	conn, err := u.f.source.connect(t.Context(), false)
	must(t, err)
	defer conn.Close(t.Context())
	looked := false
	r := &reading{slot: "feedfilter_app_resync", known: u.known, server: u.server, refuse: func(context.Context, *rowError) error {
		looked = true
		soon(t, "the slot to end", func() (gone bool) { //nolint:contextcheck // ends with the test
			must(t, a.conn.QueryRow(t.Context(), `SELECT count(*) = 0 FROM pg_replication_slots`).Scan(&gone))
			return gone
		})
		return nil
	}}
	s := &spill{dir: t.TempDir()}
	defer s.close()
	if _, _, err := u.f.read(t.Context(), u.src, conn, r, s); err != nil || !looked {
		t.Errorf("%v, looked %v", err, looked)
	}
}

// What the stream has touched since the comparison stays as the stream says. The proof is part of
// what is recorded next, and not before.
func TestMend(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	src, err := a.recorder.Follow(t.Context(), "app", "one", a.tables.Kinds(), time.Hour, false)
	must(t, err)
	ap := newApplier(a.follower("one"), src, position{}, replay{}, nil, new(watcher))
	ap.touched = newTouched(partsOf(src))
	ap.touched.begin(0)
	must(t, src.Record(t.Context(), ap.at.text(), nil))
	ap.touched.add(item{"block", "1", "2"}, 1)
	change := func(target string) finding {
		return finding{side{item{"block", "1", target}, false}, activity.SourceChange{
			User: "1", Kind: "block", Target: target, At: time.Now(), Added: []ledger.Span{{}}, Whole: true,
		}}
	}
	m := &mending{found: []finding{change("2"), change("3")}, done: make(chan error, 1)}
	ap.mend(t.Context(), m)
	must(t, ap.recorded(t.Context(), <-ap.recording.ended))
	must(t, <-m.done)
	var has []string
	must(t, a.recorder.Export(t.Context(), "1", func(one activity.Activity) error { has = append(has, one.Target); return nil }))
	if !slices.Equal(has, []string{"3"}) {
		t.Errorf("has %v, want 3", has)
	}
	ap.mend(t.Context(), &mending{audited: 5, done: m.done})
	must(t, <-m.done)
	if ap.recording != nil || ap.at.audited != 0 {
		t.Errorf("the proof is recorded by itself: %v", ap.at)
	}
	ap.record(t.Context())
	must(t, ap.recorded(t.Context(), <-ap.recording.ended))
	if a.position().audited != 5 {
		t.Errorf("position %v, want that of the proof", a.position())
	}
	failed := &mending{found: []finding{change("4")}, done: m.done}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ap.mend(ctx, failed)
	must(t, ap.recorded(ctx, <-ap.recording.ended)) // the stream goes on
	if err := <-m.done; err == nil {
		t.Error("an audit does not hear that its differences were not recorded")
	}
}
