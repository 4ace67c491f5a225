package follow

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

const appSQL = `
CREATE TABLE blocks (id bigserial PRIMARY KEY, blocker_id bigint, blocked_id bigint, created_at timestamptz, note text);
CREATE SCHEMA "App";
CREATE TABLE "App"."Mutes" (account_id uuid, "Post" text, expires_at timestamptz, deleted_at timestamptz, big text);
CREATE TABLE list_members (list_id int, member_id bigint, state text) PARTITION BY LIST (state);
CREATE TABLE list_accepted PARTITION OF list_members FOR VALUES IN ('accepted');
CREATE TABLE list_rest PARTITION OF list_members DEFAULT;
ALTER TABLE "App"."Mutes" ALTER COLUMN big SET STORAGE EXTERNAL;
`

const appTables = `{"tables": [
  {"table": "blocks", "kind": "block", "user": "blocker_id", "target": "blocked_id", "since": "created_at"},
  {"table": "App.Mutes", "kind": "hide", "user": "account_id", "target": "Post", "until": "expires_at", "unless": ["deleted_at"]},
  {"table": "list_members", "kind": "block", "user": "list:{list_id}", "target": "member_id", "where": {"state": "accepted"}}]}`

// wantedSQL returns each row that gives an activity: kind, user, target, since and until.
const wantedSQL = `
SELECT 'block', blocker_id::text, blocked_id::text, created_at, NULL::timestamptz FROM blocks
	WHERE blocker_id IS NOT NULL AND blocked_id IS NOT NULL
UNION ALL SELECT 'hide', account_id::text, "Post", NULL, expires_at FROM "App"."Mutes"
	WHERE deleted_at IS NULL AND account_id IS NOT NULL AND "Post" IS NOT NULL AND (expires_at IS NULL OR expires_at > now())
UNION ALL SELECT 'block', 'list:' || list_id, member_id::text, NULL, NULL FROM list_members
	WHERE state = 'accepted' AND list_id IS NOT NULL AND member_id IS NOT NULL`

// app is a source with the tables, and a ledger that follows it.
type app struct {
	t        *testing.T
	server   *pgtest.Server
	conn     *pgx.Conn
	ledger   *ledger.Ledger
	recorder *activity.Recorder
	tables   Tables
	waits    int // calls of after
}

// openLedger opens a ledger that follows the tables of a file, of no source yet.
func openLedger(t *testing.T, file string, kinds *activity.Kinds) *app {
	t.Helper()
	a := &app{t: t}
	var err error
	a.tables, err = ParseTables([]byte(file), kinds)
	must(t, err)
	a.ledger, err = ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 16})
	must(t, err)
	a.recorder, err = activity.Open(t.Context(), activity.Config{Ledger: a.ledger, Store: &favfilter.Memory{}, Kinds: kinds})
	must(t, err)
	t.Cleanup(func() { a.recorder.Close(); _ = a.ledger.Close() })
	return a
}

func newApp(t *testing.T) *app {
	t.Helper()
	return newAppOf(t, appSQL, appTables, activity.BuiltinKinds())
}

func newAppOf(t *testing.T, sql, tables string, kinds *activity.Kinds) *app {
	t.Helper()
	a := openLedger(t, tables, kinds)
	a.server = pgtest.Start(t, "wal_level=logical", "wal_sender_timeout=5s")
	a.connect()
	a.exec(sql)
	return a
}

// logTo replaces the log.
func (f *Follower) logTo(log *slog.Logger) { f.log, f.invalid.log = log, log }

func (a *app) connect() {
	a.t.Helper()
	conn, err := pgx.Connect(a.t.Context(), a.server.URL())
	must(a.t, err)
	a.conn = conn
	a.t.Cleanup(func() { _ = conn.Close(context.Background()) })
}

func must(t interface {
	Helper()
	Fatal(args ...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (a *app) exec(sql string, args ...any) {
	a.t.Helper()
	_, err := a.conn.Exec(a.t.Context(), sql, args...)
	must(a.t, err)
}

func (a *app) follower(holder string) *Follower {
	return New(a.recorder, Options{
		Name: "app", URL: a.server.URL(), Tables: slices.Clone(a.tables), Holder: holder, Create: true, TempDir: a.t.TempDir(),
		Log: slog.New(slog.NewTextHandler(a.t.Output(), nil)),
	})
}

// start runs a follower until the test, or what start returns, ends it.
func (a *app) start(f *Follower) (stop func()) {
	ctx, cancel := context.WithCancel(a.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Run(ctx); err != nil {
			a.t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	a.t.Cleanup(stop)
	return stop
}

// soon waits until done reports true.
func soon(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// reached waits until the ledger has all that the source has committed.
func (a *app) reached() {
	a.t.Helper()
	var text string
	must(a.t, a.conn.QueryRow(a.t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&text))
	want, err := pglogrepl.ParseLSN(text)
	must(a.t, err)
	soon(a.t, "position "+text, func() bool { return a.position().lsn >= want })
}

func (a *app) position() position {
	a.t.Helper()
	sources, err := a.ledger.Sources(a.t.Context())
	must(a.t, err)
	if len(sources) == 0 {
		return position{}
	}
	p, _ := parsePosition(sources[0].Position)
	return p
}

// wantMapped checks that the ledger is the mapping of the source.
func (a *app) wantMapped() {
	a.t.Helper()
	want := make(map[item]ledger.Span)
	rows, err := a.conn.Query(a.t.Context(), wantedSQL)
	must(a.t, err)
	var of item
	var since, until *time.Time
	_, err = pgx.ForEachRow(rows, []any{&of.kind, &of.user, &of.target, &since, &until}, func() error {
		var s ledger.Span
		if since != nil {
			s.Since = since.UTC()
		}
		if until != nil {
			s.Until = until.UTC()
		}
		had, found := want[of]
		later := had.Until.IsZero() && !s.Until.IsZero() || !had.Until.IsZero() && !s.Until.IsZero() && s.Until.Before(had.Until)
		if !found || !later && (!had.Until.Equal(s.Until) || s.Since.Before(had.Since)) {
			want[of] = s
		}
		return nil
	})
	must(a.t, err)
	got := make(map[item]bool)
	must(a.t, a.recorder.Export(a.t.Context(), "", func(x activity.Activity) error {
		of := item{x.Kind, x.User, x.Target}
		got[of] = true
		w, found := want[of]
		switch {
		case !found:
			a.t.Errorf("%v is in the ledger, and no row gives it", of)
		case !w.Until.Equal(x.Until) || !w.Since.IsZero() && !w.Since.Equal(x.Since):
			a.t.Errorf("%v: %v to %v, want %v", of, x.Since, x.Until, w)
		}
		return nil
	}))
	for of := range maps.Keys(want) {
		if !got[of] {
			a.t.Errorf("%v is not in the ledger", of)
		}
	}
	if a.t.Failed() {
		a.t.FailNow()
	}
}

// change makes a random change of the tables.
func (a *app) change(rng *rand.Rand) {
	id := func() int { return 1 + rng.IntN(6) }
	uuid := func() string { return fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", id()) }
	at := func() time.Time { return time.Unix(1_700_000_000+int64(rng.IntN(5)), 0) }
	end := []*time.Time{nil, new(time.Now().Add(time.Hour)), new(time.Now().Add(2 * time.Hour)), new(at())}
	maybe := func(v any) any {
		if rng.IntN(6) == 0 {
			return nil
		}
		return v
	}
	switch rng.IntN(14) {
	case 0, 1, 2:
		other := 10 + id()
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id, created_at) VALUES ($1, $2, $3)`, maybe(id()), maybe(other), at())
	case 3:
		a.exec(`UPDATE blocks SET blocker_id = $1 WHERE id % 5 = $2`, maybe(id()), rng.IntN(5))
	case 4:
		a.exec(`UPDATE blocks SET created_at = $1, note = 'x' WHERE id % 5 = $2`, at(), rng.IntN(5))
	case 5:
		a.exec(`DELETE FROM blocks WHERE id % 4 = $1`, rng.IntN(4))
	case 6, 7:
		a.exec(`INSERT INTO "App"."Mutes" VALUES ($1, $2, $3, $4, repeat('x', 5000))`, maybe(uuid()), maybe(fmt.Sprint("p", id())), end[rng.IntN(4)],
			[]any{nil, at()}[rng.IntN(2)])
	case 8:
		a.exec(`UPDATE "App"."Mutes" SET deleted_at = $1 WHERE account_id = $2`, []any{nil, at()}[rng.IntN(2)], uuid())
	case 9:
		a.exec(`UPDATE "App"."Mutes" SET expires_at = $1 WHERE account_id = $2`, end[rng.IntN(4)], uuid())
	case 10, 11:
		a.exec(`INSERT INTO list_members VALUES ($1, $2, $3)`, maybe(id()), maybe(id()), []string{"accepted", "asked", "no"}[rng.IntN(3)])
	case 12:
		a.exec(`UPDATE list_members SET state = $1 WHERE member_id = $2`, []string{"accepted", "asked"}[rng.IntN(2)], id())
	case 13:
		a.exec(`DELETE FROM list_members WHERE list_id = $1`, id())
	}
}

// transaction makes some changes, and takes them back at times.
func (a *app) transaction(rng *rand.Rand) {
	a.exec("BEGIN")
	for range 1 + rng.IntN(6) {
		a.change(rng)
	}
	a.exec([]string{"COMMIT", "COMMIT", "COMMIT", "ROLLBACK"}[rng.IntN(4)])
}

// The ledger is the mapping of the source: after the snapshot, at each moment of the stream, after
// restarts of the follower, and after all tables were emptied.
func TestFollow(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		a.transaction(rng)
	}
	stop := a.start(a.follower("one"))
	for round := range 40 {
		for range 8 {
			a.transaction(rng)
		}
		switch round % 10 {
		case 3:
			stop()
			a.transaction(rng)
			stop = a.start(a.follower("two"))
		case 6:
			a.exec([]string{"TRUNCATE blocks", "TRUNCATE list_members", `TRUNCATE "App"."Mutes"`}[rng.IntN(3)])
		}
		a.reached()
		a.wantMapped()
	}
}

// A large transaction is recorded in parts, and continues after a restart.
func TestFollowLargeTransaction(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f := a.follower("one")
	f.group.below = maxGroup - 2000 // parts of 1000
	stop := a.start(f)
	a.reached()
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT 1, 100 + n FROM generate_series(1, 15000) n`)
	soon(t, "a part", func() bool { return a.position().done > 0 })
	stop()
	if a.position().done == 0 {
		t.Fatal("stopped after the transaction: nothing is tested")
	}
	a.start(a.follower("two"))
	a.reached()
	a.wantMapped()
}

// Of two followers one follows; the other takes over at once when it ends.
func TestFollowTakeover(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	stop := a.start(a.follower("one"))
	a.reached()
	a.start(a.follower("two"))
	holder := func() string {
		sources, err := a.ledger.Sources(t.Context())
		must(t, err)
		return sources[0].Holder
	}
	if holder() != "one" {
		t.Fatal("the second took the lease of the first")
	}
	stop()
	soon(t, "the second to follow", func() bool { return holder() == "two" })
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	a.reached()
	a.wantMapped()
}

// A follower renews its lease several times before its end, and one that was killed keeps others
// from following for less than 10 seconds.
func TestLeaseTimes(t *testing.T) {
	if 3*renewEvery > leaseTime || leaseTime+retryPause >= 10*time.Second {
		t.Errorf("a lease of %v, renewed every %v, and asked for every %v", leaseTime, renewEvery, retryPause)
	}
}
