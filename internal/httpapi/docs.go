package httpapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// openAPI answers with the description of the API for programs.
func (s *service) openAPI(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	document, err := s.description()
	if err != nil {
		return err
	}
	return sendAs(c, http.StatusOK, typeJSON, document)
}

// docsPage answers with the HTML page of the description.
func (s *service) docsPage(c echo.Context) error { return s.docsPart(c, "index.html") }

// docsFile answers with a file that the page loads.
func (s *service) docsFile(c echo.Context) error {
	return s.docsPart(c, strings.TrimPrefix(c.Request().URL.Path, docsPath+"/"))
}

func (s *service) docsPart(c echo.Context, name string) error {
	if _, err := query(c); err != nil {
		return err
	}
	files, err := s.docs()
	if err != nil {
		return err
	}
	f, ok := files[name]
	if !ok {
		return echo.ErrNotFound
	}
	h := c.Response().Header()
	h.Set(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if f.Zipped != nil && strings.Contains(c.Request().Header.Get(echo.HeaderAcceptEncoding), "gzip") {
		h.Set(echo.HeaderContentEncoding, "gzip")
		return sendAs(c, http.StatusOK, f.Type, f.Zipped)
	}
	return sendAs(c, http.StatusOK, f.Type, f.Content)
}
