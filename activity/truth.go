package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// PageAt names a page of the kinds that the ledger keeps, and one of its sequences.
type PageAt struct {
	Page     uint32
	Sequence uint64
}

// At returns the page that the View read, and that page's sequence. It returns the zero value if
// the View has no kind that the ledger keeps.
func (v *View) At() PageAt { return PageAt{v.number, v.header().Sequence} }

// Truth is what the ledger has about an answer that was given from a page.
type Truth struct {
	// Evidence is in the order of the claims. It includes activities that have ended but are not
	// removed yet, because their keys are still in the page.
	Evidence []Evidence

	// Sequence is the ledger's sequence of the page after the evidence was read; 0 if nobody is on
	// the page any more.
	Sequence uint64

	// Same reports whether that sequence is the one that was asked about. If so, the page did not
	// change in between, and it must hold exactly the evidence. Same is also true if an activity
	// got another end, or was recorded again after it had ended, since neither changes a page.
	Same bool
}

// Truth asks the ledger about claims on user, whose page a View has read as at says. It takes two
// queries. Unlike [Recorder.Confirm], Truth counts nothing. Errors are an [*UnavailableError], or
// that of ctx.
func (r *Recorder) Truth(ctx context.Context, user string, at PageAt, claims []Claim) (Truth, error) {
	evidence, err := r.evidence(ctx, user, claims, time.Time{})
	if err != nil {
		return Truth{}, fmt.Errorf("read the truth of %d activities: %w", len(claims), err)
	}
	// After the evidence: sequences only rise, and a page is never ahead of its ledger.
	sequence, err := r.ledger.Sequence(ctx, at.Page)
	if errors.Is(err, ledger.ErrGone) {
		return Truth{Evidence: evidence}, nil
	}
	if err != nil {
		return Truth{}, fmt.Errorf("read the truth of page %d: %w", at.Page, unavailable("ledger", err))
	}
	return Truth{evidence, sequence, sequence == at.Sequence}, nil
}

// repairTries is how often Repair rebuilds a page that was changed during each rebuild.
const repairTries = 32

// Repair rebuilds a page that lacks keys of the ledger although its sequence is current. Errors are
// an [*UnavailableError], that of ctx, or that the page was changed too often during the rebuilds.
func (r *Recorder) Repair(ctx context.Context, at PageAt) error {
	if err := r.putInPlace(ctx, at, "sampled"); err != nil {
		return fmt.Errorf("repair page %d: %w", at.Page, err)
	}
	return nil
}

// putInPlace rebuilds a page, and unlike other rebuilds does not accept a newer page in its place:
// a write to a page that lacks keys makes a newer page that lacks them, too.
func (r *Recorder) putInPlace(ctx context.Context, at PageAt, reason string) error {
	defer r.cache.forgetPage(r.layout.pageID(at.Page)) // not before, or a View might cache it again
	for range repairTries {
		f, err := r.rebuild(ctx, at.Page, at.Sequence, reason, maxFlights)
		switch {
		case errors.Is(err, ledger.ErrGone):
			return nil
		case err != nil:
			return err
		case f.storeErr != nil:
			return unavailable("pages", f.storeErr)
		case f.placed:
			return nil
		}
	}
	return fmt.Errorf("it was changed %d times meanwhile", repairTries)
}
