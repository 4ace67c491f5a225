package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/bench"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// check decides on feed i in the way of an application. If dropped is not nil, it sets dropped for
// each candidate.
type check func(ctx context.Context, i int, dropped []bool) error

// seenParts is the number of sets in a window of seen posts: one for each sixth of the window, and
// one for the part that is expiring.
const seenParts = 7

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

// wireSets stores exact sets, one for each user and kind. Seen posts are in one set without expiry,
// or in seenParts sets with a time to live.
type wireSets struct {
	client *redis.Client
	id     func(string) string // converts ids
	window bool
}

// load adds all entries, without what was seen.
func (s wireSets) load(ctx context.Context, p *bench.Population) error {
	pipe := s.client.Pipeline()
	for e := range keysOf(p.Activities()) {
		pipe.SAdd(ctx, setKey(e.Kind, s.id(e.Owner)), s.id(e.Target))
		if err := flush(ctx, pipe, pipelineSize); err != nil {
			return err
		}
	}
	return flush(ctx, pipe, 1)
}

// loadSeen adds what was seen. With a window, the posts are spread evenly over its parts.
func (s wireSets) loadSeen(ctx context.Context, p *bench.Population) error {
	pipe := s.client.Pipeline()
	n := 0
	for e := range keysOf(p.Seen()) {
		key := setKey(e.Kind, s.id(e.Owner))
		if s.window {
			key += ":" + strconv.Itoa(n%seenParts)
			n++
		}
		pipe.SAdd(ctx, key, s.id(e.Target))
		if s.window {
			pipe.Expire(ctx, key, seenWindow)
		}
		if err := flush(ctx, pipe, pipelineSize); err != nil {
			return err
		}
	}
	return flush(ctx, pipe, 1)
}

// flush sends the commands of the pipeline if there are at least that many.
func flush(ctx context.Context, pipe redis.Pipeliner, least int) error {
	if pipe.Len() < least {
		return nil
	}
	_, err := pipe.Exec(ctx)
	return err
}

// keys returns the sets for a feed check of the viewer. The first two hold authors, the others
// posts.
func (s wireSets) keys(viewer string) []string {
	viewer = s.id(viewer)
	keys := []string{setKey(bench.Block, viewer), setKey(bench.BlockedBy, viewer), setKey(bench.Hide, viewer)}
	if !s.window {
		return append(keys, setKey(bench.Seen, viewer))
	}
	for part := range seenParts {
		keys = append(keys, setKey(bench.Seen, viewer)+":"+strconv.Itoa(part))
	}
	return keys
}

// check returns a check that sends one pipeline with one SMISMEMBER per set. It converts the ids
// before the check is timed.
func (s wireSets) check(feeds []*bench.Feed) check {
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

// ofPeer returns the check of a peer.
func ofPeer(p peer, feeds []*bench.Feed) check {
	return func(ctx context.Context, i int, dropped []bool) error { return p.check(ctx, feeds[i], dropped) }
}

// degradedError is the error for an answer in which not all kinds were checked.
type degradedError struct{ kind, reason string }

func (e *degradedError) Error() string { return e.kind + " could not be checked: " + e.reason }

// byClient returns the check of package client.
func byClient(url, answer string, feeds []*bench.Feed, o client.Options) (check, error) {
	c, err := client.New(url, o)
	if err != nil {
		return nil, err
	}
	requests := make([]client.FilterRequest, len(feeds))
	for i, f := range feeds {
		posts := make([]client.Post, len(f.Posts))
		for n, p := range f.Posts {
			posts[n] = client.Post{ID: p.ID, Author: p.Author}
		}
		requests[i] = client.FilterRequest{Viewer: f.Viewer, Posts: posts, Answer: answer}
	}
	return func(ctx context.Context, i int, dropped []bool) error {
		a, err := c.Filter(ctx, requests[i])
		switch {
		case err != nil:
			return err
		case len(a.Degraded) > 0:
			return &degradedError{a.Degraded[0].Kind, a.Degraded[0].Reason}
		case dropped == nil:
			return nil
		}
		return mark(dropped, indexes(requests[i].Posts, a.Dropped, answer == client.AnswerDropped))
	}, nil
}

// indexes returns the indexes of the dropped posts in all. If the answer has no indexes (named is
// false), it finds the posts by their ids, in order.
func indexes(all []client.Post, dropped []client.Dropped, named bool) []int {
	at := make([]int, len(dropped))
	next := 0
	for n, d := range dropped {
		if at[n] = d.Index; !named {
			at[n] = next + slices.IndexFunc(all[next:], func(p client.Post) bool { return p.ID == d.ID })
		}
		next = min(at[n]+1, len(all))
	}
	return at
}

// byGRPC returns the check of the gRPC client that is generated from the schema.
func byGRPC(url string, feeds []*bench.Feed) check {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	over := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	c := feedfilterv1connect.NewFeedServiceClient(over, url, connect.WithGRPC())
	requests := make([]*feedfilterv1.FilterRequest, len(feeds))
	for i, f := range feeds {
		m := &feedfilterv1.FilterRequest{Viewer: f.Viewer, Answer: feedfilterv1.Answer_ANSWER_DROPPED}
		for _, p := range f.Posts {
			m.Posts, m.Authors = append(m.Posts, p.ID), append(m.Authors, p.Author)
		}
		requests[i] = m
	}
	return func(ctx context.Context, i int, dropped []bool) error {
		a, err := c.Filter(ctx, connect.NewRequest(requests[i]))
		switch {
		case err != nil:
			return err
		case len(a.Msg.GetDegraded()) > 0:
			return &degradedError{a.Msg.GetDegraded()[0].GetKind(), a.Msg.GetDegraded()[0].GetReason()}
		case dropped == nil:
			return nil
		}
		at := make([]int, len(a.Msg.GetDropped()))
		for n, d := range a.Msg.GetDropped() {
			at[n] = int(d.GetIndex())
		}
		return mark(dropped, at)
	}
}

// mark sets dropped for the candidates at those indexes.
func mark(dropped []bool, at []int) error {
	clear(dropped)
	for _, i := range at {
		if i < 0 || i >= len(dropped) {
			return fmt.Errorf("candidate %d of %d is dropped", i, len(dropped))
		}
		dropped[i] = true
	}
	return nil
}

// seenWindow is how long seen posts are remembered. seenLength is the length of each part of the
// window.
const (
	seenWindow = 30 * 24 * time.Hour
	seenLength = seenWindow / (seenParts - 1)
)
