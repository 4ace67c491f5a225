package httpapi

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/rest"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

// describedBy returns the service's routes, and the operations of its description by "<method>
// <path>" in the form of routes.
func describedBy(t *testing.T, kinds *activity.Kinds) ([]wire.Route, map[string]operation) {
	t.Helper()
	r, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: &favfilter.Memory{}, Pages: 1, Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	text, err := openapi.Document(kinds)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]operation `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	operations := make(map[string]operation)
	for path, item := range document.Paths {
		path = strings.NewReplacer("{", ":", "}", "").Replace(path)
		for method, o := range item {
			operations[strings.ToUpper(method)+" "+path] = o
		}
	}
	return newFront(Config{Activities: r}).routes, operations
}

// operation holds the parts of an operation that follow from its route.
type operation struct {
	ID        string                `json:"operationId"` //nolint:tagliatelle // the specification's name
	Tags      []string              `json:"tags"`
	Summary   string                `json:"summary"`
	Security  []map[string][]string `json:"security"`
	Body      any                   `json:"requestBody"` //nolint:tagliatelle // the specification's name
	Text      string                `json:"description"`
	Params    []parameter           `json:"parameters"`
	Responses map[string]struct {
		Description string `json:"description"`
	} `json:"responses"`
}

type parameter struct {
	Name   string         `json:"name"`
	Text   string         `json:"description"`
	Schema map[string]any `json:"schema"`
}

// has reports whether the operation has an answer with the error code.
func (o operation) has(code string) bool {
	return strings.Contains(o.Responses[strconv.Itoa((&wire.Problem{Code: code}).Status())].Description, "`"+code+"`")
}

// TestEveryRouteIsDescribed: routes and operations are the same. Scopes and common errors in the
// description agree with the route.
func TestEveryRouteIsDescribed(t *testing.T) {
	routes, described := describedBy(t, activity.BuiltinKinds())
	ids := make(map[string]string)
	for _, r := range routes {
		route := r.Method + " " + r.Path
		if strings.HasSuffix(r.Path, "/*") {
			if route != "GET /ops/*" && route != "GET /docs/*" {
				t.Errorf("%s is missing from the description; only files of a page may be", route)
			}
			continue
		}
		o, ok := described[route]
		delete(described, route)
		if !ok {
			t.Errorf("%s is not described: add it to internal/openapi/openapi.yaml", route)
			continue
		}
		if other := ids[o.ID]; other != "" {
			t.Errorf("%s and %s have the same operationId", route, other)
		}
		ids[o.ID] = route
		if o.ID == "" || len(o.Tags) != 1 || o.Summary == "" {
			t.Errorf("%s is described without its id, tag or summary", route)
		}
		var security []map[string][]string
		for _, scope := range r.Scopes {
			security = append(security, map[string][]string{"token": {string(scope)}})
		}
		if !reflect.DeepEqual(o.Security, security) {
			t.Errorf("%s: the description has the scopes %v, the route has %v", route, o.Security, r.Scopes)
		}
		body := o.Body != nil
		for code, want := range map[string]bool{
			wire.CodeInternal: true, wire.CodeMisdirected: true, wire.CodeUnauthenticated: len(r.Scopes) > 0, wire.CodeForbidden: len(r.Scopes) > 0,
			wire.CodeRateLimited: len(r.Scopes) > 0, wire.CodeCrossOrigin: r.Method != http.MethodGet, wire.CodeAuditUnavailable: r.Audited(true),
			wire.CodeOverloaded: !r.Free, wire.CodeMalformedJSON: body, wire.CodeUnsupportedMediaType: body, wire.CodeTooLarge: body,
			wire.CodeUnexpectedBody: !body && o.has(wire.CodeTimeout), activity.CodeInvalidID: o.has(activity.CodeInvalidID) || strings.Contains(r.Path, ":"),
		} {
			if o.has(code) != want {
				t.Errorf("%s: the description has the error %s: %t, want %t", route, code, !want, want)
			}
		}
	}
	for route := range described {
		t.Errorf("%s is described, but there is no such route", route)
	}
}

// schemasOf returns the schemas of the description with the built-in kinds.
func schemasOf(t *testing.T) map[string]any {
	t.Helper()
	text, err := openapi.Document(activity.BuiltinKinds())
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return document.Components.Schemas
}

// within returns the value in v at a path of names, separated by dots.
func within(t *testing.T, v any, path string) any {
	t.Helper()
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		if v = object[name]; v == nil {
			t.Fatalf("the description has no %s in %s", name, path)
		}
	}
	return v
}

// TestEveryCodeIsDescribed: all error codes are in the description, with their status, and in
// docs/API.md.
func TestEveryCodeIsDescribed(t *testing.T) {
	schema := within(t, schemasOf(t), "Error.properties.error.properties.code")
	texts, _ := within(t, schema, "x-enumDescriptions").(map[string]any)
	values, _ := within(t, schema, "enum").([]any)
	if len(values) != len(texts) {
		t.Errorf("%d codes, %d texts", len(values), len(texts))
	}
	text, err := os.ReadFile("../../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\n## Errors\n")
	for code := range allCodes(t) {
		about, _ := texts[code].(string)
		if status := strconv.Itoa((&wire.Problem{Code: code}).Status()); !strings.HasPrefix(about, status+": ") {
			t.Errorf("openapi.yaml describes the code %q as %q, want its status %s before the text", code, about, status)
		}
		if !slices.Contains(values, any(code)) {
			t.Errorf("openapi.yaml: the enum of codes lacks %q", code)
		}
		if !strings.Contains(list, "`"+code+"`") {
			t.Errorf("docs/API.md lacks the code %q", code)
		}
		delete(texts, code)
	}
	for code := range texts {
		t.Errorf("openapi.yaml describes the code %q, which does not exist", code)
	}
}

// TestLimitsAreDescribed: limits in the description equal those of the code.
func TestLimitsAreDescribed(t *testing.T) {
	schemas := schemasOf(t)
	for path, want := range map[string]float64{
		"ID.maxLength":                               activity.MaxIDBytes,
		"Post.properties.actors.maxItems":            feed.MaxActors,
		"FilterRequest.properties.posts.maxItems":    feed.MaxPosts,
		"FilterRequest.properties.limit.maximum":     feed.MaxPosts,
		"FilterAnswer.properties.posts.maxItems":     feed.MaxPosts,
		"FilterAnswer.properties.dropped.maxItems":   feed.MaxPosts,
		"FilterAnswer.properties.next.maximum":       feed.MaxPosts - 1,
		"DroppedAnswer.properties.dropped.maxItems":  feed.MaxPosts,
		"DroppedAnswer.properties.next.maximum":      feed.MaxPosts - 1,
		"List.properties.items.maxItems":             activity.MaxListed,
		"Posts.properties.posts.maxItems":            operations.MaxPosts,
		"Recorded.properties.recorded.maximum":       operations.MaxPosts,
		"Batch.properties.activities.maxItems":       operations.MaxBatch,
		"Results.properties.results.maxItems":        operations.MaxBatch,
		"PreviewRequest.properties.targets.maxItems": activity.MaxPreviewed,
		"PagesRequest.properties.pages.maximum":      pages.MaxPages,
		"Pages.properties.pages.maximum":             pages.MaxPages,
		"OpsScrubRequest.properties.rate.maximum":    pages.MaxScrubRate,
		"OpsHistory.properties.time.maxItems":        24 * 60,
		"OpsHistory.properties.step_seconds.maximum": 60,
		"PageNumber.maximum":                         math.MaxUint32,
	} {
		if got := within(t, schemas, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	_, described := describedBy(t, activity.BuiltinKinds())
	for route, want := range map[string]struct {
		param     string
		low, high float64
	}{
		"GET /v1/users/:user/blocks": {"limit", 1, activity.MaxListed},
	} {
		p := described[route].parameter(want.param)
		if p.Schema["minimum"] != want.low || p.Schema["maximum"] != want.high {
			t.Errorf("%s: the parameter is %v, want %+v", route, p, want)
		}
	}
	text := func(path string) string { return within(t, schemas, path+".description").(string) }
	for about, numbers := range map[string][]int{
		text("ID"):                                                      {activity.MaxIDBytes},
		text("FilterRequest.properties.posts"):                          {feed.MaxIDs},
		text("Post.properties.facets"):                                  {feed.MaxFacetIDs},
		text("PageNumber"):                                              {ledger.DedicatedPages},
		described["POST /v1/activities"].Text:                           {operations.MaxBatch, rest.MaxLine >> 10},
		described["DELETE /v1/users/:user"].Text:                        {int(rest.DeleteTimeout.Minutes())},
		described["GET /v1/users/:user/blocks"].parameter("limit").Text: {operations.DefaultListed},
	} {
		for _, n := range numbers {
			if !slices.Contains(strings.FieldsFunc(strings.ReplaceAll(about, ",", ""), notInNumber), strconv.Itoa(n)) {
				t.Errorf("%q does not name %d", about, n)
			}
		}
	}
}

func notInNumber(r rune) bool { return r < '0' || r > '9' }

// parameter returns the parameter with the name.
func (o operation) parameter(name string) parameter {
	i := slices.IndexFunc(o.Params, func(p parameter) bool { return p.Name == name })
	if i < 0 {
		return parameter{}
	}
	return o.Params[i]
}

// allCodes returns the constants Code... of the packages wire, activity and
// activity/pages, and of followed events, from their source.
func allCodes(t *testing.T) map[string]bool {
	t.Helper()
	codes := make(map[string]bool)
	for file, prefix := range map[string]string{
		"wire/errors.go": "Code", "../../activity/errors.go": "Code", "../../activity/pages/errors.go": "Code",
		"../follow/events.go": "Code",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			if _, ok := spec.Values[0].(*ast.SelectorExpr); ok { // an alias of a constant in another of these files
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: %s is not a literal", file, spec.Names[0])
				return true
			}
			code, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Error(err)
			}
			codes[code] = true
			return true
		})
	}
	if len(codes) < 30 {
		t.Errorf("only %d codes found", len(codes))
	}
	return codes
}
