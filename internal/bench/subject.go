package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

// batchSize is the number of activities to record at a time, as "feedfilter import" does.
const batchSize = 200_000

// pageEntries is the approximate number of entries per page.
const pageEntries = 4000

// Subject runs the measured calls: feed checks and writes with its own ledger, in SQLite, and pages
// in a store.
type Subject struct {
	Recorder *activity.Recorder

	ledger *ledger.Ledger
}

// SubjectConfig configures a [Subject].
type SubjectConfig struct {
	Store favfilter.Store
	File  string // of the ledger, to be created
	Pages uint32 // a power of two; see NumberFor
	// FalsePositiveRate is the rate per candidate; 0: the default.
	FalsePositiveRate float64
}

// NumberFor returns a number of pages with some thousand entries each.
func NumberFor(entries int) uint32 {
	pages := uint32(1)
	for float64(pages)*pageEntries*1.4 < float64(entries) {
		pages *= 2
	}
	return pages
}

// OpenSubject opens a subject without activities. It does almost nothing in the background, so that
// the measured calls cause all its costs.
func OpenSubject(ctx context.Context, c SubjectConfig) (*Subject, error) {
	l, err := ledger.Open(ctx, "sqlite:"+c.File, ledger.Options{Pages: c.Pages})
	if err != nil {
		return nil, err
	}
	r, err := activity.Open(ctx, activity.Config{
		Ledger: l, Store: c.Store, FalsePositiveRate: c.FalsePositiveRate, ScrubRate: 1,
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &Subject{Recorder: r, ledger: l}, nil
}

// Close closes the subject, and leaves its data in the store.
func (s *Subject) Close() error {
	s.Recorder.Close()
	return s.ledger.Close()
}

// Record records activities in order, as an import does.
func (s *Subject) Record(ctx context.Context, all iter.Seq[activity.Activity]) error {
	bulk, batch, n := s.Recorder.NewBulk(), s.Recorder.NewBatch(), 0
	for a := range all {
		if err := batch.Add(a); err != nil {
			return err
		}
		n++
		if n%batchSize == 0 {
			if _, err := bulk.Record(ctx, batch); err != nil {
				return err
			}
			batch = s.Recorder.NewBatch()
		}
	}
	if _, err := bulk.Record(ctx, batch); err != nil {
		return err
	}
	return bulk.Finish(ctx)
}

// Check checks the feed. Unless dropped is nil, Check sets it for each candidate; it must have the
// length of the feed.
func (s *Subject) Check(ctx context.Context, f *Feed, dropped []bool) error {
	a, err := feed.Filter(ctx, s.Recorder, feed.Request{Viewer: f.Viewer, Posts: f.Posts})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	if len(a.Degraded) > 0 {
		return fmt.Errorf(
			"check a feed of %d candidates: %s could not be checked: %s",
			len(f.Posts), a.Degraded[0].Kind, a.Degraded[0].Reason,
		)
	}
	if len(a.Kept)+len(a.Dropped) != len(f.Posts) {
		return fmt.Errorf(
			"check a feed of %d candidates: %d kept and %d dropped",
			len(f.Posts), len(a.Kept), len(a.Dropped),
		)
	}
	if dropped == nil {
		return nil
	}
	kept := a.Kept
	for i := range f.Posts {
		dropped[i] = len(kept) == 0 || kept[0] != i
		if !dropped[i] {
			kept = kept[1:]
		}
	}
	return nil
}
