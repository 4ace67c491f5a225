package activity

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// storage is a filter in a store: how it is read, what was counted and observed. A [Recorder] and a
// [Plain] have one each.
type storage struct {
	*lifecycle

	store    favfilter.Store
	identity favfilter.Identity // of the pages
	keyRate  float64            // false-positive rate of one key
	now      func() time.Time
	log      *slog.Logger

	stats     counters
	survey    survey
	storeDown atomic.Bool // the last call to the store failed
	unread    episode     // pages cannot be read
}

// reader is what a [Recorder] and a [Plain] read activities with.
type reader struct {
	*storage

	kinds    *Kinds
	seen     *seen.Windows // of kinds with a window
	rate     float64       // false-positive rate of a candidate
	searches sync.Pool     // of *Search
}

// Pages returns the number of pages that the filter was created with. For the current number, see
// [Recorder.Layout].
func (r *storage) Pages() uint32 { return r.identity.Pages }

// FalsePositiveRate returns the share of clean candidates that a feed check may drop wrongly, as
// configured.
func (r *reader) FalsePositiveRate() float64 { return r.rate }

// Kinds returns the known kinds of activities.
func (r *reader) Kinds() *Kinds { return r.kinds }

// Now returns the time by which activities are recorded and end.
func (r *storage) Now() time.Time { return r.now() }

// slotOf returns the number of the hash slot of the store that has all pages and windows of a user.
func (r *storage) slotOf(hash uint64) uint32 {
	return ledger.Identity{Pages: r.identity.Pages}.Slot(hash)
}

// check returns an [*InvalidError] unless the activity can be recorded at that time.
func (r *reader) check(a Activity, at time.Time) error {
	if err := r.kinds.Check(a); err != nil {
		return err
	}
	return a.checkTimes(at)
}

// load is Store.Load within loadTimeout. If the store fails, every element is zero.
func (r *storage) load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return r.loadWithin(ctx, loadTimeout, ids)
}

// loadWithin is load with another time limit.
func (r *storage) loadWithin(ctx context.Context, limit time.Duration, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	loaded, err := r.store.Load(limited, ids)
	if err != nil && ctx.Err() != nil {
		// A canceled call says nothing about the store.
		return make([]favfilter.Loaded, len(ids)), err
	}
	r.noteStore(ctx, err)
	if err != nil {
		return make([]favfilter.Loaded, len(ids)), err
	}
	return loaded, nil
}

// loadWhole reads one page with its collision bitmap.
func (r *storage) loadWhole(ctx context.Context, id favfilter.PageID) (favfilter.Loaded, error) {
	limited, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	loaded, err := r.store.LoadWhole(limited, []favfilter.PageID{id})
	switch {
	case err != nil && ctx.Err() != nil:
		return favfilter.Loaded{}, ctx.Err()
	case err != nil:
		return favfilter.Loaded{}, unavailable("pages", err)
	default:
		return loaded[0], nil
	}
}

// noteStore notes whether the last call to the store failed. It logs when failures begin and end.
func (r *storage) noteStore(ctx context.Context, err error) {
	r.storeDown.Store(err != nil)
	switch {
	case err != nil && r.unread.failed(r.elapsed()):
		if r.identity.Incarnation == 0 { // of no ledger
			r.log.ErrorContext(ctx, "pages cannot be read: feeds fail", "error", err)
			return
		}
		r.log.ErrorContext(ctx, "pages cannot be read: feeds come from the ledger", "error", err)
	case err == nil && r.unread.on.Load() && r.unread.worked(r.elapsed()):
		r.log.InfoContext(ctx, "pages can be read again")
	}
}
