package known

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// A poll, a ping and a question are in progress while the process is stopped, for longer than each
// may take. They are tried once more, and succeed.
func TestStoppedWhileAsking(t *testing.T) {
	var stopping atomic.Bool
	var asking sync.WaitGroup // for the calls below
	around := func(
		ctx context.Context, _ *ledger.Call, next func(ctx context.Context) error,
	) error {
		if !stopping.Load() {
			return next(ctx)
		}
		asking.Done()
		<-ctx.Done()
		return ctx.Err()
	}
	k := newKnown(t, newLedger(t, 1).Around(around), time.Minute)
	stopping.Store(true)
	asking.Add(3)
	var calls sync.WaitGroup
	calls.Go(func() {
		if err := k.PollSince(t.Context(), k.life.Elapsed()); err != nil {
			t.Errorf("the poll: %v", err)
		}
	})
	calls.Go(func() {
		p := k.available.ping()
		<-p.done
		if p.err != nil {
			t.Errorf("the ping: %v", p.err)
		}
	})
	calls.Go(func() {
		if ahead, err := k.Ahead(t.Context(), 0, 1); err != nil || !ahead {
			t.Errorf("the question: %t, %v", ahead, err)
		}
	})
	asking.Wait()
	stopping.Store(false)
	servertest.StopTest(t, QuestionTimeout+200*time.Millisecond)
	calls.Wait()
}
