package httpapi

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/openapi"
)

// Media types of the description for people.
const (
	typeHTML = "text/html"
	typeCSS  = "text/css"
)

// reference is the API's description as it is served. It is made when it is first asked for.
type reference struct{ json, page, style []byte }

// makeReference describes and renders all routes.
func (s *service) makeReference() (reference, error) {
	d := s.document()
	text, err := d.JSON()
	if err != nil {
		return reference{}, err
	}
	page, err := openapi.Page(d, "/docs/style.css", "/openapi.json")
	if err != nil {
		return reference{}, err
	}
	return reference{text, page, openapi.Style()}, nil
}

// openAPI answers with the description for programs.
func (s *service) openAPI(c echo.Context) error {
	return s.answerReference(c, typeJSON, func(r reference) []byte { return r.json })
}

// docs answers with the description for people.
func (s *service) docs(c echo.Context) error {
	return s.answerReference(c, typeHTML+"; charset=utf-8", func(r reference) []byte { return r.page })
}

// docsStyle answers with how that looks.
func (s *service) docsStyle(c echo.Context) error {
	return s.answerReference(c, typeCSS+"; charset=utf-8", func(r reference) []byte { return r.style })
}

// answerReference answers with a part of the reference. It is the same for all callers, but no longer than the process lives, which
// may be followed by one of another version: it is to be asked for again.
func (s *service) answerReference(c echo.Context, mediaType string, part func(reference) []byte) error {
	if _, err := query(c); err != nil {
		return err
	}
	r, err := s.reference()
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	return sendAs(c, http.StatusOK, mediaType, part(r))
}
