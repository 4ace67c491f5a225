package pages

import (
	"context"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
)

// releaseTimeout is how long a write of a kind that seems to be followed waits for a poll, which
// may tell that the kind was released. After it, the ledger decides.
const releaseTimeout = 500 * time.Millisecond

// checkFollowed returns an error if a source alone writes a kind of w. A write that cannot succeed
// then costs the ledger no transaction, and other writes do not share one with it.
//
// This process learns from polls what is followed. A kind may have been released since the last
// poll, so checkFollowed waits for another one before it refuses a write. While polls fail or take
// long, the write goes on. So does a write of a kind that is followed since the last poll: the
// ledger itself checks every change.
func (cm *committer) checkFollowed(ctx context.Context, w *write) error {
	if cm.followedBy(w) == nil {
		return nil
	}
	began := cm.life.Elapsed()
	limited, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	select { // all that begin in this time share a poll
	case <-time.After(known.ReachPause):
	case <-limited.Done():
	}
	if cm.known.PollSince(limited, began) != nil {
		return nil // the ledger decides
	}
	if followed := cm.followedBy(w); followed != nil {
		return followedError(followed)
	}
	return nil
}

// followedBy returns the error of the ledger for w, if a source alone wrote a kind of w at the last
// poll.
func (cm *committer) followedBy(w *write) *ledger.FollowedError {
	for _, source := range cm.known.Sources() {
		for _, kind := range source.Kinds {
			if w.writes(kind) {
				return &ledger.FollowedError{Source: source.Name, Kind: kind}
			}
		}
	}
	return nil
}

// refuse finishes those of the writes that are of the followed kind, for which the ledger has
// refused the whole group. It returns the others, fewer than before. They are one group again, so
// that a write that is refused costs its neighbours one transaction.
func (cm *committer) refuse(writes []*write, followed *ledger.FollowedError) (others []*write) {
	cm.known.Poll() // so that the next ones are refused before they are queued
	refused := func(w *write) bool { return w.writes(followed.Kind) }
	if !slices.ContainsFunc(writes, refused) {
		refused = func(*write) bool { return true } // or the group would never end
	}
	for _, w := range writes {
		if refused(w) {
			w.finish(followedError(followed))
		} else {
			others = append(others, w)
		}
	}
	return others
}

func followedError(of *ledger.FollowedError) error {
	return &InvalidError{Code: CodeFollowed, Field: "kind", Message: of.Error()}
}
