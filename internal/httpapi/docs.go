package httpapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/openapi"
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

// docs answers with the HTML page of the description.
func docs(c echo.Context) error { return docsPart(c, "index.html") }

// docsFile answers with a file that the page loads.
func docsFile(c echo.Context) error {
	return docsPart(c, strings.TrimPrefix(c.Request().URL.Path, docsPath+"/"))
}

func docsPart(c echo.Context, name string) error {
	if _, err := query(c); err != nil {
		return err
	}
	readsGzip := strings.Contains(c.Request().Header.Get(echo.HeaderAcceptEncoding), "gzip")
	f, err := openapi.PageFile(name, readsGzip)
	if err != nil {
		return echo.ErrNotFound
	}
	h := c.Response().Header()
	h.Set(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if f.Encoding != "" {
		h.Set(echo.HeaderContentEncoding, f.Encoding)
	}
	return sendAs(c, http.StatusOK, f.Type, f.Content)
}
