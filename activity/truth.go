package activity

import (
	"context"
	"fmt"
	"time"
)

// PageAt is a page of the kinds that the ledger keeps, as it stood after one of its changes.
type PageAt struct {
	Page     uint32
	Sequence uint64
}

// At says which page the View read, and where that stood; the zero value if the View has none of the kinds that the
// ledger keeps.
func (v *View) At() PageAt { return PageAt{v.number, v.header().Sequence} }

// Truth is what the ledger has, to hold an answer against that was given from a page.
type Truth struct {
	// Evidence is in the order of the claims. What has ended, and is not removed yet, is among it: its key is
	// still in the page.
	Evidence []Evidence

	// Sequence is where the ledger had the page after the evidence was read.
	Sequence uint64

	// Same says that the page has not changed from what was asked about until then: the evidence is exactly what that
	// page has to hold. It is so also where something was given another end, or was recorded anew after it had
	// ended, since neither changes a page.
	Same bool
}

// Truth asks the ledger what it has of claims about user, who was looked for on a page as At says, in two queries. Unlike
// [Recorder.Confirm] it counts nothing. Errors are an [*UnavailableError], or that of ctx; a [*NoLedgerError] where
// there is no ledger.
func (r *Recorder) Truth(ctx context.Context, user string, at PageAt, claims []Claim) (Truth, error) {
	evidence, err := r.evidence(ctx, user, claims, time.Time{})
	if err != nil {
		return Truth{}, fmt.Errorf("read the truth of %d activities: %w", len(claims), err)
	}
	// After the evidence: sequences only rise, and a page is never before its ledger.
	sequence, err := r.ledger.Sequence(ctx, at.Page)
	if err != nil {
		return Truth{}, fmt.Errorf("read the truth of page %d: %w", at.Page, unavailable("ledger", err))
	}
	return Truth{evidence, sequence, sequence == at.Sequence}, nil
}

// repairTries is how often Repair makes a page anew that is changed each time meanwhile.
const repairTries = 32

// Repair makes a page anew that does not hold what the ledger does, although its sequence says so. Errors are an
// [*UnavailableError], or that of ctx, or that the page was changed too often meanwhile.
func (r *Recorder) Repair(ctx context.Context, at PageAt) error {
	if err := r.putInPlace(ctx, at, "sampled"); err != nil {
		return fmt.Errorf("repair page %d: %w", at.Page, err)
	}
	return nil
}

// putInPlace does not leave a newer page be, as a rebuild does: what a write has made of a page that lacks something
// lacks it too.
func (r *Recorder) putInPlace(ctx context.Context, at PageAt, reason string) error {
	defer r.cache.forgetPage(r.pageID(at.Page)) // and not before, or a View might hold it again
	for range repairTries {
		f, err := r.rebuild(ctx, at.Page, at.Sequence, reason, maxFlights)
		switch {
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
