package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

type filterRequest struct {
	Viewer   string     `json:"viewer"`
	Posts    []feedPost `json:"posts"`
	Kinds    []string   `json:"kinds"`    // nil: not given
	Annotate []string   `json:"annotate"` // nil: not given
	Lists    []string   `json:"lists"`    // nil: not given

	Limit      *int `json:"limit"` // nil: not given
	RecordSeen bool `json:"record_seen"`
	Exact      bool `json:"exact"`

	Answer *string `json:"answer"` // nil: not given
}

// feedPost has the fields of a [feed.Post].
type feedPost struct {
	ID      string      `json:"id"`
	Author  string      `json:"author"`
	Actors  []feedActor `json:"actors"`
	Related []string    `json:"related"`

	Facets map[activity.Facet][]string `json:"facets"`
}

// feedActor is a user on a post. In JSON it is an id, or an object with an id and a role.
type feedActor struct{ ID, Role string }

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (a *feedActor) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return json.UnmarshalDecode(dec, &a.ID)
	}
	var object struct {
		ID   string `json:"id"`
		Role string `json:"role"`
	}
	err := json.UnmarshalDecode(dec, &object)
	*a = feedActor(object)
	return err
}

// post returns the feed.Post of the body.
func (p *feedPost) post() feed.Post {
	to := feed.Post{ID: p.ID, Author: p.Author, Related: p.Related, Facets: p.Facets}
	if p.Actors != nil {
		to.Actors = make([]string, len(p.Actors))
	}
	for i, a := range p.Actors {
		to.Actors[i] = a.ID
		to.Roles = addRole(to.Roles, i, a.Role)
	}
	return to
}

// addRole adds the role of the i-th actor to the roles of those before it.
func addRole(roles []string, i int, role string) []string {
	if role == "" {
		return roles
	}
	for len(roles) < i {
		roles = append(roles, "")
	}
	return append(roles, role)
}

// degradedKind has the fields of an [activity.Degraded].
type degradedKind struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// request returns the feed.Request of the body.
func (r filterRequest) request() (feed.Request, error) {
	if r.Posts == nil {
		return feed.Request{}, refuse(codeMissingField, "posts", "the field is missing")
	}
	posts := make([]feed.Post, len(r.Posts))
	for i := range r.Posts {
		posts[i] = r.Posts[i].post()
	}
	limit := 0
	if r.Limit != nil {
		if limit = *r.Limit; limit < 1 {
			return feed.Request{}, refuse(activity.CodeOutOfRange, "limit", fmt.Sprintf("%d is not in 1 to %d", limit, feed.MaxPosts))
		}
	}
	return feed.Request{
		Viewer:     r.Viewer,
		Posts:      posts,
		Kinds:      r.Kinds,
		Annotate:   r.Annotate,
		Lists:      r.Lists,
		Limit:      limit,
		RecordSeen: r.RecordSeen,
		Exact:      r.Exact,
	}, nil
}

// form returns the form of the answer that the body asks for.
func (r filterRequest) form() (answerForm, error) {
	if r.Answer == nil {
		return formKept, nil
	}
	form, ok := formNamed(*r.Answer)
	if !ok {
		return 0, badForm()
	}
	return form, nil
}

// readFast calls fast with the body, if its length is known, and slow with the same body unless
// fast succeeded. The caller calls done when it no longer needs what they read.
func (s *intake) readFast(
	c echo.Context, in *room, fast func(body string) (ok bool), slow func(body io.Reader) error,
) (done func(), err error) {
	return s.readBody(c, func(body io.Reader) error {
		if length := c.Request().ContentLength; length > 0 {
			err := in.read(body, int(length))
			if err == nil && fast(string(in.text)) {
				return nil
			}
			// Decode from the start. If reading failed, the decoder gets the same error.
			body = io.MultiReader(bytes.NewReader(in.text), body)
		}
		return slow(body)
	})
}

// decodeFeed reads the body of a feed request into the room. The caller calls done when it no
// longer needs the request.
func (s *intake) decodeFeed(c echo.Context, in *room) (req feed.Request, done func(), err error) {
	done, err = s.readFast(c, in, func(body string) (ok bool) {
		req, ok = readFeed(body, in)
		return ok
	}, func(body io.Reader) error {
		var decoded filterRequest
		if err := explainJSON(json.UnmarshalRead(body, &decoded, s.strict)); err != nil {
			return err
		}
		var err error
		if in.form, err = decoded.form(); err == nil {
			req, err = decoded.request()
		}
		return err
	})
	return req, done, err
}

// filterPath is the path of the route of feeds.
const filterPath = "/v1/feed/filter"

// filter answers which of the posts the viewer sees.
func (s *service) filter(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	in := s.rooms.get()
	defer s.rooms.put(in)
	req, done, err := s.decodeFeed(c, in)
	if err != nil {
		return err
	}
	defer done()
	answer, sampled, err := s.answerFeed(c.Request().Context(), callOf(c), req)
	if err != nil {
		return err
	}
	if in.form == formDropped {
		in.text = appendDropped(in.text[:0], answer, req.Annotate)
	} else {
		in.text = appendFeed(in.text[:0], answer, req)
	}
	err = send(c, http.StatusOK, in.text)
	if sampled != nil {
		sampled.Compare(c.Request().Context(), requestAttrs(c)...)
	}
	return err
}

// answerFeed checks whether the caller may have the feed, filters it and counts it. If sampled is
// not nil, the caller compares it with the ledger after sending the answer.
func (s *service) answerFeed(ctx context.Context, k *call, req feed.Request) (feed.Answer, *sampler.Sampled, error) {
	if req.RecordSeen {
		if err := k.needs(access.ActivityWrite, "record_seen"); err != nil {
			return feed.Answer{}, nil, err
		}
	}
	if err := s.userMay(req.Viewer, 1+len(req.Lists)); err != nil {
		return feed.Answer{}, nil, err
	}
	ctx, done, err := s.onProcessor(ctx)
	if err != nil {
		return feed.Answer{}, nil, err
	}
	defer done()
	sampled := s.sampler.Choose()
	checked, err := feed.Check(ctx, s.activities, req)
	if err != nil {
		return feed.Answer{}, nil, err
	}
	if err := s.recordSeen(ctx, k, checked); err != nil {
		return feed.Answer{}, nil, err
	}
	sampled.Answered(checked)
	s.feeds.count(checked.Answer)
	s.meters.candidates.Looked(len(checked.Answer.Kept) + len(checked.Answer.Dropped))
	return checked.Answer, sampled, nil
}

// recordSeen records what a feed keeps as seen, if the request asks for it and the audit log can
// take its line.
func (s *service) recordSeen(ctx context.Context, k *call, checked *feed.Checked) error {
	if !checked.Request.RecordSeen {
		return nil
	}
	if err := s.access.Audit.Check(); err != nil {
		checked.SkipSeen(err)
	} else if err := checked.RecordSeen(ctx); err != nil {
		return err
	}
	s.noteSeen(k, checked.Request.Viewer, checked.Answer)
	return nil
}

func degradedOf(kinds []activity.Degraded) []degradedKind {
	out := make([]degradedKind, len(kinds))
	for i, d := range kinds {
		out[i] = degradedKind(d)
	}
	return out
}
