package known

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
	"github.com/feedfilter/feedfilter/internal/pause"
)

// Access is how a process can learn what others wrote to the ledger.
type Access int32

const (
	// Polled says that the last poll succeeded. Changes that it missed are younger than
	// [Ledger.Age].
	Polled Access = iota
	// Behind says that the ledger answers, but polls fail, or one has read [LongPoll] pages and goes
	// on, as the first one on another server does. Readers ask the ledger where their users are. A
	// reader that may not wait, or whose question is not answered in time, is refused: a page in the
	// store may lack a write.
	Behind
	// Unreachable says that a poll or a question failed or was not answered, or a rebuild did not
	// end, and a ping after that was not answered either. Pages in the store are trusted until the
	// next poll.
	Unreachable
)

// A ledger that is slow, or that too many requests wait for, is not one that cannot be reached. A
// ping tells them apart: it has a connection of its own, and reads one row.
const (
	// PingAfter is how long a question waits before the ledger is pinged, and between two pings.
	PingAfter = 500 * time.Millisecond
	// PingTimeout is how long a ping may take. It is a part of what a ledger that hangs delays a feed
	// by, once: after a question by HangBound, after a poll by PollTimeout + PingTimeout.
	PingTimeout = 500 * time.Millisecond
	HangBound   = PingAfter + PingTimeout
	// QuestionTimeout is how long a question may take while pings are answered.
	QuestionTimeout = 2 * time.Second
)

// availability is whether the ledger answers, as polls, questions and pings have found. It is safe
// for concurrent use.
type availability struct {
	life      *lifecycle.Lifecycle
	ledger    *ledger.Ledger
	log       *slog.Logger
	recovered func()

	// access holds an Access, and logged the one that the log shows.
	access, logged atomic.Int32
	silent         atomic.Bool // the ledger did not answer the last poll

	mu      sync.Mutex
	pinging *ping // in progress
	heard   int64 // when the ledger last answered, as elapsed
}

func (a *availability) now() Access { return Access(a.access.Load()) }

// ping is one ping of the ledger, shared by all that wait for it.
type ping struct {
	start int64
	done  chan struct{}
	err   error // to be read once done is closed
}

// ping joins the ping in progress, or starts one.
func (a *availability) ping() *ping {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pinging != nil {
		return a.pinging
	}
	p := &ping{start: a.life.Elapsed(), done: make(chan struct{})}
	started := a.life.Background(func() {
		p.err = pause.Within(a.life.Base, PingTimeout, a.ledger.Ping)
		a.mu.Lock()
		a.pinging = nil
		a.mu.Unlock()
		close(p.done)
	})
	if started {
		a.pinging = p
	} else {
		close(p.done) // nothing is known of the ledger
	}
	return p
}

// lost pings the ledger after a call that failed with err, or that is not answered. It reports
// whether the ledger cannot be reached, and notes that. A ledger that has answered anything since
// the ping began can be reached.
func (a *availability) lost(ctx context.Context, err error) bool {
	p := a.ping()
	select {
	case <-p.done:
	case <-ctx.Done():
		return false
	}
	if p.err == nil {
		return false
	}
	a.mu.Lock()
	lost := a.heard <= p.start
	if lost {
		a.set(Unreachable)
	}
	a.mu.Unlock()
	if lost {
		a.show(ctx, Unreachable, cmp.Or(err, p.err))
	}
	return lost
}

// hear notes that the ledger has answered.
func (a *availability) hear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = a.life.Elapsed()
}

// pinged returns a context for a call that asks the ledger. After PingAfter the ledger is pinged,
// and the context ends if it cannot be reached, with errUnreachable as its cause. stop ends the
// pings; it must be called after the call.
func (a *availability) pinged(ctx context.Context) (pinged context.Context, stop func()) {
	pinged, end := context.WithCancelCause(ctx)
	silence := time.AfterFunc(PingAfter, func() { a.watchSilence(pinged, end) })
	return pinged, func() {
		silence.Stop()
		end(nil)
	}
}

// watchSilence pings the ledger until a call has ended. It ends the call if the ledger cannot be
// reached.
func (a *availability) watchSilence(ctx context.Context, end context.CancelCauseFunc) {
	for ctx.Err() == nil {
		if a.lost(ctx, nil) {
			end(errUnreachable)
			return
		}
		if a.life.Rest(ctx, PingAfter) != nil {
			return
		}
	}
}

// note notes how the ledger, which answers, can be read. It logs when that changes.
func (a *availability) note(ctx context.Context, now Access, err error) {
	a.hear()
	a.set(now)
	a.show(ctx, now, err)
}

// show logs how the ledger can be read, when that changes.
func (a *availability) show(ctx context.Context, now Access, err error) {
	before := Access(a.logged.Swap(int32(now)))
	switch {
	case before == now:
	case now == Unreachable:
		a.log.ErrorContext(
			ctx, "the ledger cannot be read: pages are believed, writes are refused", "error", err,
		)
	case now == Behind && err != nil:
		a.log.WarnContext(
			ctx, "changes cannot be read from the ledger: each feed asks for its page", "error", err,
		)
	case now == Behind:
		a.log.InfoContext(
			ctx, "many pages have changed in the ledger: "+
				"until all are known, each feed asks for its page",
		)
	default:
		a.log.InfoContext(ctx, "the ledger can be read again")
	}
}

// set notes how the ledger can be read.
func (a *availability) set(now Access) {
	if now < Access(a.access.Swap(int32(now))) {
		a.recovered()
	}
}
