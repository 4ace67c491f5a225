package migrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

const (
	attempts     = 10
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// Service has a service do what a migration needs. All of it may be repeated, so what fails for the
// moment is tried again, 10 times in all. It may be used by many goroutines.
type Service struct {
	// Client makes the calls, each once: its own retries are made for programs that serve, and are
	// over too soon for one that runs for hours.
	Client *client.Client
}

func ofUsers(k client.Kind) bool { return k.Target == "user" }

// Kind looks a kind up that the ledger keeps: of others nobody can say exactly what there is.
func (s *Service) Kind(ctx context.Context, name string) (client.Kind, error) {
	// Kinds is the first call, so a wrong address fails here, at once.
	kinds, err := s.Client.Kinds(ctx)
	if err != nil {
		return client.Kind{}, err
	}
	for _, k := range kinds {
		if k.Name == name && !k.Ledger {
			return k, fmt.Errorf("kind %q is not kept in the ledger", name)
		}
		if k.Name == name {
			return k, nil
		}
	}
	return client.Kind{}, fmt.Errorf("the service has no kind %q", name)
}

// Record adds activities, up to 900.
func (s *Service) Record(ctx context.Context, activities []client.Activity) (results []client.Result, err error) {
	for i := range activities {
		activities[i].Op = client.Add
		activities[i].Until = activities[i].Until.UTC().Truncate(time.Microsecond)
	}
	err = patiently(ctx, "record activities", func() error {
		results, err = s.Client.Batch(ctx, activities)
		return err
	})
	return results, err
}

// Present tells whether the ledger has an activity.
func (s *Service) Present(ctx context.Context, k client.Kind, p Pair) (bool, error) {
	var answer client.Preview
	err := patiently(ctx, "preview an activity", func() (err error) {
		answer, err = s.Client.Preview(ctx, p.User, k.Name, []string{p.Target})
		return err
	})
	return answer.Present == 1, err
}

// Ends is when an activity ends, zero if it does not or is not there.
func (s *Service) Ends(ctx context.Context, k client.Kind, p Pair) (time.Time, error) {
	post := client.Post{ID: p.Target, Author: p.User}
	if ofUsers(k) {
		post = client.Post{ID: "0", Author: p.Target}
	}
	var answer client.Explanation
	err := patiently(ctx, "explain an activity", func() (err error) {
		answer, err = s.Client.Explain(ctx, p.User, post)
		return err
	})
	for _, r := range answer.Reasons {
		if r.Kind == k.Name && r.Direction == "by_viewer" {
			return r.Until, err
		}
	}
	return time.Time{}, err
}

// List returns all that the ledger has of a user.
func (s *Service) List(ctx context.Context, k client.Kind, user string) (items []client.Item, err error) {
	err = patiently(ctx, "list activities", func() error {
		items = items[:0]
		for item, err := range s.Client.List(ctx, user, k.Plural) {
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		return nil
	})
	return items, err
}

// Reported asks for a feed of viewer with candidates of or by the targets, up to 900, and tells
// which are dropped, or marked, for the kind. With exact, the ledger confirms it.
func (s *Service) Reported(ctx context.Context, k client.Kind, viewer string, targets []string, exact bool) ([]bool, error) {
	req := client.FilterRequest{Viewer: viewer, Kinds: []string{}, Exact: exact}
	if k.Effect == "drop" {
		req.Kinds = []string{k.Name}
	} else {
		req.Annotate = []string{k.Name}
	}
	for i, target := range targets {
		post := client.Post{ID: target}
		if ofUsers(k) {
			post = client.Post{ID: strconv.Itoa(i), Author: target}
		}
		req.Posts = append(req.Posts, post)
	}
	var feed client.Feed
	err := patiently(ctx, "filter a feed", func() (err error) {
		feed, err = s.Client.Filter(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(feed.Degraded) > 0 {
		return nil, fmt.Errorf("the service answered a feed in part: %v", feed.Degraded)
	}
	found := make(map[string]bool)
	for _, d := range feed.Dropped {
		found[d.ID] = true
	}
	for _, p := range feed.Posts {
		if p.Marks[k.Name] {
			found[p.ID] = true
		}
	}
	reported := make([]bool, len(targets))
	for i, post := range req.Posts {
		reported[i] = found[post.ID]
	}
	return reported, nil
}

// patiently calls try until it succeeds, or fails for good.
func patiently(ctx context.Context, what string, try func() error) error {
	backoff := firstBackoff
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		if n == attempts || ctx.Err() != nil || !errors.Is(err, client.ErrUnavailable) {
			return fmt.Errorf("%s: %w", what, withoutRoute(err))
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

// withoutRoute is the error of a call without the route, which has a user's id.
func withoutRoute(err error) error {
	if errors.Is(err, client.ErrForeign) {
		return fmt.Errorf("the service answered %w", client.ErrForeign)
	}
	if answer, ok := errors.AsType[*client.Error](err); ok {
		return answer
	}
	if lost, ok := errors.AsType[*url.Error](err); ok {
		return lost.Err
	}
	if errors.Is(err, client.ErrUnavailable) {
		return client.ErrUnavailable
	}
	return err
}
