package migrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

// Service makes the calls of a migration, for one kind. All of them may be repeated.
type Service struct {
	Kind   client.Kind    // see FindKind
	Client *client.Client // should retry, because a migration makes calls for hours
}

// FindKind returns the kind of the service with that name or plural. It must be in the ledger,
// because kinds with a window cannot be listed.
func FindKind(ctx context.Context, c *client.Client, name string) (client.Kind, error) {
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return client.Kind{}, err
	}
	i := slices.IndexFunc(kinds, func(k client.Kind) bool {
		return k.Name == name || k.Plural == name
	})
	switch {
	case i < 0:
		return client.Kind{}, fmt.Errorf("the service has no kind %q", name)
	case !kinds[i].Ledger:
		return client.Kind{}, fmt.Errorf("kind %q has a window and is not in the ledger", name)
	default:
		return kinds[i], nil
	}
}

// Record adds at most 900 activities of the kind.
func (s *Service) Record(
	ctx context.Context, activities []client.Activity,
) ([]client.Result, error) {
	for i := range activities {
		activities[i].Op, activities[i].Kind = client.Add, s.Kind.Name
		activities[i].Until = activities[i].Until.UTC().Truncate(time.Microsecond)
	}
	results, err := s.Client.Batch(ctx, activities)
	if err != nil {
		return nil, fmt.Errorf("record activities: %w", err)
	}
	return results, nil
}

// List returns the targets of a user in the ledger, and when each activity ends; zero: never.
func (s *Service) List(ctx context.Context, user string) (map[string]time.Time, error) {
	ends := make(map[string]time.Time)
	for item, err := range s.Client.List(ctx, user, s.Kind.Plural) {
		if err != nil {
			return nil, fmt.Errorf("list activities: %w", err)
		}
		ends[item.Target] = item.Until
	}
	return ends, nil
}
