package ops

import (
	"context"
	"fmt"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

type pagesRequest struct {
	Pages *int `json:"pages"`
	Force bool `json:"force"`
}

// pagesAnswer is a [pages.Layout] in the words of the API.
type pagesAnswer struct {
	Pages          uint32  `json:"pages"`
	Homes          uint32  `json:"homes"`
	Reshaped       int     `json:"reshaped"`
	SharedPages    uint32  `json:"shared_pages"`
	DedicatedPages int     `json:"dedicated_pages"`
	KeysPerPage    float64 `json:"keys_per_page"`
	Due            uint32  `json:"due"`
	Reshaping      bool    `json:"reshaping"`
	Trouble        string  `json:"trouble,omitzero"`
}

// pages answers with the number of pages, and the progress of a change.
func (o *ops) pages(ctx context.Context, _ *wire.Call) (any, error) {
	layout, err := o.recorder.Grower().Layout(ctx)
	if err != nil {
		return nil, err
	}
	homes := o.activities.Inside().Identity().Pages
	answer := pagesAnswer{
		Pages: layout.Pages, Homes: homes, Reshaped: reshapedHomes(layout, homes),
		SharedPages: layout.Current, DedicatedPages: layout.Dedicated,
		KeysPerPage: layout.KeysPerPage, Due: layout.Due, Reshaping: layout.Growing,
	}
	if layout.Err != nil {
		answer.Trouble = wire.Describe(layout.Err).Message // without internal details
	}
	return answer, nil
}

// reshape starts to raise the number of pages, which continues in the background.
func (o *ops) reshape(ctx context.Context, k *wire.Call, _ string, req pagesRequest) (any, error) {
	switch {
	case req.Pages == nil:
		return nil, wire.Refuse(wire.CodeMissingField, "pages", "the field is missing")
	case *req.Pages < 1 || *req.Pages > pages.MaxPages:
		return nil, wire.Refuse(activity.CodeOutOfRange, "pages",
			fmt.Sprintf("%d is not a power of two from 1 to %d", *req.Pages, pages.MaxPages))
	}
	k.NoteReshape(*req.Pages, req.Force)
	ctx, cancel := o.limits.Bound(ctx)
	defer cancel()
	started, err := o.recorder.Grower().Grow(ctx, uint32(*req.Pages), req.Force)
	if err != nil {
		return nil, err
	}
	answer, err := o.pages(ctx, k)
	if started && err == nil {
		return wire.Accepted{Answer: answer}, nil
	}
	return answer, err
}

// reshapedHomes returns the built share of the next layout, in homes: pages of the first layout.
// It returns homes if no layout is being built.
func reshapedHomes(l pages.Layout, homes uint32) int {
	return int(int64(l.Built) * int64(homes) / int64(l.Pages))
}
