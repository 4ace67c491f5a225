package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// followSQL is the app's database. The view wanted has each row that gives an activity.
const followSQL = `
CREATE TABLE blocks (id bigserial PRIMARY KEY, blocker bigint, blocked bigint, created_at timestamptz, note text);
CREATE TABLE more_blocks (a int, b text, flag int, PRIMARY KEY (a, b));
CREATE SCHEMA "App";
CREATE TABLE "App"."Hides" (account uuid, "Post" text, expires_at timestamptz, deleted_at timestamptz, "On" boolean, big text);
CREATE TABLE list_members (list_id int, member_id bigint, state text) PARTITION BY LIST (state);
CREATE TABLE list_accepted PARTITION OF list_members FOR VALUES IN ('accepted');
CREATE TABLE list_rest PARTITION OF list_members DEFAULT;
ALTER TABLE "App"."Hides" ALTER COLUMN big SET STORAGE EXTERNAL, ALTER COLUMN "Post" SET STORAGE EXTERNAL;
CREATE VIEW wanted AS
SELECT 'block' AS kind, blocker::text AS owner, blocked::text AS target, created_at AS since, NULL::timestamptz AS until FROM blocks
	WHERE blocker IS NOT NULL AND blocked IS NOT NULL
UNION ALL SELECT 'block', a::text, b, NULL, NULL FROM more_blocks
UNION ALL SELECT 'hide', account::text, "Post", NULL, expires_at FROM "App"."Hides"
	WHERE deleted_at IS NULL AND "On" AND account IS NOT NULL AND "Post" IS NOT NULL AND (expires_at IS NULL OR expires_at > now())
UNION ALL SELECT 'block', 'list:' || list_id, member_id::text, NULL, NULL FROM list_members
	WHERE state = 'accepted' AND list_id IS NOT NULL AND member_id IS NOT NULL`

const followTables = `{"tables": [
  {"table": "blocks", "kind": "block", "user": "blocker", "target": "blocked", "since": "created_at"},
  {"table": "more_blocks", "kind": "block", "user": "a", "target": "b"},
  {"table": "App.Hides", "kind": "hide", "user": "account", "target": "Post", "until": "expires_at", "unless": ["deleted_at"], "while": ["On"]},
  {"table": "list_members", "kind": "block", "user": "list:{list_id}", "target": "member_id", "where": {"state": "accepted"}}]}`

const (
	followWriters = 6
	followTargets = 10 // authors and posts
	firstAuthor   = 1000
	followLimit   = 5 * time.Minute // within which a feed is answered, and all is repaired
)

// followProcess is a process that follows: a service, or the command.
type followProcess interface {
	start() error
	kill()
	pause() error
	resume() error
}

// followCommand is a "feedfilter follow" process.
type followCommand struct {
	t    *testing.T
	dir  string // where it runs, and has files by default
	args []string
	log  *tailLog

	mu     sync.Mutex
	cmd    *exec.Cmd
	done   chan struct{} // closed when no process runs any more
	killed bool
}

// followEnds is what the command says last if it ends by itself. Somebody has to start it again
// then: the ledger was down, or a table or the publication was altered.
var followEnds = regexp.MustCompile(`open (ledger|recorder: .*ledger: )|there is no (table|publication)|is not in the stream`)

func (f *followCommand) start() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.killed = false
	if err := f.run(); err != nil {
		return err
	}
	f.done = make(chan struct{})
	go func() {
		defer close(f.done)
		for f.again() {
		}
	}()
	return nil
}

// run starts a process. It is for a caller with mu.
func (f *followCommand) run() error {
	f.cmd = exec.Command(command, f.args...) //nolint:noctx // killed by the test
	f.cmd.Dir = f.dir
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	f.cmd.Stderr = f
	return f.cmd.Start()
}

// again waits until the process ends, and starts another one if it was not killed.
func (f *followCommand) again() bool {
	_ = f.cmd.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.killed {
		return false
	}
	if !followEnds.MatchString(f.log.last(1)) {
		f.t.Errorf("follow ended by itself: %s\n%s", f.cmd.ProcessState, f.log)
		return false
	}
	if err := f.run(); err != nil {
		f.t.Errorf("start follow again: %v", err)
		return false
	}
	return true
}

func (f *followCommand) Write(p []byte) (int, error) {
	f.log.add(p)
	return len(p), nil
}

func (f *followCommand) kill() {
	f.mu.Lock()
	f.killed = true
	_ = f.cmd.Process.Kill()
	f.mu.Unlock()
	<-f.done
}

func (f *followCommand) pause() error  { return f.signal(syscall.SIGSTOP) }
func (f *followCommand) resume() error { return f.signal(syscall.SIGCONT) }

func (f *followCommand) signal(s syscall.Signal) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// followWorld is an app's database under load, and all that follows it.
type followWorld struct {
	t     *testing.T
	rng   *rand.Rand
	tally *tally
	limit time.Duration // of the way to a position

	source, ledger *pgtest.Server
	redis          *redistest.Server
	services       []*instance
	processes      []followProcess               // services, and the command
	proxies        map[string][]*proxytest.Proxy // by server, and then by process

	// truncating excludes writers: their feeds are judged against rows that nobody else
	// changes.
	truncating sync.RWMutex
	failedOver bool // source has another timeline than at first; for the holder of truncating
}

// TestLongChaosFollow follows a real database under random transactions and faults. Each feed with
// after has what the tables say at that moment, one with within what they said that long ago, and
// in the end the ledger is their mapping.
func TestLongChaosFollow(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: again with -chaos.seed=%d", seed, seed)
	w := newFollowWorld(t, seed, "16")
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for n := range followWriters {
		writing.Go(func() { w.write(ctx, n, rand.New(rand.NewPCG(seed, uint64(n+1)))) })
	}
	stop := func() { cancel(); writing.Wait() }
	t.Cleanup(stop)
	w.causeFaults(time.Now().Add(chaosTime()))
	stop()
	w.compare()
	w.report()
}

func newFollowWorld(t *testing.T, seed uint64, pages string) *followWorld {
	t.Helper()
	w := &followWorld{
		t: t, limit: followLimit, rng: rand.New(rand.NewPCG(seed, 0)), tally: newTally(nil), proxies: make(map[string][]*proxytest.Proxy),
		source: pgtest.Start(t, "wal_level=logical", "wal_sender_timeout=5s"), ledger: pgtest.Start(t), redis: redistest.Start(t),
	}
	w.exec(followSQL)
	tables := filepath.Join(t.TempDir(), "tables.json")
	must(t, os.WriteFile(tables, []byte(followTables), 0o600))
	via := func(name, text string) string {
		u, err := url.Parse(text)
		must(t, err)
		p := proxytest.Start(t, u.Host)
		w.proxies[name] = append(w.proxies[name], p)
		u.Host = p.Addr()
		return u.String()
	}
	data := func() []string {
		return []string{
			"--ledger", via("ledger", w.ledger.URL()), "--redis", via("redis", w.redis.URL()), "--source", via("source", w.source.URL()),
			"--data-dir", t.TempDir(), "--pages", pages, "--false-positive-rate", "1e-7", "--log-level", "info",
		}
	}
	command := &followCommand{t: t, dir: t.TempDir(), log: &tailLog{max: 4000}}
	command.args = append([]string{"follow", "--create", "--tables", tables}, data()...)
	must(t, command.start())
	t.Cleanup(func() {
		command.kill()
		if t.Failed() {
			t.Logf("--- follow\n%s", command.log)
		}
	})
	w.awaitPosition() // the publication is there
	for n := range 2 {
		i := newInstance(t, n, append([]string{"--follow", tables}, data()...)...)
		w.services = append(w.services, i)
		w.processes = append(w.processes, i)
	}
	w.processes = append(w.processes, command)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(logs(w.services))
		}
	})
	return w
}

// connect connects to a server once it is up.
func (w *followWorld) connect(ctx context.Context, to *pgtest.Server) (*pgx.Conn, error) {
	for {
		conn, err := pgx.Connect(ctx, to.URL()+"&search_path=feedfilter,public")
		if err == nil {
			return conn, nil
		}
		if wait(ctx, 20*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// exec runs SQL at the source.
func (w *followWorld) exec(sql string, args ...any) {
	w.t.Helper()
	conn, err := w.connect(w.t.Context(), w.source)
	must(w.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(w.t.Context())) }()
	_, err = conn.Exec(w.t.Context(), sql, args...)
	must(w.t, err)
}

// ask reads a value by SQL.
func ask[T any](w *followWorld, from *pgtest.Server, sql string, args ...any) (value T, err error) {
	conn, err := w.connect(w.t.Context(), from)
	if err != nil {
		return value, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(w.t.Context())) }()
	err = conn.QueryRow(w.t.Context(), sql, args...).Scan(&value)
	return value, err
}

// awaitPosition waits until the ledger has all that the source has committed.
func (w *followWorld) awaitPosition() {
	w.t.Helper()
	want, err := ask[string](w, w.source, atSQL)
	must(w.t, err)
	for end := time.Now().Add(w.limit); ; {
		reached, err := ask[bool](w, w.ledger, `SELECT coalesce(bool_or(position <> '' AND split_part(position, ':', 1) >= split_part($1, ':', 1)
			AND split_part(split_part(position, ' ', 1), ':', 2)::pg_lsn >= split_part($1, ':', 2)::pg_lsn), false) FROM sources`, want)
		if reached {
			return
		}
		if time.Now().After(end) {
			at, _ := ask[string](w, w.ledger, `SELECT coalesce(max(position || ' ' || holder), '') FROM sources`)
			w.t.Fatalf("position %s was not reached, the ledger is at %q: %v", want, at, err)
		}
		must(w.t, wait(w.t.Context(), 10*time.Millisecond))
	}
}

// followWriter is a client of the app, which alone writes rows of its users.
type followWriter struct {
	*followWorld

	n    int
	rng  *rand.Rand
	conn *pgx.Conn
}

// viewers are the writer's users: two of blocks, one of hides and a list.
func (r *followWriter) viewers() []string {
	return []string{fmt.Sprint(r.user(0)), fmt.Sprint(r.user(1)), r.account(), fmt.Sprint("list:", r.n)}
}

func (r *followWriter) user(i int) int  { return 100 + 2*r.n + i }
func (r *followWriter) account() string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", r.n) }
func (r *followWriter) any() int        { return r.user(r.rng.IntN(2)) }
func (r *followWriter) author() int     { return firstAuthor + r.rng.IntN(followTargets) }
func (r *followWriter) post() string    { return followPost(r.rng.IntN(followTargets)) }
func (r *followWriter) state() string {
	return []string{"accepted", "accepted", "asked"}[r.rng.IntN(3)]
}
func (r *followWriter) time() time.Time { return time.Unix(1_700_000_000+r.rng.Int64N(4), 0) }
func (r *followWriter) maybe(v any) any { return []any{v, v, v, v, v, nil}[r.rng.IntN(6)] }
func (r *followWriter) until() *time.Time {
	return []*time.Time{nil, nil, new(time.Now().Add(time.Hour).Truncate(time.Minute)), new(time.Now().Add(24 * time.Hour).Truncate(time.Hour)), new(r.time())}[r.rng.IntN(5)]
}

// followPost is an id. Long ones are kept apart from their rows, so updates do not repeat them.
func followPost(n int) string {
	if n%2 == 0 {
		return fmt.Sprintf("p%d%s", n, strings.Repeat("-long", 40))
	}
	return fmt.Sprint("p", n)
}

// write makes transactions until ctx ends, and judges feeds after each.
func (w *followWorld) write(ctx context.Context, n int, rng *rand.Rand) {
	r := &followWriter{followWorld: w, n: n, rng: rng}
	for ctx.Err() == nil {
		r.step(ctx)
	}
	if r.conn != nil {
		_ = r.conn.Close(context.WithoutCancel(ctx))
	}
}

func (r *followWriter) step(ctx context.Context) {
	r.truncating.RLock()
	defer r.truncating.RUnlock()
	after, want, err := r.transact(ctx)
	for err != nil && ctx.Err() == nil { // the source is down: the next read shows the outcome
		r.tally.count("connections lost", 1)
		if r.conn != nil {
			_ = r.conn.Close(context.WithoutCancel(ctx))
		}
		if r.conn, err = r.connect(ctx, r.source); err == nil {
			after, want, err = r.read(ctx)
		}
	}
	if ctx.Err() != nil {
		return
	}
	r.tally.count("commits", 1)
	for range 4 { // no row of theirs changes meanwhile
		for _, viewer := range r.viewers() {
			r.judge(ctx, viewer, after, want[viewer])
		}
	}
}

// transact makes a random transaction, and reads what the writer's rows give then.
func (r *followWriter) transact(ctx context.Context) (ask fresh, want map[string][]string, err error) {
	if r.conn == nil {
		return fresh{}, nil, errors.New("not connected yet")
	}
	exec := func(sql string, args ...any) {
		if err == nil {
			_, err = r.conn.Exec(ctx, sql, args...)
		}
	}
	exec("BEGIN")
	if r.rng.IntN(150) == 0 {
		exec(`INSERT INTO blocks (blocker, blocked) SELECT $1, 100000 + n FROM generate_series(1, 10500 + $2) n`, r.any(), r.rng.IntN(12_000))
	}
	for range 1 + r.rng.IntN(6) {
		saved := r.rng.IntN(5) == 0
		if saved {
			exec("SAVEPOINT one")
		}
		r.change(exec)
		if saved {
			exec([]string{"ROLLBACK TO one", "RELEASE one"}[r.rng.IntN(2)])
		}
	}
	exec([]string{"COMMIT", "COMMIT", "COMMIT", "COMMIT", "COMMIT", "ROLLBACK"}[r.rng.IntN(6)])
	if err != nil {
		return fresh{}, nil, err
	}
	return r.read(ctx)
}

// change makes a random change of the writer's rows.
func (r *followWriter) change(exec func(sql string, args ...any)) {
	switch r.rng.IntN(17) {
	case 0, 1:
		exec(`INSERT INTO blocks (blocker, blocked, created_at) VALUES ($1, $2, $3)`, r.any(), r.maybe(r.author()), r.maybe(r.time()))
	case 2:
		exec(`UPDATE blocks SET blocker = $1 WHERE blocker = $2 AND blocked < 100000 AND id % 3 = $3`, r.any(), r.any(), r.rng.IntN(3))
	case 3:
		exec(`UPDATE blocks SET created_at = $1, blocked = $2, note = 'x' WHERE blocker = $3 AND blocked = $4`, r.maybe(r.time()), r.author(), r.any(), r.author())
	case 4:
		exec(`DELETE FROM blocks WHERE blocker = $1 AND (blocked >= 100000 OR id % 3 = $2)`, r.any(), r.rng.IntN(3))
	case 5, 6:
		exec(`INSERT INTO more_blocks VALUES ($1, $2, 1) ON CONFLICT (a, b) DO UPDATE SET flag = more_blocks.flag + 1`, r.any(), fmt.Sprint(r.author()))
	case 7:
		exec(`UPDATE more_blocks m SET b = $1, flag = 0 WHERE a = $2 AND b = $3 AND NOT EXISTS (SELECT FROM more_blocks o WHERE o.a = m.a AND o.b = $1)`,
			fmt.Sprint(r.author()), r.any(), fmt.Sprint(r.author()))
	case 8:
		exec(`DELETE FROM more_blocks WHERE a = $1 AND b < $2`, r.any(), fmt.Sprint(r.author()))
	case 9, 10:
		exec(`INSERT INTO "App"."Hides" VALUES ($1, $2, $3, $4, $5, repeat('x', 5000))`, r.account(), r.maybe(r.post()), r.until(),
			[]any{nil, nil, r.time()}[r.rng.IntN(3)], r.rng.IntN(4) > 0)
	case 11:
		exec(`UPDATE "App"."Hides" SET deleted_at = $1, "On" = $2 WHERE account = $3 AND "Post" = $4`, []any{nil, r.time()}[r.rng.IntN(2)], r.rng.IntN(3) > 0, r.account(), r.post())
	case 12:
		exec(`UPDATE "App"."Hides" SET expires_at = $1 WHERE account = $2 AND "Post" = $3`, r.until(), r.account(), r.post())
	case 13:
		exec(`DELETE FROM "App"."Hides" WHERE account = $1 AND "Post" = $2`, r.account(), r.post())
	case 14:
		exec(`INSERT INTO list_members VALUES ($1, $2, $3)`, r.n, r.maybe(r.author()), r.state())
	case 15:
		exec(`UPDATE list_members SET state = $1, member_id = member_id + $2 WHERE list_id = $3 AND member_id BETWEEN 1000 AND 1007`, r.state(), r.rng.IntN(2), r.n)
	case 16:
		exec(`DELETE FROM list_members WHERE list_id = $1 AND member_id = $2`, r.n, r.author())
	}
}

// fresh is what a feed asks for: a position, or a time.
type fresh struct {
	after string
	since time.Time // zero: the position
}

func (f fresh) String() string {
	if f.since.IsZero() {
		return "after " + f.after
	}
	return fmt.Sprintf("within %v, since %v", time.Since(f.since), f.since)
}

// fields returns what the request has now.
func (f fresh) fields() (after, within string) {
	if f.since.IsZero() {
		return f.after, ""
	}
	return "", max(time.Since(f.since), time.Millisecond).Truncate(time.Millisecond).String()
}

// atSQL reads the position of the source's log with its timeline.
const atSQL = `SELECT left(pg_walfile_name(lsn), 8) || ':' || lsn FROM pg_current_wal_flush_lsn() AS lsn`

// read returns what a feed asks for that has all the writer's commits, and what its rows give, by
// user. Each fourth time it is a time.
func (r *followWriter) read(ctx context.Context) (ask fresh, want map[string][]string, err error) {
	if err := r.conn.QueryRow(ctx, atSQL).Scan(&ask.after); err != nil {
		return fresh{}, nil, err
	}
	if _, plain, _ := strings.Cut(ask.after, ":"); r.rng.IntN(2) == 0 && !r.failedOver {
		ask.after = plain
	}
	if r.rng.IntN(4) == 0 {
		ask.since = time.Now()
	}
	rows, err := r.conn.Query(ctx, `SELECT DISTINCT owner, target FROM wanted WHERE owner = ANY($1) AND length(target) <> 6`, r.viewers())
	if err != nil {
		return fresh{}, nil, err
	}
	var owner, target string
	want = make(map[string][]string)
	_, err = pgx.ForEachRow(rows, []any{&owner, &target}, func() error {
		want[owner] = append(want[owner], target)
		return nil
	})
	return ask, want, err
}

// judge asks for a feed until it is answered, and checks what it drops.
func (r *followWriter) judge(ctx context.Context, viewer string, ask fresh, want []string) {
	got, ok := r.feed(ctx, viewer, ask)
	if !ok {
		return
	}
	r.tally.count("feeds", 1)
	if !ask.since.IsZero() {
		r.tally.count("feeds within", 1)
	}
	for n := range followTargets {
		for _, target := range []string{fmt.Sprint(firstAuthor + n), followPost(n)} {
			switch wanted := slices.Contains(want, target); {
			case wanted && !got[target]:
				r.tally.violatedf("shown", "%s sees %s %v, which a row forbids", viewer, target, ask)
			case !wanted && got[target]:
				r.ghost(ctx, viewer, target, ask)
			}
		}
	}
}

// ghost tells a feed that came too early from a false positive, which stays.
func (r *followWriter) ghost(ctx context.Context, viewer, target string, ask fresh) {
	began := time.Now()
	why := r.services[r.rng.IntN(len(r.services))].send(ctx, http.MethodPost, "/v1/feed/explain",
		explainRequest{Viewer: viewer, Post: followCandidate(target)}).body
	for range 20 {
		if got, ok := r.feed(ctx, viewer, ask); ok && !got[target] {
			r.tally.violatedf("dropped", "%s did not see %s %v, although no row forbids it; %v later it did; explained first as %s",
				viewer, target, ask, time.Since(began), why)
			return
		}
		if wait(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
	r.tally.count("false positives", 1)
}

// followCandidate returns the candidate that is dropped for a target: an author or a post.
func followCandidate(target string) post {
	if strings.HasPrefix(target, "p") {
		return post{ID: target, Author: "of " + target}
	}
	return post{ID: target, Author: target}
}

// feed returns the targets that a feed drops; false: ctx has ended.
func (r *followWriter) feed(ctx context.Context, viewer string, ask fresh) (map[string]bool, bool) {
	q := struct {
		feedRequest
		After  string `json:"after"`
		Within string `json:"within"`
	}{feedRequest: feedRequest{Viewer: viewer}}
	for n := range followTargets {
		q.Posts = append(q.Posts, followCandidate(fmt.Sprint(firstAuthor+n)), followCandidate(followPost(n)))
	}
	for end := time.Now().Add(followLimit); ctx.Err() == nil; {
		answer := feedAnswer{}
		q.After, q.Within = ask.fields()
		err := r.services[r.rng.IntN(len(r.services))].send(ctx, http.MethodPost, "/v1/feed/filter", q).ok(&answer)
		if status, answered := errors.AsType[statusError](err); answered && status.status != http.StatusServiceUnavailable {
			r.tally.violatedf("answered", "%s %v: %v", viewer, ask, err)
			return nil, false
		}
		if err == nil && len(answer.Degraded) == 0 {
			got := make(map[string]bool)
			for _, d := range answer.Dropped {
				got[d.ID] = true
			}
			return got, true
		}
		r.tally.count("feeds refused", 1)
		if time.Now().After(end) {
			r.tally.violatedf("late", "%s %v has no answer in %v: %v, degraded %v", viewer, ask, followLimit, err, answer.Degraded)
			return nil, false
		}
		_ = wait(ctx, 10*time.Millisecond)
	}
	return nil, false
}
