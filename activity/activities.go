package activity

import (
	"context"
	"iter"
)

// Activities is what [Recorder] and [Plain] both do: all that a feed takes. What needs a ledger, such as
// lists and counts, a Recorder does alone; see [WithLedger]. Its methods may be called concurrently.
type Activities interface {
	Inside

	// Record records activities as if one after another, and returns what became of each. See
	// [Recorder.Record] and [Plain.Record].
	Record(ctx context.Context, activities []Activity) ([]Outcome, error)
	// View reads what user has done, and had done to them, of the given kinds. See [Recorder.View] and
	// [Plain.View].
	View(ctx context.Context, user string, kinds []Kind, ids iter.Seq2[Target, string]) (*View, error)
	// Kinds returns the kinds of activities that are known.
	Kinds() *Kinds
	// FalsePositiveRate is the share of clean candidates that a feed check may drop wrongly.
	FalsePositiveRate() float64
	// Ready reports whether feeds can be answered, and returns an [*UnavailableError] for each dependency
	// that is down.
	Ready(ctx context.Context) (ready bool, down []error)
	// Stats returns the counts as they stand.
	Stats() Stats
	// Close lets what is on its way finish, and returns when nothing is running any more.
	Close()
}

// Inside is what can be seen of the pages, without changing them.
type Inside interface {
	// Pages returns the number of pages that the filter was made with.
	Pages() uint32
	// Survey goes through all pages as they were last looked at. It asks nobody.
	Survey() iter.Seq[SurveyedPage]
	// SurveyTotals returns sums over all pages as they were last looked at.
	SurveyTotals() SurveyTotals
	// InspectPage reads a page, and compares it with the ledger, if there is one.
	InspectPage(ctx context.Context, number uint32) (*PageInside, error)
	// InspectUser tells where a user is, and what of theirs their page reports.
	InspectUser(ctx context.Context, user string) (*UserInside, error)
	// InspectKey tells how the keys of an activity stand, bit for bit.
	InspectKey(ctx context.Context, kind, user, target string) (*KeyInside, error)
}

// NoLedgerError is about a call that needs a ledger, where there is none.
type NoLedgerError struct{ Call string }

func (e *NoLedgerError) Error() string {
	return e.Call + " needs a ledger, and there is none: a filter alone cannot tell what it holds"
}

// WithLedger returns the [Recorder] that a is, for what only that does; else a [*NoLedgerError] about the
// call.
func WithLedger(a Activities, call string) (*Recorder, error) {
	if r, ok := a.(*Recorder); ok {
		return r, nil
	}
	return nil, &NoLedgerError{call}
}
