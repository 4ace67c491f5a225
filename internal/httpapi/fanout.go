package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/feed"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

type fanoutRequest struct {
	Author  string      `json:"author"`
	Actors  []feedActor `json:"actors"`
	Viewers []string    `json:"viewers"` // nil: not given
	Kinds   []string    `json:"kinds"`   // nil: not given
	Exact   bool        `json:"exact"`
}

type fanoutAnswer struct {
	Dropped  []droppedViewer `json:"dropped"`
	Degraded []degradedKind  `json:"degraded"`
}

// droppedViewer has the fields of a [feed.FanoutDropped], and the viewer's id.
type droppedViewer struct {
	Viewer string `json:"viewer"`
	Kind   string `json:"kind"`
	Actor  string `json:"actor"`
}

// fanout answers which of the viewers must not get a new post.
func (s *service) fanout(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	var body fanoutRequest
	done, err := s.decode(c, &body)
	if err != nil {
		return err
	}
	defer done()
	if body.Viewers == nil {
		return refuse(codeMissingField, "viewers", "the field is missing")
	}
	p := feedPost{Actors: body.Actors}
	post := p.post()
	a, err := s.answerFanout(c.Request().Context(), feed.FanoutRequest{
		Author: body.Author, Actors: post.Actors, Roles: post.Roles, Viewers: body.Viewers, Kinds: body.Kinds, Exact: body.Exact,
	})
	if err != nil {
		return err
	}
	answer := fanoutAnswer{Dropped: make([]droppedViewer, len(a.Dropped)), Degraded: degradedOf(a.Degraded)}
	for i, d := range a.Dropped {
		answer.Dropped[i] = droppedViewer{Viewer: body.Viewers[d.At], Kind: d.Kind, Actor: d.Actor}
	}
	return respond(c, http.StatusOK, answer)
}

// answerFanout checks a post's viewers, if the rate of its author allows it. It takes its turn with
// feeds.
func (s *service) answerFanout(ctx context.Context, req feed.FanoutRequest) (feed.FanoutAnswer, error) {
	if err := s.userMay(req.Author); err != nil {
		return feed.FanoutAnswer{}, err
	}
	if err := s.limits.turns.Acquire(ctx, 1); err != nil {
		return feed.FanoutAnswer{}, fmt.Errorf("wait for a turn: %w", err)
	}
	defer s.limits.turns.Release(1)
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return feed.Fanout(ctx, s.activities, req)
}

// fanoutProcedure answers which of the viewers must not get a new post.
func (s *procedures) fanoutProcedure(
	ctx context.Context, _ *call, in *incoming[feedfilterv1.FanoutRequest],
) (*feedfilterv1.FanoutResponse, error) {
	m := &in.message
	req := feed.FanoutRequest{
		Author: m.GetAuthor(), Actors: m.GetActors(), Roles: m.GetActorRoles(), Viewers: m.GetViewers(), Exact: m.GetExact(),
	}
	if m.GetKinds() != nil {
		req.Kinds = append([]string{}, m.GetKinds().GetNames()...)
	}
	a, err := s.answerFanout(ctx, req)
	if err != nil {
		return nil, err
	}
	res := &feedfilterv1.FanoutResponse{}
	for _, d := range a.Dropped {
		res.Dropped = append(res.Dropped, &feedfilterv1.DroppedViewer{Index: uint32(d.At), Kind: d.Kind, Actor: d.Actor})
	}
	for _, d := range a.Degraded {
		res.Degraded = append(res.Degraded, &feedfilterv1.Degraded{Kind: d.Kind, Reason: d.Reason})
	}
	return res, nil
}
