package httpapi

import (
	"context"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

const fanoutPath = "/v1/fanout/filter"

type fanoutRequest struct {
	Post    string      `json:"post"`
	Author  string      `json:"author"`
	Actors  []feedActor `json:"actors"`
	Related []string    `json:"related"`
	Viewers []string    `json:"viewers"` // nil: not given
	Kinds   []string    `json:"kinds"`   // nil: not given
	Exact   bool        `json:"exact"`

	Facets map[activity.Facet][]string `json:"facets"`
}

type fanoutAnswer struct {
	Dropped  []droppedViewer `json:"dropped"`
	Degraded []degradedKind  `json:"degraded"`
}

// droppedViewer has the fields of a [feed.FanoutDropped], and the viewer's id.
type droppedViewer struct {
	Viewer string `json:"viewer"`
	Kind   string `json:"kind"`
	Actor  string `json:"actor,omitzero"`
	Target string `json:"target,omitzero"`
}

// request returns the feed.FanoutRequest of the body.
func (r fanoutRequest) request() (feed.FanoutRequest, error) {
	if r.Viewers == nil {
		return feed.FanoutRequest{}, refuse(codeMissingField, "viewers", "the field is missing")
	}
	p := feedPost{ID: r.Post, Author: r.Author, Actors: r.Actors, Related: r.Related, Facets: r.Facets}
	return feed.FanoutRequest{Post: p.post(), Viewers: r.Viewers, Kinds: r.Kinds, Exact: r.Exact}, nil
}

// readFanout reads the JSON body of a fan-out, as readFeed reads that of a feed.
func readFanout(body string, in *room) (req feed.FanoutRequest, ok bool) {
	if !utf8.ValidString(body) {
		return req, false
	}
	r := feedReader{body: body, room: in}
	ok = r.object(func(name string) (field int, ok bool) {
		switch name {
		case "post":
			req.Post.ID, ok = r.text()
			return 0, ok
		case "viewers":
			req.Viewers, ok = r.viewers()
			return 5, ok
		case "kinds":
			req.Kinds, ok = r.texts()
			return 6, ok
		case "exact":
			req.Exact, ok = r.boolean()
			return 7, ok
		default:
			return r.postField(&req.Post, name)
		}
	})
	r.space()
	return req, ok && r.at == len(body) && req.Viewers != nil
}

// viewers reads the viewers into the room.
func (r *feedReader) viewers() ([]string, bool) {
	ok := r.array(func() bool {
		id, ok := r.text()
		r.room.viewers = append(r.room.viewers, id)
		return ok && len(r.room.viewers) <= feed.MaxViewers
	})
	return r.room.viewers, ok
}

// decodeFanout reads the body of a fan-out into the room. The caller calls done when it no longer
// needs the request.
func (s *intake) decodeFanout(c echo.Context, in *room) (req feed.FanoutRequest, done func(), err error) {
	done, err = s.readFast(c, in, func(body string) (ok bool) {
		req, ok = readFanout(body, in)
		return ok
	}, func(body io.Reader) error {
		var decoded fanoutRequest
		if err := explainJSON(json.UnmarshalRead(body, &decoded, s.strict)); err != nil {
			return err
		}
		var err error
		req, err = decoded.request()
		return err
	})
	return req, done, err
}

// fanout answers which of the viewers must not get a new post.
func (s *service) fanout(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	in := s.rooms.get()
	defer s.rooms.put(in)
	req, done, err := s.decodeFanout(c, in)
	if err != nil {
		return err
	}
	defer done()
	callOf(c).note("fanout", "", req.Post.Author, req.Post.ID)
	a, err := s.answerFanout(c.Request().Context(), req)
	if err != nil {
		return err
	}
	answer := fanoutAnswer{Dropped: make([]droppedViewer, len(a.Dropped)), Degraded: degradedOf(a.Degraded)}
	for i, d := range a.Dropped {
		answer.Dropped[i] = droppedViewer{Viewer: req.Viewers[d.At], Kind: d.Kind, Actor: d.Actor, Target: d.Target}
	}
	return respond(c, http.StatusOK, answer)
}

// answerFanout checks a post's viewers, if the rate of its author allows it.
func (s *service) answerFanout(ctx context.Context, req feed.FanoutRequest) (feed.FanoutAnswer, error) {
	if err := s.userMay(req.Post.Author, 1+len(req.Post.Actors)); err != nil {
		return feed.FanoutAnswer{}, err
	}
	ctx, done, err := s.onProcessor(ctx)
	if err != nil {
		return feed.FanoutAnswer{}, err
	}
	defer done()
	return feed.Fanout(ctx, s.activities, req)
}

// fanoutMessage is an encoded FanoutRequest.
type fanoutMessage struct{ text string }

func (m *fanoutMessage) read(data []byte) { m.text = string(data) }

// decode returns the request. Its viewers share the memory of the message: the generated code would
// allocate each of them, which takes longer than the answer. The feed checks that they are UTF-8.
func (m *fanoutMessage) decode(in *room) (*feedfilterv1.FanoutRequest, error) {
	rest, ok := m.split(in)
	if !ok {
		rest = []byte(m.text)
	}
	req := new(feedfilterv1.FanoutRequest)
	if err := readMessage(rest, req); err != nil {
		return nil, err
	}
	if ok {
		req.Viewers = in.viewers
	}
	return req, nil
}

// split puts the viewers into the room, and returns the other fields. It reports false for an
// unusual message.
func (m *fanoutMessage) split(in *room) (rest []byte, ok bool) {
	const field = 4 // viewers
	for r := (messageReader{text: m.text}); r.at < len(m.text) && len(in.viewers) <= feed.MaxViewers; {
		if id, ok := r.more(field); ok {
			in.viewers = append(in.viewers, id)
			continue
		}
		from := r.at
		tag, ok := r.number()
		switch {
		case ok && tag&7 == uint64(protowire.VarintType):
			_, ok = r.number()
		case ok && tag&7 == uint64(protowire.BytesType):
			var id string
			if id, ok = r.bytes(); ok && tag>>3 == field {
				in.viewers = append(in.viewers, id)
				continue
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
		rest = append(rest, m.text[from:r.at]...)
	}
	return rest, len(in.viewers) <= feed.MaxViewers
}

// fanoutProcedure answers which of the viewers must not get a new post.
func (s *procedures) fanoutProcedure(
	ctx context.Context, k *call, in *fanoutMessage,
) (*feedfilterv1.FanoutResponse, error) {
	memory := s.rooms.get()
	defer s.rooms.put(memory)
	m, err := in.decode(memory)
	if err != nil {
		return nil, err
	}
	post, err := postOf(m, "")
	if err != nil {
		return nil, err
	}
	post.ID = m.GetPost()
	req := feed.FanoutRequest{Post: post, Viewers: m.GetViewers(), Exact: m.GetExact()}
	if m.GetKinds() != nil {
		req.Kinds = append([]string{}, m.GetKinds().GetNames()...)
	}
	k.note("fanout", "", req.Post.Author, req.Post.ID)
	a, err := s.answerFanout(ctx, req)
	if err != nil {
		return nil, err
	}
	res := &feedfilterv1.FanoutResponse{}
	for _, d := range a.Dropped {
		res.Dropped = append(res.Dropped, &feedfilterv1.DroppedViewer{Index: uint32(d.At), Kind: d.Kind, Actor: d.Actor, Target: d.Target})
	}
	for _, d := range a.Degraded {
		res.Degraded = append(res.Degraded, &feedfilterv1.Degraded{Kind: d.Kind, Reason: d.Reason})
	}
	return res, nil
}
