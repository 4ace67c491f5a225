package rest

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

type explainRequest struct {
	Viewer string    `json:"viewer"`
	Post   *feedPost `json:"post"` // nil: not given
	Lists  []string  `json:"lists"`
	After  string    `json:"after"`
	Within string    `json:"within"`
}

type explainAnswer struct {
	Dropped  bool                `json:"dropped"`
	Reasons  []explained         `json:"reasons"`
	Page     activity.PageInfo   `json:"page"`
	Degraded []activity.Degraded `json:"degraded"`
}

// textRange is a part of a text, in bytes of UTF-8.
type textRange struct {
	Start int `json:"start"`
	End   int `json:"end"` // the first byte after it
}

// explained is a [feed.Reason] in the words of the API.
type explained struct {
	Kind      string    `json:"kind"`
	Effect    string    `json:"effect"`
	Actor     string    `json:"actor,omitzero"`
	Target    string    `json:"target,omitzero"`
	InText    textRange `json:"in_text,omitzero"`
	Direction string    `json:"direction"`
	Certainty string    `json:"certainty"`
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Parts     []string  `json:"parts,omitzero"`

	OverruledBy string `json:"overruled_by,omitzero"`
	List        string `json:"list,omitzero"`
}

// explain answers why a viewer's feed drops or keeps a post.
func (a *api) explain(
	ctx context.Context, k *wire.Call, _ string, req explainRequest,
) (any, error) {
	if req.Post == nil {
		return nil, wire.Refuse(wire.CodeMissingField, "post", "the field is missing")
	}
	within, err := operations.ParseWithin(req.Within)
	if err != nil {
		return nil, err
	}
	want := activity.Freshness{After: req.After, Within: within}
	e, err := a.operations.Explain(ctx, k, req.Viewer, req.Post.post(), req.Lists, want)
	if err != nil {
		return nil, err
	}
	answer := explainAnswer{
		Dropped:  e.Dropped,
		Reasons:  make([]explained, len(e.Reasons)),
		Page:     e.Page,
		Degraded: e.Degraded,
	}
	for i, r := range e.Reasons {
		answer.Reasons[i] = explained{
			Kind:        r.Kind.Name,
			Effect:      r.Kind.Effect.String(),
			Actor:       r.Actor,
			Target:      r.Target,
			InText:      textRange{r.Start, r.End},
			Direction:   operations.Direction(r.Direction),
			Certainty:   r.Certainty.String(),
			Since:       r.Since,
			Until:       r.Until,
			Parts:       r.Parts,
			OverruledBy: r.OverruledBy,
			List:        r.List,
		}
	}
	return answer, nil
}
