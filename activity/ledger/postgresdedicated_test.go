package ledger_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// refuseCommits makes the server refuse the first commits of transactions that raise pages, because
// of a conflict. The commits wait for the lock 4713.
const refuseCommits = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	PERFORM pg_advisory_xact_lock(4713);
	IF nextval('attempts') <= 2 THEN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END IF;
	RETURN NULL; END $$`

const onRaise = `CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON pages DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION refuse()`

func checkPagesOf(t testing.TB, receipt ledger.Receipt, err error, want map[uint32]uint64) {
	t.Helper()
	got := map[uint32]uint64{}
	for _, p := range receipt.Pages {
		got[p.Page] = p.Sequence
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("pages %v, %v, want %v", got, err, want)
	}
}

// testMoveRefused makes the server refuse commits of moves. A move must happen once, even after
// retries.
func (server shared) testMoveRefused(t testing.TB) {
	l, url := server.fresh(t)
	record(t, l, on(3, "a"))
	conn := raw(t, url)
	execute(t, conn, `CREATE SEQUENCE attempts`, refuseCommits, onRaise)
	receipt, err := l.Move(t.Context(), 3<<60, true)
	checkPagesOf(t, receipt, err, map[uint32]uint64{3: 2, ledger.DedicatedPages: 1})
	execute(t, conn, `ALTER SEQUENCE attempts RESTART`)
	receipt, err = l.Move(t.Context(), 3<<60, false)
	checkPagesOf(t, receipt, err, map[uint32]uint64{3: 3, ledger.DedicatedPages: 2})
	checkOwners(t, l, nil)
	execute(t, conn, `CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'on principle'; END $$`)
	if _, err := l.Move(t.Context(), 3<<60, true); err == nil || !strings.Contains(err.Error(), "on principle") {
		t.Errorf("error %v, want the final one", err)
	}
	checkSequence(t, l, 3, 3)
	if _, err := l.Sequence(t.Context(), ledger.DedicatedPages+1); !errors.Is(err, ledger.ErrGone) {
		t.Errorf("the page of a move that was refused: error %v, want ErrGone", err)
	}
	pages, _ := changed(t, l, "")
	checkPages(t, "after a refusal", pages, map[uint32]uint64{3: 3, ledger.DedicatedPages: 2})
}

// testPlacedAgain returns a user to the shared page between two tries of a Record. The first try
// found the user on a dedicated page.
func (server shared) testPlacedAgain(t testing.TB) {
	l, url := server.fresh(t)
	_, err := l.Move(t.Context(), 3<<60, true)
	must(t, err)
	watch := raw(t, url)
	execute(t, watch, `CREATE SEQUENCE attempts`, refuseCommits, onRaise, `SELECT pg_advisory_lock(4713)`)
	done := begin(func() (ledger.Receipt, error) {
		return l.Record(t.Context(), time.Now(), []ledger.Change{on(3, "a"), on(4, "a")})
	})
	awaitLock(t, watch)
	execute(t, watch, `DELETE FROM owners`, `SELECT pg_advisory_unlock(4713)`)
	got := <-done
	checkPagesOf(t, got.Receipt, got.err, map[uint32]uint64{3: 2, 4: 1})
	if rows, _, err := l.Snapshot(t.Context(), 3); len(rows) != 1 || err != nil {
		t.Errorf("%v, %v, want the row", rows, err)
	}
}

// testMoveWaits makes a Record wait for a move that commits. The Record must find the user on the
// new page. Moves of users of other pages run one after another.
func (server shared) testMoveWaits(t testing.TB) {
	l, url := server.fresh(t)
	watch := raw(t, url)
	execute(t, watch, `CREATE SEQUENCE attempts START 3`, refuseCommits, onRaise, `SELECT pg_advisory_lock(4713)`)
	results := map[string]ledger.Receipt{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	waiting := 0
	begin := func(name string, call func() (ledger.Receipt, error)) {
		wg.Go(func() {
			receipt, err := call()
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			results[name] = receipt
		})
		waiting++
		await(t, watch, `SELECT count(*) = `+string(rune('0'+waiting))+` FROM pg_locks WHERE NOT granted`)
	}
	begin("dedicate", func() (ledger.Receipt, error) { return l.Move(t.Context(), 3<<60, true) })
	begin("record", func() (ledger.Receipt, error) {
		return l.Record(context.WithoutCancel(t.Context()), time.Now(), []ledger.Change{on(3, "a")})
	})
	begin("other", func() (ledger.Receipt, error) { return l.Move(t.Context(), 4<<60, true) })
	execute(t, watch, `SELECT pg_advisory_unlock(4713)`)
	wg.Wait()
	checkPagesOf(t, results["dedicate"], nil, map[uint32]uint64{3: 1, ledger.DedicatedPages: 1})
	checkPagesOf(t, results["record"], nil, map[uint32]uint64{3: 1, ledger.DedicatedPages: 2})
	checkPagesOf(t, results["other"], nil, map[uint32]uint64{4: 1, ledger.DedicatedPages + 1: 1})
	checkOwners(t, l, map[uint64]uint32{3 << 60: ledger.DedicatedPages, 4 << 60: ledger.DedicatedPages + 1})
}

// checkOwners compares the users with dedicated pages.
func checkOwners(t testing.TB, l *ledger.Ledger, want map[uint64]uint32) {
	t.Helper()
	progress, err := l.Changed(t.Context(), "", func(uint32, ledger.PageState) error { return nil })
	if err != nil || !maps.Equal(progress.Owners, want) {
		t.Errorf("owners %v, %v, want %v", progress.Owners, err, want)
	}
}
