package client

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/internal/feedwire"
)

// json returns the request in JSON. Reflection would take several times as long for the posts of a
// long feed.
func (r *FilterRequest) json() ([]byte, error) {
	const perPost = 48
	w := jsonWriter{text: make([]byte, 0, 256+perPost*len(r.Posts))}
	w.string(`{"viewer":`, r.Viewer)
	w.raw(`,"posts":[`)
	for i := range r.Posts {
		if i > 0 {
			w.raw(",")
		}
		w.post(&r.Posts[i])
	}
	w.raw("]")
	wishes := *r
	wishes.Viewer, wishes.Posts = "", nil // they come first
	rest, err := json.Marshal(wishes)
	if err != nil {
		return nil, err
	}
	w.raw(string(rest[len(`{"viewer":"","posts":[]`):]))
	return w.text, w.err
}

// explainJSON returns a request to explain a post in JSON.
func explainJSON(viewer string, post *Post, lists []string) ([]byte, error) {
	var w jsonWriter
	w.post(post)
	if w.err != nil {
		return nil, w.err
	}
	return json.Marshal(struct {
		Viewer string         `json:"viewer"`
		Post   jsontext.Value `json:"post"`
		Lists  []string       `json:"lists,omitzero"`
	}{viewer, w.text, lists})
}

// jsonActor is a user on a post. In JSON, one without a role may be an id alone.
type jsonActor struct {
	ID   string `json:"id"`
	Role string `json:"role,omitzero"`
}

// jsonActors returns the post's actors with their roles.
func (p Post) jsonActors() []jsonActor {
	actors := make([]jsonActor, max(len(p.Actors), len(p.Roles))) // the service refuses a role too many
	for i, id := range p.Actors {
		actors[i].ID = id
	}
	for i, role := range p.Roles {
		actors[i].Role = role
	}
	return actors
}

// jsonWriter appends JSON to a text.
type jsonWriter struct {
	text []byte
	err  error // the first: a string is not valid UTF-8
}

// raw appends text that is JSON.
func (w *jsonWriter) raw(text string) { w.text = append(w.text, text...) }

// string appends before, and then s as a string.
func (w *jsonWriter) string(before, s string) {
	text, err := feedwire.AppendJSON(w.text, before, s)
	if w.text = text; w.err == nil {
		w.err = err
	}
}

// strings appends before, and then the list as an array.
func (w *jsonWriter) strings(before string, list []string) {
	w.raw(before)
	between := "["
	for _, s := range list {
		w.string(between, s)
		between = ","
	}
	if len(list) == 0 {
		w.raw("[")
	}
	w.raw("]")
}

// post appends a post, without its empty lists.
func (w *jsonWriter) post(p *Post) {
	w.string(`{"id":`, p.ID)
	if p.Author != "" {
		w.string(`,"author":`, p.Author)
	}
	switch {
	case len(p.Roles) > 0:
		w.raw(`,"actors":[`)
		for i, a := range p.jsonActors() {
			before := `,{"id":`
			if i == 0 {
				before = `{"id":`
			}
			w.string(before, a.ID)
			if a.Role != "" {
				w.string(`,"role":`, a.Role)
			}
			w.raw("}")
		}
		w.raw("]")
	case len(p.Actors) > 0:
		w.strings(`,"actors":`, p.Actors)
	}
	if len(p.Related) > 0 {
		w.strings(`,"related":`, p.Related)
	}
	if len(p.Facets) > 0 {
		w.facets(p.Facets)
	}
	w.raw("}")
}

// facets appends the facets of a post, in the order of their names.
func (w *jsonWriter) facets(facets map[string][]string) {
	before := `,"facets":{`
	for _, name := range slices.Sorted(maps.Keys(facets)) {
		w.string(before, name)
		w.strings(":", facets[name])
		before = ","
	}
	w.raw("}")
}
