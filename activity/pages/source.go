package pages

import (
	"context"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/internal/admission"
)

// Follow is [ledger.Ledger.Follow]. When it returns nil, the ledger has the changes, and every Read
// that begins after [Pages.Reach] sees them. Their way to the pages goes on, beside the next call.
// An error that wraps ledger.ErrFenced or ledger.ErrStrayRow means that nothing was changed.
func (p *Pages) Follow(ctx context.Context, step ledger.Step, changes []ledger.SourceChange) error {
	defer p.known.Stepped()
	resume, ok := admission.PauseForLedger(ctx)
	if !ok {
		return fmt.Errorf("record %d activities: %w", len(changes), ErrOverloaded)
	}
	defer resume()
	if len(changes) == 0 { // no page changes
		_, err := p.ledger.Follow(ctx, p.storage.now(), step, nil)
		return Unavailable("ledger", err)
	}
	w := newSourceWrite(ctx, changes)
	if err := p.committer.awaitTurn(ctx, w); err != nil {
		return fmt.Errorf("record %d activities: nothing was changed: %w", len(changes), err)
	}
	decided := make(chan error, 1)
	//nolint:contextcheck // nothing undoes a transaction that has begun
	started := p.life.Background(func() {
		defer func() { <-p.committer.following }()
		if err := p.committer.follow(w, step, changes, decided); err == nil {
			<-w.done
		}
	})
	if !started {
		<-p.committer.following
		return ErrClosed
	}
	select {
	case err := <-decided:
		return err
	case <-ctx.Done():
		return fmt.Errorf("record %d activities: undecided: %w", len(changes), ctx.Err())
	}
}

// newSourceWrite returns the write of a transaction of a source, which nobody waits for.
func newSourceWrite(ctx context.Context, changes []ledger.SourceChange) *write {
	rows := rowsOf(changes, func(c *ledger.SourceChange) []ledger.Row { return c.Rows })
	return &write{ctx: ctx, rows: rows, done: make(chan struct{})}
}

// awaitTurn takes one of the two places of transactions of a source, one for the ledger and one for
// the store: pages must not fall behind the ledger for long. It waits until there is room for the
// rows of w where those of others are refused.
func (cm *committer) awaitTurn(ctx context.Context, w *write) (err error) {
	select {
	case cm.following <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		if err != nil {
			<-cm.following
		}
	}()
	for {
		switch err := cm.known.Agreed(); {
		case err != nil:
			return err
		case cm.life.IsClosed():
			return ErrClosed
		case !cm.congested(w.rows):
			return cm.known.Reachable()
		}
		select {
		case <-time.After(known.ReachPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow makes the transaction of a source, says how it ended, and starts its changes of the pages.
func (cm *committer) follow(
	w *write, step ledger.Step, changes []ledger.SourceChange, decided chan<- error,
) error {
	writes := []*write{w}
	cm.committing <- struct{}{}
	defer func() { <-cm.committing }()
	ctx, cancel := context.WithTimeout(onBehalf(writes), commitTimeout)
	defer cancel()
	receipt, err := cm.ledger.Follow(ctx, cm.storage.now(), step, changes)
	if err != nil {
		err = fmt.Errorf("record %d activities: %w", len(changes), Unavailable("ledger", err))
	}
	decided <- err
	if err != nil {
		return err
	}
	cm.start(receipt, writes)
	return nil
}

// Reach waits until reached reports true of the ledger's sources. Every Read that begins afterwards
// has all changes up to their positions.
func (p *Pages) Reach(ctx context.Context, reached func([]ledger.Source) (bool, error)) error {
	return p.known.Reach(ctx, reached)
}

// Bounds returns the bounds between which the ledger's clock is now. What one process says that the
// clock has passed, another does not take for later than it is.
func (p *Pages) Bounds() (earliest, latest time.Time) { return p.known.Bounds() }

// Sources returns the ledger's sources at the last poll, in order of name. A source whose lease
// has ended since has no Holder.
func (p *Pages) Sources() (all []ledger.Source) {
	all = p.known.Sources()
	for i := range all {
		if !all[i].Until.After(p.Now()) {
			all[i].Holder = ""
		}
	}
	return all
}
