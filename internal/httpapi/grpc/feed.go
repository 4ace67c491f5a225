package grpc

import (
	"context"
	"fmt"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	pb "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// feedMessage is an encoded FilterRequest. The long lists of the request share its memory.
type feedMessage struct{ text string }

func (m *feedMessage) read(data []byte) { m.text = string(data) }

// filter answers which of the posts the viewer sees.
func (p *procedures) filter(
	ctx context.Context, k *wire.Call, m *feedMessage,
) (answer *pb.FilterResponse, err error) {
	in := p.buffers.Get()
	defer p.buffers.Put(in)
	req, dropped, err := m.decode(in)
	if err != nil {
		return nil, err
	}
	// Copy the answer: connect writes it after the buffer is back in the pool.
	err = p.operations.Feed(ctx, k, req, func(c *feed.Checked) error {
		answer = feedAnswer(c.Answer, c.Request, dropped)
		return nil
	})
	return answer, err
}

// decode returns the request, and whether its answer leaves out the kept posts. The request uses
// memory of the buffer. The feed checks that the ids in long lists are UTF-8.
func (m *feedMessage) decode(in *wire.Buffer) (feed.Request, bool, error) {
	authors := 0
	rest, ok := splitLists(m.text, func(r *messageReader, field uint64, s string) (took, ok bool) {
		switch field {
		case fieldPosts:
			in.Posts, ok = readPosts(r, in.Posts, s)
		case fieldAuthors:
			authors, ok = readAuthors(r, in.Posts, authors, s)
		case fieldActors:
			in.Actors, ok = r.strings(in.Actors, field, s, feed.MaxIDs)
		case fieldActorRoles:
			in.ActorRoles, ok = r.strings(in.ActorRoles, field, s, feed.MaxIDs)
		default:
			return false, true
		}
		return true, ok
	})
	if !ok { // the generated code reads the whole message
		rest, authors = []byte(m.text), 0
		in.Posts, in.Actors, in.ActorRoles = in.Posts[:0], in.Actors[:0], in.ActorRoles[:0]
	}
	message := &pb.FilterRequest{Actors: in.Actors, ActorRoles: in.ActorRoles}
	err := readMessage(rest, message)
	in.Actors, in.ActorRoles = message.GetActors(), message.GetActorRoles()
	if err != nil {
		return feed.Request{}, false, err
	}
	for _, id := range message.GetPosts() {
		in.Posts = append(in.Posts, feed.Post{ID: id})
	}
	if authors += len(message.GetAuthors()); authors > 0 && authors != len(in.Posts) {
		text := fmt.Sprintf("%d authors for %d posts", authors, len(in.Posts))
		return feed.Request{}, false, wire.Refuse(activity.CodeOutOfRange, "authors", text)
	}
	for i, author := range message.GetAuthors() {
		in.Posts[i].Author = author
	}
	return feedRequest(message, in.Posts)
}

// readPosts adds the post with the id, and those that follow it.
func readPosts(r *messageReader, posts []feed.Post, id string) ([]feed.Post, bool) {
	for ok := true; ok && len(posts) <= feed.MaxPosts; id, ok = r.more(fieldPosts) {
		posts = append(posts, feed.Post{ID: id})
	}
	return posts, len(posts) <= feed.MaxPosts
}

// readAuthors sets the author of the n-th post, and the authors that follow. It returns the number
// of authors, and fails if there are more of them than posts.
func readAuthors(r *messageReader, posts []feed.Post, n int, author string) (int, bool) {
	for ok := true; ok; author, ok = r.more(fieldAuthors) {
		if n == len(posts) {
			return n, false
		}
		posts[n].Author = author
		n++
	}
	return n, true
}

// feedRequest returns the request of a message about the posts, which have an author each.
func feedRequest(m *pb.FilterRequest, posts []feed.Post) (feed.Request, bool, error) {
	dropped, err := droppedOnly(m.GetAnswer())
	if err != nil {
		return feed.Request{}, false, err
	}
	req := feed.Request{
		Viewer: m.GetViewer(), Posts: posts, Annotate: m.GetAnnotate(), Limit: int(m.GetLimit()),
		Lists: m.GetLists(), RecordSeen: m.GetRecordSeen(), Exact: m.GetExact(), After: m.GetAfter(),
	}
	if req.Within, err = operations.ParseWithin(m.GetWithin()); err != nil {
		return feed.Request{}, false, err
	}
	if m.GetLimit() > feed.MaxPosts {
		text := fmt.Sprintf("%d is not in 1 to %d", m.GetLimit(), feed.MaxPosts)
		return feed.Request{}, false, wire.Refuse(activity.CodeOutOfRange, "limit", text)
	}
	if m.GetKinds() != nil {
		req.Kinds = append([]string{}, m.GetKinds().GetNames()...)
	}
	err = placeActors(req.Posts, m.GetActors(), m.GetActorRoles(), m.GetActorPosts())
	if err != nil {
		return feed.Request{}, false, err
	}
	related := m.GetRelated()
	relate := func(p *feed.Post, from, to int) error {
		p.Related = related[from:to:to]
		return nil
	}
	err = placeIDs(req.Posts, related, m.GetRelatedPosts(), "related_posts", relate)
	if err != nil {
		return feed.Request{}, false, err
	}
	if n := len(m.GetTexts()); n > 0 && n != len(posts) {
		text := fmt.Sprintf("%d texts for %d posts", n, len(posts))
		return feed.Request{}, false, wire.Refuse(activity.CodeOutOfRange, "texts", text)
	}
	for i, text := range m.GetTexts() {
		req.Posts[i].Text = text
	}
	for i, f := range m.GetFacets() {
		field := fmt.Sprintf("facets[%d]", i)
		err := placeFacet(req.Posts, field, f.GetName(), f.GetIds(), f.GetPosts())
		if err != nil {
			return feed.Request{}, false, err
		}
	}
	return req, dropped, nil
}

// droppedOnly reports whether a request asks for an answer without the kept posts.
func droppedOnly(a pb.Answer) (bool, error) {
	switch a {
	case pb.Answer_ANSWER_UNSPECIFIED, pb.Answer_ANSWER_KEPT:
		return false, nil
	case pb.Answer_ANSWER_DROPPED:
		return true, nil
	default:
		return false, wire.Refuse(activity.CodeOutOfRange, "answer", `must be "kept" or "dropped"`)
	}
}

// feedAnswer returns the answer to req as a message. dropped: without the kept posts.
func feedAnswer(a feed.Answer, req feed.Request, dropped bool) *pb.FilterResponse {
	m := &pb.FilterResponse{Next: uint32(a.Next), Degraded: degradedOf(a.Degraded)}
	if !dropped {
		m.Kept = indexes(a.Kept)
	}
	all := make([]pb.Dropped, len(a.Dropped))
	m.Dropped = make([]*pb.Dropped, len(a.Dropped))
	for i, d := range a.Dropped {
		one := &all[i]
		one.Index, one.Kind, one.Unconfirmed = uint32(d.At), d.Kind, d.Unconfirmed
		one.Actor, one.Target, one.List = d.Actor, d.Target, d.List
		m.Dropped[i] = one
	}
	for i, kind := range req.Annotate {
		m.Annotated = append(m.Annotated, &pb.Annotated{Kind: kind, Posts: indexes(a.Annotated[i])})
	}
	return m
}

// indexes returns indexes of posts in the form of messages.
func indexes(posts []int) []uint32 {
	all := make([]uint32, len(posts))
	for i, at := range posts {
		all[i] = uint32(at)
	}
	return all
}
