package client

import (
	"context"
	"net/http"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// FanoutRequest asks which of Viewers must not get a new post.
type FanoutRequest struct {
	Post    Post     // needs an author; its id may be empty
	Viewers []string // up to 10,000

	// Kinds are checked in this order. Nil: every kind that drops or keeps, and is two-way or has
	// fanout; empty: none.
	Kinds []string
	Exact bool // let the ledger confirm what the filter reports

	After string // as in FilterRequest
}

// Fanout lists the viewers who must not get a post. All others may.
type Fanout struct {
	Dropped  []DroppedViewer `json:"dropped"` // in the order of the request
	Degraded []Degraded      `json:"degraded"`
}

// DroppedViewer is a viewer who must not get a post, with the first reason.
type DroppedViewer struct {
	Viewer string `json:"viewer"`
	Kind   string `json:"kind"`
	Actor  string `json:"actor"`  // the author or actor, for kinds that target users
	Target string `json:"target"` // the id, for kinds that do not, unless it is the post's own
}

// Fanout returns which viewers must not get a new post, for apps that write posts into feeds.
func (c *Client) Fanout(ctx context.Context, req FanoutRequest) (Fanout, error) {
	var answer Fanout
	err := c.do(ctx, &call{
		method: http.MethodPost, path: []string{"v1", "fanout", "filter"}, body: req.inJSON(), into: &answer, hedged: true,
		sound: func() bool { return answer.Dropped != nil && answer.Degraded != nil },
		procedure: procedureOf(feedService, "Fanout", req.message(), new(feedfilterv1.FanoutResponse), func(m *feedfilterv1.FanoutResponse) {
			answer.fill(&req, m)
		}),
	})
	return answer, err
}

// inJSON returns the request in JSON.
func (r *FanoutRequest) inJSON() any {
	viewers := r.Viewers
	if viewers == nil {
		viewers = []string{}
	}
	post := r.Post
	var actors jsonValue
	if len(post.Actors)+len(post.Roles) > 0 {
		actors = func(t *jsonText) { t.actors(&post) }
	}
	return struct {
		Post    string              `json:"post,omitzero"`
		Author  string              `json:"author"`
		Actors  jsonValue           `json:"actors,omitzero"`
		Related []string            `json:"related,omitzero"`
		Facets  map[string][]string `json:"facets,omitzero"`
		Viewers []string            `json:"viewers"`
		Kinds   []string            `json:"kinds,omitzero"`
		Exact   bool                `json:"exact,omitzero"`
		After   string              `json:"after,omitzero"`
	}{post.ID, post.Author, actors, post.Related, post.Facets, viewers, r.Kinds, r.Exact, r.After}
}

// message returns the request as a message.
func (r *FanoutRequest) message() *feedfilterv1.FanoutRequest {
	post := r.Post.message()
	m := &feedfilterv1.FanoutRequest{
		Post: post.GetId(), Author: post.GetAuthor(), Actors: post.GetActors(), ActorRoles: post.GetActorRoles(),
		Related: post.GetRelated(), Facets: post.GetFacets(), Viewers: r.Viewers, Exact: r.Exact, After: r.After,
	}
	if r.Kinds != nil {
		m.Kinds = &feedfilterv1.KindNames{Names: r.Kinds}
	}
	return m
}

// fill sets the answer from the message.
func (f *Fanout) fill(req *FanoutRequest, m *feedfilterv1.FanoutResponse) {
	*f = Fanout{Dropped: make([]DroppedViewer, 0, len(m.GetDropped())), Degraded: degradedOf(m.GetDegraded())}
	for _, d := range m.GetDropped() {
		if int(d.GetIndex()) >= len(req.Viewers) {
			f.Dropped = nil // the answer does not fit the request
			return
		}
		f.Dropped = append(f.Dropped, DroppedViewer{
			Viewer: req.Viewers[d.GetIndex()], Kind: d.GetKind(), Actor: d.GetActor(), Target: d.GetTarget(),
		})
	}
}
