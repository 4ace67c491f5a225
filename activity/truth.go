package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

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
func (r *Recorder) Truth(ctx context.Context, user string, at pages.PageAt, claims []Claim) (Truth, error) {
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
		return Truth{}, fmt.Errorf("read the truth of page %d: %w", at.Page, pages.Unavailable("ledger", err))
	}
	return Truth{evidence, sequence, sequence == at.Sequence}, nil
}
