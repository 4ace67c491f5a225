package follow

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
)

// maxTouched bounds the memory of a resync, some 40 bytes each.
const maxTouched = 5_000_000

// errResynced ends a stream whose resync is done.
var errResynced = errors.New("source and ledger are the same")

// resync compares the ledger with the tables while the applier goes on, and has it record what
// differs. An activity that the stream touches meanwhile is right without that.
func (f *Follower) resync(ctx context.Context, src *activity.Source, a *applier) error {
	conn, err := f.connect(ctx, false)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only reads
	record := func(ctx context.Context, group []activity.SourceChange) error {
		select {
		case a.differ <- group:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, _, err = f.reread(ctx, src, conn, f.name+"_resync", a.touched, record)
	if err == nil {
		err = record(ctx, nil) // is taken after all else is recorded
	}
	return cmp.Or(err, errResynced)
}

// touched are the activities that the stream changed since it began, known by their hashes.
type touched struct {
	seed maphash.Seed
	mu   sync.Mutex
	set  map[uint64]struct{}
}

func newTouched() *touched {
	return &touched{seed: maphash.MakeSeed(), set: make(map[uint64]struct{})}
}

func (t *touched) add(of item) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.set[maphash.Comparable(t.seed, of)] = struct{}{}; len(t.set) > maxTouched {
		return errors.New("resync: the source changes too much meanwhile")
	}
	return nil
}

// has reports whether the activity was added. Nothing was added to nil.
func (t *touched) has(of item) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, found := t.set[maphash.Comparable(t.seed, of)]
	return found
}

// await waits until the stream has been recorded up to a position. Nil does not wait.
func (t *touched) await(ctx context.Context, f *Follower, at pglogrepl.LSN) error {
	for t != nil && pglogrepl.LSN(f.recorded.Load()) < at {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
