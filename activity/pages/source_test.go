package pages

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// sourceRig is a process that follows a source with the kind block.
type sourceRig struct {
	*rig

	lease *ledger.Lease
	at    int // position
}

func newSourceRig(t *testing.T, pages uint32) *sourceRig {
	t.Helper()
	g := &sourceRig{rig: newRig(t, &favfilter.Memory{}, pages)}
	var err error
	g.lease, err = g.ledger.Lease(t.Context(), "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	return g
}

// block lets a user of the source block some others, in one transaction.
func (g *sourceRig) block(ctx context.Context, user string, others ...string) error {
	changes := make([]ledger.SourceChange, len(others))
	for i, other := range others {
		changes[i] = ledger.SourceChange{
			Rows: changeOf(g.Pages, add(user, "block", other), g.Now()).Rows, At: g.Now(), Added: []ledger.Span{{}},
		}
	}
	step := ledger.Step{Lease: *g.lease, From: g.position(0), To: g.position(1)}
	err := g.Follow(ctx, step, changes)
	if err == nil {
		g.at++
	}
	return err
}

func (g *sourceRig) position(later int) ledger.Position {
	if g.at+later == 0 {
		return ""
	}
	return ledger.Position(fmt.Sprint(g.at + later))
}

// queueOn lets as many rows wait for a page as it takes. freed lets them reach the page.
func (g *rig) queueOn(page uint32) (freed func()) {
	cm := g.committer
	cm.mu.Lock()
	defer cm.mu.Unlock()
	cm.pageQueues[page] = &pageQueue{rows: maxQueuedRows}
	cm.queuedRows.Add(maxQueuedRows)
	return func() {
		cm.mu.Lock()
		cm.pageQueues[page].rows -= maxQueuedRows
		cm.mu.Unlock()
		cm.queuedRows.Add(-maxQueuedRows)
		cm.runQueue(page)
	}
}

// Transactions of a source reach the ledger one after another, and their pages without anybody who
// waits. A step that is not the source's is refused.
func TestFollow(t *testing.T) {
	g := newSourceRig(t, 4)
	for i := range 20 {
		must(t, g.block(t.Context(), "1", fmt.Sprint("a", i), fmt.Sprint("b", i)))
	}
	for i := range 20 {
		for _, other := range []string{fmt.Sprint("a", i), fmt.Sprint("b", i)} {
			g.want(t, "1", "block", other, true)
			g.want(t, other, "blocked-by", "1", true)
		}
	}
	g.Close() // waits for the pages
	for _, page := range g.allPages(t) {
		if want, stored := g.sequences.Of(page).Known.Load(), g.sequences.Of(page).Stored.Load(); stored != want {
			t.Errorf("page %d is at sequence %d, want %d", page, stored, want)
		}
	}
	if err := g.block(t.Context(), "1", "late"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: error %v", err)
	}
	g.open(t, g.ledger, g.store)
	g.at++
	if err := g.block(t.Context(), "1", "c"); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("from another position: error %v, want ErrFenced", err)
	}
	g.want(t, "1", "block", "c", false)
}

// Two transactions of a source are on their way to the pages at once. The next one waits, and ends
// with its caller.
func TestFollowWaitsForPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSourceRig(t, 1)
		store := &delayedStore{Store: g.store}
		g.useStore(store)
		store.delay.Store(int64(time.Second))
		start := time.Now()
		for i := range 3 {
			must(t, g.block(t.Context(), "1", fmt.Sprint("a", i)))
		}
		if took := time.Since(start); took < time.Second || took >= 2*time.Second {
			t.Errorf("three transactions took %v, want that of one page", took)
		}
		impatient, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := g.block(impatient, "1", "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while two are on their way: error %v", err)
		}
		g.want(t, "1", "block", "a2", true)
		g.want(t, "1", "block", "b", false)
	})
}

// While many rows wait for a page, other writes to it are refused. A source waits, and makes no
// transaction meanwhile. A deletion and the end of activities go on.
func TestWritesOfACongestedPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSourceRig(t, 1)
		var followed atomic.Int64
		g.useAround(before(func(context.Context) error {
			followed.Add(1)
			return nil
		}, "follow"))
		g.record(t, true, add("1", "hide", "p"))
		ends := add("2", "hide", "p")
		ends.Until = g.Now().Add(time.Hour)
		g.record(t, true, ends)
		g.now.Add(int64(2 * time.Hour))
		freed := g.queueOn(0)
		if _, err := g.Record(t.Context(), []act{add("3", "hide", "p")}); !errors.Is(err, ErrOverloaded) {
			t.Errorf("a write: error %v, want ErrOverloaded", err)
		}
		done := make(chan error, 3)
		go func() { done <- g.block(t.Context(), "1", "2") }()
		time.Sleep(time.Second)
		if n := followed.Load(); n != 0 || len(done) != 0 {
			t.Errorf("the source made %d transactions, and has %d results", n, len(done))
		}
		go func() {
			_, _, err := g.DeleteUser(t.Context(), "1")
			done <- err
		}()
		go func() {
			g.committer.removeEnded()
			done <- nil
		}()
		synctest.Wait()
		rows, _, err := g.ledger.Keys(t.Context(), 0)
		must(t, err)
		if len(rows) != 0 {
			t.Errorf("while the page is congested, the ledger keeps %+v", rows)
		}
		freed()
		for range cap(done) {
			must(t, <-done)
		}
		g.want(t, "1", "block", "2", true)
		g.want(t, "1", "hide", "p", false)
	})
}

// A write that is committed after a transaction of a source follows it to the page, too: while the
// source's is between ledger and page, no other begins.
func TestWriteBesideFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSourceRig(t, 1)
		var records atomic.Int64
		recorded := make(chan error, 1)
		record := func() {
			_, err := g.Record(t.Context(), []act{add("1", "hide", "p")})
			recorded <- err
		}
		g.useAround(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
			if c.Operation == "record" {
				records.Add(1)
			}
			err := next(ctx)
			if c.Operation == "follow" { // committed, and the process does not know yet
				go record()
				synctest.Wait()
				if n := records.Load(); n != 0 {
					t.Errorf("%d transactions between that of the source and its way to the page", n)
				}
			}
			return err
		})
		must(t, g.block(t.Context(), "1", "2"))
		must(t, <-recorded)
		g.want(t, "1", "block", "2", true)
		g.want(t, "1", "hide", "p", true)
		if s := g.Stats(); len(s.Rebuilds) > 0 && s.Rebuilds["behind"] > 0 {
			t.Errorf("rebuilt %v, want no page that is behind", s.Rebuilds)
		}
	})
}

// A reader that waits for a source that this process follows hears of its transaction at once.
func TestFollowEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSourceRig(t, 1)
		for i, block := range []func() error{
			func() error { return g.block(t.Context(), "1", "2") },
			func() error { return g.block(t.Context(), "1") }, // of no change
		} {
			want, done := g.position(1), make(chan error)
			go func() {
				done <- g.Reach(t.Context(), func(sources []ledger.Source) (bool, error) {
					return len(sources) > 0 && sources[0].Position == want, nil
				})
			}()
			synctest.Wait()
			start := time.Now()
			must(t, block())
			must(t, <-done)
			if took := time.Since(start); took > 0 {
				t.Errorf("transaction %d: a reader waits for %v longer", i, took)
			}
		}
	})
}
