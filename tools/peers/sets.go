package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const (
	// pipelineSize is the number of commands per pipeline where speed is not measured.
	pipelineSize = 2000
	// maxIntset is the set-max-intset-entries of the Redis server for sets of numbers.
	maxIntset = "8192"
	// seenWindow is how long seen posts are remembered. A window has seenParts sets: one for each
	// seenLength, and one for the part that is expiring.
	seenWindow = 30 * 24 * time.Hour
	seenParts  = 7
	seenLength = seenWindow / (seenParts - 1)
)

// sets are exact: a Redis set for each user and kind. Seen posts are in one set without expiry, or
// in seenParts sets with a time to live. A feed check is one SMISMEMBER a set, in one round trip.
type sets struct {
	client *redis.Client
	id     func(string) string // converts ids
	window bool
}

// asIs returns an id unchanged.
func asIs(id string) string { return id }

// asNumber returns an id as a decimal number. Redis needs less memory for a set of numbers.
func asNumber(id string) string {
	const seenOffset = 4e10 // seen posts and hidden posts have different numbers
	n, err := strconv.ParseInt(id[1:], 10, 64)
	if err != nil {
		panic(fmt.Sprintf("an id that the population does not make: %q", id))
	}
	if strings.HasPrefix(id, "s") {
		n += seenOffset
	}
	return strconv.FormatInt(n, 10)
}

// openSets adds the row of sets of text.
func (r *run) openSets(ctx context.Context) error {
	return r.addSets(ctx, sets{client: r.client, id: asIs}, "exact sets, SMISMEMBER x 4", "sets")
}

// openNumbers adds the row of sets of numbers, in a server that is tuned for them.
func (r *run) openNumbers(ctx context.Context) error {
	tuned := redistest.Start(r.host, "--set-max-intset-entries", maxIntset).Client()
	return r.addSets(ctx, sets{client: tuned, id: asNumber}, "sets of numbers, tuned, x 4", "ints")
}

// addSets fills sets, and adds their row. With -wire, it adds another one that has a window of seen
// posts.
func (r *run) addSets(ctx context.Context, s sets, name, word string) error {
	bytes, err := memoryOf(ctx, s.client, func() error {
		return s.add(ctx, entriesOf(r.people.Activities()))
	})
	if err != nil {
		return err
	}
	for _, s.window = range []bool{false, true} {
		if s.window {
			if !r.wire {
				break
			}
			name, word = name[:len(name)-1]+"10, seen in 7 parts", word+"-window"
		}
		if err := s.add(ctx, entriesOf(r.people.Seen())); err != nil {
			return err
		}
		r.add(&way{
			name:   name,
			word:   word,
			exact:  true,
			redis:  s.client,
			checks: s.checks,
			write:  s.write,
			bytes:  bytes / float64(r.people.Entries()),
		})
	}
	return nil
}

func setKey(kind, owner string) string { return kind + ":" + owner }

func (s sets) add(ctx context.Context, all iter.Seq[entry]) error {
	pipe, n := s.client.Pipeline(), 0
	for e := range all {
		key := setKey(e.kind, s.id(e.owner))
		if s.window {
			key += ":" + strconv.Itoa(n%seenParts)
			pipe.Expire(ctx, key, seenWindow)
		}
		pipe.SAdd(ctx, key, s.id(e.target))
		if n++; pipe.Len() < pipelineSize {
			continue
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}

// keys returns the sets for a feed check of the viewer. The first two hold authors, the others
// posts.
func (s sets) keys(viewer string) (keys []string) {
	for _, kind := range kinds() {
		keys = append(keys, setKey(kind, s.id(viewer)))
	}
	if !s.window {
		return keys
	}
	seen := keys[3]
	keys = keys[:3]
	for part := range seenParts {
		keys = append(keys, seen+":"+strconv.Itoa(part))
	}
	return keys
}

// checks returns the check of feeds whose ids are converted already.
func (s sets) checks(feeds []*bench.Feed) check {
	type request struct {
		keys           []string
		authors, posts []any
	}
	requests := make([]request, len(feeds))
	for i, f := range feeds {
		requests[i] = request{keys: s.keys(f.Viewer)}
		for _, p := range f.Posts {
			requests[i].authors = append(requests[i].authors, s.id(p.Author))
			requests[i].posts = append(requests[i].posts, s.id(p.ID))
		}
	}
	return func(ctx context.Context, i int, dropped []bool) error {
		r := &requests[i]
		pipe := s.client.Pipeline()
		answers := make([]*redis.BoolSliceCmd, len(r.keys))
		for k, key := range r.keys {
			members := r.posts
			if k < 2 {
				members = r.authors
			}
			answers[k] = pipe.SMIsMember(ctx, key, members...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		return decide(answers, feeds[i], dropped)
	}
}

// decide drops each candidate that is a member by at least one of the answers.
func decide(answers []*redis.BoolSliceCmd, f *bench.Feed, dropped []bool) error {
	for i := range f.Posts {
		drop := false
		for _, answer := range answers {
			if len(answer.Val()) != len(f.Posts) {
				return fmt.Errorf("%d answers for %d candidates", len(answer.Val()), len(f.Posts))
			}
			drop = drop || answer.Val()[i]
		}
		if dropped != nil {
			dropped[i] = drop
		}
	}
	return nil
}

func (s sets) write(keys int) bench.Call {
	next := newPosts("set", keys)
	return bench.Call{Name: "SADD", Do: func(ctx context.Context, _ int) error {
		members := make([]any, keys)
		for i := range members {
			members[i] = next()
		}
		return s.client.SAdd(ctx, setKey(bench.Hide, "writer"), members...).Err()
	}}
}
