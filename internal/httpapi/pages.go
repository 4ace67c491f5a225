package httpapi

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
)

type pagesRequest struct {
	Pages *int `json:"pages"`
	Force bool `json:"force"`
}

// pagesAnswer is a [pages.Layout] in the words of the API.
type pagesAnswer struct {
	Pages       uint32  `json:"pages"`
	Homes       uint32  `json:"homes"`
	Reshaped    int     `json:"reshaped"`
	SharedPages uint32  `json:"shared_pages"`
	OwnPages    int     `json:"own_pages"`
	KeysPerPage float64 `json:"keys_per_page"`
	Due         uint32  `json:"due"`
	Reshaping   bool    `json:"reshaping"`
	Trouble     string  `json:"trouble,omitzero"`
}

// pages answers with the number of pages, and the progress of a change.
func (o operations) pages(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	return o.answerPages(c, http.StatusOK)
}

// reshape starts to raise the number of pages, which continues in the background.
func (o operations) reshape(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	var req pagesRequest
	done, err := o.decode(c, &req)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case req.Pages == nil:
		return refuse(codeMissingField, "pages", "the field is missing")
	case *req.Pages < 1 || *req.Pages > pages.MaxPages:
		return refuse(activity.CodeOutOfRange, "pages", fmt.Sprintf("%d is not a power of two from 1 to %d", *req.Pages, pages.MaxPages))
	}
	callOf(c).noteReshape(*req.Pages, req.Force)
	var options []pages.GrowOption
	if req.Force {
		options = append(options, pages.ForceGrow)
	}
	ctx, cancel := o.bounded(c.Request().Context())
	defer cancel()
	started, err := o.recorder.Grower().StartGrow(ctx, uint32(*req.Pages), options...)
	if err != nil {
		return err
	}
	if started {
		return o.answerPages(c, http.StatusAccepted)
	}
	return o.answerPages(c, http.StatusOK)
}

func (o operations) answerPages(c echo.Context, status int) error {
	ctx, cancel := o.bounded(c.Request().Context())
	defer cancel()
	layout, err := o.recorder.Grower().Layout(ctx)
	if err != nil {
		return err
	}
	homes := o.activities.Inside().Identity().Pages
	answer := pagesAnswer{
		Pages: layout.Pages, Homes: homes, Reshaped: reshapedHomes(layout, homes),
		SharedPages: layout.Current, OwnPages: layout.Dedicated,
		KeysPerPage: layout.KeysPerPage, Due: layout.Due, Reshaping: layout.Growing,
	}
	if layout.Err != nil {
		answer.Trouble = describe(layout.Err).Message // without internal details
	}
	return respond(c, status, answer)
}

// reshapedHomes returns the built share of the next layout, in homes: pages of the first layout.
// It returns homes if no layout is being built.
func reshapedHomes(l pages.Layout, homes uint32) int {
	return int(int64(l.Built) * int64(homes) / int64(l.Pages))
}
