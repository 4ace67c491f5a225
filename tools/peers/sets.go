package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// pipelineSize is the number of commands per pipeline where speed is not measured.
const pipelineSize = 2000

// sets stores exact data: a set for each user and kind. A feed check is four SMISMEMBER in one
// round trip.
type sets struct{ client *redis.Client }

func setKey(kind, owner string) string { return kind + ":" + owner }

func (s sets) load(ctx context.Context, p *bench.Population) error {
	return s.add(ctx, keysOf(p.Activities()))
}

func (s sets) loadSeen(ctx context.Context, p *bench.Population) error {
	return s.add(ctx, keysOf(p.Seen()))
}

func (s sets) add(ctx context.Context, all iter.Seq[entry]) error {
	pipe := s.client.Pipeline()
	for e := range all {
		pipe.SAdd(ctx, setKey(e.Kind, e.Owner), e.Target)
		if pipe.Len() == pipelineSize {
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}

func (s sets) check(ctx context.Context, f *bench.Feed, dropped []bool) error {
	pipe := s.client.Pipeline()
	answers := make([]*redis.BoolSliceCmd, len(kinds()))
	for k, kind := range kinds() {
		members := make([]any, len(f.Posts))
		for i := range f.Posts {
			members[i] = target(f, k, i)
		}
		answers[k] = pipe.SMIsMember(ctx, setKey(kind, f.Viewer), members...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	return decide(answers, f, dropped)
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

func (s sets) unhide(ctx context.Context, f *bench.Feed) error {
	pipe := s.client.Pipeline()
	for _, p := range f.Posts {
		pipe.SRem(ctx, setKey(bench.Hide, f.Viewer), p.ID)
	}
	_, err := pipe.Exec(ctx)
	return err
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
