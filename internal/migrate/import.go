package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedfilter/feedfilter/client"
)

// Import adds all members of sets to a service. The app may keep writing meanwhile, to the sets
// first and then to the service. Afterwards, no activity that it recorded in both is
// missing, and none that it undid in both remains. Run an interrupted import again from the start;
// repeating is safe.
type Import struct {
	Sets    *Sets
	Service *Service

	Bad  func(problem error) // called for each member that cannot be recorded
	Done func(more int)      // called with the number of further activities recorded

	lines []client.Activity // of the next request
	sum   Imported
}

// Imported is the result of an import.
type Imported struct {
	Groups    int64 // sets
	Read      int64 // members; one that was read twice counts twice
	Changed   int64 // new to the service
	OverLimit int64 // refused by the limit of the kind
	Skipped   int64 // cannot be recorded
	Undone    int64 // the app undid them meanwhile, so the import did, too
}

// Run imports. After an error it returns what was done until then.
func (im *Import) Run(ctx context.Context) (Imported, error) {
	err := im.Sets.Users(ctx, func(user string) error {
		im.sum.Groups++
		return im.Sets.Members(ctx, user, func(members []Member) error { return im.add(ctx, members) })
	})
	if err == nil && len(im.lines) > 0 {
		err = im.record(ctx)
	}
	return im.sum, err
}

// add adds members to the next request, and makes the request once it is full.
func (im *Import) add(ctx context.Context, members []Member) error {
	for _, m := range members {
		im.sum.Read++
		if err := check(im.Service.Kind, m.Pair); err != nil {
			im.Bad(fmt.Errorf("user %.300q, target %.300q cannot be recorded: %w", m.User, m.Target, err))
			im.sum.Skipped++
			continue
		}
		im.lines = append(im.lines, client.Activity{User: m.User, Target: m.Target, Since: m.Since})
		if len(im.lines) == batchSize {
			if err := im.record(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// record records the lines, and then settles those that the sets no longer have: the app may have
// undone them in the service before they were recorded.
func (im *Import) record(ctx context.Context) error {
	results, err := im.Service.Record(ctx, im.lines)
	if err != nil {
		return err
	}
	pairs := make([]Pair, len(im.lines))
	for i, l := range im.lines {
		pairs[i] = Pair{l.User, l.Target}
	}
	has, err := im.Sets.Has(ctx, pairs)
	if err != nil {
		return err
	}
	for i, there := range has {
		if !there {
			im.sum.Undone++
			if err := settle(ctx, im.Sets, im.Service, pairs[i]); err != nil {
				return err
			}
		}
	}
	for i, r := range results {
		switch {
		case r.Err != nil && errors.Is(r.Err, client.ErrLimitReached):
			im.sum.OverLimit++
		case r.Err != nil:
			p := pairs[i]
			return fmt.Errorf("user %q, target %q cannot be recorded: %w", p.User, p.Target, r.Err)
		case r.Changed:
			im.sum.Changed++
		}
	}
	im.Done(len(im.lines))
	im.lines = im.lines[:0]
	return nil
}
