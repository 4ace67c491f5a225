package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/admission"
)

// access is how a process can learn what others wrote to the ledger.
type access int32

const (
	// polled: the last poll succeeded. Changes that it missed are younger than follower.start.
	polled access = iota
	// behind: the ledger answers, but polls fail, or one is reading every page, which takes longer
	// than the bound. Readers ask the ledger where their users are. A reader that may not wait, or
	// whose question is not answered in time, is refused: a page in the store may lack a write.
	behind
	// unreachable: a poll or a question failed or was not answered, and neither was a ping after it.
	// Pages in the store are trusted until the next poll.
	unreachable
)

// A ledger that is slow, or that too many requests wait for, is not one that cannot be reached. A
// ping tells them apart: it has a connection of its own, and reads one row.
const (
	// pingAfter is how long a question waits before the ledger is pinged, and between two pings.
	pingAfter = 500 * time.Millisecond
	// pingTimeout is how long a ping may take. It is a part of what a ledger that hangs delays a feed
	// by, once: after a question by hangBound, after a poll by pollTimeout + pingTimeout.
	pingTimeout = 500 * time.Millisecond
	hangBound   = pingAfter + pingTimeout
	// questionTimeout is how long a question may take while pings are answered.
	questionTimeout = 2 * time.Second
)

var (
	errUnreachable = errors.New("it cannot be reached")
	errSlow        = fmt.Errorf("no answer within %v, although it answers pings", questionTimeout)
)

// ping is one ping of the ledger, shared by all that wait for it.
type ping struct {
	start int64
	done  chan struct{}
	err   error // to be read once done is closed
}

// ping joins the ping in progress, or starts one.
func (pl *poller) ping() *ping {
	f := &pl.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pinging != nil {
		return f.pinging
	}
	p := &ping{start: pl.life.elapsed(), done: make(chan struct{})}
	started := pl.life.background(func() {
		ctx, cancel := context.WithTimeout(pl.life.base, pingTimeout)
		defer cancel()
		p.err = pl.ledger.Ping(ctx)
		f.mu.Lock()
		f.pinging = nil
		f.mu.Unlock()
		close(p.done)
	})
	if started {
		f.pinging = p
	} else {
		close(p.done) // nothing is known of the ledger
	}
	return p
}

// lost pings the ledger after a call that failed with err, or that is not answered. It reports
// whether the ledger cannot be reached, and notes that. A ledger that has answered anything since
// the ping began can be reached.
func (pl *poller) lost(ctx context.Context, err error) bool {
	p := pl.ping() //nolint:contextcheck // callers share the ping: it does not end with one of them
	select {
	case <-p.done:
	case <-ctx.Done():
		return false
	}
	if p.err == nil {
		return false
	}
	f := &pl.follow
	f.mu.Lock()
	lost := f.heard <= p.start
	if lost {
		pl.setAccess(unreachable)
	}
	f.mu.Unlock()
	if lost {
		pl.logAccess(ctx, unreachable, cmp.Or(err, p.err))
	}
	return lost
}

// hear notes that the ledger has answered.
func (pl *poller) hear() {
	f := &pl.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = pl.life.elapsed()
}

// ask reads something small from the ledger for a reader, within questionTimeout. The error is
//
//   - errUnreachable if the ledger cannot be reached. The next readers do not ask; the next poll
//     tries again.
//   - [ErrOverloaded] if too many requests wait for the ledger,
//   - an [*UnavailableError] if the ledger answers pings, but not the question, asked twice if it
//     failed,
//   - [ErrClosed], that of ctx, or one that wraps ledger.ErrGone.
//
//nolint:ireturn // T is no interface
func ask[T any](ctx context.Context, pl *poller, read func(ctx context.Context) (T, error)) (value T, err error) {
	if pl.life.isClosed() {
		return value, ErrClosed
	}
	resume, ok := admission.PauseForLedger(ctx)
	if !ok {
		return value, fmt.Errorf("%w: too many requests wait for the ledger", ErrOverloaded)
	}
	defer resume()
	limited, cancel := context.WithTimeoutCause(ctx, questionTimeout, errSlow)
	defer cancel()
	limited, end := context.WithCancelCause(limited)
	defer end(nil)
	silence := time.AfterFunc(pingAfter, func() { pl.watchSilence(limited, end) })
	defer silence.Stop()
	for range 2 { // a ledger that restarts refuses a question, and may answer the next one
		value, err = read(limited)
		switch {
		case err == nil || errors.Is(err, ledger.ErrGone):
			pl.hear()
			return value, err
		case ctx.Err() != nil:
			return value, ctx.Err()
		}
		cause := context.Cause(limited)
		// A process that was starved may not have pinged a ledger that hangs before the time was up.
		if errors.Is(cause, errUnreachable) || pl.lost(ctx, err) {
			return value, errUnreachable
		}
		if errors.Is(cause, errSlow) {
			return value, Unavailable("ledger", cause)
		}
	}
	return value, Unavailable("ledger", err)
}

// watchSilence pings the ledger until a question has ended. It ends the question if the ledger
// cannot be reached.
func (pl *poller) watchSilence(ctx context.Context, end context.CancelCauseFunc) {
	for ctx.Err() == nil {
		if pl.lost(ctx, nil) {
			end(errUnreachable)
			return
		}
		if pl.life.rest(ctx, pingAfter) != nil {
			return
		}
	}
}

// askPlaces asks the ledger where users are, in one question.
func (pl *poller) askPlaces(ctx context.Context, all []*position) error {
	users := make([]uint64, len(all))
	for i, at := range all {
		users[i] = at.user
	}
	places, err := ask(ctx, pl, func(ctx context.Context) ([]ledger.Place, error) { return pl.ledger.Places(ctx, users...) })
	if err != nil {
		return err
	}
	for i, place := range places {
		if place.Page >= ledger.DedicatedPages {
			pl.layout.dedicate(users[i], place.Page)
		}
		pl.sequences.of(place.Page).learn(place.Sequence)
		*all[i] = position{user: users[i], page: place.Page, left: place.Left, known: true}
	}
	return nil
}

// reachable returns an [*UnavailableError] if the ledger did not answer the last poll, and begins
// the next one.
func (pl *poller) reachable() error {
	if !pl.follow.silent.Load() || pl.follow.bound == 0 {
		return nil
	}
	pl.poll()
	return Unavailable("ledger", errUnread)
}

// readable returns an [*UnavailableError] if reachable does, or if a question has found since that
// the ledger cannot be reached. Otherwise a feed would wait for it twice: for its page, and then
// for what overrules its drops. A write is tried all the same: it is refused only after a poll.
func (pl *poller) readable() error {
	if access(pl.follow.access.Load()) == unreachable && pl.follow.bound != 0 {
		pl.poll()
		return Unavailable("ledger", errUnreachable)
	}
	return pl.reachable()
}

// noteAccess notes how the ledger, which answers, can be read. It logs when that changes.
func (pl *poller) noteAccess(ctx context.Context, now access, err error) {
	pl.hear()
	pl.setAccess(now)
	pl.logAccess(ctx, now, err)
}

// logAccess logs how the ledger can be read, when that changes.
func (pl *poller) logAccess(ctx context.Context, now access, err error) {
	before := access(pl.follow.logged.Swap(int32(now)))
	switch {
	case before == now:
	case now == unreachable:
		pl.storage.log.ErrorContext(ctx, "the ledger cannot be read: pages are believed, writes are refused", "error", err)
	case now == behind && err != nil:
		pl.storage.log.WarnContext(ctx, "changes cannot be read from the ledger: each feed asks for its page", "error", err)
	case now == behind:
		pl.storage.log.InfoContext(ctx, "every page's sequence is read from the ledger: until then each feed asks for its page")
	default:
		pl.storage.log.InfoContext(ctx, "the ledger can be read again")
	}
}

// setAccess notes how the ledger can be read.
func (pl *poller) setAccess(now access) {
	if now < access(pl.follow.access.Swap(int32(now))) {
		pl.recovered()
	}
}
