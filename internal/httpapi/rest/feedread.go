package rest

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// readFeed reads the JSON body of a feed request, faster than the strict decoder, which explains
// errors and reads unusual forms. If ok is true, the result is the same as that of the strict
// decoder. If ok is false, the body is invalid or unusual, and the caller uses the strict decoder.
//
// The strings of the request share the memory of the body. Its posts and the form of its answer are
// in the buffer.
func readFeed(body string, in *wire.Buffer) (req feed.Request, ok bool) {
	if !utf8.ValidString(body) {
		return req, false
	}
	r := feedReader{body: body, buffer: in}
	limited := false
	ok = r.object(func(name string) (field int, ok bool) {
		switch name {
		case nameViewer:
			req.Viewer, ok = r.text()
			return fieldViewer, ok
		case namePosts:
			req.Posts, ok = r.posts()
			return fieldPosts, ok
		case nameKinds:
			req.Kinds, ok = r.texts()
			return fieldKinds, ok
		case nameAnnotate:
			req.Annotate, ok = r.texts()
			return fieldAnnotate, ok
		case nameLimit:
			limited = true
			req.Limit, ok = r.number()
			return fieldLimit, ok
		case nameRecordSeen:
			req.RecordSeen, ok = r.boolean()
			return fieldRecordSeen, ok
		case nameExact:
			req.Exact, ok = r.boolean()
			return fieldExact, ok
		case nameAnswer:
			in.DroppedOnly, ok = r.form()
			return fieldAnswer, ok
		case nameLists:
			req.Lists, ok = r.texts()
			return fieldLists, ok
		case nameAfter:
			req.After, ok = r.text()
			return fieldAfter, ok
		case nameWithin:
			req.Within, ok = r.within()
			return fieldWithin, ok
		}
		return 0, false
	})
	r.space()
	return req, ok && r.at == len(body) && req.Posts != nil && (!limited || req.Limit > 0)
}

// feedReader reads the values of a body in UTF-8 in order. Each of its methods reports whether it
// succeeded. Do not use the reader after a failure.
type feedReader struct {
	body   string
	at     int // index of the next byte
	buffer *wire.Buffer
}

// within reads a time before the call.
func (r *feedReader) within() (time.Duration, bool) {
	text, ok := r.text()
	if !ok {
		return 0, false
	}
	d, err := operations.ParseWithin(text)
	return d, err == nil
}

// object reads an object. It calls member to read the value of each name. member returns the number
// of the field, so that object can refuse duplicates.
func (r *feedReader) object(member func(name string) (field int, ok bool)) bool {
	if !r.next('{') {
		return false
	}
	if r.next('}') {
		return true
	}
	var seen uint
	for {
		name, ok := r.name()
		if !ok {
			return false
		}
		field, ok := member(name)
		if !ok || seen&(1<<field) != 0 {
			return false
		}
		seen |= 1 << field
		if !r.next(',') {
			return r.next('}')
		}
	}
}

// posts reads the candidates.
func (r *feedReader) posts() ([]feed.Post, bool) {
	if !r.next('[') {
		return nil, false
	}
	// Without the limit, a body of nothing but braces would take far more memory than it has bytes.
	posts := slices.Grow(r.buffer.Posts[:0], min(strings.Count(r.body[r.at:], "{"), feed.MaxPosts))
	if r.next(']') {
		return posts, true
	}
	for len(posts) < feed.MaxPosts {
		posts = append(posts, feed.Post{})
		r.buffer.Posts = posts
		if !r.post(&posts[len(posts)-1]) {
			return nil, false
		}
		if !r.next(',') {
			return posts, r.next(']')
		}
	}
	return nil, false
}

// post reads one candidate.
func (r *feedReader) post(p *feed.Post) bool {
	if r.usualPost(p) {
		return true
	}
	return r.object(func(name string) (field int, ok bool) {
		if name == nameID {
			p.ID, ok = r.text()
			return fieldID, ok
		}
		return r.postField(p, name)
	})
}

// usualPost reads a candidate in the form of package client: {"id":"p9","author":"2"}. If the
// candidate has another form, usualPost changes nothing and returns false.
func (r *feedReader) usualPost(p *feed.Post) bool {
	from := r.at
	id, ok := r.after("{" + keyID)
	author := ""
	if ok {
		author, ok = r.after("," + keyAuthor)
	}
	if !ok || !r.next('}') {
		r.at = from
		return false
	}
	p.ID, p.Author = id, author
	return true
}

// after reads a string that follows the text before, without white space.
func (r *feedReader) after(before string) (string, bool) {
	if !strings.HasPrefix(r.body[r.at:], before) {
		return "", false
	}
	r.at += len(before)
	return r.text()
}

// postField reads a field of a post, other than its id.
func (r *feedReader) postField(p *feed.Post, name string) (field int, ok bool) {
	switch name {
	case nameAuthor:
		p.Author, ok = r.text()
		return fieldAuthor, ok
	case nameActors:
		p.Actors, p.Roles, ok = r.actors()
		return fieldActors, ok
	case nameFacets:
		p.Facets, ok = r.facets()
		return fieldFacets, ok
	case nameRelated:
		p.Related, ok = r.texts()
		return fieldRelated, ok
	case nameText:
		p.Text, ok = r.text()
		return fieldText, ok
	}
	return 0, false
}

// actors reads the users on a post, and their roles.
func (r *feedReader) actors() (ids, roles []string, ok bool) {
	from := len(r.buffer.Actors)
	ok = r.array(func() bool {
		id, role, ok := r.actor()
		roles = addRole(roles, len(r.buffer.Actors)-from, role)
		r.buffer.Actors = append(r.buffer.Actors, id)
		return ok && len(r.buffer.Actors)-from <= wire.MaxTexts
	})
	return slices.Clip(r.buffer.Actors[from:]), roles, ok
}

// actor reads the id of a user, or an object with an id and a role.
func (r *feedReader) actor() (id, role string, ok bool) {
	r.space()
	if !strings.HasPrefix(r.body[r.at:], "{") {
		id, ok = r.text()
		return id, "", ok
	}
	ok = r.object(func(name string) (field int, ok bool) {
		switch name {
		case nameID:
			id, ok = r.text()
			return fieldID, ok
		case nameRole:
			role, ok = r.text()
			return fieldRole, ok
		}
		return 0, false
	})
	return id, role, ok
}

// facets reads the ids of each facet.
func (r *feedReader) facets() (map[activity.Facet][]string, bool) {
	facets := make(map[activity.Facet][]string)
	ok := r.object(func(name string) (field int, ok bool) {
		facet := activity.Facet(name)
		if _, twice := facets[facet]; twice {
			return 0, false
		}
		facets[facet], ok = r.texts()
		return len(facets), ok
	})
	return facets, ok
}

// texts reads an array of strings.
func (r *feedReader) texts() ([]string, bool) {
	list := []string{}
	ok := r.array(func() bool {
		s, ok := r.text()
		list = append(list, s)
		return ok && len(list) <= wire.MaxTexts
	})
	return list, ok
}

// array reads an array. It calls value to read each value.
func (r *feedReader) array(value func() bool) bool {
	if !r.next('[') {
		return false
	}
	if r.next(']') {
		return true
	}
	for value() {
		if !r.next(',') {
			return r.next(']')
		}
	}
	return false
}

// name reads a name and the colon after it.
func (r *feedReader) name() (string, bool) {
	s, ok := r.text()
	return s, ok && r.next(':')
}

// text reads a string.
func (r *feedReader) text() (string, bool) {
	if !r.next('"') {
		return "", false
	}
	rest := r.body[r.at:]
	for i := range len(rest) {
		c := rest[i]
		if c != '"' && c != '\\' && c >= ' ' {
			continue
		}
		switch c {
		case '"':
			r.at += i + 1
			return rest[:i], true
		case '\\':
			return r.escaped(r.at)
		}
		return "", false
	}
	return "", false
}

// escaped reads the rest of a string with escapes. The string began before from.
func (r *feedReader) escaped(from int) (string, bool) {
	for i := from; i < len(r.body); i++ {
		switch r.body[i] {
		case '\\':
			i++
		case '"':
			r.at = i + 1
			s, err := jsontext.AppendUnquote(nil, r.body[from-1:r.at])
			return string(s), err == nil
		}
	}
	return "", false
}

// number reads a whole number from 0 to 99999 in plain digits. The strict decoder reads all other
// forms of JSON numbers.
func (r *feedReader) number() (n int, ok bool) {
	r.space()
	from := r.at
	for r.at < len(r.body) && '0' <= r.body[r.at] && r.body[r.at] <= '9' {
		n = 10*n + int(r.body[r.at]-'0')
		r.at++
		if r.at-from > 5 {
			return 0, false
		}
	}
	// If the number continues after these digits, no comma or brace follows, so the caller fails.
	return n, r.at > from && (r.body[from] != '0' || r.at == from+1)
}

func (r *feedReader) boolean() (value, ok bool) {
	r.space()
	for _, value := range []bool{true, false} {
		text := "false"
		if value {
			text = "true"
		}
		if strings.HasPrefix(r.body[r.at:], text) {
			r.at += len(text)
			return value, true
		}
	}
	return false, false
}

// form reads the name of a form of answers. dropped: without the kept posts.
func (r *feedReader) form() (dropped, ok bool) {
	name, ok := r.text()
	return name == formDropped, ok && (name == formDropped || name == formKept)
}

// next skips white space, and then the byte c. It reports whether it found c.
func (r *feedReader) next(c byte) bool {
	if r.at < len(r.body) && r.body[r.at] <= ' ' {
		r.space()
	}
	if r.at < len(r.body) && r.body[r.at] == c {
		r.at++
		return true
	}
	return false
}

// space skips white space.
func (r *feedReader) space() {
	for r.at < len(r.body) {
		switch r.body[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}
