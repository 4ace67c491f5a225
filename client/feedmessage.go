package client

import (
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// filterProcedure is Filter as a message. Its answer names what is dropped by index, whatever form the caller wants: the rest
// is in the request.
func filterProcedure(req *FilterRequest, into *Feed) *procedure {
	return &procedure{
		path:   "/" + feedService + "/Filter",
		encode: func() ([]byte, error) { return appendFilter(nil, req), nil },
		decode: func(text []byte) error {
			var m feedfilterv1.FilterResponse
			if err := proto.Unmarshal(text, &m); err != nil {
				return err
			}
			return into.fill(req, &m)
		},
	}
}

// appendFilter appends the request as a FilterRequest, without a message in between: a feed is long.
func appendFilter(dst []byte, req *FilterRequest) []byte {
	length := 64
	for i := range req.Posts {
		length += len(req.Posts[i].ID) + len(req.Posts[i].Author) + 4
	}
	if cap(dst) < length {
		dst = make([]byte, 0, length)
	}
	dst = appendText(dst, 1, req.Viewer)
	authors := false
	for i := range req.Posts {
		dst = protowire.AppendString(protowire.AppendTag(dst, 2, protowire.BytesType), req.Posts[i].ID)
		authors = authors || req.Posts[i].Author != ""
	}
	for i := range req.Posts {
		if authors {
			dst = protowire.AppendString(protowire.AppendTag(dst, 3, protowire.BytesType), req.Posts[i].Author)
		}
	}
	var on []byte // the index of the post of each actor
	for i := range req.Posts {
		for _, actor := range req.Posts[i].Actors {
			dst = protowire.AppendString(protowire.AppendTag(dst, 4, protowire.BytesType), actor)
			on = protowire.AppendVarint(on, uint64(i))
		}
	}
	if len(on) > 0 {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 5, protowire.BytesType), on)
	}
	if req.Kinds != nil {
		var names []byte
		for _, kind := range req.Kinds {
			names = protowire.AppendString(protowire.AppendTag(names, 1, protowire.BytesType), kind)
		}
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 6, protowire.BytesType), names)
	}
	for _, kind := range req.Annotate {
		dst = protowire.AppendString(protowire.AppendTag(dst, 7, protowire.BytesType), kind)
	}
	limit := uint64(math.MaxUint32) // which the service refuses
	if req.Limit >= 0 {
		limit = min(limit, uint64(req.Limit))
	}
	dst = appendNumber(dst, 8, limit)
	dst = appendNumber(dst, 9, protowire.EncodeBool(req.RecordSeen))
	dst = appendNumber(dst, 10, protowire.EncodeBool(req.Exact))
	answer := uint64(math.MaxInt32) // the same
	switch req.Answer {
	case "", AnswerKept, AnswerDropped:
		answer = uint64(feedfilterv1.Answer_ANSWER_DROPPED)
	}
	return appendNumber(dst, 11, answer)
}

// appendText appends a field that is a string, unless that is empty.
func appendText(dst []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), s)
}

// appendNumber appends a field that is a number, unless that is 0.
func appendNumber(dst []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), n)
}

// errOdd is the error of an answer that is not about its request.
var errOdd = errors.New("candidates that are not in the request")

// fill makes the feed that the message answers.
func (f *Feed) fill(req *FilterRequest, m *feedfilterv1.FilterResponse) error {
	looked := len(req.Posts)
	if next := int64(m.GetNext()); next >= int64(looked) && next > 0 {
		return errOdd
	} else if next > 0 {
		looked = int(next)
	}
	*f = Feed{Next: int(m.GetNext()), Dropped: make([]Dropped, len(m.GetDropped())), Degraded: degradedOf(m.GetDegraded())}
	at := 0 // of the first that may come next
	for i, d := range m.GetDropped() {
		index := int64(d.GetIndex())
		if index < int64(at) || index >= int64(looked) {
			return errOdd
		}
		at = int(index) + 1
		f.Dropped[i] = Dropped{
			ID: req.Posts[index].ID, Index: int(index), Kind: d.GetKind(), Actor: d.GetActor(), Unconfirmed: d.GetUnconfirmed(),
		}
	}
	if len(m.GetAnnotated()) != len(req.Annotate) {
		return errOdd
	}
	if len(req.Annotate) > 0 {
		f.Annotated = make(map[string][]int, len(req.Annotate))
	}
	for _, a := range m.GetAnnotated() {
		posts := make([]int, len(a.GetPosts()))
		for i, post := range a.GetPosts() {
			if posts[i] = int(post); int64(post) >= int64(looked) {
				return errOdd
			}
		}
		f.Annotated[a.GetKind()] = posts
	}
	if req.Answer != AnswerDropped {
		f.keep(req, looked)
	}
	return nil
}

// keep makes the feed one that lists what is kept, of as many candidates as were looked at.
func (f *Feed) keep(req *FilterRequest, looked int) {
	f.Posts = make([]Kept, 0, looked-len(f.Dropped))
	annotated := f.Annotated
	f.Annotated = nil
	dropped := 0
	for i := range looked {
		if dropped < len(f.Dropped) && f.Dropped[dropped].Index == i {
			f.Dropped[dropped].Index = 0
			dropped++
			continue
		}
		kept := Kept{ID: req.Posts[i].ID}
		if len(annotated) > 0 {
			kept.Marks = make(map[string]bool, len(annotated))
		}
		for kind, posts := range annotated {
			marked := len(posts) > 0 && posts[0] == i
			if kept.Marks[kind] = marked; marked {
				annotated[kind] = posts[1:]
			}
		}
		f.Posts = append(f.Posts, kept)
	}
}
