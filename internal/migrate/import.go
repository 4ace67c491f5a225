package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/feedfilter/feedfilter/client"
)

// Import adds all activities of a source to a service. The app may go on writing meanwhile, to the
// source first and then to the service. Activities that it has recorded in both are then in the
// service, and those that it has undone in both are not. An interrupted import must be run again
// from the start, which changes nothing that is right.
type Import struct {
	Source  Source // that can be read again
	Service *Service
	Kind    client.Kind

	Skip bool                        // members that can never be recorded, instead of stopping at the first
	Bad  func(p Pair, problem error) // is told of those; from one goroutine at a time
	Done func(activities int)        // is told how many more are recorded; the same

	mu    sync.Mutex
	lines []client.Activity
	sum   Imported
}

// Imported is what an import has done.
type Imported struct {
	Groups    int64 `json:"groups"`     // sets
	Read      int64 `json:"read"`       // members, those met twice counted twice
	Changed   int64 `json:"changed"`    // new to the service
	OverLimit int64 `json:"over_limit"` // refused for a limit of the kind
	Skipped   int64 `json:"skipped"`    // can never be recorded
	Undone    int64 `json:"undone"`     // were undone meanwhile, so they were taken back
}

// Run imports. After an error too it returns what was done.
func (im *Import) Run(ctx context.Context) (Imported, error) {
	err := im.Source.Groups(ctx, func(g Group) error {
		im.mu.Lock()
		im.sum.Groups++
		im.mu.Unlock()
		return g.Members(func(some []Member) error { return im.add(ctx, some) })
	})
	if err == nil {
		err = im.flush(ctx, im.lines)
	}
	return im.sum, err
}

// add gathers members of all groups, and records them when they are enough for a request.
func (im *Import) add(ctx context.Context, members []Member) error {
	for _, m := range members {
		full, err := im.gather(m)
		if err == nil && full != nil {
			err = im.flush(ctx, full)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gather returns a batch when it is full.
func (im *Import) gather(m Member) (full []client.Activity, err error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.sum.Read++
	if err := check(im.Kind, m.Pair); err != nil {
		im.Bad(m.Pair, err)
		if !im.Skip {
			return nil, fmt.Errorf("stopped at a member that cannot be recorded: %w", err)
		}
		im.sum.Skipped++
		return nil, nil
	}
	im.lines = append(im.lines, client.Activity{User: m.User, Kind: im.Kind.Name, Target: m.Target, Since: m.Since})
	if len(im.lines) < batchSize {
		return nil, nil
	}
	full, im.lines = im.lines, nil
	return full, nil
}

// flush records lines, and takes those back that were undone since they were read. The app has
// undone those in the source, but perhaps in the service before the service had them.
func (im *Import) flush(ctx context.Context, lines []client.Activity) error {
	if len(lines) == 0 {
		return nil
	}
	results, err := im.Service.Record(ctx, lines)
	if err != nil {
		return err
	}
	pairs := make([]Pair, len(lines))
	for i, l := range lines {
		pairs[i] = Pair{l.User, l.Target}
	}
	has, err := im.Source.Has(ctx, pairs)
	if err != nil {
		return err
	}
	undone := 0
	for i, there := range has {
		if !there {
			undone++
			if err := settle(ctx, im.Source, im.Service, im.Kind, pairs[i]); err != nil {
				return err
			}
		}
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	im.sum.Undone += int64(undone)
	for _, r := range results {
		switch {
		case r.Err != nil && errors.Is(r.Err, client.ErrLimitReached):
			im.sum.OverLimit++
		case r.Err != nil:
			return fmt.Errorf("the service refused an activity: %w", r.Err)
		case r.Changed:
			im.sum.Changed++
		}
	}
	im.Done(len(lines))
	return nil
}
