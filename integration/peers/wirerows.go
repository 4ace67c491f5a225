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

// check decides on feed i, as an app has that done. In dropped, unless that is nil, it says what
// becomes of each candidate.
type check func(ctx context.Context, i int, dropped []bool) error

// seenParts is how many sets a window of seen posts takes: one for each of six parts of it, and the
// part that is being left.
const seenParts = 7

// asIs keeps ids as they are: text.
func asIs(id string) string { return id }

// asNumber returns the id as a number in text. A Redis set of numbers takes less.
func asNumber(id string) string {
	const seenOffset = 4e10 // what was seen and what was hidden have different numbers
	n, err := strconv.ParseInt(id[1:], 10, 64)
	if err != nil {
		panic(fmt.Sprintf("an id that the population does not make: %q", id))
	}
	if strings.HasPrefix(id, "s") {
		n += seenOffset
	}
	return strconv.FormatInt(n, 10)
}

// wireSets are exact sets, a set for each user and kind. What was seen is in one set that forgets
// nothing, or in seenParts sets, each with a time to live.
type wireSets struct {
	client *redis.Client
	id     func(string) string // the form of ids
	window bool
}

// load adds all entries but what was seen.
func (s wireSets) load(ctx context.Context, p *bench.Population) error {
	pipe := s.client.Pipeline()
	for e := range p.AllEntries() {
		pipe.SAdd(ctx, setKey(e.Kind, s.id(e.Owner)), s.id(e.Target))
		if err := flush(ctx, pipe, pipelineSize); err != nil {
			return err
		}
	}
	return flush(ctx, pipe, 1)
}

// loadSeen adds what was seen, equally to all parts of the window if there are such.
func (s wireSets) loadSeen(ctx context.Context, p *bench.Population) error {
	pipe := s.client.Pipeline()
	n := 0
	for e := range p.Seen() {
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

// flush sends the commands of the pipeline if there are so many.
func flush(ctx context.Context, pipe redis.Pipeliner, least int) error {
	if pipe.Len() < least {
		return nil
	}
	_, err := pipe.Exec(ctx)
	return err
}

// keys returns the sets that a feed check of the viewer looks into: the first two for authors, the
// others for posts.
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

// check is one pipeline of one SMISMEMBER a set. The ids are in the form that go-redis takes before
// it is called.
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

// ofPeer is the check of a peer of the other tables.
func ofPeer(p peer, feeds []*bench.Feed) check {
	return func(ctx context.Context, i int, dropped []bool) error { return p.check(ctx, feeds[i], dropped) }
}

// degradedError is the error of an answer that has not all kinds checked.
type degradedError struct{ kind, reason string }

func (e *degradedError) Error() string { return e.kind + " could not be checked: " + e.reason }

// byClient is the check of package client.
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

// indexes are those of the dropped posts, which are in the order of all. JSON does not name them
// unless it is asked for nothing else.
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

// byGRPC is the check of the client that is generated from the schema, over HTTP/2.
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

// mark sets what is dropped, by index.
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

// seenWindow is how long seen posts are remembered, and seenLength how long each part of that is.
const (
	seenWindow = 30 * 24 * time.Hour
	seenLength = seenWindow / (seenParts - 1)
)
