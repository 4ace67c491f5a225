package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// reshape reshapes all homes to a number of pages, as far as they let it.
func reshape(ctx context.Context, l *ledger.Ledger, pages uint32) error {
	if err := l.SetCut(ctx, pages); err != nil {
		return err
	}
	for home := range l.Identity().Pages {
		plan, err := l.PlanReshape(ctx, home)
		if err != nil {
			return err
		}
		if _, err := l.Reshape(ctx, plan); err != nil {
			return err
		}
	}
	return nil
}

// testReshapePause plans a reshape some time after another one of one of its homes, by the clock of the server.
func testReshapePause(server *pgtest.Server) func(t *testing.T) {
	return func(t *testing.T) {
		url := server.Schema()
		l := open(t, url, ledger.Options{Pages: 4})
		for _, pages := range []uint32{8, 4} {
			if err := reshape(t.Context(), l, pages); err != nil {
				t.Fatal(err)
			}
			if err := ageReshapes(url); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.SetCut(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			ago  string
			left time.Duration // at most; 0: none
		}{
			{"0", 75 * time.Second}, {"15000000", time.Minute}, {"60000000", 15 * time.Second}, {"61000000", 14 * time.Second}, {"75000000", 0},
		} {
			for _, late := range []string{"2", "3"} {
				execute(t, raw(t, url), `UPDATE homes SET reshaped_at = extract(epoch FROM clock_timestamp()) * 1000000
					- CASE home WHEN `+late+` THEN `+c.ago+` ELSE 3600000000 END`)
				for home := range uint32(4) {
					_, err := l.PlanReshape(t.Context(), home)
					var soon *ledger.TooSoonError
					switch refused := errors.As(err, &soon); {
					case err != nil && !refused, refused != (home >= 2 && c.left > 0):
						t.Errorf("home %d, %s µs after home %s: %v", home, c.ago, late, err)
					case refused && (soon.Left > c.left || soon.Left < c.left-10*time.Second):
						t.Errorf("home %d, %s µs after home %s: %v, want %v", home, c.ago, late, err, c.left)
					}
				}
			}
		}
		// A reshape notes the time of the server.
		if err := reshape(t.Context(), l, 2); err != nil {
			t.Fatal(err)
		}
		await(t, raw(t, url), `SELECT count(*) = 4 AND min(reshaped_at) > (extract(epoch FROM clock_timestamp()) - 30) * 1000000
			AND max(reshaped_at) <= extract(epoch FROM clock_timestamp()) * 1000000 FROM homes`)
	}
}

// testReshapeWaits has a Record, and the same reshape, wait for a reshape that is being committed, and find the users where it left them.
func testReshapeWaits(server *pgtest.Server) func(t *testing.T) {
	return func(t *testing.T) {
		url := server.Schema()
		l := open(t, url, ledger.Options{Pages: 2})
		record(t, l, on(0, "a"), on(7, "a"), on(8, "a"))
		if err := l.SetCut(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		plan, err := l.PlanReshape(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		watch := raw(t, url)
		execute(t, watch, `CREATE SEQUENCE attempts START 3`, refuseCommits, onRaise, `SELECT pg_advisory_lock(4713)`)
		type result struct {
			receipt ledger.Receipt
			err     error
		}
		results := []chan result{make(chan result, 1), make(chan result, 1), make(chan result, 1)}
		for i, call := range []func() (ledger.Receipt, error){
			func() (ledger.Receipt, error) { return l.Reshape(t.Context(), plan) },
			func() (ledger.Receipt, error) {
				return l.Record(t.Context(), time.Now(), []ledger.Change{on(7, "b"), on(8, "b")})
			},
			func() (ledger.Receipt, error) { return l.Reshape(t.Context(), plan) },
		} {
			go func() {
				receipt, err := call()
				results[i] <- result{receipt, err}
			}()
			await(t, watch, `SELECT count(*) = `+string(rune('1'+i))+` FROM pg_locks WHERE NOT granted`)
		}
		execute(t, watch, `SELECT pg_advisory_unlock(4713)`)
		const first = ledger.OwnPages
		r := <-results[0]
		checkPagesOf(t, r.receipt, r.err, map[uint32]uint64{0: 2, first: 1})
		r = <-results[1]
		checkPagesOf(t, r.receipt, r.err, map[uint32]uint64{0: 2, 1: 2, first: 2})
		if r = <-results[2]; !errors.Is(r.err, ledger.ErrChanged) {
			t.Errorf("the plan carried out again: %+v, %v, want ErrChanged", r.receipt, r.err)
		}
	}
}

// testReshapeRaces carries out a plan twice at once, and records meanwhile: the second one looks at the homes only when the first is done with
// them, which is kept from writing until all others wait.
func testReshapeRaces(server *pgtest.Server) func(t *testing.T) {
	return func(t *testing.T) {
		url := server.Schema()
		l := open(t, url, ledger.Options{Pages: 2})
		record(t, l, on(0, "a"), on(7, "a"), on(8, "a"))
		if err := l.SetCut(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		plan, err := l.PlanReshape(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		watch := raw(t, url)
		execute(t, watch, `BEGIN`, `LOCK TABLE ranges IN SHARE MODE`)
		shaped, again, recorded := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		waiting := func(n string) { await(t, watch, `SELECT count(*) = `+n+` FROM pg_locks WHERE NOT granted`) }
		go func() { shaped <- second(l.Reshape(t.Context(), plan)) }()
		waiting("1")
		go func() { again <- second(l.Reshape(t.Context(), plan)) }()
		waiting("2")
		var receipt ledger.Receipt
		go func() {
			var err error
			receipt, err = l.Record(t.Context(), time.Now(), []ledger.Change{on(8, "b")})
			recorded <- err
		}()
		waiting("3")
		execute(t, watch, `COMMIT`)
		if err := <-shaped; err != nil {
			t.Error(err)
		}
		if err := <-again; !errors.Is(err, ledger.ErrChanged) {
			t.Errorf("the plan carried out again: %v, want ErrChanged", err)
		}
		err = <-recorded
		checkPagesOf(t, receipt, err, map[uint32]uint64{1: 2, ledger.OwnPages: 2})
		if rows, s, err := l.Snapshot(t.Context(), ledger.OwnPages); err != nil || len(rows) != 4 || s.Sequence != 2 || s.Moves != 0 {
			t.Errorf("%v at %+v, %v, want all rows", rows, s, err)
		}
	}
}
