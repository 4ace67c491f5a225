package migrate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

const (
	attempts     = 10
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second

	ofUsers = "user" // a value of [client.Kind.Target]
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

// Reported reports for each pair whether a feed of its user drops or annotates its target, or a
// post by or with it. Pairs of a user that follow each other are in one feed.
func (s *Service) Reported(ctx context.Context, pairs ...Pair) ([]bool, error) {
	reported := make([]bool, 0, len(pairs))
	for some := range feeds(pairs) {
		found, err := s.filter(ctx, some)
		if err != nil {
			return nil, err
		}
		for _, p := range some {
			reported = append(reported, found[p.Target])
		}
	}
	return reported, nil
}

// feeds yields pairs of one user, at most 900 at a time.
func feeds(pairs []Pair) iter.Seq[[]Pair] {
	return func(yield func([]Pair) bool) {
		for len(pairs) > 0 {
			n := min(len(pairs), batchSize)
			if i := slices.IndexFunc(pairs[:n], func(p Pair) bool { return p.User != pairs[0].User }); i > 0 {
				n = i
			}
			if !yield(pairs[:n]) {
				return
			}
			pairs = pairs[n:]
		}
	}
}

// filter asks for one feed, and returns the targets that the kind drops or annotates.
func (s *Service) filter(ctx context.Context, pairs []Pair) (map[string]bool, error) {
	req := client.FilterRequest{Viewer: pairs[0].User, Kinds: []string{}}
	if s.Kind.Effect == "drop" {
		req.Kinds = []string{s.Kind.Name}
	} else {
		req.Annotate = []string{s.Kind.Name}
	}
	for _, p := range pairs {
		post := client.Post{ID: p.Target}
		switch s.Kind.Target {
		case ofUsers:
			post.Author = p.Target
		case "post":
		default:
			post.Facets = map[string][]string{s.Kind.Target: {p.Target}}
		}
		req.Posts = append(req.Posts, post)
	}
	var feed client.Feed
	err := patiently(ctx, "filter a feed", func() (err error) {
		feed, err = s.client.Filter(ctx, req)
		return err
	})
	if err == nil && len(feed.Degraded) > 0 {
		err = fmt.Errorf("the service answered a degraded feed, without kinds %v", feed.Degraded)
	}
	found := make(map[string]bool)
	for _, d := range feed.Dropped {
		found[d.ID] = true
	}
	for _, p := range feed.Posts {
		if p.Marks[s.Kind.Name] {
			found[p.ID] = true
		}
	}
	return found, err
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
