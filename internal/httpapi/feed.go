package httpapi

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

type filterRequest struct {
	Viewer   string     `json:"viewer"`
	Posts    []feedPost `json:"posts"`
	Kinds    []string   `json:"kinds"`    // nil: not given
	Annotate []string   `json:"annotate"` // nil: not given

	Limit      *int `json:"limit"` // nil: not given
	RecordSeen bool `json:"record_seen"`
	Exact      bool `json:"exact"`
}

// feedPost has the fields of a [feed.Post].
type feedPost struct {
	ID     string   `json:"id"`
	Author string   `json:"author"`
	Actors []string `json:"actors"`
}

type filterAnswer struct {
	Posts    []keptPost     `json:"posts"`
	Dropped  []droppedPost  `json:"dropped"`
	Next     int            `json:"next,omitzero"`
	Degraded []degradedKind `json:"degraded"`
}

// keptPost is written with a field for each kind to annotate: {"id":"p9","like":true}.
type keptPost struct {
	kinds []string
	kept  feed.Kept
}

// MarshalJSONTo writes the post.
func (p keptPost) MarshalJSONTo(enc *jsontext.Encoder) error {
	tokens := append(make([]jsontext.Token, 0, 8), jsontext.BeginObject, jsontext.String("id"), jsontext.String(p.kept.ID))
	for i, kind := range p.kinds {
		tokens = append(tokens, jsontext.String(kind), jsontext.Bool(p.kept.Marks[i]))
	}
	for _, t := range append(tokens, jsontext.EndObject) {
		if err := enc.WriteToken(t); err != nil {
			return err
		}
	}
	return nil
}

// droppedPost has the fields of a [feed.Dropped].
type droppedPost struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"`
	Actor       string `json:"actor,omitzero"`
	Unconfirmed bool   `json:"unconfirmed,omitzero"`
}

// degradedKind has the fields of an [activity.Degraded].
type degradedKind struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// filter answers which of the posts the viewer gets to see.
func (s *service) filter(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	var req filterRequest
	done, err := s.decode(c, &req)
	if err != nil {
		return err
	}
	defer done()
	if req.Posts == nil {
		return refuse(codeMissingField, "posts", "the field is missing")
	}
	posts := make([]feed.Post, len(req.Posts))
	for i, p := range req.Posts {
		posts[i] = feed.Post(p)
	}
	limit := 0
	if req.Limit != nil {
		if limit = *req.Limit; limit < 1 {
			return refuse(activity.CodeOutOfRange, "limit", fmt.Sprintf("%d is not in 1 to %d", limit, feed.MaxPosts))
		}
	}
	ctx, cancel := s.bounded(c)
	defer cancel()
	answer, err := feed.Filter(ctx, s.recorder, feed.Request{
		Viewer:     req.Viewer,
		Posts:      posts,
		Kinds:      req.Kinds,
		Annotate:   req.Annotate,
		Limit:      limit,
		RecordSeen: req.RecordSeen,
		Exact:      req.Exact,
	})
	if err != nil {
		return err
	}
	s.feeds.count(answer)
	return respond(c, http.StatusOK, answerOf(answer, req.Annotate))
}

func answerOf(a feed.Answer, annotate []string) filterAnswer {
	out := filterAnswer{
		Posts:    make([]keptPost, len(a.Kept)),
		Dropped:  make([]droppedPost, len(a.Dropped)),
		Next:     a.Next,
		Degraded: degradedOf(a.Degraded),
	}
	for i, k := range a.Kept {
		out.Posts[i] = keptPost{kinds: annotate, kept: k}
	}
	for i, d := range a.Dropped {
		out.Dropped[i] = droppedPost(d)
	}
	return out
}

func degradedOf(kinds []activity.Degraded) []degradedKind {
	out := make([]degradedKind, len(kinds))
	for i, d := range kinds {
		out[i] = degradedKind(d)
	}
	return out
}
