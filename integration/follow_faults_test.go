package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/proxytest"
)

// followFault disturbs what follows a source. begin returns what ends it; nil: nothing.
type followFault struct {
	name  string
	lasts [2]time.Duration
	begin func(w *followWorld) (heal func() error, err error)
}

func followFaults() []followFault {
	short, long := [2]time.Duration{0, time.Second}, [2]time.Duration{time.Second, 3 * time.Second}
	all := []followFault{
		{"process killed", long, func(w *followWorld) (func() error, error) {
			p := w.processes[w.rng.IntN(len(w.processes))]
			p.kill()
			return p.start, nil
		}},
		{"all processes killed", short, func(w *followWorld) (func() error, error) {
			w.killAll()
			return w.startAll, nil
		}},
		{"process stopped", [2]time.Duration{time.Second, 12 * time.Second}, func(w *followWorld) (func() error, error) {
			p := w.processes[w.rng.IntN(len(w.processes))]
			return p.resume, p.pause()
		}},
		{"redis flushed", short, func(w *followWorld) (func() error, error) { return nil, w.redis.Client().FlushAll(w.t.Context()).Err() }},
		{"redis killed", long, func(w *followWorld) (func() error, error) {
			w.redis.Kill()
			return func() error { w.redis.Restart(); return nil }, nil
		}},
		{"column added", short, func(w *followWorld) (func() error, error) { addColumn(w); return nil, nil }},   //nolint:nilnil // it needs no end
		{"table truncated", short, func(w *followWorld) (func() error, error) { truncate(w); return nil, nil }}, //nolint:nilnil // it needs no end
		{"table truncated and all processes killed", short, func(w *followWorld) (func() error, error) {
			truncate(w)
			must(w.t, wait(w.t.Context(), time.Duration(w.rng.Int64N(int64(1500*time.Millisecond)))))
			w.killAll()
			return w.startAll, nil
		}},
		{"slot dropped", short, func(w *followWorld) (func() error, error) { return nil, w.dropSlot() }},
		{"slot created again", short, func(w *followWorld) (func() error, error) {
			if err := w.dropSlot(); err != nil {
				return nil, err
			}
			conn, err := w.connect(w.t.Context(), w.source)
			if err == nil { // the follower may have been faster
				_, _ = conn.Exec(w.t.Context(), `SELECT pg_create_logical_replication_slot('feedfilter_app', 'pgoutput')`)
				_ = conn.Close(w.t.Context())
			}
			return nil, err
		}},
		{"slot invalidated", short, invalidateSlot},
		{"catalog altered for a time", short, func(w *followWorld) (func() error, error) {
			all := alterations()
			c := all[w.rng.IntN(len(all))]
			w.tally.count("  "+c[0], 1)
			w.exec(c[0])
			return func() error { w.restore(c[1]); return nil }, nil
		}},
		{"source failed over", short, func(w *followWorld) (func() error, error) { return nil, w.failOver(false, false) }},
		{"source failed over, without the last commits", short, func(w *followWorld) (func() error, error) { return nil, w.failOver(true, false) }},
		{"source failed over, with a new slot", short, func(w *followWorld) (func() error, error) { return nil, w.failOver(true, true) }},
		{"source restored", short, func(w *followWorld) (func() error, error) { return nil, w.restoreSource() }},
		{"table rewritten", short, func(w *followWorld) (func() error, error) { rewrite(w); return nil, nil }}, //nolint:nilnil // it needs no end
	}
	for name, of := range map[string]func(w *followWorld) *pgtest.Server{
		"source": func(w *followWorld) *pgtest.Server { return w.source }, "ledger": func(w *followWorld) *pgtest.Server { return w.ledger },
	} {
		all = append(all, followFault{name + " killed", long, func(w *followWorld) (func() error, error) {
			of(w).Kill()
			return func() error { of(w).Restart(); return nil }, nil
		}}, followFault{name + " stopped", long, func(w *followWorld) (func() error, error) {
			of(w).Pause()
			return func() error { of(w).Resume(); return nil }, nil
		}})
	}
	for _, name := range []string{"source", "ledger", "redis"} {
		for effect, cause := range map[string]func(p *proxytest.Proxy){"cut off": (*proxytest.Proxy).Cut, "stalled": (*proxytest.Proxy).Stall} {
			all = append(all, followFault{name + " " + effect, long, func(w *followWorld) (func() error, error) {
				some := w.proxies[name]
				if w.rng.IntN(2) == 0 {
					some = some[w.rng.IntN(len(some)):][:1]
				}
				for _, p := range some {
					cause(p)
				}
				return func() error {
					for _, p := range some {
						p.Reset()
					}
					return nil
				}, nil
			}})
		}
	}
	slices.SortFunc(all, func(a, b followFault) int { return strings.Compare(a.name, b.name) })
	return slices.DeleteFunc(all, func(f followFault) bool { return !strings.Contains(f.name, *chaosFaults) })
}

// alterations returns changes of the catalog that the stream does not show, each with what ends it.
// The app's writes of such a table fail meanwhile, or are not published. No partition that gives
// activities is detached: its rows would be gone from the table, and come again.
func alterations() [][2]string {
	return [][2]string{
		{`ALTER PUBLICATION feedfilter_app DROP TABLE blocks`, `ALTER PUBLICATION feedfilter_app ADD TABLE ONLY blocks`},
		{`ALTER PUBLICATION feedfilter_app DROP TABLE "App"."Hides"`, `ALTER PUBLICATION feedfilter_app ADD TABLE ONLY "App"."Hides"`},
		{`ALTER PUBLICATION feedfilter_app SET (publish = 'insert')`, `ALTER PUBLICATION feedfilter_app SET (publish = 'insert, update, delete, truncate')`},
		{`ALTER PUBLICATION feedfilter_app SET TABLE ONLY blocks WHERE (blocker < 0), ONLY more_blocks, ONLY "App"."Hides", list_members`,
			`ALTER PUBLICATION feedfilter_app SET TABLE ONLY blocks, ONLY more_blocks, ONLY "App"."Hides", list_members`},
		{`DROP PUBLICATION feedfilter_app`,
			`CREATE PUBLICATION feedfilter_app FOR TABLE ONLY blocks, ONLY more_blocks, ONLY "App"."Hides", list_members WITH (publish_via_partition_root = true)`},
		{`ALTER TABLE more_blocks SET SCHEMA "App"`, `ALTER TABLE "App".more_blocks SET SCHEMA public`},
		{`ALTER TABLE blocks RENAME TO other_blocks`, `ALTER TABLE other_blocks RENAME TO blocks`},
		{`ALTER TABLE list_members DETACH PARTITION list_rest`, `ALTER TABLE list_members ATTACH PARTITION list_rest DEFAULT`},
		{`ALTER TABLE blocks REPLICA IDENTITY NOTHING`, `ALTER TABLE blocks REPLICA IDENTITY FULL`},
	}
}

// restore undoes an alteration, unless a follower with --create was faster: it creates a
// publication that it lacks.
func (w *followWorld) restore(sql string) {
	conn, err := w.connect(w.t.Context(), w.source)
	must(w.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(w.t.Context())) }()
	_, err = conn.Exec(w.t.Context(), sql)
	if _, refused := errors.AsType[*pgconn.PgError](err); refused && strings.Contains(sql, "PUBLICATION") {
		w.tally.count("  mended by --create", 1)
		return
	}
	must(w.t, err)
}

func (w *followWorld) killAll() {
	for _, p := range w.processes {
		p.kill()
	}
}

func (w *followWorld) startAll() error {
	for _, p := range w.processes {
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

func addColumn(w *followWorld) {
	table := []string{"blocks", "more_blocks", `"App"."Hides"`, "list_members"}[w.rng.IntN(4)]
	w.exec("ALTER TABLE " + table + " DROP COLUMN IF EXISTS extra")
	w.exec("ALTER TABLE " + table + " ADD COLUMN extra int DEFAULT 5")
}

func truncate(w *followWorld) {
	w.truncating.Lock()
	defer w.truncating.Unlock()
	w.exec("TRUNCATE " + []string{"blocks", "more_blocks", `"App"."Hides"`, "list_members", "blocks, more_blocks"}[w.rng.IntN(5)])
}

func rewrite(w *followWorld) {
	w.exec("VACUUM FULL " + []string{"blocks", "more_blocks", `"App"."Hides"`, "list_accepted"}[w.rng.IntN(4)])
}

// dropSlot drops the slot, as a failover does to a server that has no slot.
func (w *followWorld) dropSlot() error {
	for {
		left, err := ask[int](w, w.source, `SELECT count(pg_terminate_backend(active_pid)) FROM pg_replication_slots WHERE slot_name = 'feedfilter_app' AND active_pid IS NOT NULL`)
		if err == nil && left == 0 {
			_, err = ask[int](w, w.source, `SELECT count(*) FROM (SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'feedfilter_app') s`)
			if err == nil {
				return nil
			}
		}
		if err := wait(w.t.Context(), 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// invalidateSlot makes the source remove the log that the followers need. They cannot reach it
// meanwhile.
func invalidateSlot(w *followWorld) (func() error, error) {
	for _, p := range w.proxies["source"] {
		p.Cut()
	}
	w.exec(`ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'`)
	w.exec(`SELECT pg_reload_conf()`)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		w.exec(`SELECT pg_logical_emit_message(false, 'any', repeat('x', 1000)), pg_switch_wal()`)
		w.exec(`CHECKPOINT`)
		kept, err := ask[int](w, w.source, `SELECT count(*) FROM pg_replication_slots WHERE wal_status <> 'lost'`)
		if err != nil {
			return nil, err
		}
		if kept == 0 {
			break
		}
	}
	return func() error {
		w.exec(`ALTER SYSTEM RESET max_slot_wal_keep_size`)
		w.exec(`SELECT pg_reload_conf()`)
		for _, p := range w.proxies["source"] {
			p.Reset()
		}
		return nil
	}, nil
}

// failOver promotes a standby of the source, which takes its address. It may lack what the source
// committed last, and have a slot from its beginning. Nobody's feeds are judged meanwhile: what was
// lost, no feed can wait for.
func (w *followWorld) failOver(loses, slot bool) error {
	standby := w.source.StartStandby()
	if loses {
		standby.Pause()
	}
	must(w.t, wait(w.t.Context(), time.Duration(w.rng.Int64N(int64(time.Second)))))
	w.truncating.Lock()
	defer w.truncating.Unlock()
	w.source.Kill()
	if loses {
		standby.Resume()
	}
	promoted, err := ask[bool](w, standby, `SELECT pg_promote()`)
	if err == nil && !promoted {
		err = errors.New("the standby was not promoted")
	}
	if err == nil && slot {
		_, err = ask[string](w, standby, `SELECT slot_name FROM pg_create_logical_replication_slot('feedfilter_app', 'pgoutput')`)
	}
	if err != nil {
		return err
	}
	w.source, w.failedOver = standby, true
	for _, p := range w.proxies["source"] {
		p.Move(standby.Addr())
	}
	return nil
}

// restoreSource sets the disk of the source back by up to two seconds, with its timeline. Until the
// follower has noticed, a feed with after may take a position of the log that was lost for one of
// the new. So nobody's feeds are judged before the ledger is beyond the end of the old log.
func (w *followWorld) restoreSource() error {
	data, err := ask[string](w, w.source, `SHOW data_directory`)
	if err != nil {
		return err
	}
	backup := filepath.Join(w.t.TempDir(), "backup")
	files := func(from, to string) {
		out, err := exec.CommandContext(w.t.Context(), "cp", "-a", from, to).CombinedOutput()
		if err != nil {
			w.t.Fatalf("copy %s to %s: %v\n%s", from, to, err, out)
		}
	}
	w.source.Kill()
	files(data, backup)
	w.source.Restart()
	must(w.t, wait(w.t.Context(), time.Duration(w.rng.Int64N(int64(2*time.Second)))))
	w.truncating.Lock()
	defer w.truncating.Unlock()
	end, err := ask[string](w, w.source, `SELECT (pg_current_wal_lsn() + 1000000)::text`)
	if err != nil {
		return err
	}
	w.source.Kill()
	must(w.t, os.RemoveAll(data))
	files(backup, data)
	must(w.t, os.RemoveAll(backup))
	w.source.Restart()
	for beyond := false; !beyond; {
		w.exec(`SELECT pg_logical_emit_message(true, 'any', repeat('x', 100000))`)
		if beyond, err = ask[bool](w, w.source, `SELECT pg_current_wal_flush_lsn() > $1::pg_lsn`, end); err != nil {
			return err
		}
	}
	w.awaitPosition()
	return nil
}

// causeFaults causes one fault after another, and at times two at once.
func (w *followWorld) causeFaults(end time.Time) {
	w.t.Helper()
	all := followFaults()
	if len(all) == 0 {
		w.t.Skipf("no fault has %q in its name here", *chaosFaults)
	}
	for time.Now().Before(end) && !w.t.Failed() {
		f := all[w.rng.IntN(len(all))]
		w.tally.begin(f.name, -1)
		w.tally.count("fault "+f.name, 1)
		heal, err := f.begin(w)
		w.tally.begun()
		if err != nil {
			w.t.Fatalf("%s: %v", f.name, err)
		}
		must(w.t, wait(w.t.Context(), f.lasts[0]+time.Duration(w.rng.Int64N(int64(f.lasts[1]-f.lasts[0])))))
		if heal != nil {
			if err := heal(); err != nil {
				w.t.Fatalf("the end of %s: %v", f.name, err)
			}
		}
		if w.rng.IntN(4) > 0 {
			w.awaitPosition()
			must(w.t, wait(w.t.Context(), time.Duration(w.rng.Int64N(int64(2*time.Second)))))
		}
	}
}

// given is an activity, and the number of rows that give it.
type given struct {
	since, until *time.Time
	rows         int
	sure         bool // all rows say when they began
}

// compare checks that the ledger is the mapping of the source, row by row.
func (w *followWorld) compare() {
	w.t.Helper()
	w.awaitPosition()
	ctx := w.t.Context()
	want := make(map[[3]string]given)
	w.each(w.source, `SELECT kind, owner, target, since, until FROM wanted ORDER BY since`, func(k [3]string, g given, _ string) {
		had, found := want[k]
		ends := func(g given) time.Time {
			if g.until == nil {
				return time.Now().AddDate(9, 0, 0).Truncate(24 * time.Hour)
			}
			return *g.until
		}
		g.rows, g.sure = 1, g.since != nil
		if found {
			g.rows = had.rows + 1
			if order := ends(g).Compare(ends(had)); order <= 0 {
				g.since, g.until = had.since, had.until
				g.sure = had.sure && (order < 0 || g.sure)
			}
		}
		want[k] = g
	})
	repeats := make(map[[3]string]int)
	w.each(w.ledger, `SELECT kind, owner, target, NULL::timestamptz AS since, NULL::timestamptz AS until, times FROM repeats`, func(k [3]string, _ given, times string) {
		repeats[k] = strings.Count(times, "{")
	})
	var rows []ledgerRow
	w.each(w.ledger, `SELECT kind, owner, target, to_timestamp(since / 1000000.0), to_timestamp(until / 1000000.0) FROM entries
		WHERE until IS NULL OR until > extract(epoch FROM now()) * 1000000`, func(k [3]string, g given, _ string) {
		g.rows = max(repeats[k], 1)
		rows = append(rows, ledgerRow{k, g})
	})
	w.tally.compareMapping(want, rows)
	w.tally.count("activities in the end", len(want))
	for n := range followWriters { // at rest
		conn, err := w.connect(ctx, w.source)
		must(w.t, err)
		r := &followWriter{followWorld: w, n: n, rng: w.rng, conn: conn}
		after, wanted, err := r.read(ctx)
		must(w.t, err)
		for _, viewer := range r.viewers() {
			r.judge(ctx, viewer, after, wanted[viewer])
		}
		_ = conn.Close(context.Background())
	}
}

// ledgerRow is a row of the ledger: kind, owner, target, and how it was given.
type ledgerRow struct {
	key [3]string
	given
}

// compareMapping compares the rows of the ledger with what the source gives. A block has a row of
// the other side, too.
func (y *tally) compareMapping(want map[[3]string]given, rows []ledgerRow) {
	got, mirrored := make(map[[3]string]bool), make(map[[3]string]bool)
	for _, row := range rows {
		k, g := row.key, row.given
		mirror := k[0] == "blocked-by"
		if mirror {
			k = [3]string{"block", k[2], k[1]}
			mirrored[k] = true
		} else {
			got[k] = true
		}
		as, found := want[k]
		switch same := found && (as.until == nil) == (g.until == nil) && (g.until == nil || g.until.Sub(*as.until).Abs() < time.Millisecond); {
		case !found:
			y.violatedf("stray", "%v (mirror: %v) is in the ledger, and no row gives it", k, mirror)
		case !same:
			y.violatedf("ends", "%v ends %v, want %v", k, g.until, as.until)
		case as.sure && g.since.Sub(*as.since).Abs() > time.Millisecond:
			y.violatedf("begins", "%v begins %v, want %v", k, g.since, as.since)
		case g.rows != as.rows && !mirror:
			y.violatedf("rows", "%v is given by %d rows, and the ledger has %d", k, as.rows, g.rows)
		}
	}
	for k := range want {
		if !got[k] || k[0] == "block" && !mirrored[k] {
			y.violatedf("missing", "%v is in the ledger: %v, and its other side: %v", k, got[k], mirrored[k])
		}
	}
}

// checkGhosts checks how many keys without a row every feed drops. A false positive is one in ten
// millions.
func (y *tally) checkGhosts() {
	if n := y.of("false positives"); n*100_000 > y.of("feeds")*2*followTargets {
		y.violatedf("ghosts", "%d false positives in %d feeds", n, y.of("feeds"))
	}
}

// each reads rows of activities: kind, owner, target, since, until, and maybe a text.
func (w *followWorld) each(from *pgtest.Server, sql string, do func(k [3]string, g given, more string)) {
	w.t.Helper()
	conn, err := w.connect(w.t.Context(), from)
	must(w.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(w.t.Context())) }()
	rows, err := conn.Query(w.t.Context(), sql)
	must(w.t, err)
	var k [3]string
	var g given
	var more string
	into := []any{&k[0], &k[1], &k[2], &g.since, &g.until, &more}
	_, err = pgx.ForEachRow(rows, into[:len(rows.FieldDescriptions())], func() error { do(k, g, more); return nil })
	must(w.t, err)
}

func (w *followWorld) report() {
	w.t.Helper()
	w.tally.checkGhosts()
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(w.tally.counts)) {
		fmt.Fprintf(&text, "%8d %s\n", w.tally.counts[what], what)
	}
	w.t.Logf("%v:\n%s", time.Since(w.tally.start).Round(time.Second), text.String())
	found, messages := w.tally.violations()
	if len(found) > 0 {
		w.t.Errorf("promises broken: %v\n%s", found, strings.Join(messages, "\n"))
	}
}
