package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/feedfilter/feedfilter/client"
)

// Import adds all activities of a source to a service. The app may keep writing meanwhile, to the
// source first and then to the service. Afterwards, no activity that it recorded in both is
// missing, and none that it undid in both remains. Run an interrupted import again from the start;
// repeating is safe.
type Import struct {
	Source  Source // must be readable more than once
	Service *Service
	Kind    client.Kind

	Skip bool                 // skip members that cannot be recorded, instead of stopping
	Bad  func(problem error)  // called for each skipped member, one call at a time
	Done func(activities int) // called with the number of further activities recorded, one call at a time

	mu    sync.Mutex
	lines []client.Activity
	sum   Imported
}

// Imported is the result of an import.
type Imported struct {
	Groups    int64 `json:"groups"`     // sets
	Read      int64 `json:"read"`       // members; one that was read twice counts twice
	Changed   int64 `json:"changed"`    // new to the service
	OverLimit int64 `json:"over_limit"` // refused by the limit of the kind
	Skipped   int64 `json:"skipped"`    // cannot be recorded
	Undone    int64 `json:"undone"`     // the app undid them meanwhile, so the import did, too
}

// Run imports. After an error it returns what was done until then.
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

// add gathers members of all groups, and records them once they fill a request.
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

// gather adds a member to the batch, and returns the batch once it is full.
func (im *Import) gather(m Member) (full []client.Activity, err error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.sum.Read++
	if err := cmp.Or(m.Bad, check(im.Kind, m.Pair)); err != nil {
		return nil, im.refuse(m.Pair, err)
	}
	im.lines = append(im.lines, client.Activity{User: m.User, Kind: im.Kind.Name, Target: m.Target, Since: m.Since})
	if len(im.lines) < batchSize {
		return nil, nil
	}
	full, im.lines = im.lines, nil
	return full, nil
}

// refuse skips a member that cannot be recorded, or returns its error.
func (im *Import) refuse(p Pair, err error) error {
	err = fmt.Errorf("user %.300q, target %.300q cannot be recorded: %w", p.User, p.Target, err)
	if im.Skip {
		im.Bad(err)
		im.sum.Skipped++
		return nil
	}
	return err
}

// flush records lines, and then undoes those that the source no longer has: the app may have undone
// them in the service before flush recorded them.
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
	for i, r := range results {
		switch {
		case r.Err != nil && errors.Is(r.Err, client.ErrLimitReached):
			im.sum.OverLimit++
		case r.Err != nil:
			if err := im.refuse(pairs[i], r.Err); err != nil {
				return err
			}
		case r.Changed:
			im.sum.Changed++
		}
	}
	im.Done(len(lines))
	return nil
}
