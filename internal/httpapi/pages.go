package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

type pagesRequest struct {
	Pages *int `json:"pages"`
	Force bool `json:"force"`
}

// pagesAnswer has the fields of an [activity.Shape], in words of the API.
type pagesAnswer struct {
	Pages       uint32  `json:"pages"`
	Homes       int     `json:"homes"`
	Reshaped    int     `json:"reshaped"`
	SharedPages int     `json:"shared_pages"`
	OwnPages    int     `json:"own_pages"`
	KeysPerPage float64 `json:"keys_per_page"`
	Due         uint32  `json:"due"`
	Reshaping   bool    `json:"reshaping"`
	Trouble     string  `json:"trouble,omitzero"`
}

// pages answers how many pages there are, and how far a reshape is.
func (s *service) pages(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	return s.answerPages(c, http.StatusOK)
}

// reshape begins to change the number of pages, which goes on in the background.
func (s *service) reshape(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	var req pagesRequest
	done, err := s.decode(c, &req)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case req.Pages == nil:
		return refuse(codeMissingField, "pages", "the field is missing")
	case *req.Pages < 1 || *req.Pages > activity.MaxPages:
		return refuse(activity.CodeOutOfRange, "pages", "not a power of two from 1 to 16777216")
	}
	callOf(c).noteReshape(*req.Pages, req.Force)
	var options []activity.ReshapeOption
	if req.Force {
		options = append(options, activity.ForceReshape)
	}
	ctx, cancel := s.bounded(c)
	defer cancel()
	r, err := activity.WithLedger(s.activities, "a reshape")
	if err != nil {
		return err
	}
	started, err := r.StartReshape(ctx, uint32(*req.Pages), options...)
	if err != nil {
		return err
	}
	if started {
		return s.answerPages(c, http.StatusAccepted)
	}
	return s.answerPages(c, http.StatusOK)
}

func (s *service) answerPages(c echo.Context, status int) error {
	ctx, cancel := s.bounded(c)
	defer cancel()
	r, err := activity.WithLedger(s.activities, "to tell how many pages there are")
	if err != nil {
		return err
	}
	shape, err := r.Shape(ctx)
	if err != nil {
		return err
	}
	answer := pagesAnswer{
		Pages: shape.Pages, Homes: shape.Homes, Reshaped: shape.Reshaped, SharedPages: shape.Shared, OwnPages: shape.Own,
		KeysPerPage: shape.KeysPerPage, Due: shape.Due, Reshaping: shape.Reshaping,
	}
	if shape.Err != nil {
		answer.Trouble = describe(shape.Err).Message // nothing of the inside
	}
	return respond(c, status, answer)
}
