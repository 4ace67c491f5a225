package ledger_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/ledger/ledgertest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestPostgres runs the suite that every kind of ledger passes.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	ledgertest.Run(t, func(*testing.T) string { return patient(server.Schema()) }, emptier(t, server))
	checkDeadlocks(t, server)
}

// TestPostgresAlone runs, on one server, the tests of what only PostgreSQL has: locks, sessions,
// its clock. These tests do not harm the server.
func TestPostgresAlone(t *testing.T) {
	t.Parallel()
	on := shared{pgtest.Start(t)}
	for name, test := range map[string]func(t testing.TB){
		"OpenTogether":              on.testOpenTogether,
		"Schemas":                   on.testSchemas,
		"Encoding":                  on.testEncoding,
		"Unsupported":               on.testUnsupported,
		"Replaced":                  on.testReplaced,
		"Locked":                    on.testLocked,
		"Starved":                   on.testStarved,
		"Stopped":                   on.testStopped,
		"LongStatement":             on.testLongStatement,
		"Deadlock":                  on.testDeadlock,
		"Conflicts":                 on.testConflicts,
		"Isolation":                 on.testIsolation,
		"PollsApart":                on.testPollsApart,
		"PollsPastOpenTransactions": on.testPollsPastOpenTransactions,
		"Settings":                  on.testSettings,
		"PageFormats":               on.testPageFormats,
		"EndedByTheServersClock":    on.testEndedByTheServersClock,
		"LeaseByTheServersClock":    on.testLeaseByTheServersClock,
		"PollsRolledBack":           on.testPollsRolledBack,
		"PollsSetBack":              on.testPollsSetBack,
		"PollsWithoutTimeline":      on.testPollsWithoutTimeline,
		"CommitFails":               on.testCommitFails,
		"CommitSlow":                on.testCommitSlow,
		"LookedAgain":               on.testLookedAgain,
		"DeclareSlow":               on.testDeclareSlow,
		"DeclareWaits":              on.testDeclareWaits,
		"LeaseWaits":                on.testLeaseWaits,
		"MoveRefused":               on.testMoveRefused,
		"PlacedAgain":               on.testPlacedAgain,
		"MoveWaits":                 on.testMoveWaits,
		"WriteHoldsBackSwitch":      on.testWriteHoldsBackSwitch,
		"SwitchHoldsBackWrites":     on.testSwitchHoldsBackWrites,
		"LayoutsTakenUp":            on.testLayoutsTakenUp,
		"LayoutsConflict":           on.testLayoutsConflict,
		"PollInOneSnapshot":         on.testPollInOneSnapshot,
		"LayoutsReplaced":           on.testLayoutsReplaced,
		"KeepsConnections":          on.testKeepsConnections,
	} {
		t.Run(name, func(t *testing.T) { test(t) })
	}
}

func TestLongPostgres(t *testing.T) {
	server := pgtest.Start(t)
	fewer(t)
	ledgertest.RunLong(t, func(*testing.T) string { return patient(server.Schema()) })
	checkDeadlocks(t, server)
}

// emptier returns a function that empties a ledger for the next test. Creating a ledger costs the
// server 75 ms of CPU. Each new connection costs some 50 ms until it has read the catalog of the
// tables. The rows that a large test deleted would slow down the next one, so its ledger is not
// used again.
func emptier(t *testing.T, server *pgtest.Server) func(t *testing.T, at string) bool {
	t.Helper()
	conn := raw(t, server.URL())
	return func(t *testing.T, at string) bool {
		t.Helper()
		ctx := context.Background() // the test's own has ended
		parsed, err := url.Parse(at)
		must(t, err)
		schema := parsed.Query().Get("search_path")
		named, err := conn.Query(ctx, `SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'
			AND relname NOT IN ('ledger_version', 'meta', 'layouts')`, schema)
		must(t, err)
		tables, err := pgx.CollectRows(named, pgx.RowTo[string])
		must(t, err)
		var script strings.Builder
		for _, table := range tables {
			fmt.Fprintf(&script, "DELETE FROM %s;", pgx.Identifier{schema, table}.Sanitize())
		}
		results, err := conn.PgConn().Exec(ctx, script.String()).ReadAll() // in one transaction
		must(t, err)
		deleted := int64(0)
		for _, result := range results {
			deleted += result.CommandTag.RowsAffected()
		}
		return deleted < 2000
	}
}

// patient returns the URL with times that a busy machine does not exceed, for tests that are not
// about them.
func patient(url string) string {
	return url + "&statement_timeout=2min&lock_timeout=2min&idle_in_transaction_session_timeout=2min"
}

// fewer makes random tests create a quarter as many ledgers, unless a flag sets the number.
// Creating two dozen tables for each takes longer than the operations. The SQLite tests run the
// full number.
func fewer(t *testing.T) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	must(t, checks.Value.Set("25"))
	t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) }) // the value before
}

// shared is the server of all tests that do not harm it.
type shared struct{ *pgtest.Server }

// fresh creates a ledger of 16 pages.
func (server shared) fresh(t testing.TB) (l *ledger.Ledger, url string) {
	t.Helper()
	url = server.Schema()
	return open(t, url, ledger.Options{Pages: 16}), url
}

// testKeepsConnections counts the connections of ledgers after a call, and again after the server
// has ended them and a call and a ping have noticed it.
func (server shared) testKeepsConnections(t testing.TB) {
	conn := raw(t, server.URL())
	for name, c := range map[string]struct {
		keep     bool
		settings string
		least    int // for calls; and one for pings
	}{
		"service":         {true, "", 8},
		"service-sized":   {true, "&pool_min_conns=3", 3},
		"service-limited": {true, "&pool_max_conns=2", 2},
		"service-none":    {true, "&pool_min_conns=0", 1},
		"command":         {false, "", 1},
	} {
		settings := "&application_name=" + name + c.settings
		l := open(t, server.Schema()+settings, ledger.Options{Pages: 16, KeepConnections: c.keep})
		open := ` FROM pg_stat_activity WHERE application_name = '` + name + `'`
		for range 2 {
			_, err := l.Sequence(t.Context(), 3)
			must(t, err)
			must(t, l.Ping(t.Context()))
			await(t, conn, fmt.Sprintf(`SELECT count(*) >= %d`, c.least+1)+open)
			_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid)`+open)
			must(t, err)
		}
	}
}

// startRecord starts a Record, and returns a channel for its error.
func startRecord(ctx context.Context, l *ledger.Ledger, changes ...ledger.Change) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := l.Record(ctx, time.Now(), changes)
		done <- err
	}()
	return done
}

// awaitLock waits until a session of the server waits for a lock.
func awaitLock(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	await(t, conn, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`)
}

// checkDeadlocks checks that no writers, moves or changes of layouts ever deadlocked. Servers
// before version 15 report deadlocks late.
func checkDeadlocks(t *testing.T, server *pgtest.Server) {
	t.Helper()
	var deadlocks int
	err := raw(t, server.URL()).QueryRow(t.Context(), `SELECT sum(deadlocks) FROM pg_stat_database`).Scan(&deadlocks)
	if err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
}

// raw returns a connection without a ledger.
func raw(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t testing.TB, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// await polls until a query returns true. The pauses leave the CPU to what it waits for.
func await(t testing.TB, conn *pgx.Conn, query string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var is bool
		must(t, conn.QueryRow(t.Context(), query).Scan(&is))
		if is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", query)
		}
	}
}

// on returns a change of one row on a page of 16.
func on(page int, target string) ledger.Change {
	return ledger.Change{Rows: []ledger.Row{{
		Hash: uint64(page) << 60, Owner: "u", Kind: "block", Target: target, Since: time.UnixMicro(0).UTC(),
	}}}
}

func checkSequence(t testing.TB, l *ledger.Ledger, page uint32, want uint64) {
	t.Helper()
	if got, err := l.Sequence(t.Context(), page); got != want || err != nil {
		t.Errorf("page %d at %d, %v, want %d", page, got, err, want)
	}
}

// testOpenTogether creates one ledger from several processes at once.
func (server shared) testOpenTogether(t testing.TB) {
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
		t.Error("Shared() = false")
	}
}

// testSchemas opens ledgers in schemas with odd names, and as a user without the right to create
// a schema.
func (server shared) testSchemas(t testing.TB) {
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
			t.Errorf("Open created a ledger in schema %s", schema)
			shut(t, l)
		}
	}
	// A table of another program with the same name must stay unchanged.
	execute(t, conn, `CREATE SCHEMA other`, `CREATE TABLE other.entries (precious int)`)
	if _, err := ledger.Open(t.Context(), server.URL()+"&search_path=other", ledger.Options{}); err == nil {
		t.Error("Open created a ledger among another program's tables")
	}
	var tables int
	err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relnamespace = 'other'::regnamespace`).Scan(&tables)
	if err != nil || tables != 1 {
		t.Errorf("%d tables, %v, want 1", tables, err)
	}
}

func (server shared) testEncoding(t testing.TB) {
	execute(t, raw(t, server.URL()), `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`)
	url := strings.Replace(server.Schema(), "/postgres?", "/latin?", 1)
	_, err := ledger.Open(t.Context(), url, ledger.Options{})
	if err == nil || !strings.Contains(err.Error(), "LATIN1") || !strings.Contains(err.Error(), "UTF8") {
		t.Errorf("error %v, want one naming both encodings", err)
	}
}

// testUnsupported opens ledgers with the schema of a later version, and of one before the first
// release.
func (server shared) testUnsupported(t testing.TB) {
	url := server.Schema()
	shut(t, open(t, url, ledger.Options{}))
	conn := raw(t, url)
	for version, want := range map[string]error{"99": ledger.ErrTooNew, "5": ledger.ErrTooOld} {
		execute(t, conn, `UPDATE ledger_version SET version = `+version)
		_, err := ledger.Open(t.Context(), url, ledger.Options{})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "version "+version) || !strings.Contains(err.Error(), server.Addr()) {
			t.Errorf("error %v, want %v naming the version and the server", err, want)
		}
	}
}

// testReplaced restores the ledger while it is open.
func (server shared) testReplaced(t testing.TB) {
	l, url := server.fresh(t)
	record(t, l, on(3, "a"))
	polls, notes := open(t, url, ledger.Options{}), open(t, url, ledger.Options{})
	checkSequence(t, polls, 3, 1)
	checkSequence(t, notes, 3, 1)
	changed(t, polls, "") // opens the connection that only polls use
	other := open(t, url, ledger.Options{Restored: true})
	calls := map[string]func() error{
		"Record": func() error {
			_, err := l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "b")})
			return err
		},
		"Changed": func() error {
			_, err := polls.Changed(t.Context(), "", func(uint32, ledger.PageState) error { return nil })
			return err
		},
		"SetCheckpoint": func() error { return notes.SetCheckpoint(t.Context(), "import", "5") },
		// The refusal closed all connections, so these calls use new ones.
		"Snapshot": func() error { _, _, err := l.Snapshot(t.Context(), 3); return err },
		"Ping":     func() error { return polls.Ping(t.Context()) },
	}
	for _, name := range []string{"Record", "SetCheckpoint", "Snapshot", "Changed", "Ping"} {
		if err := calls[name](); err == nil || !strings.Contains(err.Error(), "restored") {
			t.Errorf("%s: error %v, want one about a restored ledger", name, err)
		}
	}
	checkSequence(t, other, 3, 1)
	record(t, other, on(3, "b"))
}
