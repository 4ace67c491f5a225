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

	"github.com/feedfilter/feedfilter/internal/feedwire"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// filterProcedure returns Filter as a message. It always requests only the dropped posts, by index.
// The request has the rest.
func filterProcedure(req *FilterRequest, into *Feed) *procedure {
	return &procedure{
		path:   "/" + feedService + "/Filter",
		encode: func() ([]byte, error) { return appendFilter(nil, req), nil },
		decode: func(text []byte) error { return into.read(req, text) },
	}
}

// appendFilter appends the request in the encoding of a FilterRequest. The generated code would
// first copy a long feed.
func appendFilter(dst []byte, req *FilterRequest) []byte {
	length, packed, authors, roles, related := 64+len(req.Viewer), 0, false, false, false
	var facets map[string]*facetColumn
	for i := range req.Posts {
		p := &req.Posts[i]
		length += len(p.ID) + len(p.Author) + 8 // 8: tags and lengths
		for _, actor := range p.Actors {
			length += len(actor) + 4
			packed += protowire.SizeVarint(uint64(i))
		}
		authors, roles, related = authors || p.Author != "", roles || len(p.Roles) > 0, related || len(p.Related) > 0
		if len(p.Facets) > 0 {
			facets = addFacets(facets, i, p.Facets)
		}
	}
	dst = slices.Grow(dst, length+packed)
	dst = feedwire.AppendText(dst, feedwire.Viewer, req.Viewer)
	for i := range req.Posts {
		dst = appendListed(dst, feedwire.Posts, req.Posts[i].ID)
	}
	for i := 0; authors && i < len(req.Posts); i++ {
		dst = appendListed(dst, feedwire.Authors, req.Posts[i].Author)
	}
	if packed > 0 {
		dst = appendActors(dst, req.Posts, packed)
	}
	if req.Kinds != nil {
		var names []byte
		for _, kind := range req.Kinds {
			names = appendListed(names, feedwire.KindNames, kind)
		}
		dst = feedwire.AppendPart(dst, feedwire.Kinds, names)
	}
	dst = appendWishes(dst, req)
	for _, name := range slices.Sorted(maps.Keys(facets)) {
		dst = feedwire.AppendPart(dst, feedwire.Facets, facets[name].append(feedwire.AppendText(nil, feedwire.FacetName, name)))
	}
	if roles {
		dst = appendRoles(dst, req.Posts)
	}
	if !related && req.Lists == nil {
		return dst
	}
	return appendRelated(dst, req)
}

// appendWishes appends what the request asks of the answer.
func appendWishes(dst []byte, req *FilterRequest) []byte {
	for _, kind := range req.Annotate {
		dst = appendListed(dst, feedwire.Annotate, kind)
	}
	limit := uint64(math.MaxUint32) // the service refuses it
	if req.Limit >= 0 {
		limit = min(limit, uint64(req.Limit))
	}
	dst = feedwire.AppendNumber(dst, feedwire.Limit, limit)
	dst = feedwire.AppendNumber(dst, feedwire.RecordSeen, protowire.EncodeBool(req.RecordSeen))
	dst = feedwire.AppendNumber(dst, feedwire.Exact, protowire.EncodeBool(req.Exact))
	answer := uint64(math.MaxInt32) // the service refuses it
	switch req.Answer {
	case "", AnswerKept, AnswerDropped:
		answer = uint64(feedfilterv1.Answer_ANSWER_DROPPED)
	}
	return feedwire.AppendNumber(dst, feedwire.Answer, answer)
}

// facetColumn holds the ids of a facet of all posts, in the encoding of a Facet.
type facetColumn struct{ ids, posts []byte }

// addFacets adds the facets of the i-th post to the columns, by name.
func addFacets(columns map[string]*facetColumn, i int, facets map[string][]string) map[string]*facetColumn {
	if columns == nil {
		columns = make(map[string]*facetColumn)
	}
	for name, ids := range facets {
		c := columns[name]
		if c == nil {
			c = new(facetColumn)
			columns[name] = c
		}
		for _, id := range ids {
			c.ids = appendListed(c.ids, feedwire.FacetIDs, id)
			c.posts = protowire.AppendVarint(c.posts, uint64(i))
		}
	}
	return columns
}

// append appends the column to an encoded Facet that has its name.
func (c *facetColumn) append(dst []byte) []byte {
	dst = append(dst, c.ids...)
	if len(c.posts) == 0 {
		return dst
	}
	return feedwire.AppendPart(dst, feedwire.FacetPosts, c.posts)
}

// appendActors appends the actors of all posts, and then the index of each actor's post. packed is
// the length of these indexes.
func appendActors(dst []byte, posts []Post, packed int) []byte {
	for i := range posts {
		for _, actor := range posts[i].Actors {
			dst = appendListed(dst, feedwire.Actors, actor)
		}
	}
	dst = protowire.AppendVarint(protowire.AppendTag(dst, feedwire.ActorPosts, protowire.BytesType), uint64(packed))
	for i := range posts {
		for range posts[i].Actors {
			dst = protowire.AppendVarint(dst, uint64(i))
		}
	}
	return dst
}

// appendRoles appends the roles of all actors, "" for those without. The service refuses a role too
// many.
func appendRoles(dst []byte, posts []Post) []byte {
	for i := range posts {
		for _, role := range posts[i].Roles {
			dst = appendListed(dst, feedwire.ActorRoles, role)
		}
		for range len(posts[i].Actors) - len(posts[i].Roles) {
			dst = appendListed(dst, feedwire.ActorRoles, "")
		}
	}
	return dst
}

// appendRelated appends the related ids of all posts, the lists, and the index of each related id's
// post.
func appendRelated(dst []byte, req *FilterRequest) []byte {
	var on []byte
	for i := range req.Posts {
		for _, id := range req.Posts[i].Related {
			dst = appendListed(dst, feedwire.Related, id)
			on = protowire.AppendVarint(on, uint64(i))
		}
	}
	for _, list := range req.Lists {
		dst = appendListed(dst, feedwire.Lists, list)
	}
	if on == nil {
		return dst
	}
	return feedwire.AppendPart(dst, feedwire.RelatedPosts, on)
}

// appendListed appends one string of a repeated field. The string may be empty. field is below 16.
func appendListed(dst []byte, field byte, s string) []byte {
	dst = append(dst, field<<3|byte(protowire.BytesType))
	if len(s) < 0x80 {
		dst = append(dst, byte(len(s)))
	} else {
		dst = protowire.AppendVarint(dst, uint64(len(s)))
	}
	return append(dst, s...)
}

// errOdd is the error of an answer that does not fit its request.
var errOdd = errors.New("the answer does not fit the request")

// read reads an encoded FilterResponse. It takes ids from the request instead of using the
// generated code, so that most answers need few allocations.
func (f *Feed) read(req *FilterRequest, text []byte) error {
	*f = Feed{}
	dropped := 0
	err := eachField(text, func(number int, value uint64, _ []byte) error {
		switch number {
		case feedwire.Dropped:
			dropped++
		case feedwire.Next:
			f.Next = int(min(value, math.MaxInt32))
		}
		return nil
	})
	if err != nil {
		return err
	}
	looked := len(req.Posts)
	if f.Next > 0 {
		if f.Next >= looked {
			return errOdd
		}
		looked = f.Next
	}
	f.Dropped, f.Degraded = make([]Dropped, 0, dropped), []Degraded{}
	annotated := 0
	err = eachField(text, func(number int, _ uint64, message []byte) error {
		switch {
		case message == nil: // a number: the first loop has read Next
			return nil
		case number == feedwire.Dropped:
			return f.readDropped(req.Posts[:looked], req.Lists, message)
		case number == feedwire.Annotated:
			annotated++
			return f.readAnnotated(looked, message)
		case number == feedwire.Degraded:
			return f.readDegraded(message)
		default:
			return nil
		}
	})
	if err == nil && annotated != len(req.Annotate) {
		err = errOdd
	}
	if err == nil && req.Answer != AnswerDropped {
		f.keep(req)
	}
	return err
}

// readDropped reads a Dropped and appends it to the feed. posts are the posts that were checked, by
// the viewer's activities and those of the lists.
func (f *Feed) readDropped(posts []Post, lists []string, message []byte) (err error) {
	var d Dropped
	var index uint64
	var kind, actor, target, list []byte
	err = eachField(message, func(number int, value uint64, text []byte) error {
		switch number {
		case feedwire.DroppedIndex:
			index = value
		case feedwire.DroppedKind:
			kind = text
		case feedwire.DroppedActor:
			actor = text
		case feedwire.DroppedTarget:
			target = text
		case feedwire.DroppedList:
			list = text
		case feedwire.DroppedUnconfirmed:
			d.Unconfirmed = value != 0
		}
		return nil
	})
	var last Dropped
	if n := len(f.Dropped); n > 0 {
		last = f.Dropped[n-1]
	}
	if err != nil || index >= uint64(len(posts)) || len(f.Dropped) > 0 && int(index) <= last.Index {
		return cmp.Or(err, errOdd)
	}
	post := &posts[index]
	d.ID, d.Index = post.ID, int(index)
	if d.Kind, err = textOf(kind, last.Kind); err != nil {
		return err
	}
	if d.Actor = post.Author; d.Actor != string(actor) {
		d.Actor, err = textOf(actor, post.Actors...)
	}
	if err == nil && target != nil {
		d.Target, err = textOf(target, post.Related...)
	}
	if err == nil && list != nil {
		d.List, err = textOf(list, lists...)
	}
	f.Dropped = append(f.Dropped, d)
	return err
}

// textOf returns the text as a string. If the text is among known, it does not allocate.
func textOf(text []byte, known ...string) (string, error) {
	for _, s := range known {
		if s == string(text) {
			return s, nil
		}
	}
	if !utf8.Valid(text) {
		return "", errNoMessage
	}
	return string(text), nil
}

// readAnnotated reads an Annotated. looked is the number of posts that were checked.
func (f *Feed) readAnnotated(looked int, message []byte) error {
	var kind []byte
	posts := []int{}
	add := func(post uint64) error {
		if post >= uint64(looked) {
			return errOdd
		}
		posts = append(posts, int(post))
		return nil
	}
	err := eachField(message, func(number int, value uint64, text []byte) error {
		switch {
		case number == feedwire.AnnotatedKind:
			kind = text
		case number == feedwire.AnnotatedPosts && text == nil: // an unpacked list: one field for each value
			return add(value)
		case number == feedwire.AnnotatedPosts:
			return eachNumber(text, add)
		}
		return nil
	})
	if err != nil {
		return err
	}
	name, err := textOf(kind)
	if f.Annotated == nil {
		f.Annotated = make(map[string][]int)
	}
	f.Annotated[name] = posts
	return err
}

// readDegraded reads a Degraded and appends it.
func (f *Feed) readDegraded(message []byte) error {
	var d feedfilterv1.Degraded
	if err := proto.Unmarshal(message, &d); err != nil {
		return err
	}
	f.Degraded = append(f.Degraded, Degraded{Kind: d.GetKind(), Reason: d.GetReason()})
	return nil
}

// errNoMessage is the error of bytes that are not a Protobuf message.
var errNoMessage = errors.New("not a Protobuf message")

// eachField calls do for each field of a message, with its number and its value. The value is a
// number, or the text of a string, a message or a packed list. text is nil for a number.
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

// eachNumber calls do for each number of a packed list.
func eachNumber(list []byte, do func(uint64) error) error {
	for len(list) > 0 {
		value, n := protowire.ConsumeVarint(list)
		if n < 0 {
			return errNoMessage
		}
		list = list[n:]
		if err := do(value); err != nil {
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
