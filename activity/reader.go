package activity

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// source is what [pages.Pages] and [pages.Alone] have in common.
type source interface {
	Identity() favfilter.Identity
	Now() time.Time
	Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error)
	Read(ctx context.Context, q pages.Query) (pages.Answer, error)
	Survey() iter.Seq[pages.SurveyedPage]
	SurveyTotals() pages.SurveyTotals
	InspectPage(ctx context.Context, number uint32) (*pages.PageInside, error)
	Ready(ctx context.Context) (ready bool, down []error)
	Stats() pages.Stats
	Close()
}

// reader is what a [Recorder] and a [Plain] read activities with.
type reader struct {
	source source

	kinds    *Kinds
	seen     *seen.Windows // of kinds with a window
	rate     float64       // false-positive rate of a candidate
	keyRate  float64       // of one key
	tally    tally
	searches sync.Pool // of *Search
}

// InitialPages returns the number of pages that the filter was created with. For the current number,
// see [pages.Pages.Layout].
func (r *reader) InitialPages() uint32 { return r.source.Identity().Pages }

// FalsePositiveRate returns the share of clean candidates that a feed check may drop wrongly, as
// configured.
func (r *reader) FalsePositiveRate() float64 { return r.rate }

// Kinds returns the known kinds of activities.
func (r *reader) Kinds() *Kinds { return r.kinds }

// Now returns the time by which activities are recorded and end.
func (r *reader) Now() time.Time { return r.source.Now() }

// Survey yields every page as last observed. It reads neither the store nor the ledger. See
// [pages.Pages.Survey].
func (r *reader) Survey() iter.Seq[pages.SurveyedPage] { return r.source.Survey() }

// SurveyTotals returns sums over all pages as last observed.
func (r *reader) SurveyTotals() pages.SurveyTotals { return r.source.SurveyTotals() }

// InspectPage reads a page, and compares it with the ledger if there is one. See
// [pages.Pages.InspectPage].
func (r *reader) InspectPage(ctx context.Context, number uint32) (*pages.PageInside, error) {
	return r.source.InspectPage(ctx, number)
}

// Ready reports whether feeds can be answered, and returns an [*UnavailableError] for each dependency
// that is down. The error of a ledger that answers, but whose changes are not read in time, wraps
// [ErrBehind].
func (r *reader) Ready(ctx context.Context) (ready bool, down []error) { return r.source.Ready(ctx) }

// Close waits for the writes in flight, refuses new ones with [ErrClosed], and returns when all
// background work has stopped.
func (r *reader) Close() { r.source.Close() }

// check returns an [*InvalidError] unless the activity can be recorded at that time.
func (r *reader) check(a Activity, at time.Time) error {
	if err := r.kinds.Check(a); err != nil {
		return err
	}
	return a.checkTimes(at)
}

// userHash returns the hash that places a user.
func (r *reader) userHash(user string) uint64 { return pages.UserHash(r.source.Identity().Seed, user) }

// slot returns the number of the hash slot of the store that has all pages and windows of a user.
func (r *reader) slot(hash uint64) uint32 {
	return ledger.Identity{Pages: r.source.Identity().Pages}.Slot(hash)
}

// lookups returns the largest number of keys that a feed check tests for one candidate.
func (ks *Kinds) lookups() int {
	n := 0
	for _, k := range ks.all {
		if k.Effect == Drop {
			n += k.lookups()
		}
	}
	return max(n, 1)
}
