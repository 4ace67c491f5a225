package follow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/proxytest"
)

// through returns a follower that reaches the source through a proxy.
func (a *app) through(holder string) (*Follower, *proxytest.Proxy) {
	p := proxytest.Start(a.t, a.server.Addr())
	f := a.follower(holder)
	f.source.url = strings.Replace(a.server.URL(), a.server.Addr(), p.Addr(), 1)
	return f, p
}

// The source is cut off: connections break, or lose all bytes without an end. Or it hangs.
func TestFollowCutOff(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f, proxy := a.through("one")
	f.limits.silence = 3 * time.Second
	a.start(f)
	a.reached()
	for _, fault := range []func(){proxy.Cut, proxy.Stall, func() { proxy.Truncate(20) }} {
		fault()
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT 1, count(*) + 2 FROM blocks`)
		soon(t, "the follower to notice", func() bool { return !f.Stats().Active })
		proxy.Reset()
		a.reached()
		a.wantMapped()
	}
	a.exec(`DELETE FROM blocks`)
	a.server.Pause()
	soon(t, "the follower to notice", func() bool { return !f.Stats().Active })
	a.server.Resume()
	a.reached()
	a.wantMapped()
}

// A standby takes the place of the source. It lacks the slot, and perhaps the last commits.
func TestFollowFailover(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	standby := a.server.StartStandby()
	_, stop := a.run(a.follower("one"))
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 3)`)
	a.reached()
	standby.Kill()
	a.exec(`DELETE FROM blocks WHERE blocked_id = 3`)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT 4, 5 + n FROM generate_series(1, 1000) n`)
	a.reached()
	stop()
	a.server.Kill()
	standby.Restart()
	a.server = standby
	a.connect()
	report, err := a.follower("one").Check(t.Context(), false)
	must(t, err)
	if !slices.ContainsFunc(report.Problems, func(p Problem) bool { return strings.Contains(p.What, "standby") }) {
		t.Errorf("a standby: %v", report.Problems)
	}
	a.exec(`SELECT pg_promote()`)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 7)`)
	at := a.position()
	f := a.follower("two")
	a.start(f)
	soon(t, "the snapshot", func() bool { return f.Stats().Active })
	if now := a.position(); now.lsn >= at.lsn {
		t.Errorf("position %v, before it %v: the standby lacks nothing", now.lsn, at.lsn)
	}
	a.exec(`DELETE FROM blocks WHERE blocked_id = 2`)
	a.reached()
	a.wantMapped()
}

// The source drops the WAL that a slot keeps.
func TestFollowInvalidatedSlot(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	_, stop := a.run(a.follower("one"))
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	a.reached()
	stop()
	a.exec(`ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'`)
	a.exec(`SELECT pg_reload_conf()`)
	a.exec(`DELETE FROM blocks`)
	soon(t, "the loss of the slot", func() bool {
		a.exec(`INSERT INTO "App"."Mutes" (big) SELECT repeat('x', 1000000) FROM generate_series(1, 20)`)
		a.exec(`SELECT pg_switch_wal()`)
		a.exec(`CHECKPOINT`)
		var lost bool
		must(t, a.conn.QueryRow(t.Context(), `SELECT wal_status = 'lost' FROM pg_replication_slots`).Scan(&lost))
		return lost
	})
	f := a.follower("two")
	a.start(f)
	a.reached()
	a.wantMapped()
	if n := f.Stats().Snapshots; n != 1 {
		t.Errorf("%d snapshots", n)
	}
}

// The clock of the follower is an hour ahead of the ledger's.
func TestFollowClock(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.recorder.Close()
	var err error
	a.recorder, err = activity.Open(t.Context(), activity.Config{
		Ledger: a.ledger, Store: &favfilter.Memory{}, Now: func() time.Time { return time.Now().Add(-time.Hour) },
	})
	must(t, err)
	t.Cleanup(a.recorder.Close)
	a.exec(`INSERT INTO "App"."Mutes" VALUES (gen_random_uuid(), 'ends', now() - interval '30 minutes'), (gen_random_uuid(), 'holds', NULL)`)
	a.start(a.follower("one"))
	a.reached()
	n := 0
	must(t, a.recorder.Export(t.Context(), "", func(activity.Activity) error { n++; return nil }))
	if n != 2 {
		t.Errorf("%d activities, want 2: one ends in half an hour", n)
	}
}

// The ledger was restored from a backup: the source has dropped the changes since. Or the source
// was: it has not got as far as the ledger.
func TestFollowRestored(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	stop := a.start(a.follower("one"))
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	a.reached()
	stop()
	old := a.position()
	for name, position := range map[string]position{"ledger": old, "source": {lsn: old.lsn + 1<<30, tables: old.tables}} {
		stop := a.start(a.follower("two"))
		a.exec(`DELETE FROM blocks`)
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 3), (1, 4)`)
		a.reached()
		confirmed := func() (is bool) {
			must(t, a.conn.QueryRow(t.Context(), `SELECT confirmed_flush_lsn > $1::text::pg_lsn FROM pg_replication_slots`, old.lsn.String()).Scan(&is))
			return is
		}
		soon(t, "the confirmation", confirmed)
		stop()
		src, err := a.recorder.Follow(t.Context(), "app", "backup", a.tables.Kinds(), time.Minute, false)
		must(t, err)
		var stray []activity.SourceChange // as the backup has it
		must(t, src.StartOver(t.Context()))
		must(t, a.recorder.Export(t.Context(), "", func(x activity.Activity) error {
			stray = append(stray, activity.SourceChange{User: x.User, Kind: x.Kind, Target: x.Target, At: time.Now(), Whole: true})
			return nil
		}))
		must(t, src.Record(t.Context(), position.text(), stray))
		must(t, src.Renew(t.Context(), 0, time.Time{}))
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 5)`)
		f := a.follower("three")
		stop = a.start(f)
		soon(t, "the full read after a restored "+name, func() bool { return f.Stats().Snapshots == 1 })
		a.reached()
		a.wantMapped()
		stop()
	}
}
