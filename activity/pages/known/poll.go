package known

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/admission"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
)

const (
	// PollTimeout is how long a poll waits for each answer of the ledger.
	PollTimeout = 1500 * time.Millisecond
	// FirstPollTimeout is PollTimeout for the first poll, which also has to connect, with about ten
	// round trips. No feed waits for it.
	FirstPollTimeout = 5 * time.Second
	// LongPoll is the number of pages in a poll after which readers no longer wait for it. So many
	// take a few milliseconds to read; all pages of a large filter take seconds.
	LongPoll = 4096
	// slowPoll is how long a poll takes before the log says so. Each batch of an import causes a
	// poll that is long, but seldom slow.
	slowPoll = time.Second
	// boundlessPause is the pause between polls in the background without a staleness bound.
	boundlessPause = 500 * time.Millisecond
	// ReachPause is the pause between two polls of those who wait for a source.
	ReachPause = 5 * time.Millisecond
)

// FirstPoll reads the sequence of every page. No other call comes before it.
func (k *Ledger) FirstPoll(ctx context.Context) error {
	first := k.poller.newPoll()
	first.limit = FirstPollTimeout
	return k.poller.pollOnce(ctx, first)
}

// KeepPolling polls until the lifecycle is closed, twice in a staleness bound, so that feeds seldom
// wait for a poll.
func (k *Ledger) KeepPolling() {
	k.life.Every(k.Interval(), func() { <-k.poller.poll().done })
}

// Interval returns the time between two polls in the background.
func (k *Ledger) Interval() time.Duration {
	if k.options.Bound == 0 {
		return boundlessPause
	}
	return k.options.Bound / 2
}

// Poll begins a poll, unless one is in progress. Nobody waits for it.
func (k *Ledger) Poll() { k.poller.poll() }

// PollAgain waits for a poll, or for what tells that it takes too long. It reports whether the
// ledger can be reached. If the last poll was not answered, it does not wait.
func (k *Ledger) PollAgain(ctx context.Context) bool {
	return k.Reachable() == nil && k.poller.await(ctx, k.poller.poll()) != Unreachable
}

// PollSince waits for a successful poll that began after the given time, as elapsed. Errors are an
// [*UnavailableError], or that of ctx.
func (k *Ledger) PollSince(ctx context.Context, since int64) error {
	for k.poller.polls.start.Load() < since {
		if err := k.poller.poll().wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Outlast waits until every process knows of the transaction committed at the given time, whatever
// state the pages have. By then, no poll from before the commit is within the staleness bound.
// Outlast reports whether the ledger is available at the end. If not, other processes may not have
// polled since the commit, and may still trust their pages.
func (k *Ledger) Outlast(committed int64) bool {
	known := committed + int64(k.options.Bound)
	select {
	case <-time.After(time.Duration(known-k.life.Elapsed()) + lifecycle.MaxAhead):
	case <-k.life.Open.Done():
		return false
	}
	return k.PollSince(k.life.Base, known) == nil
}

// Age returns the time since the last successful poll began.
func (k *Ledger) Age() time.Duration {
	return time.Duration(k.life.Elapsed() - k.poller.polls.start.Load())
}

// TakePeakAge returns the largest Age since the previous call.
func (k *Ledger) TakePeakAge() time.Duration {
	return max(time.Duration(k.poller.polls.peak.Swap(0)), k.Age())
}

// Polls returns the number of polls that succeeded, and of those that failed.
func (k *Ledger) Polls() (succeeded, failed uint64) {
	return k.poller.polls.ended.Load(), k.poller.polls.failed.Load()
}

// Stepped tells those that wait in [Ledger.Reach] that the ledger has changes of a source.
func (k *Ledger) Stepped() { k.steps.done() }

// Reach polls until reached reports true of the sources, or an error. All that wait share the
// polls. If this process follows the source, they need not wait for the time of the next poll.
func (k *Ledger) Reach(ctx context.Context, reached func([]ledger.Source) (bool, error)) error {
	defer admission.Pause(ctx)()
	for asked := false; ; asked = true {
		step := k.steps.wait()                   // before the sources are looked at
		since := k.poller.polls.start.Load() + 1 // any later poll will do
		if known := k.poller.polls.sources.Load(); known != nil {
			done, err := reached(*known)
			if done || err != nil && asked {
				return err
			}
			if err != nil { // a poll that began before the call may not know the source yet
				since = k.life.Elapsed()
			}
		}
		if asked {
			select {
			case <-step:
				since = k.life.Elapsed() // a poll in progress may have missed the step
			case <-time.After(ReachPause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := k.PollSince(ctx, since); err != nil {
			return err
		}
	}
}

// pollUp waits for a poll that began after the given time, and returns how the ledger can be read.
func (k *Ledger) pollUp(ctx context.Context, need int64) Access {
	for k.poller.polls.start.Load() < need || k.poller.paused() {
		if now := k.Access(); now == Behind || now == Unreachable && k.options.Bound > 0 {
			return now
		}
		if now := k.poller.await(ctx, k.poller.poll()); now != Polled {
			return now
		}
	}
	return Polled
}

// Reachable returns an [*UnavailableError] if the ledger did not answer the last poll, and begins
// the next one.
func (k *Ledger) Reachable() error {
	if !k.available.silent.Load() || k.options.Bound == 0 {
		return nil
	}
	k.Poll()
	return Unavailable("ledger", errUnread)
}

// Readable returns an [*UnavailableError] if Reachable does, or if a question has found since that
// the ledger cannot be reached. Otherwise a feed would wait for it twice: for its page, and then
// for what overrules its drops. A write is tried all the same: it is refused only after a poll.
func (k *Ledger) Readable() error {
	if k.Access() == Unreachable && k.options.Bound != 0 {
		k.Poll()
		return Unavailable("ledger", errUnreachable)
	}
	return k.Reachable()
}
