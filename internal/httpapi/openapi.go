package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

// described is what the description says of a route, beside what follows from the table of routes: its path, scopes, and the errors
// that all calls of its sort have. A route without
// one fails TestEveryRouteIsDescribed.
type described struct {
	id      string // operationId; record..., remove... and list... are those of kinds
	tag     string // one of tags
	summary string
	text    string

	query   []openapi.Parameter
	takes   []media // what a body may be; none: the call takes no body
	answers []reply
	codes   []string // of errors that are this call's own

	bare   bool // the body may be left out
	static bool // it looks at neither the query nor a body
}

// media is a body: its type, a schema, and a sound example.
type media struct {
	kind    string // media type
	schema  *openapi.Schema
	example string
}

// reply is an answer that is not of the shape of errors.
type reply struct {
	status int
	text   string
	body   []media
}

// Tags of calls.
const (
	tagFeed       = "Feed"
	tagActivities = "Activities"
	tagUsers      = "Users"
	tagPages      = "Pages"
	tagService    = "Service"
	tagOperations = "Operations"
)

// inQuery is where parameters are that are not part of the path.
const inQuery = "query"

// tokenScheme is the name of the way in which callers say who they are.
const tokenScheme = "token"

// document describes all routes.
func (s *service) document() *openapi.Document {
	kinds := s.recorder.Kinds()
	d := &openapi.Document{
		OpenAPI: openapi.Version,
		Info: openapi.Info{
			Title:       "feedfilter",
			Summary:     "Drops from a feed what its viewer must not see.",
			Description: aboutAPI,
			Version:     "1",
			License:     openapi.License{Name: "Apache 2.0", Identifier: "Apache-2.0"},
		},
		Servers: []openapi.Server{{URL: "/"}},
		Tags: []openapi.Tag{
			{Name: tagFeed, Description: "Which of the candidates for a feed a viewer gets to see."},
			{Name: tagActivities, Description: "What users do, of the kinds that this service has."},
			{Name: tagUsers, Description: "All that is kept of a user."},
			{Name: tagPages, Description: "How many pages the filter is cut into."},
			{Name: tagService, Description: "How the service is, and what it can do."},
			{Name: tagOperations, Description: "What the service is like inside, and what can be mended: for whoever runs it. Numbers are " +
				"those of the process that answers."},
		},
		Components: openapi.Components{
			Schemas: schemas(kinds),
			Headers: openapi.Ordered[openapi.Header]{
				{Name: "RetryAfter", Value: openapi.Header{Description: "How long to wait before the call is repeated, in " +
					"seconds.", Schema: atLeast(0, "")}},
				{Name: "RequestID", Value: openapi.Header{
					Description: "The request's id in the log: that of the request's own X-Request-Id, if it is 1 to 64 letters, digits and " +
						"`-_.`, else a random one.",
					Schema: &openapi.Schema{Type: openapi.Types{openapi.String}},
				}},
			},
			SecuritySchemes: openapi.Ordered[openapi.SecurityScheme]{{Name: tokenScheme, Value: openapi.SecurityScheme{
				Type: "http", Scheme: "bearer", Description: aboutTokens(),
			}}},
		},
	}
	calls := calls(kinds)
	for _, r := range s.routes() {
		if r.below() {
			continue
		}
		d.Paths = addOperation(d.Paths, r, calls[r.method+" "+r.path])
	}
	return d
}

// below reports whether the route is of all paths below one. These are the files of a page: what there is of them follows from the page,
// and is of no use without it. They are the only routes that are not described.
func (r route) below() bool { return strings.HasSuffix(r.path, "/*") }

// addOperation adds a route to the paths.
func addOperation(paths openapi.Ordered[openapi.PathItem], r route, c described) openapi.Ordered[openapi.PathItem] {
	path := openPath(r.path)
	at := slices.IndexFunc(paths, func(m openapi.Member[openapi.PathItem]) bool { return m.Name == path })
	if at < 0 {
		at, paths = len(paths), paths.With(path, nil)
	}
	paths[at].Value = paths[at].Value.With(strings.ToLower(r.method), r.operation(c))
	return paths
}

// openPath writes ":user" as "{user}".
func openPath(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

// operation is the route as c describes it.
func (r route) operation(c described) *openapi.Operation {
	op := &openapi.Operation{ID: c.id, Summary: c.summary, Description: c.text, Parameters: slices.Concat(r.pathParameters(), c.query)}
	if c.tag != "" {
		op.Tags = []string{c.tag}
	}
	if len(c.takes) > 0 {
		op.RequestBody = &openapi.RequestBody{Required: !c.bare, Content: contents(c.takes)}
	}
	for _, scope := range r.scopes {
		op.Security = append(op.Security, map[string][]string{tokenScheme: {string(scope)}})
	}
	id := openapi.Member[openapi.Header]{Name: echo.HeaderXRequestID, Value: openapi.Header{Ref: "#/components/headers/RequestID"}}
	for _, a := range c.answers {
		res := openapi.Response{Description: a.text, Headers: openapi.Ordered[openapi.Header]{id}, Content: contents(a.body)}
		if a.status == http.StatusServiceUnavailable {
			res.Headers = res.Headers.With(echo.HeaderRetryAfter, openapi.Header{Ref: "#/components/headers/RetryAfter"})
		}
		op.Responses = op.Responses.With(strconv.Itoa(a.status), res)
	}
	for _, res := range errorResponses(r.codes(c)) {
		res.Value.Headers = append(openapi.Ordered[openapi.Header]{id}, res.Value.Headers...)
		op.Responses = append(op.Responses, res)
	}
	return op
}

func contents(bodies []media) (all openapi.Ordered[openapi.MediaType]) {
	for _, m := range bodies {
		t := openapi.MediaType{Schema: m.schema}
		switch {
		case m.example == "":
		case m.kind == typeJSON:
			t.Example = []byte(m.example)
		default: // lines, or another text
			t.Example = quoted(m.example)
		}
		all = all.With(m.kind, t)
	}
	return all
}

// pathParameters are the ids and names in the path.
func (r route) pathParameters() (params []openapi.Parameter) {
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			p := openapi.Parameter{Name: name, In: "path", Required: true, Schema: ref("ID"), Example: quoted("1")}
			switch name {
			case "user":
				p.Description = "The user's id."
			case "number":
				p.Description, p.Schema, p.Example = "The page's number.", ref("PageNumber"), []byte("0")
			case "kind":
				p.Description, p.Schema, p.Example = "The kind of the activity.", ref("Kind"), quoted("block")
			default:
				p.Description, p.Example = "The id of whom or what the activity is about.", quoted("2")
			}
			params = append(params, p)
		}
	}
	return params
}

// codes are those of all errors that a call may be answered.
func (r route) codes(c described) []string {
	codes := slices.Concat([]string{codeInternal, codeMisdirected}, c.codes)
	if !c.static {
		codes = append(codes, codeMalformedQuery, codeUnknownParameter)
	}
	if len(r.scopes) > 0 {
		codes = append(codes, codeUnauthenticated, codeForbidden, codeRateLimited)
	}
	if r.method != http.MethodGet {
		codes = append(codes, codeCrossOrigin)
	}
	if len(c.query) > 0 {
		codes = append(codes, codeRepeatedParameter)
	}
	if strings.Contains(r.path, ":") {
		codes = append(codes, activity.CodeInvalidID)
	}
	if !r.free { // of the limit on requests, and so of what takes long
		codes = append(codes, codeOverloaded, codeUnavailable)
	}
	switch {
	case len(c.takes) > 0:
		codes = append(codes, codeMalformedJSON, codeUnknownField, codeDuplicateKey, codeInvalidType, codeMissingField, codeUnreadableBody,
			codeTimeout, codeTooLarge, codeUnsupportedMediaType)
	case !r.free:
		codes = append(codes, codeUnexpectedBody, codeUnreadableBody, codeTimeout)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// aboutTokens says what scopes there are.
func aboutTokens() string {
	var text strings.Builder
	text.WriteString("Where the service was started with tokens, a call has to bring one, as `Authorization: Bearer <token>`. What it " +
		"may be used for are its scopes; of those that a call names it needs one.\n\n")
	for _, scope := range []struct {
		name access.Scope
		text string
	}{
		{access.FeedRead, "ask for feeds, and read what users did"},
		{access.ActivityWrite, "record, undo, and delete users"},
		{access.OpsRead, "see how the service is, and explain a post"},
	} {
		text.WriteString("- `" + string(scope.name) + "`: " + scope.text + "\n")
	}
	return text.String()
}

// aboutAPI is the introduction.
const aboutAPI = "JSON over HTTP/1.1. Ids of users and posts are strings of 1 to 256 bytes of UTF-8 without control characters; in " +
	"paths they are percent-encoded, so that `a/b` is `a%2Fb`.\n\n" +
	"Once an answer has arrived, what it says is durable, and every feed asked for afterwards has it. **Every call may be repeated**, " +
	"but for a feed with `record_seen` that may have been answered: the next would leave out what that one has kept; after a 503 " +
	"`unavailable`, or without an answer, it may or may not have taken effect. After any 4xx nothing has changed.\n\n" +
	"JSON is read strictly: unknown fields, duplicate keys, `null`, anything after the value and invalid UTF-8 are errors, and so is a " +
	"query parameter that a call does not know. What takes GET takes HEAD.\n\n" +
	"Instead of becoming slow, the service refuses: with 503, `overloaded` and a Retry-After of 1 to 3 seconds. Nothing of such a " +
	"request was done."
