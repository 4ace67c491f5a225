package migrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

const (
	attempts     = 10
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// Service makes the calls of a migration, for one kind. All of them may be repeated, so Service
// retries temporary failures, with at most 10 attempts. It is safe for concurrent use.
type Service struct {
	Kind client.Kind

	client *client.Client
}

// NewService returns the service of a client, for the named kind. The client should not retry: its
// retries end too soon for a program that runs for hours. The kind must be in the ledger, because
// kinds with a window cannot be listed.
func NewService(ctx context.Context, c *client.Client, kind string) (*Service, error) {
	// Without retries: this is the first call, and a wrong address must fail at once.
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(kinds, func(k client.Kind) bool { return k.Name == kind })
	switch {
	case i < 0:
		return nil, fmt.Errorf("the service has no kind %q", kind)
	case !kinds[i].Ledger:
		return nil, fmt.Errorf("kind %q has a window and is not in the ledger", kind)
	default:
		return &Service{kinds[i], c}, nil
	}
}

// Record adds at most 900 activities of the kind.
func (s *Service) Record(ctx context.Context, activities []client.Activity) (results []client.Result, err error) {
	for i := range activities {
		activities[i].Op, activities[i].Kind = client.Add, s.Kind.Name
		activities[i].Until = activities[i].Until.UTC().Truncate(time.Microsecond)
	}
	err = patiently(ctx, "record activities", func() error {
		results, err = s.client.Batch(ctx, activities)
		return err
	})
	return results, err
}

// List returns the targets of a user in the ledger, and when each activity ends; zero: never.
func (s *Service) List(ctx context.Context, user string) (ends map[string]time.Time, err error) {
	err = patiently(ctx, "list activities", func() error {
		ends = make(map[string]time.Time)
		for item, err := range s.client.List(ctx, user, s.Kind.Plural) {
			if err != nil {
				return err
			}
			ends[item.Target] = item.Until
		}
		return nil
	})
	return ends, err
}

// patiently calls try until it succeeds, fails permanently, or has failed 10 times.
func patiently(ctx context.Context, what string, try func() error) error {
	backoff := firstBackoff
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		if n == attempts || ctx.Err() != nil || !errors.Is(err, client.ErrUnavailable) {
			return fmt.Errorf("%s: %w", what, err)
		}
		wait := backoff/2 + rand.N(backoff/2) //nolint:gosec // spreads callers out
		if answer, ok := errors.AsType[*client.Error](err); ok {
			wait = max(wait, min(answer.RetryAfter, maxBackoff))
		}
		backoff = min(2*backoff, maxBackoff)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
