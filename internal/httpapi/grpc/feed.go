package grpc

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/feedwire"
	"github.com/feedfilter/feedfilter/internal/httpapi/core"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// feedMessage is an encoded FilterRequest. The strings of the request share its memory.
type feedMessage struct{ text string }

func (m *feedMessage) read(data []byte) { m.text = string(data) }

// filter answers which of the posts the viewer sees.
func (p *procedures) filter(ctx context.Context, k *core.Call, m *feedMessage) (answer *feedAnswer, err error) {
	in := p.buffers.Get()
	defer p.buffers.Put(in)
	req, dropped, err := decodeFeedMessage(m.text, in)
	if err != nil {
		return nil, err
	}
	// Copy the answer: connect writes it after the buffer is back in the pool.
	err = p.operations.Feed(ctx, k, req, func(a feed.Answer) error {
		answer = newFeedAnswer(a, req, dropped)
		return nil
	})
	return answer, err
}

// decodeFeedMessage reads a FilterRequest. The request may use memory of the core.Buffer.
func decodeFeedMessage(text string, in *core.Buffer) (feed.Request, bool, error) {
	if req, dropped, ok := readFeedMessage(text, in); ok {
		return req, dropped, nil
	}
	var m feedfilterv1.FilterRequest
	if err := readMessage([]byte(text), &m); err != nil {
		return feed.Request{}, false, err
	}
	return feedRequest(&m)
}

// feedRequest converts a message into a request.
func feedRequest(m *feedfilterv1.FilterRequest) (feed.Request, bool, error) {
	dropped, err := droppedOnly(m.GetAnswer())
	if err != nil {
		return feed.Request{}, false, err
	}
	req := feed.Request{
		Viewer: m.GetViewer(), Posts: make([]feed.Post, len(m.GetPosts())), Annotate: m.GetAnnotate(),
		Lists: m.GetLists(), RecordSeen: m.GetRecordSeen(), Exact: m.GetExact(),
	}
	if req.Limit, err = limitOf(m.GetLimit()); err != nil {
		return feed.Request{}, false, err
	}
	if m.GetKinds() != nil {
		req.Kinds = append([]string{}, m.GetKinds().GetNames()...)
	}
	for i, id := range m.GetPosts() {
		req.Posts[i].ID = id
	}
	if n := len(m.GetAuthors()); n > 0 && n != len(req.Posts) {
		return feed.Request{}, false, core.Refuse(activity.CodeOutOfRange, "authors", fmt.Sprintf("%d authors for %d posts", n, len(req.Posts)))
	}
	for i, author := range m.GetAuthors() {
		req.Posts[i].Author = author
	}
	if err := placeActors(req.Posts, m.GetActors(), m.GetActorRoles(), m.GetActorPosts()); err != nil {
		return feed.Request{}, false, err
	}
	if err := placeRelated(req.Posts, m.GetRelated(), m.GetRelatedPosts()); err != nil {
		return feed.Request{}, false, err
	}
	for i, f := range m.GetFacets() {
		if err := placeFacet(req.Posts, fmt.Sprintf("facets[%d]", i), f.GetName(), f.GetIds(), f.GetPosts()); err != nil {
			return feed.Request{}, false, err
		}
	}
	return req, dropped, nil
}

// droppedOnly reports whether a request asks for an answer without the kept posts.
func droppedOnly(a feedfilterv1.Answer) (bool, error) {
	switch a {
	case feedfilterv1.Answer_ANSWER_UNSPECIFIED, feedfilterv1.Answer_ANSWER_KEPT:
		return false, nil
	case feedfilterv1.Answer_ANSWER_DROPPED:
		return true, nil
	default:
		return false, core.Refuse(activity.CodeOutOfRange, "answer", `must be "kept" or "dropped"`)
	}
}

// limitOf checks a limit and returns it as an int.
func limitOf(limit uint32) (int, error) {
	if limit > feed.MaxPosts {
		return 0, core.Refuse(activity.CodeOutOfRange, "limit", fmt.Sprintf("%d is not in 1 to %d", limit, feed.MaxPosts))
	}
	return int(limit), nil
}

// placeActors gives each post its actors, and their roles if there are any. Actor i belongs to post
// on[i].
func placeActors(posts []feed.Post, actors, roles []string, on []uint32) error {
	if len(roles) != 0 && len(roles) != len(actors) {
		return core.Refuse(activity.CodeOutOfRange, "actor_roles", fmt.Sprintf("%d roles for %d actors", len(roles), len(actors)))
	}
	return placeIDs(posts, actors, on, "actor_posts", func(p *feed.Post, from, to int) error {
		p.Actors = actors[from:to:to]
		if len(roles) > 0 {
			p.Roles = roles[from:to:to]
		}
		return nil
	})
}

// placeRelated gives each post its related ids.
func placeRelated(posts []feed.Post, ids []string, on []uint32) error {
	return placeIDs(posts, ids, on, "related_posts", func(p *feed.Post, from, to int) error {
		p.Related = ids[from:to:to]
		return nil
	})
}

// placeFacet gives each post its ids of a facet, the field of the message.
func placeFacet(posts []feed.Post, field, name string, ids []string, on []uint32) error {
	facet := activity.Facet(name)
	return placeIDs(posts, ids, on, field+".posts", func(p *feed.Post, from, to int) error {
		if _, twice := p.Facets[facet]; twice {
			return core.Refuse(core.CodeDuplicateKey, field+".name", fmt.Sprintf("the facet %q occurs twice", name))
		}
		if p.Facets == nil {
			p.Facets = make(map[activity.Facet][]string, 1)
		}
		p.Facets[facet] = ids[from:to:to]
		return nil
	})
}

// placeIDs calls place with each post that has ids, and the range of these. ids[i] belongs to post
// on[i]. field is the name of on in the message.
func placeIDs(posts []feed.Post, ids []string, on []uint32, field string, place func(p *feed.Post, from, to int) error) error {
	if len(ids) != len(on) {
		return core.Refuse(activity.CodeOutOfRange, field, fmt.Sprintf("%d posts for %d ids", len(on), len(ids)))
	}
	for i := 0; i < len(on); {
		post, from := on[i], i
		if int64(post) >= int64(len(posts)) {
			return core.Refuse(activity.CodeOutOfRange, field, fmt.Sprintf("no post has the index %d", post))
		}
		for i < len(on) && on[i] == post {
			i++
		}
		if i < len(on) && on[i] < post {
			return core.Refuse(activity.CodeOutOfRange, field, fmt.Sprintf("%d after %d: must be in ascending order", on[i], post))
		}
		if err := place(&posts[post], from, i); err != nil {
			return err
		}
	}
	return nil
}

// readFeedMessage reads a FilterRequest in the usual encoding, faster than the generated code. If
// ok is true, the result is the same as that of the generated code. If ok is false, the message is
// invalid or unusual, and the caller reads it with the generated code. readFeedMessage does not
// check that ids are valid UTF-8, because the feed does.
func readFeedMessage(text string, in *core.Buffer) (req feed.Request, dropped, ok bool) {
	r := messageReader{text: text, buffer: in}
	for r.at < len(text) {
		if !r.field(&req, &dropped) {
			return feed.Request{}, false, false
		}
	}
	if r.authors > 0 && r.authors != len(in.Posts) {
		return feed.Request{}, false, false
	}
	req.Posts = in.Posts
	if placeActors(in.Posts, in.Actors, in.ActorRoles, in.ActorPosts) != nil || placeRelated(in.Posts, r.related, r.relatedPosts) != nil {
		return feed.Request{}, false, false
	}
	for _, facet := range r.facets {
		if !readFacet(facet, in.Posts) {
			return feed.Request{}, false, false
		}
	}
	return req, dropped, true
}

// messageReader reads the fields of a message in order. Each of its methods reports whether it
// succeeded. Do not use the reader after a failure.
type messageReader struct {
	text    string
	at      int // index of the next byte
	authors int
	last    int      // number of the last field
	facets  []string // not read yet: they come after the posts
	related []string

	relatedPosts []uint32 // index of the post of each related id
	buffer       *core.Buffer
}

// field reads one field. Fields must be in the order of their numbers, as all common encoders write
// them.
func (r *messageReader) field(req *feed.Request, dropped *bool) bool {
	tag, ok := r.number()
	number := int(tag >> 3)
	if !ok || number > feedwire.RelatedPosts || number < r.last {
		return false
	}
	again := number == r.last
	r.last = number
	if protowire.Type(tag&7) == protowire.VarintType {
		return !again && r.scalar(number, req, dropped)
	}
	if protowire.Type(tag&7) != protowire.BytesType {
		return false
	}
	s, ok := r.bytes()
	return ok && (r.listed(number, s, req) || !again && r.single(number, s, req))
}

// more reads the next value of a repeated field, if there is one and it is shorter than 128 bytes.
// It is small enough to be inlined: a feed has a thousand ids.
func (r *messageReader) more(field byte) (s string, ok bool) {
	from := r.at + 2
	if from > len(r.text) || r.text[r.at] != field<<3|byte(protowire.BytesType) {
		return "", false
	}
	end := from + int(r.text[r.at+1])
	if end >= from+0x80 || end > len(r.text) {
		return "", false
	}
	r.at = end
	return r.text[from:end], true
}

// listed stores one value of a repeated field, and the values that follow it.
func (r *messageReader) listed(number int, s string, req *feed.Request) (ok bool) {
	switch number {
	case feedwire.Posts:
		posts := r.buffer.Posts
		for ok := true; ok && len(posts) <= feed.MaxPosts; s, ok = r.more(feedwire.Posts) {
			posts = append(posts, feed.Post{ID: s})
		}
		r.buffer.Posts = posts
		return len(posts) <= feed.MaxPosts
	case feedwire.Authors:
		posts := r.buffer.Posts[r.authors:]
		given := 0
		for ok := true; ok; s, ok = r.more(feedwire.Authors) {
			if given == len(posts) {
				return false
			}
			posts[given].Author = s
			given++
		}
		r.authors += given
		return true
	case feedwire.Actors:
		actors := r.buffer.Actors
		for ok := true; ok && len(actors) <= feed.MaxIDs; s, ok = r.more(feedwire.Actors) {
			actors = append(actors, s)
		}
		r.buffer.Actors = actors
		return len(actors) <= feed.MaxIDs
	case feedwire.ActorPosts:
		r.buffer.ActorPosts, ok = packed(r.buffer.ActorPosts, s)
		return ok
	case feedwire.Annotate:
		req.Annotate = append(req.Annotate, s)
		return utf8.ValidString(s) && len(req.Annotate) <= core.MaxTexts
	default:
		return r.listedLast(number, s, req)
	}
}

// listedLast is listed for the fields with the highest numbers, which few requests have.
func (r *messageReader) listedLast(number int, s string, req *feed.Request) (ok bool) {
	switch number {
	case feedwire.ActorRoles:
		roles := r.buffer.ActorRoles
		for ok := true; ok && len(roles) <= feed.MaxIDs; s, ok = r.more(feedwire.ActorRoles) {
			roles = append(roles, s)
		}
		r.buffer.ActorRoles = roles
		return len(roles) <= feed.MaxIDs
	case feedwire.Related:
		r.related = append(r.related, s)
		return len(r.related) <= feed.MaxIDs
	case feedwire.RelatedPosts:
		r.relatedPosts, ok = packed(r.relatedPosts, s)
		return ok
	case feedwire.Facets:
		r.facets = append(r.facets, s)
		return len(r.facets) <= core.MaxTexts
	case feedwire.Lists:
		req.Lists = append(req.Lists, s)
		return len(req.Lists) <= core.MaxTexts
	default:
		return false
	}
}

// single stores the value of a field that occurs once.
func (r *messageReader) single(number int, s string, req *feed.Request) (ok bool) {
	switch number {
	case feedwire.Viewer:
		req.Viewer = strings.Clone(s) // caches keep it, and must not keep the whole message
		return true
	case feedwire.Kinds:
		req.Kinds, ok = kindNames(s)
	}
	return ok
}

// scalar reads and stores the value of a numeric field.
func (r *messageReader) scalar(number int, req *feed.Request, dropped *bool) bool {
	n, ok := r.number()
	switch number {
	case feedwire.Limit:
		req.Limit = int(n)
		return ok && n <= feed.MaxPosts
	case feedwire.RecordSeen:
		req.RecordSeen = n == 1
		return ok && n <= 1
	case feedwire.Exact:
		req.Exact = n == 1
		return ok && n <= 1
	case feedwire.Answer:
		var err error
		*dropped, err = droppedOnly(feedfilterv1.Answer(n))
		return ok && err == nil
	}
	return false
}

// packed reads a packed list of numbers, and appends them to list.
func packed(list []uint32, s string) ([]uint32, bool) {
	numbers := messageReader{text: s}
	for numbers.at < len(s) {
		n, ok := numbers.number()
		if !ok || len(list) == feed.MaxIDs {
			return list, false
		}
		list = append(list, uint32(n))
	}
	return list, true
}

// readFacet reads a Facet of a message, and gives the posts their ids.
func readFacet(text string, posts []feed.Post) bool {
	var name string
	// Each id takes two bytes or more. A request may have thousands of facets, so what is reserved
	// for one is bounded by its own length.
	most := min(len(posts), len(text)/2)
	ids, on := make([]string, 0, most), make([]uint32, 0, most)
	r := messageReader{text: text}
	for r.at < len(text) {
		tag, ok := r.number()
		number := int(tag >> 3)
		if !ok || tag&7 != uint64(protowire.BytesType) || number < r.last || number == r.last && number != feedwire.FacetIDs {
			return false
		}
		r.last = number
		s, ok := r.bytes()
		switch {
		case !ok || len(ids) > feed.MaxIDs:
			return false
		case number == feedwire.FacetName:
			name = s
		case number == feedwire.FacetIDs:
			ids = append(ids, s)
		case number == feedwire.FacetPosts:
			if on, ok = packed(on, s); !ok {
				return false
			}
		default:
			return false
		}
	}
	return utf8.ValidString(name) && placeFacet(posts, "facets", name, ids, on) == nil
}

// number reads a varint below 2^28. Most have one byte.
func (r *messageReader) number() (n uint64, ok bool) {
	if r.at < len(r.text) && r.text[r.at] < 0x80 {
		r.at++
		return uint64(r.text[r.at-1]), true
	}
	return r.longNumber()
}

func (r *messageReader) longNumber() (n uint64, ok bool) {
	for shift := 0; shift < 28 && r.at < len(r.text); shift += 7 {
		b := r.text[r.at]
		r.at++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, true
		}
	}
	return 0, false
}

// bytes reads a length and that many bytes.
func (r *messageReader) bytes() (string, bool) {
	n, ok := r.number()
	if !ok || n > uint64(len(r.text)-r.at) {
		return "", false
	}
	from := r.at
	r.at += int(n)
	return r.text[from:r.at], true
}

// kindNames reads a KindNames message.
func kindNames(text string) ([]string, bool) {
	names := []string{}
	r := messageReader{text: text}
	for r.at < len(text) {
		tag, ok := r.number()
		if !ok || tag != feedwire.KindNames<<3|uint64(protowire.BytesType) {
			return nil, false
		}
		name, ok := r.bytes()
		if !ok || !utf8.ValidString(name) || len(names) == core.MaxTexts {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// maxParts is the maximum number of parts in which a packed list may come. Encoders write one. The
// generated code copies a list for each part.
const maxParts = 16

// maxListed returns how many values of a list, or parts of a packed one, a message may have. No
// valid request has more.
func maxListed(f protoreflect.FieldDescriptor, kind protowire.Type) int {
	switch {
	case kind == protowire.BytesType && f.IsPacked():
		return maxParts
	case f.IsPacked():
		return feed.MaxIDs
	}
	switch f.FullName() {
	case "feedfilter.v1.FilterRequest.posts", "feedfilter.v1.FilterRequest.authors":
		return feed.MaxPosts
	case "feedfilter.v1.FilterRequest.actors", "feedfilter.v1.FilterRequest.actor_roles", "feedfilter.v1.FilterRequest.related",
		"feedfilter.v1.Facet.ids":
		return feed.MaxIDs
	case "feedfilter.v1.FanoutRequest.viewers":
		return feed.MaxViewers
	case "feedfilter.v1.RecordBatchRequest.activities":
		return core.MaxBatch
	case "feedfilter.v1.RecordStreamRequest.activities":
		return core.MaxChunk
	default:
		return core.MaxTexts
	}
}
