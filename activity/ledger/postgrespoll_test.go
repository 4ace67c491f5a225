package ledger_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// changed returns the pages that Changed reports, and the next cursor.
func changed(t *testing.T, l *ledger.Ledger, since ledger.Cursor) (map[uint32]uint64, ledger.Cursor) {
	t.Helper()
	pages := map[uint32]uint64{}
	progress, err := l.Changed(t.Context(), since, func(page uint32, s ledger.PageState) error {
		pages[page] = s.Sequence
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages, progress.Next
}

func checkPages(t *testing.T, what string, got, want map[uint32]uint64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: pages %v, want %v", what, got, want)
	}
}

// asEarly changes a page like a transaction with one of the first ids.
const asEarly = `UPDATE pages SET sequence = sequence + 1, changed = 4 WHERE page = 5`

// TestPostgresCrashPoll crashes a server, which then reuses the ids of transactions that it had not
// logged. A poll must report a change with such an id, although an earlier poll had seen higher
// ids.
func TestPostgresCrashPoll(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	url := s.Schema()
	l := open(t, url, ledger.Options{Pages: 16})
	record(t, l, on(3, "a"), on(5, "a"))
	pages, first := changed(t, l, "")
	checkPages(t, "at first", pages, map[uint32]uint64{3: 1, 5: 1})
	record(t, l, on(4, "a"))
	pages, next := changed(t, l, first)
	checkPages(t, "in a second poll", pages, map[uint32]uint64{4: 1})
	// While the connection lasts, no real change has such an id, and a poll does not report one.
	execute(t, raw(t, url), asEarly)
	pages, next = changed(t, l, next)
	checkPages(t, "without a crash", pages, nil)

	s.Kill()
	s.Restart()
	execute(t, raw(t, url), asEarly)
	all := map[uint32]uint64{3: 1, 4: 1, 5: 3}
	pages, later := changed(t, l, next)
	checkPages(t, "after the crash", pages, all)
	pages, _ = changed(t, l, later)
	checkPages(t, "going on", pages, nil)
	pages, _ = changed(t, l, first)
	checkPages(t, "since long before the crash", pages, all)
}

// testPollsPastOpenTransactions polls while transactions of the server stay open. Polls report the
// changes of others once, and the changes of these transactions when they commit.
func testPollsPastOpenTransactions(server *pgtest.Server) func(t *testing.T) {
	return func(t *testing.T) {
		url := server.Schema()
		l := open(t, url, ledger.Options{Pages: 16})
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
}

// testPollsRolledBack polls while transactions run that roll back.
func testPollsRolledBack(server *pgtest.Server) func(t *testing.T) {
	return func(t *testing.T) {
		url := server.Schema()
		l := open(t, url, ledger.Options{Pages: 16})
		record(t, l, on(3, "a"))
		conn := raw(t, url)
		execute(t, conn, `BEGIN`, `UPDATE pages SET sequence = 9, changed = pg_current_xact_id()::text::bigint WHERE page = 3`)
		_, next := changed(t, l, "")
		execute(t, conn, `ROLLBACK`)
		record(t, l, on(4, "a"))
		pages, _ := changed(t, l, next)
		checkPages(t, "afterwards", pages, map[uint32]uint64{4: 1})
	}
}

// testPollsApart polls while the only other connection waits for a lock.
func testPollsApart(server *pgtest.Server) func(t *testing.T) {
	return func(t *testing.T) {
		url := server.Schema()
		l := open(t, url+"&pool_max_conns=1&pool_min_conns=1", ledger.Options{Pages: 16})
		record(t, l, on(3, "a"))
		other, watch := raw(t, url), raw(t, url)
		execute(t, other, `BEGIN`, `SELECT FROM pages WHERE page = 3 FOR UPDATE`)
		done := make(chan error)
		go func() {
			_, err := l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "b")})
			done <- err
		}()
		await(t, watch, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`)
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
}

// testEndedByTheServersClock lets a process whose clock is ahead remove ended rows. A row that has
// not ended by the server's clock stays. Ended does not return it either, so that callers do not
// try to remove it over and over.
func testEndedByTheServersClock(server *pgtest.Server) func(t *testing.T) {
	return func(t *testing.T) {
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
}
