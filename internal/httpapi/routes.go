package httpapi

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/opspage"
)

// docsPath is the path of the HTML description of the API.
const docsPath = "/docs"

// route is one method of one path, and who may use it.
type route struct {
	method, path string
	handle       echo.HandlerFunc

	// scopes: a token needs one of them. None: the route needs no token.
	scopes []access.Scope
	// free routes do not count as requests in progress, because they matter most under overload.
	free bool
}

// routes returns all routes. Each GET route also answers HEAD.
func (s *service) routes() []route {
	read := []access.Scope{access.FeedRead}
	opsPage := page(echo.WrapHandler(opspage.New()))
	return slices.Concat([]route{
		{http.MethodGet, "/healthz", s.health, nil, true},
		{http.MethodGet, "/readyz", s.ready, nil, true},
		{http.MethodGet, "/openapi.json", s.openAPI, nil, true},
		{http.MethodGet, docsPath, page(s.docsPage), nil, true},
		{http.MethodGet, docsPath + "/style.css", page(s.docsFile), nil, true},
		{http.MethodGet, docsPath + "/*", page(s.docsFile), nil, true},
		{http.MethodGet, opspage.Path, opsPage, nil, true}, // a static page, without data
		{http.MethodGet, opspage.Path + "/*", opsPage, nil, true},
		{http.MethodGet, "/metrics", s.scrape, []access.Scope{access.OpsRead}, true},
		{http.MethodPost, filterPath, s.filter, read, false},
		{http.MethodPost, explainPath, s.explain, []access.Scope{access.FeedRead, access.OpsRead}, false},
		{http.MethodPost, fanoutPath, s.fanout, read, false},
		{http.MethodGet, "/v1/kinds", s.kinds, access.Scopes(), true},
	}, userCalls{s}.routes(), operations{s}.routes())
}

// withLedger returns what handles a route of a call that needs a ledger: without one, a refusal.
func (s *service) withLedger(call string, handle echo.HandlerFunc) echo.HandlerFunc {
	if s.recorder != nil {
		return handle
	}
	return func(c echo.Context) error {
		leaveBody(c)
		return &activity.NoLedgerError{Call: call}
	}
}

// addRoutes adds all routes to e.
func (s *service) addRoutes(e *echo.Echo) {
	below := make(map[string]bool)
	for _, r := range append(s.routes(), s.procedures.routes...) {
		handle := s.limited(r.handle)
		if r.free {
			handle = s.unlimited(r.handle)
		}
		handle = s.admitted(r, handle)
		e.Add(r.method, r.path, handle)
		if r.method == http.MethodGet {
			e.HEAD(r.path, handle)
		}
		below[r.path] = true
	}
	e.RouteNotFound(opsKeyPath+"/*", echo.NotFoundHandler)
	for _, k := range s.activities.Kinds().All() {
		// Without this route, the last parameter would match the rest of the path, slashes
		// included.
		if one := "/v1/users/:user/" + k.Plural + "/:target"; below[one] {
			e.RouteNotFound(one+"/*", echo.NotFoundHandler)
		}
	}
}
