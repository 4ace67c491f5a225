package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/ledger/ledgertest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestPostgres has one server for all tests that do not harm it.
func TestPostgres(t *testing.T) {
	server := pgtest.Start(t)
	t.Run("Suite", func(t *testing.T) {
		ledgertest.Run(t, func(*testing.T) string { return server.Schema() })
	})
	for name, test := range map[string]func(*testing.T, *pgtest.Server){
		"OpenTogether": testOpenTogether,
		"Schemas":      testSchemas,
		"Encoding":     testEncoding,
		"TooNew":       testTooNew,
		"Replaced":     testReplaced,
		"OutOfOrder":   testOutOfOrder,
		"Locked":       testLocked,
		"Deadlock":     testDeadlock,
		"Serializable": testSerializable,
		"CommitFails":  testCommitFails,
		"CommitSlow":   testCommitSlow,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

// raw is a connection without a ledger around it.
func raw(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// await polls until a query returns true.
func await(t *testing.T, conn *pgx.Conn, query string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		var is bool
		if err := conn.QueryRow(t.Context(), query).Scan(&is); err != nil {
			t.Fatal(err)
		}
		if is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", query)
		}
	}
}

// on is a change of one row on a page, of 16.
func on(page int, target string) ledger.Change {
	return ledger.Change{Rows: []ledger.Row{{
		Hash: uint64(page) << 60, Owner: "u", Kind: "block", Target: target, Since: time.UnixMicro(0).UTC(),
	}}}
}

func checkSequence(t *testing.T, l *ledger.Ledger, page uint32, want uint64) {
	t.Helper()
	if got, err := l.Sequence(t.Context(), page); got != want || err != nil {
		t.Errorf("page %d at %d, %v, want %d", page, got, err, want)
	}
}

// testOpenTogether lets several processes make one ledger at once.
func testOpenTogether(t *testing.T, server *pgtest.Server) {
	const processes = 8
	url := server.Schema()
	var ids [processes]ledger.Identity
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() {
			l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: 16})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = l.Identity()
			_, err = l.Record(t.Context(), time.Now(), []ledger.Change{on(3, fmt.Sprint(i))})
			if err := errors.Join(err, l.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("identities %+v and %+v of one ledger", id, ids[0])
		}
	}
	l := open(t, url, ledger.Options{})
	checkSequence(t, l, 3, processes)
	if !l.Shared() {
		t.Error("it is said to be nobody else's")
	}
}

// testSchemas opens ledgers in schemas of all names, and one as a user who may not
// make any.
func testSchemas(t *testing.T, server *pgtest.Server) {
	conn := raw(t, server.URL())
	execute(t, conn, `CREATE ROLE plain LOGIN`, `CREATE SCHEMA plain AUTHORIZATION plain`)
	for parameter, schema := range map[string]string{
		"":                                 "feedfilter",
		"&search_path=UPPER":               "UPPER",
		"&search_path=%22two%20words%22":   "two words",
		"&search_path=first,second,public": "first",
		"&search_path=plain&user=plain":    "plain",
		"&search_path=sch%C3%A9ma%27s":     "schéma's",
	} {
		url := server.URL() + parameter
		record(t, open(t, url, ledger.Options{}), oneWay(1))
		var rows int
		query := `SELECT count(*) FROM ` + pgx.Identifier{schema, "entries"}.Sanitize()
		if err := conn.QueryRow(t.Context(), query).Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%q: %d rows in schema %s, %v", parameter, rows, schema, err)
		}
	}
	for _, schema := range []string{"pg_catalog", "$user", "a%22b", strings.Repeat("x", 64)} {
		if l, err := ledger.Open(t.Context(), server.URL()+"&search_path="+schema, ledger.Options{}); err == nil {
			t.Errorf("there is a ledger in schema %s", schema)
			shut(t, l)
		}
	}
	// Something else that has a table of one of the names is left alone.
	execute(t, conn, `CREATE SCHEMA other`, `CREATE TABLE other.entries (precious int)`)
	if _, err := ledger.Open(t.Context(), server.URL()+"&search_path=other", ledger.Options{}); err == nil {
		t.Error("there is a ledger among another program's tables")
	}
	var tables int
	err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relnamespace = 'other'::regnamespace`).Scan(&tables)
	if err != nil || tables != 1 {
		t.Errorf("%d tables, %v, want the one that was there", tables, err)
	}
}

func testEncoding(t *testing.T, server *pgtest.Server) {
	execute(t, raw(t, server.URL()), `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`)
	url := strings.Replace(server.Schema(), "/postgres?", "/latin?", 1)
	_, err := ledger.Open(t.Context(), url, ledger.Options{})
	if err == nil || !strings.Contains(err.Error(), "LATIN1") || !strings.Contains(err.Error(), "UTF8") {
		t.Errorf("error %v, want one naming both encodings", err)
	}
}

func testTooNew(t *testing.T, server *pgtest.Server) {
	url := server.Schema()
	shut(t, open(t, url, ledger.Options{}))
	execute(t, raw(t, url), `UPDATE ledger_version SET version = 99`)
	_, err := ledger.Open(t.Context(), url, ledger.Options{})
	if !errors.Is(err, ledger.ErrTooNew) || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), server.Addr()) {
		t.Errorf("error %v, want ErrTooNew naming the version and the server", err)
	}
}

// testReplaced restores the ledger while it is open.
func testReplaced(t *testing.T, server *pgtest.Server) {
	url := server.Schema()
	l := open(t, url, ledger.Options{Pages: 16})
	record(t, l, on(3, "a"))
	other := open(t, url, ledger.Options{Restored: true})
	calls := map[string]func() error{
		"Record": func() error {
			_, err := l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "b")})
			return err
		},
		"Changed": func() error {
			_, err := l.Changed(t.Context(), 0, func(uint32, uint64) error { return nil })
			return err
		},
		// On new connections: those of before were given up.
		"Snapshot": func() error { _, _, err := l.Snapshot(t.Context(), 3); return err },
		"Ping":     func() error { return l.Ping(t.Context()) },
	}
	for _, name := range []string{"Record", "Changed", "Snapshot", "Ping"} {
		if err := calls[name](); err == nil || !strings.Contains(err.Error(), "restored") {
			t.Errorf("%s: error %v, want one that says that the ledger was restored", name, err)
		}
	}
	checkSequence(t, other, 3, 1)
	record(t, other, on(3, "b"))
}

// testOutOfOrder commits a transaction after others that began later.
func testOutOfOrder(t *testing.T, server *pgtest.Server) {
	url := server.Schema()
	l := open(t, url, ledger.Options{Pages: 16})
	record(t, l, on(3, "a"), on(4, "a"))
	next := uint64(0)
	poll := func(want map[uint32]uint64) {
		t.Helper()
		got := map[uint32]uint64{}
		progress, err := l.Changed(t.Context(), next, func(page uint32, sequence uint64) error {
			got[page] = sequence
			return nil
		})
		for page, sequence := range want {
			if got[page] != sequence || err != nil {
				t.Errorf("page %d at %d, %v, want %d", page, got[page], err, sequence)
			}
		}
		next = progress.Next
	}
	poll(map[uint32]uint64{3: 1, 4: 1})
	slow := raw(t, url)
	execute(t, slow, `BEGIN`, `UPDATE pages SET sequence = 2, changed = pg_current_xact_id()::text::bigint WHERE page = 3`)
	for i := range uint64(3) {
		record(t, l, on(4, fmt.Sprint(i)))
		poll(map[uint32]uint64{4: 2 + i})
	}
	execute(t, slow, `COMMIT`)
	poll(map[uint32]uint64{3: 2})
	poll(nil)
	record(t, l, on(5, "a"))
	poll(map[uint32]uint64{5: 1})
}

// testLocked records on a page that a writer has locked that does not go on: until
// the server ends that.
func testLocked(t *testing.T, server *pgtest.Server) {
	url := server.Schema()
	l := open(t, url+"&lock_timeout=50ms", ledger.Options{Pages: 16})
	record(t, l, on(3, "a"))
	hung := raw(t, url+"&idle_in_transaction_session_timeout=400ms")
	execute(t, hung, `BEGIN`, `SELECT FROM pages WHERE page = 3 FOR UPDATE`)
	record(t, l, on(4, "a")) // has nothing to do with it
	record(t, l, on(3, "b"))
	checkSequence(t, l, 3, 2)
	if _, err := hung.Exec(t.Context(), `COMMIT`); err == nil {
		t.Error("it was not that writer's end that let the other one go on")
	}
}

// testDeadlock has a stranger lock pages in the wrong order.
func testDeadlock(t *testing.T, server *pgtest.Server) {
	url := server.Schema()
	l := open(t, url, ledger.Options{Pages: 16})
	record(t, l, on(3, "a"), on(4, "a"))
	other, watch := raw(t, url), raw(t, url)
	execute(t, other, `SET deadlock_timeout = '1min'`, `BEGIN`, `SELECT FROM pages WHERE page = 4 FOR UPDATE`)
	done := make(chan error)
	go func() {
		_, err := l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "b"), on(4, "b")})
		done <- err
	}()
	await(t, watch, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`)
	execute(t, other, `SELECT FROM pages WHERE page = 3 FOR UPDATE`, `COMMIT`)
	if err := <-done; err != nil {
		t.Error(err)
	}
	checkSequence(t, l, 3, 2)
	checkSequence(t, l, 4, 2)
}

// testSerializable has sessions whose transactions fail if others get in their way.
func testSerializable(t *testing.T, server *pgtest.Server) {
	const writers, calls = 3, 20
	l := open(t, server.Schema()+"&default_transaction_isolation=serializable", ledger.Options{Pages: 16})
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() {
			for i := range calls {
				if _, err := l.Record(t.Context(), time.Now(), []ledger.Change{on(3, fmt.Sprint(g, i))}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	checkSequence(t, l, 3, writers*calls)
}

// testCommitFails has the server refuse commits: twice because of a conflict, and
// then for another reason.
func testCommitFails(t *testing.T, server *pgtest.Server) {
	url := server.Schema()
	l := open(t, url, ledger.Options{Pages: 16})
	execute(t, raw(t, url), `CREATE SEQUENCE attempts`,
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			CASE nextval('attempts') WHEN 1, 2 THEN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001';
				WHEN 3 THEN RETURN NULL;
				ELSE RAISE EXCEPTION 'on principle'; END CASE; END $$`,
		`CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON pages DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION refuse()`)
	record(t, l, on(3, "a"))
	checkSequence(t, l, 3, 1)
	_, err := l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "b")})
	if err == nil || !strings.Contains(err.Error(), "commit: ") || !strings.Contains(err.Error(), "on principle") {
		t.Errorf("error %v, want one of the commit", err)
	}
	checkSequence(t, l, 3, 1)
	if rows, _, err := l.Snapshot(t.Context(), 3); len(rows) != 1 || err != nil {
		t.Errorf("%v, %v, want one row", rows, err)
	}
}

// testCommitSlow ends the context of a Record that commits: that comes too late.
func testCommitSlow(t *testing.T, server *pgtest.Server) {
	url := server.Schema()
	l := open(t, url, ledger.Options{Pages: 16})
	watch := raw(t, url)
	execute(t, watch, `CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$`,
		`CREATE CONSTRAINT TRIGGER pause AFTER UPDATE ON pages DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION pause()`,
		`SELECT pg_advisory_lock(4711)`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := l.Record(ctx, time.Now(), []ledger.Change{on(3, "a")})
		done <- err
	}()
	await(t, watch, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`)
	cancel()
	execute(t, watch, `SELECT pg_advisory_unlock(4711)`)
	if err := <-done; err != nil {
		t.Errorf("error %v of a Record that was being committed when its context ended", err)
	}
	checkSequence(t, l, 3, 1)
}
