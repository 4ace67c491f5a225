package pages

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// hangingStore does not answer while it hangs, until the caller's context ends.
type hangingStore struct {
	favfilter.Store

	hangs atomic.Bool
}

func (s *hangingStore) wait(ctx context.Context) error {
	if s.hangs.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

// Load is [favfilter.Store.Load].
func (s *hangingStore) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	if err := s.wait(ctx); err != nil {
		return nil, nil, err
	}
	return s.Store.Load(ctx, ids, held...)
}

// Replace is [favfilter.Store.Replace].
func (s *hangingStore) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	if err := s.wait(ctx); err != nil {
		return false, err
	}
	return s.Store.Replace(ctx, r)
}

// A feed in hand when the store begins to hang waits for it once, and then comes from the ledger.
func TestFeedOnceTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hangingStore{Store: &favfilter.Memory{}}
		p := startProcess(t, newLedger(t, 1), store, Config{ScrubRate: 1})
		p.record(t, true, add("1", "hide", "p"))
		p.want(t, "1", "hide", "p", true)
		store.hangs.Store(true)
		start := time.Now()
		p.want(t, "1", "hide", "p", true)
		if took := time.Since(start); took > loadTimeout+outagePatience {
			t.Errorf("the feed took %v", took)
		}
	})
}

// A page that was rebuilt while the store hung is placed by the scrub once it answers.
func TestPageIsPlacedOnceTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hangingStore{Store: &favfilter.Memory{}}
		p := startProcess(t, newLedger(t, 1), store, Config{ScrubRate: 1})
		p.record(t, true, add("1", "hide", "p"))
		p.losePages(t, 0)
		store.hangs.Store(true)
		p.want(t, "1", "hide", "p", true)
		store.hangs.Store(false)
		time.Sleep(3 * time.Second)
		loaded, _, err := store.Load(t.Context(), []favfilter.PageID{{Number: 0}})
		must(t, err)
		if loaded[0].Page == nil {
			t.Error("the page was not placed")
		}
	})
}
