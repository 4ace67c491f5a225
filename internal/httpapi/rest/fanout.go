package rest

import (
	"unicode/utf8"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

type fanoutRequest struct {
	Post    string      `json:"post"`
	Author  string      `json:"author"`
	Actors  []feedActor `json:"actors"`
	Related []string    `json:"related"`
	Text    string      `json:"text"`
	Viewers []string    `json:"viewers"` // nil: not given
	Kinds   []string    `json:"kinds"`   // nil: not given
	Exact   bool        `json:"exact"`
	After   string      `json:"after"`
	Within  string      `json:"within"`

	Facets map[activity.Facet][]string `json:"facets"`
}

type fanoutAnswer struct {
	Dropped  []droppedViewer     `json:"dropped"`
	Degraded []activity.Degraded `json:"degraded"`
}

// droppedViewer has the fields of a [feed.FanoutDropped], and the viewer's id.
type droppedViewer struct {
	Viewer string `json:"viewer"`
	Kind   string `json:"kind"`
	Actor  string `json:"actor,omitzero"`
	Target string `json:"target,omitzero"`
}

// request returns the feed.FanoutRequest of the body.
func (r fanoutRequest) request(*wire.Buffer) (feed.FanoutRequest, error) {
	if r.Viewers == nil {
		return feed.FanoutRequest{}, wire.Refuse(
			wire.CodeMissingField, "viewers", "the field is missing",
		)
	}
	p := feedPost{
		ID:      r.Post,
		Author:  r.Author,
		Actors:  r.Actors,
		Related: r.Related,
		Text:    r.Text,
		Facets:  r.Facets,
	}
	within, err := operations.ParseWithin(r.Within)
	return feed.FanoutRequest{
		Post:    p.post(),
		Viewers: r.Viewers,
		Kinds:   r.Kinds,
		Exact:   r.Exact,
		After:   r.After,
		Within:  within,
	}, err
}

// readFanout reads the JSON body of a fan-out, as readFeed reads that of a feed.
func readFanout(body string, in *wire.Buffer) (req feed.FanoutRequest, ok bool) {
	if !utf8.ValidString(body) {
		return req, false
	}
	r := feedReader{body: body, buffer: in}
	ok = r.object(func(name string) (field int, ok bool) {
		switch name {
		case namePost:
			req.Post.ID, ok = r.text()
			return fieldPost, ok
		case nameViewers:
			req.Viewers, ok = r.viewers()
			return fieldViewers, ok
		case nameKinds:
			req.Kinds, ok = r.texts()
			return fieldKinds, ok
		case nameExact:
			req.Exact, ok = r.boolean()
			return fieldExact, ok
		case nameAfter:
			req.After, ok = r.text()
			return fieldAfter, ok
		case nameWithin:
			req.Within, ok = r.within()
			return fieldWithin, ok
		default:
			return r.postField(&req.Post, name)
		}
	})
	r.space()
	return req, ok && r.at == len(body) && req.Viewers != nil
}

// viewers reads the viewers into the buffer.
func (r *feedReader) viewers() ([]string, bool) {
	ok := r.array(func() bool {
		id, ok := r.text()
		r.buffer.Viewers = append(r.buffer.Viewers, id)
		return ok && len(r.buffer.Viewers) <= feed.MaxViewers
	})
	return r.buffer.Viewers, ok
}

// fanout answers which of the viewers must not get a new post.
func (a *api) fanout(k *wire.Call, req feed.FanoutRequest, _ *wire.Buffer) error {
	found, err := a.operations.Fanout(k.Request().Context(), k, req)
	if err != nil {
		return err
	}
	answer := fanoutAnswer{
		Dropped:  make([]droppedViewer, len(found.Dropped)),
		Degraded: found.Degraded,
	}
	for i, d := range found.Dropped {
		answer.Dropped[i] = droppedViewer{
			Viewer: req.Viewers[d.At],
			Kind:   d.Kind,
			Actor:  d.Actor,
			Target: d.Target,
		}
	}
	return wire.Respond(k, answer)
}
