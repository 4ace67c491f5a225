package main

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/bench"
)

// check decides on feed i. If dropped is not nil, it sets dropped for each candidate. It may be
// called concurrently.
type check func(ctx context.Context, i int, dropped []bool) error

// way is one way to keep activities and to check feeds.
type way struct {
	name, word string // -skip leaves the way out by the word; "": a PING
	// every is in how many rounds the way is timed once, so that it does not slow the others.
	every   int
	exact   bool          // drops no clean candidate
	redis   *redis.Client // of the server that keeps the data; nil: another kind of server
	service int           // process id of the service; 0: none
	// checks returns the check of some feeds. It prepares what an app would have at hand.
	checks func(feeds []*bench.Feed) check
	// write returns a call that hides that many new posts for one user; nil: not measured.
	write func(keys int) bench.Call

	bytes float64 // memory of an activity; 0: another way has stored the data
	wrong float64 // share of clean candidates that are dropped
}

// each returns the checks of a way that needs nothing but the feed.
func each(
	do func(ctx context.Context, f *bench.Feed, dropped []bool) error,
) func([]*bench.Feed) check {
	return func(feeds []*bench.Feed) check {
		return func(ctx context.Context, i int, dropped []bool) error {
			return do(ctx, feeds[i], dropped)
		}
	}
}

// call returns a call that checks one feed.
func (w *way) call(feeds []*bench.Feed) bench.Call {
	c := w.checks(feeds)
	return bench.Call{
		Name: w.name, Every: w.every,
		Do: func(ctx context.Context, round int) error { return c(ctx, round%len(feeds), nil) },
	}
}

// share returns the share of the duration that the way gets. A slow one gets less; more time would
// bring few more samples.
func (w *way) share() float64 {
	if w.every > 1 {
		return slowShare
	}
	return 1
}

// verify lets the way decide on feeds. It returns an error if it keeps a candidate that must be
// dropped, or if an exact way drops another one. It records the share of clean candidates that the
// way drops.
func (w *way) verify(ctx context.Context, feeds []*bench.Feed) error {
	c := w.checks(feeds)
	clean, wrong := 0, 0
	for i, f := range feeds {
		dropped := make([]bool, len(f.Posts))
		if err := c(ctx, i, dropped); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		missed, falsely := 0, 0
		for c, drop := range f.Drop {
			switch {
			case drop && !dropped[c]:
				missed++
			case !drop && dropped[c]:
				falsely++
			}
			if !drop {
				clean++
			}
		}
		if missed > 0 || w.exact && falsely > 0 {
			return fmt.Errorf(
				"%s: feed of viewer %s: %d candidates are kept and %d dropped wrongly",
				w.name, f.Viewer, missed, falsely,
			)
		}
		wrong += falsely
	}
	w.wrong = float64(wrong) / float64(clean)
	return nil
}

// kinds returns the kinds for which a candidate is looked up: two by the author and two by the
// post.
func kinds() []string { return []string{bench.Block, bench.BlockedBy, bench.Hide, bench.Seen} }

// target returns what the k-th kind looks up for candidate i of f: the author or the post.
func target(f *bench.Feed, k, i int) string {
	if k < 2 {
		return f.Posts[i].Author
	}
	return f.Posts[i].ID
}

// entry is one key of a filter. A block has two, "block" and "blocked-by".
type entry struct{ owner, kind, target string }

// entriesOf returns the entries of activities, in their order.
func entriesOf(all iter.Seq[activity.Activity]) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for a := range all {
			if !yield(entry{a.User, a.Kind, a.Target}) {
				return
			}
			if a.Kind == bench.Block && !yield(entry{a.Target, bench.BlockedBy, a.User}) {
				return
			}
		}
	}
}

// everything returns all entries of the population, with what was seen.
func everything(p *bench.Population) []entry {
	return slices.AppendSeq(slices.Collect(entriesOf(p.Activities())), entriesOf(p.Seen()))
}

// newPosts returns a function that gives a new id at each call. Functions for different numbers of
// keys give different ids.
func newPosts(prefix string, keys int) func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("%s-%d-%d", prefix, keys, n)
	}
}
