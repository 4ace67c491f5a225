package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

const explainPath = "/v1/feed/explain"

type explainRequest struct {
	Viewer string    `json:"viewer"`
	Post   *feedPost `json:"post"` // nil: not given
	Lists  []string  `json:"lists"`
}

type explainAnswer struct {
	Dropped  bool           `json:"dropped"`
	Reasons  []explained    `json:"reasons"`
	Page     pageAnswer     `json:"page"`
	Degraded []degradedKind `json:"degraded"`
}

// explained is a [feed.Reason] in the words of the API.
type explained struct {
	Kind      string    `json:"kind"`
	Effect    string    `json:"effect"`
	Actor     string    `json:"actor,omitzero"`
	Target    string    `json:"target,omitzero"`
	Direction string    `json:"direction"`
	Certainty string    `json:"certainty"`
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Parts     []string  `json:"parts,omitzero"`

	OverruledBy string `json:"overruled_by,omitzero"`
	List        string `json:"list,omitzero"`
}

// pageAnswer has the fields of an [activity.PageInfo].
type pageAnswer struct {
	Number            uint32  `json:"number"`
	Sequence          uint64  `json:"sequence"`
	Keys              int     `json:"keys"`
	Bytes             int     `json:"bytes"`
	FalsePositiveRate float64 `json:"false_positive_rate"`
}

// explain answers why a viewer's feed drops or keeps a post.
func (s *service) explain(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	var req explainRequest
	done, err := s.decode(c, &req)
	if err != nil {
		return err
	}
	defer done()
	if req.Post == nil {
		return refuse(codeMissingField, "post", "the field is missing")
	}
	e, err := s.explainPost(c.Request().Context(), callOf(c), req.Viewer, req.Post.post(), req.Lists)
	if err != nil {
		return err
	}
	answer := explainAnswer{
		Dropped: e.Dropped, Reasons: make([]explained, len(e.Reasons)), Page: pageAnswer(e.Page), Degraded: degradedOf(e.Degraded),
	}
	for i, r := range e.Reasons {
		answer.Reasons[i] = explained{
			Kind: r.Kind.Name, Effect: r.Kind.Effect.String(), Actor: r.Actor, Target: r.Target, Direction: direction(r.Direction),
			Certainty: r.Certainty.String(), Since: r.Since, Until: r.Until, Parts: r.Parts, OverruledBy: r.OverruledBy, List: r.List,
		}
	}
	return respond(c, http.StatusOK, answer)
}

// explainPost explains a post, if the rate of the viewer allows it.
func (s *service) explainPost(ctx context.Context, k *call, viewer string, p feed.Post, lists []string) (feed.Explanation, error) {
	if err := s.userMay(viewer, 1+len(lists)); err != nil {
		return feed.Explanation{}, err
	}
	k.note("explain", "", viewer, p.ID)
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return feed.Explain(ctx, s.activities, viewer, p, lists...)
}

// direction returns the name of a direction in the API.
func direction(m activity.Match) string {
	if m == activity.Reverse {
		return "by_actor"
	}
	return "by_viewer"
}
