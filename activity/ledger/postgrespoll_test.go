package ledger_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// changed returns what Changed reports, and where to go on.
func changed(t *testing.T, l *ledger.Ledger, since uint64) (map[uint32]uint64, uint64) {
	t.Helper()
	pages := map[uint32]uint64{}
	progress, err := l.Changed(t.Context(), since, func(page uint32, s ledger.Standing) error {
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

// asEarly changes a page the way a transaction does whose number is among the first.
const asEarly = `UPDATE pages SET sequence = sequence + 1, changed = 4 WHERE page = 5`

// TestPostgresCrashPoll has a server crash, and then give out again the numbers
// of transactions that had left no trace when it did: a change that comes with
// one is reported though the poll before it had seen higher ones.
func TestPostgresCrashPoll(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	url := s.Schema()
	l := open(t, url, ledger.Options{Pages: 16})
	record(t, l, on(3, "a"), on(5, "a"))
	pages, first := changed(t, l, 0)
	checkPages(t, "at first", pages, map[uint32]uint64{3: 1, 5: 1})
	record(t, l, on(4, "a"))
	pages, next := changed(t, l, first)
	checkPages(t, "in a second poll", pages, map[uint32]uint64{4: 1})
	// As long as the connection lasts there is no such change, and what it would be
	// is passed over.
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
		pages, _ := changed(t, l, 0)
		checkPages(t, "meanwhile", pages, map[uint32]uint64{3: 1})
		ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := l.Sequence(ended, 3); err == nil {
			t.Error("there is another connection for other calls")
		}
		execute(t, other, `COMMIT`)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
