package ops

import (
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/openapi"
	"github.com/feedfilter/feedfilter/internal/opspage"
)

// docsPath is the path of the HTML description of the API.
const docsPath = "/docs"

// documents answers with the description of the API, and with the pages for browsers.
type documents struct {
	description func() ([]byte, error)                  // the answer to GET /openapi.json; built once
	docs        func() (map[string]openapi.File, error) // of the page that shows it; read once
}

// Documents returns the routes of the description of the API and of the pages for browsers.
func Documents(kinds *activity.Kinds) []wire.Route {
	d := &documents{
		description: sync.OnceValues(func() ([]byte, error) { return openapi.Document(kinds) }), docs: sync.OnceValues(openapi.Page),
	}
	opsPage := opspage.New()
	showOps := page(func(k *wire.Call) error { // a static page, without data
		opsPage.ServeHTTP(k.Response(), k.Request())
		return nil
	})
	get := func(path string, handle wire.Handler) wire.Route {
		return wire.Route{Method: http.MethodGet, Path: path, Handle: handle, Free: true}
	}
	return []wire.Route{
		get("/openapi.json", d.openAPI),
		get(docsPath, page(d.docsFile)),
		get(docsPath+"/style.css", page(d.docsFile)),
		get(docsPath+"/*", page(d.docsFile)),
		get(opspage.Path, showOps),
		get(opspage.Path+"/*", showOps),
	}
}

// openAPI answers with the description of the API for programs.
func (d *documents) openAPI(k *wire.Call) error {
	if _, err := wire.Query(k); err != nil {
		return err
	}
	document, err := d.description()
	if err != nil {
		return err
	}
	return wire.Send(k, http.StatusOK, wire.TypeJSON, document)
}

// docsFile answers with the HTML page of the description, or with a file that the page loads.
func (d *documents) docsFile(k *wire.Call) error {
	if _, err := wire.Query(k); err != nil {
		return err
	}
	files, err := d.docs()
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(k.Request().URL.Path, docsPath+"/")
	if k.Path() == docsPath {
		name = "index.html"
	}
	f, ok := files[name]
	if !ok {
		return echo.ErrNotFound
	}
	h := k.Response().Header()
	h.Set(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if f.Zipped != nil && strings.Contains(k.Request().Header.Get(echo.HeaderAcceptEncoding), "gzip") {
		h.Set(echo.HeaderContentEncoding, "gzip")
		return wire.Send(k, http.StatusOK, f.Type, f.Zipped)
	}
	return wire.Send(k, http.StatusOK, f.Type, f.Content)
}

// page adds the headers for browsers to HTML pages and to the files that they load. A page may load
// files only from this service. It may not contain inline scripts or styles, and no other page may
// show it in a frame.
func page(next wire.Handler) wire.Handler {
	return func(k *wire.Call) error {
		h := k.Response().Header()
		h.Set(echo.HeaderContentSecurityPolicy, "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
			"connect-src 'self'; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set(echo.HeaderReferrerPolicy, "no-referrer")
		h.Set(echo.HeaderXFrameOptions, "DENY")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		return next(k)
	}
}
