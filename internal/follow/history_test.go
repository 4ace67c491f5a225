package follow

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
)

// A history file says where each timeline was left.
func TestTimelineLeft(t *testing.T) {
	const file = "1\t0/16B3748\tno recovery target specified\n\n3\t1/0\tbefore 2026-01-01 00:00:00+00\n# 4\t0/5\tx\n5\n6\tx/y\t\n"
	for timeline, want := range map[uint32]pglogrepl.LSN{1: 0x16B3748, 3: 1 << 32, 2: 0, 4: 0, 5: 0, 6: 0} {
		if end, found := leftAt(timeline, file); end != want || found != (want > 0) {
			t.Errorf("timeline %d was left at %v, %v; want %v", timeline, end, found, want)
		}
	}
}

// What the source sends again must have the last transaction of the ledger as it was, and none
// after it that the ledger does not know.
func TestReplay(t *testing.T) {
	last := transaction{commit: 0x50, xid: 7, at: 1}
	at := position{lsn: 0x60, last: last}
	other := transaction{commit: 0x50, xid: 8, at: 1}
	for name, c := range map[string]struct {
		from      position
		confirmed pglogrepl.LSN
		sent      []transaction
		end       pglogrepl.LSN // all up to there was sent
		skipped   int
		broken    bool
	}{
		"nothing is sent again":               {at, 0x60, []transaction{{0x60, 9, 2}}, 0x70, 0, false},
		"the last one is":                     {at, 0x40, []transaction{last, {0x61, 9, 2}}, 0x70, 1, false},
		"and those before":                    {at, 0x10, []transaction{{0x20, 5, 0}, {0x30, 6, 0}, last}, 0x60, 3, false},
		"the last one is not there":           {at, 0x40, []transaction{{0x61, 9, 2}}, 0x70, 0, true},
		"the last one is not there, and idle": {at, 0x40, nil, 0x60, 0, true},
		"nothing yet":                         {at, 0x40, nil, 0x5f, 0, false},
		"it is another":                       {at, 0x40, []transaction{other}, 0x70, 0, true},
		"it committed at another time":        {at, 0x40, []transaction{{0x50, 7, 2}}, 0x70, 0, true},
		"one after it":                        {at, 0x40, []transaction{last, {0x58, 9, 2}}, 0x70, 1, true},
		"one after what was confirmed":        {at, 0x55, []transaction{{0x58, 9, 2}}, 0x70, 0, true},
		"the ledger knows of none":            {position{lsn: 0x60}, 0x60, []transaction{{0x68, 9, 2}}, 0x70, 0, false},
	} {
		r, skipped := newReplay(c.from, c.confirmed), 0
		var err error
		for _, x := range c.sent {
			var skips bool
			if skips, err = r.skips(x); err != nil {
				break
			}
			if skips {
				skipped++
			}
		}
		if err == nil {
			err = r.passed(c.end)
		}
		if skipped != c.skipped || (err != nil) != c.broken || err != nil && (!errors.Is(err, errHistory) || !errors.Is(err, errLacks)) {
			t.Errorf("%s: skipped %d, error %v", name, skipped, err)
		}
	}
}

// files copies the data of a server that is down, or puts a copy back.
func (a *app) files(from, to string) {
	a.t.Helper()
	must(a.t, os.RemoveAll(to))
	if out, err := exec.CommandContext(a.t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		a.t.Fatalf("copy %s to %s: %v\n%s", from, to, err, out)
	}
}

// The disk of the source is restored, and has since written beyond the ledger's position, with and
// without a transaction at the end. The ledger gets what the source has.
func TestFollowRestoredSource(t *testing.T) {
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprintf("idle %v", idle), func(t *testing.T) {
			t.Parallel()
			a := newApp(t)
			var data string
			must(t, a.conn.QueryRow(t.Context(), `SHOW data_directory`).Scan(&data))
			stop := a.start(a.follower("one"))
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 3)`)
			a.after()
			a.server.Kill()
			a.files(data, data+"-copy")
			a.server.Restart()
			a.connect()
			a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 4)`)
			a.exec(`DELETE FROM blocks WHERE blocked_id = 2`)
			if idle {
				a.exec(`CREATE TABLE unrelated AS SELECT generate_series(1, 1000)`)
			}
			a.after()
			stop()
			at := a.position()
			a.server.Kill()
			a.files(data+"-copy", data)
			a.server.Restart()
			a.connect()
			for beyond := false; !beyond; {
				a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT 5000, max(blocked_id) + 1 FROM blocks`)
				must(t, a.conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn() > $1::text::pg_lsn + 10000`, at.lsn.String()).Scan(&beyond))
			}
			a.start(a.follower("two"))
			a.after()
		})
	}
}

// The source fails over to a standby that lacks what the ledger has, and the slot is made again
// before the follower comes back. A feed that waits for a position of the old primary is never
// answered, one of the new primary is once the ledger has what it says.
func TestFollowFailoverLoses(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	stop := a.start(a.follower("one"))
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	a.after()
	standby := a.server.StartStandby()
	standby.Kill()
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 3)`)
	a.exec(`DELETE FROM blocks WHERE blocked_id = 2`)
	a.after()
	old := a.mark()
	must(t, a.recorder.Await(t.Context(), activity.Freshness{After: old}))
	stop()
	at := a.position()
	a.server.Kill()
	standby.Restart()
	a.server = standby
	a.connect()
	a.exec(`SELECT pg_promote()`)
	soon(t, "the promotion", func() bool {
		var recovery bool
		must(t, a.conn.QueryRow(t.Context(), `SELECT pg_is_in_recovery()`).Scan(&recovery))
		return !recovery
	})
	a.exec(`SELECT pg_create_logical_replication_slot('feedfilter_app', 'pgoutput')`)
	for beyond := false; !beyond; {
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT 5000, max(blocked_id) + 1 FROM blocks`)
		must(t, a.conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn() > $1::text::pg_lsn + 10000`, at.lsn.String()).Scan(&beyond))
	}
	now := a.mark()
	err := a.recorder.Await(t.Context(), activity.Freshness{After: now})
	if _, late := errors.AsType[*activity.NotYetError](err); !late {
		t.Errorf("before the follower comes back, a position of the new primary counts as reached: %v", err)
	}
	a.start(a.follower("two"))
	a.after()
	must(t, a.recorder.Await(t.Context(), activity.Freshness{After: now}))
	err = a.recorder.Await(t.Context(), activity.Freshness{After: old})
	if _, late := errors.AsType[*activity.NotYetError](err); !late {
		t.Errorf("a position of the old primary counts as reached: %v", err)
	}
}

// mark returns the position of the source's log with its timeline.
func (a *app) mark() (at string) {
	a.t.Helper()
	must(a.t, a.conn.QueryRow(a.t.Context(), `SELECT left(pg_walfile_name(lsn), 8) || ':' || lsn FROM pg_current_wal_flush_lsn() AS lsn`).Scan(&at))
	return at
}
