package activity

import (
	"context"
	"iter"
	"time"
)

// Activities is what [Recorder] and [Plain] both do: all that a feed takes. What needs a ledger, such as lists and counts,
// a Recorder does alone; see [WithLedger]. Its methods may be called concurrently.
type Activities interface {
	// Record records activities as if one after another, and returns what became of each. See [Recorder.Record] and
	// [Plain.Record].
	Record(ctx context.Context, activities []Activity) ([]Outcome, error)
	// View reads what user has done, and had done to them, of the given kinds. See [Recorder.View] and [Plain.View].
	View(ctx context.Context, user string, kinds []Kind, ids iter.Seq2[Target, string]) (*View, error)

	// Kinds returns the kinds of activities that are known.
	Kinds() *Kinds
	// Pages returns the number of pages that the filter was made with.
	Pages() uint32
	// FalsePositiveRate is the share of clean candidates that a feed check may drop wrongly.
	FalsePositiveRate() float64
	// Now is the time by which activities are recorded and end.
	Now() time.Time

	// Ready reports whether feeds can be answered, and returns an [*UnavailableError] for each dependency that is down.
	Ready(ctx context.Context) (ready bool, down []error)
	// Stats returns the counts as they stand.
	Stats() Stats
	// Survey goes through all pages as they were last looked at, and SurveyTotals sums them up. Both ask nobody.
	Survey() iter.Seq[SurveyedPage]
	SurveyTotals() SurveyTotals
	// InspectPage, InspectUser and InspectKey compare what stands in the store with the ledger, if there is one.
	InspectPage(ctx context.Context, number uint32) (*PageInside, error)
	InspectUser(ctx context.Context, user string) (*UserInside, error)
	InspectKey(ctx context.Context, kind, user, target string) (*KeyInside, error)

	// Close lets what is on its way finish, and returns when nothing is running any more.
	Close()
}

// NoLedgerError is about a call that needs a ledger, where there is none.
type NoLedgerError struct{ Call string }

func (e *NoLedgerError) Error() string {
	return e.Call + " needs a ledger, and there is none: a filter alone cannot tell what it holds"
}

// WithLedger returns the [Recorder] that a is, for what only that does; else an error, a [*NoLedgerError] about the call.
func WithLedger(a Activities, call string) (*Recorder, error) {
	if r, ok := a.(*Recorder); ok {
		return r, nil
	}
	return nil, &NoLedgerError{call}
}
