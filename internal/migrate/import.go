package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/feedfilter/feedfilter/client"
)

// Import adds all members of sets to a service. The app may keep writing meanwhile, to the sets
// first and then to the service. Afterwards, no activity that it recorded in both is
// missing, and none that it undid in both remains. Run an interrupted import again from the start;
// repeating is safe.
type Import struct {
	Sets    *Sets
	Service *Service

	Skip bool                 // skip members that cannot be recorded, instead of stopping
	Bad  func(problem error)  // called for each skipped member, one call at a time
	Done func(activities int) // called with the number of further activities recorded, one call at a time

	mu    sync.Mutex
	lines []client.Activity // of the next request
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
	err := im.Sets.Users(ctx, func(_ string, members iter.Seq2[[]Member, error]) error {
		im.mu.Lock()
		im.sum.Groups++
		im.mu.Unlock()
		for some, err := range members {
			if err != nil {
				return err
			}
			for _, m := range some {
				if err := im.add(ctx, m); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil && len(im.lines) > 0 {
		err = im.record(ctx, im.lines)
	}
	return im.sum, err
}

// add adds a member to the next request, and makes the request once it is full.
func (im *Import) add(ctx context.Context, m Member) error {
	full, err := im.queue(m)
	if err != nil || full == nil {
		return err
	}
	return im.record(ctx, full)
}

// queue adds a member to the next request. It returns the request once it is full.
func (im *Import) queue(m Member) (full []client.Activity, err error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.sum.Read++
	if err := cmp.Or(m.Bad, check(im.Service.Kind, m.Pair)); err != nil {
		return nil, im.refuse(m.Pair, err)
	}
	im.lines = append(im.lines, client.Activity{User: m.User, Target: m.Target, Since: m.Since})
	if len(im.lines) == batchSize {
		full, im.lines = im.lines, nil
	}
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

// record records lines, and then settles those that the sets no longer have: the app may have
// undone them in the service before they were recorded.
func (im *Import) record(ctx context.Context, lines []client.Activity) error {
	results, err := im.Service.Record(ctx, lines)
	if err != nil {
		return err
	}
	pairs := make([]Pair, len(lines))
	for i, l := range lines {
		pairs[i] = Pair{l.User, l.Target}
	}
	has, err := im.Sets.Has(ctx, pairs)
	if err != nil {
		return err
	}
	undone := int64(0)
	for i, there := range has {
		if !there {
			undone++
			if err := settle(ctx, im.Sets, im.Service, pairs[i]); err != nil {
				return err
			}
		}
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	im.sum.Undone += undone
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
