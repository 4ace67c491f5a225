package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/proxytest"
)

// testLocked records on a page that a hanging writer has locked, until the server ends that
// writer.
func (server shared) testLocked(t testing.TB) {
	url := server.Schema()
	l := open(t, url+"&lock_timeout=50ms", ledger.Options{Pages: 16})
	record(t, l, on(3, "a"))
	hung := raw(t, url+"&idle_in_transaction_session_timeout=400ms")
	execute(t, hung, `BEGIN`, `SELECT FROM pages WHERE page = 3 FOR UPDATE`)
	record(t, l, on(4, "a")) // another page, not blocked
	record(t, l, on(3, "b"))
	checkSequence(t, l, 3, 2)
	if _, err := hung.Exec(t.Context(), `COMMIT`); err == nil {
		t.Error("the server has not ended the hanging writer")
	}
}

// testStopped stops a process between the two round trips of a write. Writes of others to the same
// page succeed, long before their own time limit.
func (server shared) testStopped(t testing.TB) {
	l, url := server.fresh(t)
	record(t, l, on(3, "a"))
	proxy := proxytest.Start(t, server.Addr())
	stopped := open(t, strings.Replace(url, server.Addr(), proxy.Addr(), 1), ledger.Options{})
	other, watch := raw(t, url), raw(t, url)
	execute(t, other, `BEGIN`, `SELECT FROM pages WHERE page = 3 FOR UPDATE`)
	ctx, cancel := context.WithCancel(t.Context())
	done := startRecord(ctx, stopped, on(3, "b"))
	awaitLock(t, watch)
	proxy.Stall() // the writer does not get the answer to its first round trip
	execute(t, other, `COMMIT`)
	limited, end := context.WithTimeout(t.Context(), 4*time.Second)
	defer end()
	if _, err := l.Record(limited, time.Now(), []ledger.Change{on(3, "c")}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of the writer that was stopped", err)
	}
	checkSequence(t, l, 3, 2)
	proxy.Reset() // or the close of the process that was stopped would wait for the server
}

// testLongStatement reads a large page for longer than a statement may take. The reader waits after
// the first rows, and the rest does not fit into the buffers of the connection.
func (server shared) testLongStatement(t testing.TB) {
	url := server.Schema()
	l := open(t, patient(url), ledger.Options{Pages: 16})
	c := on(3, "a")
	for i := range 40_000 {
		row := c.Rows[0]
		row.Owner, row.Target = fmt.Sprintf("%0256d", 0), fmt.Sprintf("%0256d", i)
		c.Rows = append(c.Rows, row)
	}
	record(t, l, c)
	watch, read := raw(t, url), 0
	limited := open(t, url+"&statement_timeout=300ms", ledger.Options{})
	_, err := limited.EachRow(t.Context(), 3, func(rows []ledger.Row) error {
		if read == 0 {
			await(t, watch, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
				AND query LIKE 'WITH bounds%' AND clock_timestamp() - query_start > '500ms')`)
		}
		read += len(rows)
		return nil
	})
	if err != nil || read != len(c.Rows) {
		t.Errorf("%d of %d rows, %v", read, len(c.Rows), err)
	}
}

// testStarved has a process pause between the two round trips of a write, until the server ends its
// transaction. The process records again.
func (server shared) testStarved(t testing.TB) {
	url := server.Schema()
	watch := raw(t, url)
	l := open(t, url, ledger.Options{Pages: 16, Tracer: &beforeCommit{beforePages: beforePages{do: func() {
		await(t, watch, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'idle in transaction')`)
	}}}})
	record(t, l, on(3, "a"))
	checkSequence(t, l, 3, 1)
}

// beforeCommit calls do before the first commit.
type beforeCommit struct {
	beforePages

	once sync.Once
}

func (b *beforeCommit) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if queries := data.Batch.QueuedQueries; queries[len(queries)-1].SQL == "COMMIT" {
		b.once.Do(b.do)
	}
	return ctx
}

// testDeadlock locks pages in the wrong order on another connection.
func (server shared) testDeadlock(t testing.TB) {
	l, url := server.fresh(t)
	record(t, l, on(3, "a"), on(4, "a"))
	other, watch := raw(t, url), raw(t, url)
	execute(t, other, `SET deadlock_timeout = '1min'`, `BEGIN`, `SELECT FROM pages WHERE page = 4 FOR UPDATE`)
	done := startRecord(t.Context(), l, on(3, "b"), on(4, "b"))
	awaitLock(t, watch)
	execute(t, other, `SELECT FROM pages WHERE page = 3 FOR UPDATE`, `COMMIT`)
	if err := <-done; err != nil {
		t.Error(err)
	}
	checkSequence(t, l, 3, 2)
	checkSequence(t, l, 4, 2)
}

// testConflicts makes the server refuse statements before the commit because of conflicts. Each
// conflict must cause a retry.
func (server shared) testConflicts(t testing.TB) {
	l, url := server.fresh(t)
	execute(t, raw(t, url), `CREATE SEQUENCE attempts`,
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		CASE nextval('attempts')
			WHEN 1, 4 THEN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001';
			WHEN 2 THEN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01';
			WHEN 3, 5 THEN RETURN NULL;
			ELSE RAISE EXCEPTION 'on principle'; END CASE; END $$`,
		`CREATE TRIGGER refuse BEFORE INSERT ON pages EXECUTE FUNCTION refuse()`)
	record(t, l, on(3, "a"))
	record(t, l, on(3, "b"))
	_, err := l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "c")})
	if err == nil || !strings.Contains(err.Error(), "look up rows: ") || !strings.Contains(err.Error(), "on principle") {
		t.Errorf("error %v, want the final one", err)
	}
	checkSequence(t, l, 3, 2)
}

// testIsolation uses sessions whose default isolation level is serializable. On that level, a
// writer would not see what the previous one has written, in spite of locks.
func (server shared) testIsolation(t testing.TB) {
	url := server.Schema()
	l := open(t, url+"&default_transaction_isolation=serializable", ledger.Options{Pages: 16})
	execute(t, raw(t, url), `CREATE FUNCTION check_isolation() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('transaction_isolation') <> 'read committed' THEN
			RAISE EXCEPTION 'isolation is %', current_setting('transaction_isolation'); END IF;
		RETURN NULL; END $$`,
		`CREATE TRIGGER isolated BEFORE INSERT ON pages EXECUTE FUNCTION check_isolation()`,
		`CREATE TRIGGER isolated BEFORE INSERT ON checkpoints EXECUTE FUNCTION check_isolation()`)
	record(t, l, on(3, "a"))
	checkSequence(t, l, 3, 1)
	if err := l.SetCheckpoint(t.Context(), "import", "half"); err != nil {
		t.Error(err)
	}
}

// testCommitFails makes the server refuse commits: twice because of a conflict, then for another
// reason.
func (server shared) testCommitFails(t testing.TB) {
	l, url := server.fresh(t)
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

// testCommitSlow ends the context of a Record during its commit, which must have no effect.
func (server shared) testCommitSlow(t testing.TB) {
	l, url := server.fresh(t)
	watch := raw(t, url)
	execute(t, watch, `CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$`,
		`CREATE CONSTRAINT TRIGGER pause AFTER UPDATE ON pages DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION pause()`,
		`SELECT pg_advisory_lock(4711)`)
	ctx, cancel := context.WithCancel(t.Context())
	done := startRecord(ctx, l, on(3, "a"))
	awaitLock(t, watch)
	cancel()
	execute(t, watch, `SELECT pg_advisory_unlock(4711)`)
	if err := <-done; err != nil {
		t.Errorf("error %v of a Record that was being committed when its context ended", err)
	}
	checkSequence(t, l, 3, 1)
}

// testLookedAgain removes a row between two tries of a Record. The server refuses the commit of the
// first try.
func (server shared) testLookedAgain(t testing.TB) {
	l, url := server.fresh(t)
	record(t, l, on(3, "a"))
	watch := raw(t, url)
	execute(t, watch, `CREATE SEQUENCE attempts`,
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_advisory_xact_lock(4712);
		IF nextval('attempts') = 1 THEN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END IF;
		RETURN NULL; END $$`,
		`CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON pages DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION refuse()`,
		`SELECT pg_advisory_lock(4712)`)
	done := begin(func() (ledger.Receipt, error) {
		return l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "a"), on(3, "b")})
	})
	awaitLock(t, watch)
	execute(t, watch, `DELETE FROM entries`, `SELECT pg_advisory_unlock(4712)`)
	if got := <-done; got.err != nil || !got.Changed[0] || !got.Changed[1] {
		t.Fatalf("changed %v, %v, want both", got.Changed, got.err)
	}
	if rows, _, err := l.Snapshot(t.Context(), 3); len(rows) != 2 || err != nil {
		t.Errorf("%v, %v, want both rows", rows, err)
	}
}

// testDeclareSlow declares kinds while a lock blocks the search for rows, for longer than other
// calls may take. The end of the context ends it.
func (server shared) testDeclareSlow(t testing.TB) {
	url := server.Schema()
	l := open(t, url+"&statement_timeout=1s&lock_timeout=1s", ledger.Options{Pages: 16})
	mute := []ledger.Kind{{Name: "mute", Target: ledger.User}}
	must(t, l.Declare(t.Context(), mute))
	other, watch := raw(t, url), raw(t, url)
	execute(t, other, `BEGIN`, `LOCK TABLE entries`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() { done <- l.Declare(ctx, nil) }()
	await(t, watch, `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND clock_timestamp() - query_start > '1200ms')`)
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `"mute"`) || !strings.Contains(err.Error(), "cannot tell") {
		t.Errorf("error %v, want context.Canceled naming mute", err)
	}
	if kinds, err := l.Kinds(t.Context()); err != nil || !slices.Equal(kinds, mute) {
		t.Errorf("kinds %v, %v, want %v", kinds, err, mute)
	}
	execute(t, other, `ROLLBACK`)
	if err := l.Declare(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// testDeclareWaits changes a kind while a writer by the earlier definition is in progress, on a
// shared and on a dedicated page. Declare waits for the writer, and then finds its row.
func (server shared) testDeclareWaits(t testing.TB) {
	for _, dedicated := range []bool{false, true} {
		url := server.Schema()
		l := open(t, url, ledger.Options{Pages: 16})
		oneWay := []ledger.Kind{{Name: "block", Target: ledger.User}, {Name: "mute", Target: ledger.User}}
		twoWay := []ledger.Kind{{Name: "block", Reverse: "blocked-by", Target: ledger.User}, oneWay[1]}
		must(t, l.Declare(t.Context(), oneWay))
		mute := on(3, "a")
		mute.Rows[0].Kind = "mute"
		_, err := l.Record(t.Context(), time.Now(), []ledger.Change{mute})
		must(t, err)
		if dedicated {
			_, err := l.Move(t.Context(), 3<<60, true)
			must(t, err)
		}
		other, watch := raw(t, url), raw(t, url)
		execute(t, other, `BEGIN`, `SELECT FROM pages FOR UPDATE`)
		declared := make(chan error)
		wrote := startRecord(t.Context(), l, on(3, "b"))
		await(t, watch, `SELECT count(*) = 1 FROM pg_locks WHERE NOT granted`)
		go func() { declared <- l.Declare(t.Context(), twoWay) }()
		await(t, watch, `SELECT count(*) = 2 FROM pg_locks WHERE NOT granted`)
		execute(t, other, `COMMIT`)
		if err := <-wrote; err != nil {
			t.Errorf("dedicated %v: record: %v", dedicated, err)
		}
		if err := <-declared; !errors.Is(err, ledger.ErrKindHasData) {
			t.Errorf("dedicated %v: declare: %v, want ErrKindHasData", dedicated, err)
		}
		if kinds, err := l.Kinds(t.Context()); err != nil || !slices.Equal(kinds, oneWay) {
			t.Errorf("dedicated %v: kinds %v, %v, want %v", dedicated, kinds, err, oneWay)
		}
	}
}

// testLeaseWaits takes the lease of a kind while a writer of the kind has read the kinds, and waits
// for the lock of a page. The lease waits for the writer, and later writers wait for the lease. A
// lease that is given up leaves the kind to them.
func (server shared) testLeaseWaits(t testing.TB) {
	l, url := server.fresh(t)
	must(t, l.Declare(t.Context(), []ledger.Kind{{Name: "block", Target: ledger.User}}))
	other, watch := raw(t, url), raw(t, url)
	for _, c := range []struct {
		first, later ledger.Change
		givenUp      bool
	}{
		{on(3, "a"), on(4, "b"), true},
		{on(3, "b"), on(4, "c"), false},
		{undo(on(3, "b")), undo(on(4, "b")), false},
	} {
		execute(t, other, `BEGIN`, `SELECT FROM pages FOR UPDATE`)
		if c.givenUp {
			execute(t, other, `INSERT INTO pages (page, sequence, changed) VALUES (3, 0, 0)`)
		}
		waiting := func(sessions int) {
			await(t, watch, fmt.Sprintf(`SELECT count(*) = %d FROM pg_locks WHERE NOT granted`, sessions))
		}
		wrote := startRecord(t.Context(), l, c.first)
		waiting(1)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		leased := make(chan error, 1)
		go func() {
			_, err := l.Lease(ctx, "app", "one", []string{"block"}, time.Hour, false)
			leased <- err
		}()
		waiting(2)
		later := startRecord(t.Context(), l, c.later)
		waiting(3)
		if c.givenUp {
			cancel()
			if err := <-leased; !errors.Is(err, context.Canceled) {
				t.Errorf("a lease that was given up: %v", err)
			}
			if err := <-later; err != nil {
				t.Errorf("after a lease was given up: %v", err)
			}
		}
		execute(t, other, `COMMIT`)
		if err := <-wrote; err != nil {
			t.Errorf("the writer before the lease: %v", err)
		}
		if c.givenUp {
			continue
		}
		if err := <-leased; err != nil {
			t.Errorf("lease: %v", err)
		}
		if _, refused := errors.AsType[*ledger.FollowedError](<-later); !refused {
			t.Error("the writer after the lease was not refused")
		}
		must(t, l.Unfollow(t.Context(), "block"))
	}
	for page, want := range map[uint32]int{3: 1, 4: 1} {
		if rows, _, err := l.Snapshot(t.Context(), page); err != nil || len(rows) != want {
			t.Errorf("page %d: rows %v, %v, want %d", page, rows, err, want)
		}
	}
}

func undo(c ledger.Change) ledger.Change {
	c.Remove = true
	return c
}
