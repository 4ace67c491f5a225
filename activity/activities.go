package activity

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Activities is what [Recorder] and [Plain] have in common: everything a feed needs. Calls that
// need a ledger, such as lists and counts, are methods of Recorder alone. The methods are safe for
// concurrent use.
type Activities interface { //nolint:interfacebloat // a feed needs all of them
	// Record records activities as if one after another, and returns the outcome of each. See
	// [Recorder.Record] and [Plain.Record].
	Record(ctx context.Context, activities []Activity) ([]Outcome, error)
	// NewBatch returns an empty batch of activities to record.
	NewBatch() *Batch
	// View reads the user's activities of the given kinds, and those of two-way kinds that others
	// have with the user, together with those of lists. See [Recorder.View].
	View(ctx context.Context, user string, kinds []Kind, lists ...string) (*View, error)
	// Audience looks for what keeps posts of the owners from users. See [Recorder.Audience].
	Audience(ctx context.Context, q AudienceQuery) (Audience, error)
	// Confirm asks the ledger which claims are true. See [Recorder.Confirm] and [Plain.Confirm].
	Confirm(ctx context.Context, user string, claims []Claim) ([]Evidence, error)
	// Await waits for what the app committed to its own database. See [Recorder.Await] and
	// [Plain.Await].
	Await(ctx context.Context, want Freshness) error
	// Behind names those of the kinds whose activities may be old. See [Recorder.Behind].
	Behind(kinds []Kind) []Degraded
	// Kinds returns the known kinds of activities.
	Kinds() *Kinds
	// FalsePositiveRate returns the share of clean candidates that a feed check may drop wrongly.
	FalsePositiveRate() float64
	// Ready reports whether feeds can be answered, and returns an [*UnavailableError] for each
	// dependency that is down.
	Ready(ctx context.Context) (ready bool, down []error)
	// Inside returns what can be seen of the pages.
	Inside() Inside
	// Window reads a user's window. The kind must have one.
	Window(ctx context.Context, kind Kind, user string) (*seen.Window, error)
	// Stats returns the current counts.
	Stats() Stats
	// Close waits until all work in flight is done, then returns.
	Close()
}

// Inside is what can be seen of pages, of [pages.Pages] and [pages.Alone] alike. No call changes a
// page.
type Inside interface {
	// Now returns the time by which activities are recorded and end.
	Now() time.Time
	// Identity returns the identity of the filter. Its number of pages is that with which the filter
	// was created; for the current number, see [pages.Grower.Layout].
	Identity() favfilter.Identity
	// Weights returns the weights of the keys of rows, by their kind. The caller must not change
	// the map.
	Weights() map[string]uint8
	// InspectPage reads a page, and compares it with the ledger if there is one.
	InspectPage(ctx context.Context, number uint32) (*pages.PageInside, error)
	// InspectUser reads the page of a user, and compares it and the user's keys with the ledger if
	// there is one.
	InspectUser(ctx context.Context, user string) (*pages.PageInside, error)
	// InspectPhrase is InspectUser for the other side of a phrase, see [pages.PhraseHash].
	InspectPhrase(ctx context.Context, phrase string) (*pages.PageInside, error)
}

// NoLedgerError reports that Call needs a ledger, and that there is none.
type NoLedgerError struct{ Call string }

func (e *NoLedgerError) Error() string {
	return e.Call + " needs a ledger, and there is none: a filter alone cannot tell what it holds"
}
