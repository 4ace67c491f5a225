package rest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
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

	After  string `json:"after"`
	Within string `json:"within"`

	Answer *string `json:"answer"` // nil: not given
}

// feedPost has the fields of a [feed.Post].
type feedPost struct {
	ID      string      `json:"id"`
	Author  string      `json:"author"`
	Actors  []feedActor `json:"actors"`
	Related []string    `json:"related"`
	Text    string      `json:"text"`

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
	to := feed.Post{ID: p.ID, Author: p.Author, Related: p.Related, Facets: p.Facets, Text: p.Text}
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

// request returns the feed.Request of the body.
func (r filterRequest) request() (feed.Request, error) {
	if r.Posts == nil {
		return feed.Request{}, wire.Refuse(wire.CodeMissingField, "posts", "the field is missing")
	}
	posts := make([]feed.Post, len(r.Posts))
	for i := range r.Posts {
		posts[i] = r.Posts[i].post()
	}
	limit := 0
	if r.Limit != nil {
		if limit = *r.Limit; limit < 1 {
			return feed.Request{}, wire.Refuse(
				activity.CodeOutOfRange, "limit", fmt.Sprintf("%d is not in 1 to %d", limit, feed.MaxPosts),
			)
		}
	}
	within, err := operations.ParseWithin(r.Within)
	return feed.Request{
		Viewer:     r.Viewer,
		Posts:      posts,
		Kinds:      r.Kinds,
		Annotate:   r.Annotate,
		Lists:      r.Lists,
		Limit:      limit,
		RecordSeen: r.RecordSeen,
		Exact:      r.Exact,
		After:      r.After,
		Within:     within,
	}, err
}

// Forms of answers.
const (
	formKept    = "kept"    // the kept and the dropped posts
	formDropped = "dropped" // only the dropped ones, by index
)

// dropped reports whether the answer is to leave out the kept posts.
func (r filterRequest) dropped() (bool, error) {
	switch {
	case r.Answer == nil || *r.Answer == formKept:
		return false, nil
	case *r.Answer == formDropped:
		return true, nil
	default:
		return false, wire.Refuse(activity.CodeOutOfRange, "answer", `must be "kept" or "dropped"`)
	}
}

// fast returns the handler of a call with a long JSON body. It reads the body with read, if its
// length is known, and otherwise, or if read fails, with the strict decoder and convert. do answers
// the request, which uses memory of the buffer.
func fast[T, R any](
	a *api, read func(
		body string, in *wire.Buffer,
	) (req R, ok bool), convert func(decoded T, in *wire.Buffer) (R, error),
	do func(k *wire.Call, req R, in *wire.Buffer) error,
) wire.Handler {
	return func(k *wire.Call) error {
		if _, err := wire.Query(k); err != nil {
			return err
		}
		in := a.buffers.Get()
		defer a.buffers.Put(in)
		var req R
		done, err := a.limits.ReadBody(k, func(body io.Reader) error {
			if length := k.Request().ContentLength; length > 0 {
				err := in.Read(body, int(length))
				if err == nil {
					var ok bool
					if req, ok = read(string(in.Text), in); ok {
						return nil
					}
				}
				// Decode from the start. If reading failed, the decoder gets the same error.
				body = io.MultiReader(bytes.NewReader(in.Text), body)
			}
			var decoded T
			err := wire.ExplainJSON(json.UnmarshalRead(body, &decoded, a.strict))
			if err == nil {
				req, err = convert(decoded, in)
			}
			return err
		})
		if err != nil {
			return err
		}
		defer done()
		return do(k, req, in)
	}
}

// feedRequest returns the feed.Request of a body, and sets the form of its answer in the buffer.
func feedRequest(decoded filterRequest, in *wire.Buffer) (req feed.Request, err error) {
	if in.DroppedOnly, err = decoded.dropped(); err == nil {
		req, err = decoded.request()
	}
	return req, err
}

// filter answers which of the posts the viewer sees.
func (a *api) filter(k *wire.Call, req feed.Request, in *wire.Buffer) error {
	return a.operations.Feed(k.Request().Context(), k, req, func(c *feed.Checked) error {
		if in.DroppedOnly {
			in.Text = appendDropped(in.Text[:0], c.Answer, c.Request.Annotate)
		} else {
			in.Text = appendFeed(in.Text[:0], c.Answer, c.Request)
		}
		return wire.Send(k, http.StatusOK, wire.TypeJSON, in.Text)
	})
}
