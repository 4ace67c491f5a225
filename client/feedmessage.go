package client

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// Fields of a FilterRequest: the ids of posts, authors and actors, and the texts.
const (
	fieldPosts   = 2
	fieldAuthors = 3
	fieldActors  = 4
	fieldTexts   = 19
)

// Fields of a FilterResponse.
const (
	fieldDropped   = 2
	fieldAnnotated = 3
	fieldNext      = 4
	fieldDegraded  = 5
)

// Fields of a Dropped.
const (
	fieldIndex       = 1
	fieldKind        = 2
	fieldActor       = 3
	fieldUnconfirmed = 4
	fieldTarget      = 5
	fieldList        = 6
)

// errOdd is the error of an answer that does not fit its request.
var errOdd = errors.New("the answer does not fit the request")

// filterProcedure returns Filter as a message. It always requests only the dropped posts, by index.
// The request has the rest.
func filterProcedure(req *FilterRequest, into *Feed) *procedure {
	return &procedure{
		path:   "/" + feedService + "/Filter",
		encode: func() ([]byte, error) { return encodeFilter(req) },
		decode: func(text []byte) error { return into.decode(req, text) },
	}
}

// encodeFilter returns the request as an encoded FilterRequest. It appends texts, and the ids of
// posts, authors and actors, itself, because the generated code would first need a copy of them.
func encodeFilter(req *FilterRequest) ([]byte, error) {
	length, authors, actors, texts := 64, false, 0, 0
	for i := range req.Posts {
		p := &req.Posts[i]
		length += len(p.ID) + len(p.Author) + 8 // 8: tags and lengths
		for _, actor := range p.Actors {
			length += len(actor) + 6 // with the index of its post
		}
		authors = authors || p.Author != ""
		actors += len(p.Actors)
		texts += len(p.Text)
	}
	if texts > 0 {
		length += texts + 5*len(req.Posts) // 5: tags and lengths
	}
	dst := make([]byte, 0, length)
	dst, err := proto.MarshalOptions{}.MarshalAppend(dst, filterMessage(req, actors))
	if err != nil {
		return nil, err
	}
	for i := range req.Posts {
		dst = appendID(dst, fieldPosts, req.Posts[i].ID)
	}
	for i := 0; authors && i < len(req.Posts); i++ {
		dst = appendID(dst, fieldAuthors, req.Posts[i].Author)
	}
	for i := 0; actors > 0 && i < len(req.Posts); i++ {
		for _, actor := range req.Posts[i].Actors {
			dst = appendID(dst, fieldActors, actor)
		}
	}
	for i := 0; texts > 0 && i < len(req.Posts); i++ {
		dst = protowire.AppendTag(dst, fieldTexts, protowire.BytesType)
		dst = protowire.AppendString(dst, req.Posts[i].Text)
	}
	return dst, nil
}

// appendID appends one string of a repeated field. The string may be empty. field is below 16.
func appendID(dst []byte, field byte, id string) []byte {
	dst = append(dst, field<<3|byte(protowire.BytesType))
	if len(id) < 0x80 {
		dst = append(dst, byte(len(id)))
	} else {
		dst = protowire.AppendVarint(dst, uint64(len(id)))
	}
	return append(dst, id...)
}

// filterMessage returns the request as a message, without texts and the ids of posts, authors and
// actors. actors is the number of actors.
func filterMessage(req *FilterRequest, actors int) *feedfilterv1.FilterRequest {
	m := &feedfilterv1.FilterRequest{
		Viewer:     req.Viewer,
		Annotate:   req.Annotate,
		Lists:      req.Lists,
		RecordSeen: req.RecordSeen,
		Exact:      req.Exact,
		After:      req.After,
		Within:     within(req.Within),
		ActorPosts: make([]uint32, 0, actors),
		Limit:      math.MaxUint32,
		Answer:     math.MaxInt32, // the service refuses these
	}
	if req.Limit >= 0 && req.Limit < math.MaxUint32 {
		m.Limit = uint32(req.Limit)
	}
	switch req.Answer {
	case "", AnswerKept, AnswerDropped:
		m.Answer = feedfilterv1.Answer_ANSWER_DROPPED
	}
	if req.Kinds != nil {
		m.Kinds = &feedfilterv1.KindNames{Names: req.Kinds}
	}
	roles, facets := false, make(map[string]*feedfilterv1.Facet)
	for i := range req.Posts {
		p := &req.Posts[i]
		for range p.Actors {
			m.ActorPosts = append(m.ActorPosts, uint32(i))
		}
		m.Related, m.RelatedPosts = appendIDs(m.GetRelated(), m.GetRelatedPosts(), p.Related, i)
		for name, ids := range p.Facets {
			f := facets[name]
			if f == nil {
				f = &feedfilterv1.Facet{Name: name}
				facets[name] = f
			}
			f.Ids, f.Posts = appendIDs(f.GetIds(), f.GetPosts(), ids, i)
		}
		roles = roles || len(p.Roles) > 0
	}
	for _, name := range slices.Sorted(maps.Keys(facets)) {
		m.Facets = append(m.Facets, facets[name])
	}
	for i := 0; roles && i < len(req.Posts); i++ {
		p := &req.Posts[i]
		m.ActorRoles = append(m.ActorRoles, p.Roles...) // the service refuses a role too many
		for range len(p.Actors) - len(p.Roles) {
			m.ActorRoles = append(m.ActorRoles, "")
		}
	}
	return m
}

// appendIDs appends the ids of the i-th post to all, and for each of them i to posts.
func appendIDs(all []string, posts []uint32, ids []string, i int) ([]string, []uint32) {
	for range ids {
		posts = append(posts, uint32(i))
	}
	return append(all, ids...), posts
}

// decode sets the feed from an encoded FilterResponse. It reads the dropped posts itself, with ids
// from the request: the generated code would allocate all of them.
func (f *Feed) decode(req *FilterRequest, text []byte) error {
	const each = 16 // bytes of a dropped post, about
	*f = Feed{
		Dropped:  make([]Dropped, 0, min(len(req.Posts), len(text)/each)),
		Degraded: []Degraded{},
	}
	annotated := 0
	err := eachField(text, func(number int, value uint64, message []byte) error {
		switch {
		case message == nil && number == fieldNext:
			f.Next = int(min(value, math.MaxInt32))
		case message == nil:
		case number == fieldDropped:
			return f.addDropped(req, message)
		case number == fieldAnnotated:
			annotated++
			return f.addAnnotated(message)
		case number == fieldDegraded:
			var d feedfilterv1.Degraded
			if err := proto.Unmarshal(message, &d); err != nil {
				return err
			}
			f.Degraded = append(f.Degraded, Degraded{Kind: d.GetKind(), Reason: d.GetReason()})
		}
		return nil
	})
	if err == nil && (annotated != len(req.Annotate) || !f.byIndex(req)) {
		err = errOdd
	}
	if err == nil && req.Answer != AnswerDropped {
		f.keep(req)
	}
	return err
}

// addDropped adds an encoded Dropped.
func (f *Feed) addDropped(req *FilterRequest, message []byte) error {
	var d Dropped
	var index uint64
	var texts [fieldList + 1][]byte // by field
	err := eachField(message, func(number int, value uint64, text []byte) error {
		switch {
		case number == fieldIndex:
			index = value
		case number == fieldUnconfirmed:
			d.Unconfirmed = value != 0
		case number < len(texts):
			texts[number] = text
		}
		return nil
	})
	if err != nil || index >= uint64(len(req.Posts)) {
		return cmp.Or(err, errOdd)
	}
	post, last := &req.Posts[index], ""
	if n := len(f.Dropped); n > 0 {
		last = f.Dropped[n-1].Kind
	}
	d.Index = int(index)
	d.Kind = textOf(texts[fieldKind], last)
	if d.Actor = post.Author; d.Actor != string(texts[fieldActor]) {
		d.Actor = textOf(texts[fieldActor], post.Actors...)
	}
	d.Target = textOf(texts[fieldTarget], post.Related...)
	d.List = textOf(texts[fieldList], req.Lists...)
	for _, text := range []string{d.Kind, d.Actor, d.Target, d.List} {
		if !utf8.ValidString(text) {
			return errNoMessage
		}
	}
	f.Dropped = append(f.Dropped, d)
	return nil
}

// textOf returns the text as a string. If the text is among known, it does not allocate.
func textOf(text []byte, known ...string) string {
	for _, s := range known {
		if s == string(text) {
			return s
		}
	}
	return string(text)
}

// addAnnotated adds an encoded Annotated.
func (f *Feed) addAnnotated(message []byte) error {
	var a feedfilterv1.Annotated
	if err := proto.Unmarshal(message, &a); err != nil {
		return err
	}
	if f.Annotated == nil {
		f.Annotated = make(map[string][]int)
	}
	posts := make([]int, len(a.GetPosts()))
	for i, at := range a.GetPosts() {
		posts[i] = int(at)
	}
	f.Annotated[a.GetKind()] = posts
	return nil
}

// errNoMessage is the error of bytes that are not a Protobuf message.
var errNoMessage = errors.New("not a Protobuf message")

// eachField calls do for each field of a message, with its number and its value: a number, or the
// text of a string, a message or a packed list. text is nil for a number.
func eachField(message []byte, do func(number int, value uint64, text []byte) error) error {
	for len(message) > 0 {
		number, wireType, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errNoMessage
		}
		message = message[n:]
		var value uint64
		var text []byte
		switch wireType {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(message)
		default: // no known field has such a type
			n = protowire.ConsumeFieldValue(number, wireType, message)
		}
		if n < 0 {
			return errNoMessage
		}
		message = message[n:]
		if err := do(int(number), value, text); err != nil {
			return err
		}
	}
	return nil
}

// keep adds the kept posts to a feed that lists only the dropped ones.
func (f *Feed) keep(req *FilterRequest) {
	looked := cmp.Or(f.Next, len(req.Posts))
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
			kept.Marks = marksOf(annotated, i)
		}
		f.Posts = append(f.Posts, kept)
	}
}

// marksOf returns the marks of the i-th post, and removes it from the posts that each kind
// annotates.
func marksOf(annotated map[string][]int, i int) map[string]bool {
	marks := make(map[string]bool, len(annotated))
	for kind, posts := range annotated {
		marked := len(posts) > 0 && posts[0] == i
		if marks[kind] = marked; marked {
			annotated[kind] = posts[1:]
		}
	}
	return marks
}
