package pages

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
	"github.com/feedfilter/feedfilter/internal/pause"
)

// storage is a filter in a store, with what was counted of it. [Pages] and [Alone] have one each.
type storage struct {
	life *lifecycle.Lifecycle

	store    favfilter.Store
	identity favfilter.Identity // of the pages
	keyRate  float64            // false-positive rate of one key
	uniform  atomic.Bool        // pages are built in format version 3, without weights
	now      func() time.Time
	log      *slog.Logger

	stats      counters
	storeDown  atomic.Bool // the last call to the store failed
	readOutage outage      // pages cannot be read
}

// slot returns the number of the store's hash slot with all pages and windows of a user.
func (s *storage) slot(hash uint64) uint32 {
	return ledger.Identity{Pages: s.identity.Pages}.Slot(hash)
}

// loadAny reads pages, whatever their state. If the store fails, every element is zero. The error
// is an [*UnavailableError], or that of ctx.
func (s *storage) loadAny(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	loaded, err := s.load(ctx, ids)
	if err != nil && ctx.Err() == nil {
		err = Unavailable("pages", err)
	}
	return loaded, err
}

// load is Store.Load within loadTimeout. If the store fails, every element is zero.
func (s *storage) load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	loaded, _, err := s.loadWithin(ctx, loadTimeout, ids, nil)
	return loaded, err
}

// loadWithin is load with another time limit. It also returns the versions of held pages; that they
// cannot be read is no error.
func (s *storage) loadWithin(
	ctx context.Context, limit time.Duration, ids, held []favfilter.PageID,
) (loaded []favfilter.Loaded, versions []favfilter.Version, err error) {
	if len(ids)+len(held) == 0 {
		return nil, nil, nil
	}
	err = pause.Within(ctx, limit, func(ctx context.Context) (err error) {
		loaded, versions, err = s.store.Load(ctx, ids, held...)
		return err
	})
	switch {
	case len(ids) == 0:
		return nil, versions, nil
	case err == nil:
		s.noteStore(ctx, nil)
		return loaded, versions, nil
	case ctx.Err() == nil: // a canceled call says nothing about the store
		s.noteStore(ctx, err)
	}
	return make([]favfilter.Loaded, len(ids)), nil, err
}

// loadWhole reads one page with its collision bitmap.
func (s *storage) loadWhole(ctx context.Context, id favfilter.PageID) (favfilter.Loaded, error) {
	limited, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	loaded, err := s.store.LoadWhole(limited, []favfilter.PageID{id})
	if err != nil {
		return favfilter.Loaded{}, cmp.Or(ctx.Err(), Unavailable("pages", err))
	}
	return loaded[0], nil
}

// noteStore notes whether the last call to the store failed. It logs when failures begin and end.
func (s *storage) noteStore(ctx context.Context, err error) {
	s.storeDown.Store(err != nil)
	switch {
	case err != nil && s.readOutage.failed(s.life.Elapsed()):
		if s.identity.Incarnation == 0 { // of no ledger
			s.log.ErrorContext(ctx, "pages cannot be read: feeds fail", "error", err)
			return
		}
		s.log.ErrorContext(ctx, "pages cannot be read: feeds come from the ledger", "error", err)
	case err == nil && s.readOutage.on.Load() && s.readOutage.worked(s.life.Elapsed()):
		s.log.InfoContext(ctx, "pages can be read again")
	}
}

// outageQuiet is how long nothing must fail before an outage can end.
const outageQuiet = 5 * time.Second

// outage is a period of failures. It limits the log to a line at its begin and one at its end,
// when some pages fail and others work. An outage begins with a failure. It ends with the first
// success after outageQuiet without a failure. The zero value is no outage. It is safe for
// concurrent use.
type outage struct {
	on atomic.Bool

	mu   sync.Mutex
	last int64 // time of the last failure, as elapsed
}

// failed notes a failure, and reports whether it begins an outage.
func (e *outage) failed(now int64) (begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = now
	return !e.on.Swap(true)
}

// worked notes a success, and reports whether it ends the outage.
func (e *outage) worked(now int64) (ends bool) {
	if !e.on.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.on.Load() && now-e.last >= int64(outageQuiet) && e.on.Swap(false)
}
