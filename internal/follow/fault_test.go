package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// run runs a follower, and returns its error once it stops by itself.
func (a *app) run(f *Follower) (stopped func() error, stop func()) {
	ctx, cancel := context.WithCancel(a.t.Context())
	var running sync.WaitGroup
	var err error
	running.Go(func() { err = f.Run(ctx) })
	a.t.Cleanup(func() { cancel(); running.Wait() })
	return func() error { running.Wait(); return err }, func() { cancel(); running.Wait() }
}

// The source is killed and comes back, its slot is lost, and a transaction is open meanwhile.
func TestFollowSourceDown(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f := a.follower("one")
	_, stop := a.run(f)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	a.reached()
	for range 3 {
		a.server.Kill()
		a.server.Restart()
		a.connect()
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT 1, max(blocked_id) + 1 FROM blocks`)
		a.exec(`DELETE FROM blocks WHERE id % 3 = 0`)
		a.reached()
		a.wantMapped()
	}
	stop()
	must(t, f.source.dropSlot(t.Context(), a.conn))
	a.exec(`DELETE FROM blocks`)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (7, 8)`)
	a.start(a.follower("two"))
	a.reached()
	a.wantMapped()
}

// A column that is not mapped may come and go. Without a mapped one, the follower stops, and reads
// the tables once the column is back.
func TestFollowSchemaChanges(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	stopped, _ := a.run(a.follower("one"))
	a.reached()
	a.exec(`ALTER TABLE blocks ADD COLUMN extra int DEFAULT 5`)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	a.exec(`ALTER TABLE blocks DROP COLUMN note`)
	a.exec(`UPDATE blocks SET blocked_id = 3`)
	a.reached()
	a.wantMapped()
	at := a.position()
	a.exec(`ALTER TABLE blocks RENAME blocked_id TO victim_id`)
	a.exec(`INSERT INTO blocks (blocker_id, victim_id) VALUES (1, 4)`)
	err := stopped()
	if _, stop := errors.AsType[*StopError](err); !stop || !strings.Contains(err.Error(), `no column "blocked_id"`) {
		t.Fatalf("a mapped column was renamed: %v", err)
	}
	if now := a.position(); now.lsn != 0 {
		t.Errorf("position %v, after %v: the tables have to be read whole", now, at)
	}
	a.exec(`ALTER TABLE blocks RENAME victim_id TO blocked_id`)
	a.start(a.follower("two"))
	a.reached()
	a.wantMapped()
}

// A row whose id is not valid stops the follower, or is skipped, in the snapshot and in the stream.
func TestFollowInvalidRows(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	const insert = `INSERT INTO "App"."Mutes" VALUES ('00000000-0000-0000-0000-000000000001', $1)`
	long := strings.Repeat("x", 300)
	a.exec(insert, "fine")
	a.exec(insert, long)
	if err := a.follower("one").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Mutes: target: ") {
		t.Fatalf("the snapshot has an id of 300 bytes: %v", err)
	}
	a.exec(`DELETE FROM "App"."Mutes" WHERE "Post" <> 'fine'`)
	stopped, _ := a.run(a.follower("two"))
	a.reached()
	a.exec(insert, long)
	if err := stopped(); err == nil || !strings.Contains(err.Error(), "Mutes") || !strings.Contains(err.Error(), "without --on-error stop") {
		t.Fatalf("the stream has an id of 300 bytes: %v", err)
	}
	f := a.follower("three")
	f.invalid.skip = true
	a.start(f)
	a.exec(insert, "later")
	a.exec(`UPDATE "App"."Mutes" SET "Post" = repeat('y', 300) WHERE "Post" = 'fine'`) // its activity ends
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (5, 5)`)
	a.exec(`DELETE FROM "App"."Mutes" WHERE length("Post") > 256`)
	a.reached()
	if got, want := fmt.Sprint(f.Stats().Changes), "map[App.Mutes:map[ignored:2 recorded:2 skipped:2] "+ // two long ids
		"blocks:map[ignored:0 recorded:0 skipped:1] list_members:map[ignored:0 recorded:0 skipped:0]]"; got != want {
		t.Errorf("changes %s, want %s", got, want)
	}
	if got := fmt.Sprint(f.Stats().Skipped); got != "map[self:1 too_long:2]" {
		t.Errorf("skipped by reason: %s", got)
	}
	a.exec(`UPDATE blocks SET blocked_id = 6`) // corrected: it counts from now on
	a.reached()
	a.wantMapped()
}

// A follower that was paused for longer than its lease cannot write any more.
func TestFollowFenced(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	ctx := t.Context()
	kinds := a.tables.Kinds()
	paused, err := a.recorder.Follow(ctx, "app", "paused", kinds, time.Millisecond, false)
	must(t, err)
	soon(t, "the end of the lease", func() bool {
		other, err := a.recorder.Follow(ctx, "app", "other", kinds, time.Minute, false)
		if err == nil {
			must(t, other.Record(ctx, position{lsn: 1}.text(), nil))
		}
		return err == nil
	})
	for _, err := range []error{
		paused.Record(ctx, position{lsn: 2}.text(), nil), paused.Renew(ctx, time.Minute, time.Time{}), paused.StartOver(ctx), paused.Record(ctx, "", nil),
	} {
		if !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("a follower without the lease: %v", err)
		}
	}
	if at := a.position(); at.lsn != 1 {
		t.Errorf("position %v", at)
	}
}

// A resync mends what the ledger has otherwise than the source, while the source changes and the
// stream goes on. It touches nothing that the stream changes. It takes the place of the process
// that follows, which goes on afterwards.
func TestFollowResync(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	ctx := t.Context()
	_, stop := a.run(a.follower("one"))
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT n, 1 + n % 7 FROM generate_series(10, 200) n`)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT n, 1 + n % 7 FROM generate_series(10, 20) n`)
	a.exec(`UPDATE blocks SET created_at = '2026-01-02' WHERE blocker_id = 30`)
	a.reached()
	stop()
	src, err := a.recorder.Follow(ctx, "app", "drift", a.tables.Kinds(), time.Millisecond, false)
	must(t, err)
	wrong := func(user, target string, spans ...ledger.Span) activity.SourceChange {
		return activity.SourceChange{User: user, Kind: "block", Target: target, At: time.Now(), Added: spans, Whole: true}
	}
	must(t, src.Record(ctx, src.Position, []activity.SourceChange{
		wrong("10", "4"), wrong("100", "3"), wrong("150", "4", ledger.Span{Until: time.Now().Add(time.Hour)}), wrong("500", "1", ledger.Span{}),
		wrong("30", "3", ledger.Span{Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}),
	}))
	at := a.position()
	first := a.follower("zero")
	a.start(first)
	soon(t, "the first to follow", func() bool { return first.Stats().Active })
	var writing sync.WaitGroup
	quit, end := context.WithCancel(ctx)
	defer end()
	writing.Go(func() {
		conn, err := pgx.Connect(ctx, a.server.URL())
		must(t, err)
		defer conn.Close(ctx)
		for n := 0; quit.Err() == nil; n++ {
			for _, sql := range []string{
				fmt.Sprintf(`INSERT INTO blocks (blocker_id, blocked_id) SELECT %d, n FROM generate_series(300, 320) n`, 600+n%20),
				fmt.Sprintf(`DELETE FROM blocks WHERE blocker_id = %d`, 600+(n+7)%20),
				fmt.Sprintf(`UPDATE blocks SET blocked_id = 1000 + (blocked_id + 1) %% 50 WHERE id %% 20 = %d AND blocker_id NOT IN (10, 30, 100, 150)`, n%20),
			} {
				if _, err := conn.Exec(ctx, sql); err != nil {
					t.Error(err)
				}
			}
			var written pglogrepl.LSN // the follower may be slower than this writer, and must keep up
			must(t, conn.QueryRow(ctx, `SELECT pg_current_wal_flush_lsn()::text`).Scan(&written))
			for quit.Err() == nil && a.position().lsn < written { //nolint:contextcheck // ends with the test
				time.Sleep(time.Millisecond)
			}
		}
	})
	f := a.follower("two")
	var log strings.Builder
	f.options.Resync = true
	f.logTo(slog.New(slog.NewTextHandler(&log, nil)))
	must(t, f.Run(ctx))
	if !strings.Contains(log.String(), "missing=2 stray=1 changed=2") {
		t.Errorf("the resync found: %s", log.String())
	}
	end()
	writing.Wait()
	if f.Stats().Snapshots > 0 || a.position().lsn <= at.lsn {
		t.Errorf("%d full reads, from %v to %v", f.Stats().Snapshots, at, a.position())
	}
	soon(t, "the first to go on", func() bool { return first.Stats().Active })
	a.reached()
	a.wantMapped()
}
