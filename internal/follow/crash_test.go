package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// steps are what happens at the source, one transaction each. Rows of one activity come and go.
func steps() []string {
	return []string{
		`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 2), (1, 3), (4, 5);
			INSERT INTO list_members VALUES (7, 8, 'accepted'), (7, 9, 'asked')`,
		"follow",
		`DELETE FROM blocks WHERE id = 1; INSERT INTO blocks (blocker_id, blocked_id) VALUES (4, 6), (4, 6)`,
		`DELETE FROM blocks WHERE id = 2; UPDATE list_members SET state = 'accepted' WHERE member_id = 9`,
		`TRUNCATE list_members; INSERT INTO list_members VALUES (7, 9, 'accepted'), (7, 9, 'accepted'), (7, 10, 'accepted')`,
		`DELETE FROM blocks WHERE blocked_id = 6; INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 3)`,
		`DELETE FROM blocks; INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`,
	}
}

// crash is a source that a process follows, which ends at a call of the ledger.
type crash struct {
	*app

	store favfilter.Memory
	f     *faulttest.Faults
	again bool        // the call alone fails: the process goes on
	dead  atomic.Bool // the process makes no call any more

	mu     sync.Mutex
	states [][]string // of the source, each after a step
	at     int        // the state that the ledger has
	end    context.CancelFunc
}

// around makes a call fail, and checks what the ledger has after each.
func (c *crash) around(ctx context.Context, call *ledger.Call, next func(ctx context.Context) error) error {
	if !slices.Contains([]string{"lease", "start_over", "follow", "all", "renew"}, call.Operation) {
		return next(ctx)
	}
	if c.dead.Load() {
		return faulttest.ErrInjected
	}
	err := c.f.Around(ctx, call, next)
	if err != nil && errors.Is(err, faulttest.ErrInjected) && !c.again {
		c.dead.Store(true)
		c.end()
	}
	c.observe() //nolint:contextcheck // the call's own may have ended
	return err
}

// observe checks that the ledger has a state of the source, and none before one that it had. It
// returns the number of that state.
func (c *crash) observe() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.had()
	for i := c.at; i < len(c.states); i++ {
		if slices.Equal(now, c.states[i]) {
			c.at = i
			return i
		}
	}
	c.t.Errorf("call %d: the ledger has %v, after %v", c.f.Calls(), now, c.states[c.at:])
	return -1
}

// had returns what the ledger has.
func (c *crash) had() (all []string) {
	rows, err := c.ledger.All(context.Background(), nil, 1000)
	if err != nil {
		c.t.Error(err)
	}
	for _, r := range rows {
		if r.Kind == "block" {
			all = append(all, r.Owner+" "+r.Target)
		}
	}
	slices.Sort(all)
	return all
}

// step does a step at the source.
func (c *crash) step(sql string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exec("BEGIN; " + sql)
	rows, err := c.conn.Query(c.t.Context(), `SELECT DISTINCT "user" || ' ' || target FROM (`+wantedSQL+`) w (kind, "user", target, since, until)`)
	must(c.t, err)
	state, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(c.t, err)
	slices.Sort(state)
	c.states = append(c.states, state)
	c.exec("COMMIT")
}

// process runs a follower until the function that it returns is called, or a call ended it.
func (c *crash) process(l *ledger.Ledger) (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	c.end = cancel
	var err error
	c.recorder, err = activity.Open(ctx, activity.Config{
		Ledger: l, Store: &c.store, Passive: true, StalenessBound: -1, Logger: slog.New(slog.DiscardHandler),
	})
	must(c.t, err)
	recorder := c.recorder
	var running sync.WaitGroup
	f := c.follower("one")
	f.logTo(slog.New(slog.DiscardHandler))
	running.Go(func() {
		if err := f.Run(ctx); err != nil {
			c.t.Errorf("call %d: %v", c.f.Calls(), err)
		}
	})
	return func() { cancel(); running.Wait(); recorder.Close() }
}

// run does all steps, with a fault at a call. It returns the number of calls.
func (c *crash) run(at int64, after, again bool) int64 {
	c.t.Helper()
	must(c.t, c.follower("one").source.dropSlot(c.t.Context(), c.conn))
	c.exec(`TRUNCATE blocks, list_members RESTART IDENTITY`)
	var err error
	c.ledger, err = ledger.Open(c.t.Context(), "sqlite:"+filepath.Join(c.t.TempDir(), "ledger.db"), ledger.Options{Pages: 4})
	must(c.t, err)
	defer c.ledger.Close()
	c.store, c.f, c.again = favfilter.Memory{}, &faulttest.Faults{At: at, After: after}, again
	c.states, c.at = [][]string{nil}, 0
	stop := func() {}
	for _, sql := range steps() {
		if sql == "follow" {
			stop = c.process(c.ledger.Around(c.around))
			continue
		}
		c.step(sql)
		if len(c.states) > 2 {
			c.await(&stop)
		}
	}
	stop()
	c.observe()
	for _, of := range []string{"1 2", "1 3", "4 5", "4 6", "list:7 8", "list:7 9", "list:7 10"} {
		c.wantFeed(of, slices.Contains(c.states[len(c.states)-1], of))
	}
	return c.f.Calls()
}

// await waits until the ledger has all steps so far. A process that has ended is started again.
func (c *crash) await(stop *func()) {
	c.t.Helper()
	soon(c.t, fmt.Sprintf("step %d with a fault at call %d", len(c.states), c.f.At), func() bool {
		if c.dead.Load() {
			(*stop)()
			c.dead.Store(false)
			*stop = c.process(c.ledger.Around(c.around))
		}
		return c.observe() == len(c.states)-1 && c.position().lsn > 0 || c.t.Failed()
	})
}

// wantFeed checks what the pages say of an activity.
func (c *crash) wantFeed(of string, want bool) {
	c.t.Helper()
	r, err := activity.Open(c.t.Context(), activity.Config{Ledger: c.ledger, Store: &c.store, Passive: true, StalenessBound: -1})
	must(c.t, err)
	defer r.Close()
	var user, target string
	_, err = fmt.Sscan(of, &user, &target)
	must(c.t, err)
	block, _ := r.Kinds().Named("block")
	view, err := r.View(c.t.Context(), user, []activity.Kind{block})
	must(c.t, err)
	if got := view.Check(0, target) != activity.None; got != want {
		c.t.Errorf("call %d: the page of %s: %v, want %v", c.f.At, of, got, want)
	}
}

// A follower ends at each call of the ledger, which took effect, and another goes on. At each
// moment the ledger has a state of the source, and never one before that which it had. It takes one
// call in three, at random; TestLongFollowCrashes takes each.
func TestFollowCrashes(t *testing.T) { crashes(t, oneIn(3), false, true) }

// The same, before or after the call took effect.
func TestLongFollowCrashes(t *testing.T) { crashes(t, func() bool { return true }, false, true, false) }

// The same, but each call fails once, and the follower goes on.
func TestLongFollowFaults(t *testing.T) { crashes(t, func() bool { return true }, true, true, false) }

func crashes(t *testing.T, take func() bool, again bool, effects ...bool) {
	t.Helper()
	t.Parallel()
	c := &crash{app: newApp(t)}
	calls := c.run(0, false, again)
	for at := range faulttest.EachCall() {
		if at > calls || t.Failed() {
			break
		}
		for _, after := range effects {
			if take() {
				c.run(at, after, again)
			}
		}
	}
	t.Logf("%d calls", calls)
}

// A full read that was interrupted goes on: the next one records only what the ledger lacks.
func TestFollowReadGoesOn(t *testing.T) {
	t.Parallel()
	c := &crash{app: newApp(t), f: &faulttest.Faults{}}
	c.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT 1, n FROM generate_series(2, ` + fmt.Sprint(3*snapshotGroup+1) + `) n`)
	var err error
	c.ledger, err = ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 4})
	must(t, err)
	defer c.ledger.Close()
	var groups atomic.Int64
	var read atomic.Bool
	end := make(chan struct{})
	var ended sync.Once
	around := func(ctx context.Context, call *ledger.Call, next func(context.Context) error) error {
		if c.dead.Load() {
			return faulttest.ErrInjected
		}
		last := read.Load() // later ones move the position alone
		if call.Operation == "follow" && !last {
			groups.Add(1) // before the position can be seen
		}
		err := next(ctx)
		if call.Operation == "follow" && !last {
			read.Store(c.position().lsn > 0) //nolint:contextcheck // the call has ended
			if groups.Load() == 2 {
				ended.Do(func() {
					c.dead.Store(true)
					close(end)
				})
			}
		}
		return err
	}
	stop := c.process(c.ledger.Around(around))
	<-end
	stop()
	c.dead.Store(false)
	stop = c.process(c.ledger.Around(around))
	defer stop()
	soon(t, "the whole", func() bool { return c.position().lsn > 0 })
	if got := groups.Load(); got != 2+1+2+1 {
		t.Errorf("%d transactions, want 3 with the rows, one of each process that begins, and one that ends the read", got)
	}
	n := 0
	must(t, c.recorder.Export(t.Context(), "", func(activity.Activity) error { n++; return nil }))
	if n != 3*snapshotGroup {
		t.Errorf("%d activities, want %d", n, 3*snapshotGroup)
	}
}
