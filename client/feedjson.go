package client

import (
	"cmp"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Names of the fields that are written by hand, as they stand in front of a value.
const (
	keyActors  = `"actors":`
	keyAuthor  = `"author":`
	keyFacets  = `"facets":`
	keyID      = `"id":`
	keyPosts   = `"posts":`
	keyRelated = `"related":`
	keyRole    = `"role":`
	keyText    = `"text":`
	keyViewer  = `"viewer":`
)

// jsonText appends JSON to a text. The library, with reflection, takes two to four times as long
// for the 500 posts of a feed.
type jsonText struct {
	text []byte
	err  error // the first: a string is not valid UTF-8
}

// jsonValue appends a value. It is called only for a call that is made in JSON.
type jsonValue func(t *jsonText)

// MarshalJSONTo implements [json.MarshalerTo].
func (v jsonValue) MarshalJSONTo(enc *jsontext.Encoder) error {
	var t jsonText
	v(&t)
	if t.err != nil {
		return t.err
	}
	return enc.WriteValue(t.text)
}

// json returns the request in JSON.
func (r *FilterRequest) json() ([]byte, error) {
	rest, err := json.Marshal(struct {
		Kinds      []string `json:"kinds,omitzero"`
		Annotate   []string `json:"annotate,omitzero"`
		Lists      []string `json:"lists,omitzero"`
		Limit      int      `json:"limit,omitzero"`
		RecordSeen bool     `json:"record_seen,omitzero"`
		Exact      bool     `json:"exact,omitzero"`
		After      string   `json:"after,omitzero"`
		Within     string   `json:"within,omitzero"`
		Answer     string   `json:"answer,omitzero"`
	}{
		r.Kinds, r.Annotate, r.Lists, r.Limit, r.RecordSeen,
		r.Exact, r.After, within(r.Within), r.Answer,
	})
	const perPost = 48 // bytes, without the text
	length := perPost * (len(r.Posts) + 5)
	for i := range r.Posts {
		length += len(r.Posts[i].Text)
	}
	t := jsonText{make([]byte, 0, length), err}
	t.add("{"+keyViewer, r.Viewer)
	t.raw("," + keyPosts + "[")
	before := ""
	for i := range r.Posts {
		t.raw(before)
		t.post(&r.Posts[i])
		before = ","
	}
	t.raw("]")
	if len(rest) > len("{}") {
		rest[0] = ',' // in place of the brace
	} else {
		rest = []byte("}")
	}
	return append(t.text, rest...), t.err
}

// post appends a post, without its empty fields.
func (t *jsonText) post(p *Post) {
	t.add("{"+keyID, p.ID)
	if p.Author != "" {
		t.add(","+keyAuthor, p.Author)
	}
	if len(p.Actors)+len(p.Roles) > 0 {
		t.raw("," + keyActors)
		t.actors(p)
	}
	if len(p.Related) > 0 {
		t.raw("," + keyRelated)
		t.list(p.Related)
	}
	if len(p.Facets) > 0 {
		t.facets(p.Facets)
	}
	if p.Text != "" {
		t.add(","+keyText, p.Text)
	}
	t.raw("}")
}

// facets appends the facets of a post, in the order of their names.
func (t *jsonText) facets(facets map[string][]string) {
	before := "," + keyFacets + "{"
	for _, name := range slices.Sorted(maps.Keys(facets)) {
		t.add(before, name)
		t.raw(":")
		t.list(facets[name])
		before = ","
	}
	t.raw("}")
}

// actors appends the actors of a post: ids, or objects with roles if there are any.
func (t *jsonText) actors(p *Post) {
	if len(p.Roles) == 0 {
		t.list(p.Actors)
		return
	}
	before := "[{" + keyID
	for i := range max(len(p.Actors), len(p.Roles)) { // the service refuses a role too many
		id, role := "", ""
		if i < len(p.Actors) {
			id = p.Actors[i]
		}
		if i < len(p.Roles) {
			role = p.Roles[i]
		}
		t.add(before, id)
		if role != "" {
			t.add(","+keyRole, role)
		}
		before = "},{" + keyID
	}
	t.raw("}]")
}

// list appends strings as an array.
func (t *jsonText) list(all []string) {
	before := ""
	t.raw("[")
	for _, s := range all {
		t.add(before, s)
		before = ","
	}
	t.raw("]")
}

// raw appends text that is JSON.
func (t *jsonText) raw(text string) { t.text = append(t.text, text...) }

// add appends before, and then s as a string.
func (t *jsonText) add(before, s string) {
	t.raw(before)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			text, err := jsontext.AppendQuote(t.text, s)
			t.text, t.err = text, cmp.Or(t.err, err)
			return
		}
	}
	t.raw(`"`)
	t.raw(s)
	t.raw(`"`)
}
