package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/proxytest"
)

// changed returns the pages that Changed reports, and the next cursor.
func changed(t testing.TB, l *ledger.Ledger, since ledger.Cursor) (map[uint32]uint64, ledger.Cursor) {
	t.Helper()
	pages := map[uint32]uint64{}
	progress, err := l.Changed(t.Context(), since, func(page uint32, s ledger.PageState) error {
		pages[page] = s.Sequence
		return nil
	})
	must(t, err)
	return pages, progress.Next
}

func checkPages(t testing.TB, what string, got, want map[uint32]uint64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: pages %v, want %v", what, got, want)
	}
}

// TestPostgresCrashPoll crashes a server, which then assigns the ids of transactions again that it
// had not logged, although a poll had seen them end. A poll must report a change with such an id.
// It continues from the poll before the crash.
func TestPostgresCrashPoll(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "wal_writer_delay=10s") // nothing but commits writes the log
	url := s.Schema()
	l := open(t, url, ledger.Options{Pages: 16})
	record(t, l, on(3, "a"), on(5, "a"))
	pages, next := changed(t, l, "")
	checkPages(t, "at first", pages, map[uint32]uint64{3: 1, 5: 1})
	for sequence, again := uint64(1), false; !again; sequence++ {
		var ended, id int64
		assignIDs(t, url)
		query(t, raw(t, url), &ended, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`)
		pages, next = changed(t, l, next)
		checkPages(t, "before the crash", pages, nil)
		s.Kill()
		s.Restart()
		record(t, l, on(4, fmt.Sprint(sequence)))
		assignIDs(t, url)
		pages, next = changed(t, l, next)
		checkPages(t, "after the crash", pages, map[uint32]uint64{4: sequence})
		pages, next = changed(t, l, next)
		checkPages(t, "going on", pages, nil)
		query(t, raw(t, url), &id, `SELECT changed FROM pages WHERE page = 4`)
		again = id < ended
	}
	pages, _ = changed(t, l, "")
	if len(pages) != 3 {
		t.Errorf("from the beginning: pages %v, want 3", pages)
	}
}

// TestPostgresFailoverPoll promotes a standby that lacks commits. It assigns their ids again, so a
// poll must report every page.
func TestPostgresFailoverPoll(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	standby := primary.StartStandby()
	url := primary.Schema()
	l := open(t, strings.Replace(url, primary.Addr(), primary.Addr()+","+standby.Addr(), 1), ledger.Options{Pages: 16})
	record(t, l, on(3, "a"))
	replayed(t, primary, standby)
	standby.Kill()
	record(t, l, on(4, "lost"))
	record(t, l, on(5, "lost"))
	pages, next := changed(t, l, "")
	checkPages(t, "of the primary", pages, map[uint32]uint64{3: 1, 4: 1, 5: 1})
	primary.Kill()
	standby.Restart()
	execute(t, raw(t, standby.URL()), `SELECT pg_promote()`)
	record(t, l, on(6, "a"))
	assignIDs(t, strings.Replace(url, primary.Addr(), standby.Addr(), 1))
	pages, next = changed(t, l, next)
	checkPages(t, "of the new primary", pages, map[uint32]uint64{3: 1, 6: 1})
	pages, _ = changed(t, l, next)
	checkPages(t, "going on", pages, nil)
}

// assignIDs makes a server assign the ids of ten transactions. It writes none of them to its log.
func assignIDs(t *testing.T, url string) {
	t.Helper()
	conn := raw(t, url)
	for range 10 {
		execute(t, conn, `SELECT pg_current_xact_id()`)
	}
}

// replayed waits until the standby has what the primary has.
func replayed(t testing.TB, primary, standby *pgtest.Server) {
	t.Helper()
	var end string
	query(t, raw(t, primary.URL()), &end, `SELECT pg_current_wal_lsn()::text`)
	await(t, raw(t, standby.URL()), `SELECT pg_last_wal_replay_lsn() >= '`+end+`'`)
}

func query(t testing.TB, conn *pgx.Conn, into any, sql string) {
	t.Helper()
	must(t, conn.QueryRow(t.Context(), sql).Scan(into))
}

// TestPostgresForeignIDs opens a ledger that was restored on another server, whose transaction ids
// are lower. Polls report its pages once, and then only changes.
func TestPostgresForeignIDs(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	for _, o := range []ledger.Options{{}, {Restored: true}} {
		testForeignIDs(t, s.Schema(), o)
	}
}

func testForeignIDs(t *testing.T, url string, o ledger.Options) {
	t.Helper()
	l := open(t, url, ledger.Options{Pages: 16})
	record(t, l, on(3, "a"), on(4, "a"))
	_, err := l.Move(t.Context(), on(3, "a").Rows[0].Hash, true)
	must(t, err)
	shut(t, l)
	execute(t, raw(t, url), `UPDATE pages SET changed = changed + 1000000`, `UPDATE owners SET changed = changed + 1000000`)
	l = open(t, url, o)
	progress, err := l.Changed(t.Context(), "", func(uint32, ledger.PageState) error { return nil })
	if err != nil || len(progress.Owners) != 1 {
		t.Errorf("at first, with %+v: %+v, %v, want one owner", o, progress, err)
	}
	record(t, l, on(5, "a"))
	pages, next := changed(t, l, progress.Next)
	checkPages(t, "then", pages, map[uint32]uint64{5: 1})
	progress, err = l.Changed(t.Context(), next, func(page uint32, _ ledger.PageState) error {
		t.Errorf("with %+v, page %d is reported again", o, page)
		return nil
	})
	if err != nil || len(progress.Owners) > 0 {
		t.Errorf("at last, with %+v: owners %v, %v", o, progress.Owners, err)
	}
}

// testPollsSetBack polls from a point that the server has not reached: somebody set it back, and it
// assigns ids again. The poll must report every page.
func (server shared) testPollsSetBack(t testing.TB) {
	l := open(t, server.Schema(), ledger.Options{Pages: 16})
	record(t, l, on(3, "a"), on(4, "a"))
	_, next := changed(t, l, "")
	later := regexp.MustCompile(`"seen":\d+`).ReplaceAllString(string(next), `"seen":9999999999`)
	pages, next := changed(t, l, ledger.Cursor(later))
	checkPages(t, "at first", pages, map[uint32]uint64{3: 1, 4: 1})
	record(t, l, on(4, "b"))
	pages, _ = changed(t, l, next)
	checkPages(t, "then", pages, map[uint32]uint64{4: 2})
}

// testPollsWithoutTimeline polls a server that does not tell which timeline it is on. Another
// connection may be to a server that assigns ids again. So a poll goes on from the one before it
// only on the same connection. On a new one, it reports every page.
func (server shared) testPollsWithoutTimeline(t testing.TB) {
	const silent = `CREATE FUNCTION pg_catalog.pg_control_system(OUT system_identifier bigint)
		LANGUAGE sql AS 'SELECT NULL::bigint'`
	for database, instead := range map[string][]string{"refuses": nil, "silent": {silent}} {
		execute(t, raw(t, server.URL()), `CREATE DATABASE `+database+` TEMPLATE template0`)
		u, err := url.Parse(server.URL())
		must(t, err)
		u.Path = database
		conn := raw(t, u.String())
		execute(t, conn, `ALTER FUNCTION pg_catalog.pg_control_system() RENAME TO other`)
		execute(t, conn, instead...)
		l := open(t, u.String(), ledger.Options{Pages: 16})
		record(t, l, on(3, "a"), on(5, "a"))
		pages, next := changed(t, l, "")
		checkPages(t, database+" at first", pages, map[uint32]uint64{3: 1, 5: 1})
		record(t, l, on(4, "a"))
		pages, next = changed(t, l, next)
		checkPages(t, database+" on the same connection", pages, map[uint32]uint64{4: 1})
		execute(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND datname = current_database()`)
		record(t, l, on(6, "a"))
		pages, next = changed(t, l, next)
		all := map[uint32]uint64{3: 1, 4: 1, 5: 1, 6: 1}
		checkPages(t, database+" on another connection", pages, all)
		pages, _ = changed(t, l, next)
		checkPages(t, database+" going on", pages, nil)
	}
}

// testPollsPastOpenTransactions polls while transactions of the server stay open. Polls report the
// changes of others once, and the changes of these transactions when they commit.
func (server shared) testPollsPastOpenTransactions(t testing.TB) {
	l, url := server.fresh(t)
	record(t, l, on(3, "a"), on(5, "a"), on(7, "a"))
	idle, writes := raw(t, url), raw(t, url)
	execute(t, idle, `BEGIN`, `SELECT pg_current_xact_id()`)
	execute(t, writes, `BEGIN`, `UPDATE pages SET sequence = 2, changed = pg_current_xact_id()::text::bigint WHERE page = 5`)
	record(t, l, on(4, "a"))
	pages, next := changed(t, l, "")
	checkPages(t, "at first", pages, map[uint32]uint64{3: 1, 4: 1, 5: 1, 7: 1})
	record(t, l, on(6, "a"))
	pages, next = changed(t, l, next)
	checkPages(t, "while they are open", pages, map[uint32]uint64{6: 1})
	pages, next = changed(t, l, next)
	checkPages(t, "with nothing new", pages, nil)
	execute(t, writes, `COMMIT`)
	pages, next = changed(t, l, next)
	checkPages(t, "after a commit", pages, map[uint32]uint64{5: 2})
	execute(t, idle, `UPDATE pages SET sequence = 2, changed = pg_current_xact_id()::text::bigint WHERE page = 7`, `COMMIT`)
	record(t, l, on(8, "a"))
	pages, next = changed(t, l, next)
	checkPages(t, "after the other", pages, map[uint32]uint64{7: 2, 8: 1})
	pages, _ = changed(t, l, next)
	checkPages(t, "at last", pages, nil)
}

// testPollsRolledBack polls while transactions run that roll back.
func (server shared) testPollsRolledBack(t testing.TB) {
	l, url := server.fresh(t)
	record(t, l, on(3, "a"))
	conn := raw(t, url)
	execute(t, conn, `BEGIN`, `UPDATE pages SET sequence = 9, changed = pg_current_xact_id()::text::bigint WHERE page = 3`)
	_, next := changed(t, l, "")
	execute(t, conn, `ROLLBACK`)
	record(t, l, on(4, "a"))
	pages, _ := changed(t, l, next)
	checkPages(t, "afterwards", pages, map[uint32]uint64{4: 1})
}

// testPollsApart polls while the only other connection waits for a lock.
func (server shared) testPollsApart(t testing.TB) {
	url := server.Schema()
	l := open(t, url+"&pool_max_conns=1&pool_min_conns=1", ledger.Options{Pages: 16})
	record(t, l, on(3, "a"))
	other, watch := raw(t, url), raw(t, url)
	execute(t, other, `BEGIN`, `SELECT FROM pages WHERE page = 3 FOR UPDATE`)
	done := startRecord(t.Context(), l, on(3, "b"))
	awaitLock(t, watch)
	pages, _ := changed(t, l, "")
	checkPages(t, "meanwhile", pages, map[uint32]uint64{3: 1})
	ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.Sequence(ended, 3); err == nil {
		t.Error("the pool has more than one connection")
	}
	execute(t, other, `COMMIT`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// testEndedByTheServersClock lets a process whose clock is ahead remove ended rows. A row that has
// not ended by the server's clock stays. Ended does not return it either, so that callers do not
// try to remove it over and over.
func (server shared) testEndedByTheServersClock(t testing.TB) {
	l := open(t, server.Schema(), ledger.Options{Pages: 16})
	now := time.Now()
	ends := func(target string, until time.Time) ledger.Change {
		c := on(3, target)
		c.Rows[0].Until = until
		return c
	}
	lives, over := ends("lives", now.Add(5*time.Minute)), ends("over", now.Add(-time.Second))
	record(t, l, lives, over)
	ahead := now.Add(10 * time.Minute)
	rows, err := l.Ended(t.Context(), ahead, 10)
	if err != nil || len(rows) != 1 || rows[0].Target != "over" {
		t.Errorf("ended: %v, %v, want the row that has ended", rows, err)
	}
	remove := func(c ledger.Change) ledger.Change { return ledger.Change{Rows: c.Rows, Remove: true, Ended: true} }
	receipt, err := l.Record(t.Context(), ahead, []ledger.Change{remove(lives), remove(over)})
	if err != nil || !slices.Equal(receipt.Changed, []bool{false, true}) {
		t.Errorf("removed %v, %v, want the row that has ended", receipt.Changed, err)
	}
	left, _, err := l.Snapshot(t.Context(), 3)
	if err != nil || len(left) != 1 || left[0].Target != "lives" {
		t.Errorf("left: %v, %v, want the row that has not ended", left, err)
	}
}

// testLeaseByTheServersClock sets the clock of a database. Leases are given for a time, and end, by
// that clock, whatever those of the processes show.
func (server shared) testLeaseByTheServersClock(t testing.TB) {
	execute(t, raw(t, server.URL()), `CREATE DATABASE clocks TEMPLATE template0`)
	u, err := url.Parse(server.URL())
	must(t, err)
	u.Path = "clocks"
	clock := raw(t, u.String())
	execute(t, clock, `ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO true_clock`)
	set := func(ahead string) {
		execute(t, clock, `CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql
			AS $$ SELECT pg_catalog.true_clock() + interval '`+ahead+`' $$`)
	}
	set("0")
	l := open(t, u.String(), ledger.Options{Pages: 16})
	must(t, l.Declare(t.Context(), []ledger.Kind{{Name: "block", Target: ledger.User}}))
	lease := func(holder string) (*ledger.Lease, error) {
		return l.Lease(t.Context(), "app", holder, []string{"block"}, time.Hour, false)
	}
	one, err := lease("one")
	must(t, err)
	set("30 minutes")
	must(t, one.Renew(t.Context(), time.Hour, time.Time{}))
	set("89 minutes")
	if _, err := lease("two"); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("a minute before the end: %v", err)
	}
	set("91 minutes")
	two, err := lease("two")
	must(t, err)
	set("150 minutes")
	if _, err := lease("three"); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("a minute before the end of the second: %v", err)
	}
	must(t, two.Renew(t.Context(), 0, time.Time{}))
	if _, err := lease("three"); err != nil {
		t.Errorf("once the second was ended: %v", err)
	}
}

// A poll says at which time of this process the ledger's clock was what it read, and how wrong that
// may be: all of the way there and back.
func TestPostgresPollsFromAfar(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	proxy := proxytest.Start(t, server.Addr())
	l := open(t, strings.Replace(server.Schema(), server.Addr(), proxy.Addr(), 1), ledger.Options{Pages: 16})
	for _, way := range []time.Duration{0, 200 * time.Millisecond} {
		proxy.Delay(2*way, 0)
		p, err := l.Changed(t.Context(), "", func(uint32, ledger.PageState) error { return nil })
		must(t, err)
		if off := p.Clock.Sub(p.At).Abs(); off > p.Error || p.Error < way { // the server has the clock of this process
			t.Errorf("at %v each way: the clock differs by %v, the poll says %v at most", way, off, p.Error)
		}
	}
}
