//go:build !race

package httpapi_test

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// contract compares requests and answers with the description of a service. It checks everything
// that the tests of this package send (see service.do). It checks nothing under the race detector:
// checks take turns, and would hide races of calls made at once.
type contract struct {
	*description

	kinds *activity.Kinds

	mu   sync.Mutex
	seen map[string]bool // "<method> <path> <status>" of checked answers
}

// typeLines is NDJSON. The description has the schema of a line.
const typeLines = "application/x-ndjson"

// call is a request that the description has an operation for.
type call struct {
	exchange

	operation part
	media     string            // media type of the request's body
	path      map[string]string // values of the path's parameters
	query     url.Values
}

// judge returns how x differs from the description.
func (c *contract) judge(x exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.target = c.canonical(x.target)
	target, query, _ := strings.Cut(x.target, "?")
	switch {
	case strings.HasPrefix(target, "/ops/"),
		strings.HasPrefix(target, "/docs/") && target != "/docs/style.css": // files of pages: see TestFilesOfPages
		return nil
	case x.Header.Get("X-Request-ID") == "": // answered by net/http, which did not accept the request
		return is(x.answer, 400, "")
	}
	route, path := c.route(target)
	method := strings.ToLower(strings.Replace(x.method, http.MethodHead, http.MethodGet, 1))
	operation := c.part("paths", route, method)
	switch {
	case route == "", strings.HasSuffix(target, "/"):
		return is(x.answer, 404, "not_found")
	case x.method == http.MethodOptions: // the router's answer, with the allowed methods
		return is(x.answer, 204, "")
	case operation.value == nil:
		return is(x.answer, 405, "method_not_allowed")
	case x.Code == "not_found" && strings.Contains(target, "//"):
		return nil
	}
	c.seen[x.method+" "+route+" "+strconv.Itoa(x.Status)] = true
	media, _, err := mime.ParseMediaType(x.contentType)
	if err != nil {
		media = x.contentType
	}
	values, err := url.ParseQuery(query)
	if err != nil && x.Status < 300 {
		return fmt.Errorf("the request was accepted: %w", err)
	}
	return call{exchange: x, operation: operation, media: media, path: path, query: values}.judge()
}

// inPath matches a target with the name of a kind, or another word in its place.
var inPath = regexp.MustCompile(`^(/v1/(?:users|targets)/[^/?]*/)([^/?]*)(.*)$`)

// canonical returns a target as the description has it: with the plural of a kind. The head of the
// description says that its name works, too.
func (c *contract) canonical(target string) string {
	parts := inPath.FindStringSubmatch(target)
	if parts == nil {
		return target
	}
	if k, ok := c.kinds.Named(parts[2]); ok {
		parts[2] = k.Plural
	}
	return strings.Join(parts[1:], "")
}

func is(a answer, status int, code string) error {
	if a.Status != status || a.Code != code {
		return fmt.Errorf("answered %d %s, want %d %s", a.Status, a.Body, status, code)
	}
	return nil
}

// judge checks the answer; then the request. An accepted request must match the description, and
// one whose body was refused for its form must not.
func (c call) judge() error {
	if err := c.judgeAnswer(); err != nil {
		return err
	}
	if c.Status < 300 {
		if err := errors.Join(c.judgeParameters(), c.judgeBody()); err != nil {
			return fmt.Errorf("the request was accepted: %w", err)
		}
		return nil
	}
	wrong := slices.Contains([]string{"unknown_field", "invalid_type", "missing_field"}, c.Code) &&
		!strings.HasSuffix(c.Field, ".until") && !strings.HasSuffix(c.Field, ".since") // the schema cannot express this rule
	if wrong && c.contentType == "application/json" && c.body != "" && c.judgeBody() == nil {
		return fmt.Errorf("the request was refused with %s of %s, but matches the description", c.Code, c.Field)
	}
	return nil
}

// judgeAnswer checks the answer's status, header and body.
func (c call) judgeAnswer() error {
	response := c.operation.at("responses", strconv.Itoa(c.Status))
	if response.value == nil {
		return fmt.Errorf("the description has no status %d", c.Status)
	}
	if c.Header.Get("Retry-After") != "" && response.at("headers", "Retry-After").value == nil {
		return errors.New("Retry-After is not in the description")
	}
	for name := range response.members("headers") {
		header, values := response.at("headers", name), c.Header.Values(name)
		if len(values) == 0 && at(header.value, "required") == true {
			return fmt.Errorf("the header %s is missing", name)
		}
		for _, value := range values {
			if err := header.at("schema").fitsWord(value); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
	}
	contents := response.at("content")
	if contents.value == nil {
		if c.Body != "" || c.Header.Get("Content-Type") != "" {
			return errors.New("the body is not in the description")
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("the answer's Content-Type: %w", err)
	}
	if c.method == http.MethodHead && c.Body == "" {
		return contents.has(media)
	}
	return contents.fitsBody(media, c.Body)
}

// judgeParameters checks the parameters in the path and the query.
func (c call) judgeParameters() error {
	known := make(map[string]bool)
	for parameter := range c.operation.items("parameters") {
		name, _ := at(parameter.value, "name").(string)
		var values []string
		switch in := at(parameter.value, "in"); in {
		case "path":
			values = []string{c.path[name]}
		case "query":
			known[name], values = true, c.query[name]
		default:
			return fmt.Errorf("parameter %s: this test does not check parameters in %v", name, in)
		}
		if len(values) > 1 || len(values) == 0 && at(parameter.value, "required") == true {
			return fmt.Errorf("parameter %s: %d values", name, len(values))
		}
		for _, value := range values {
			if err := parameter.at("schema").fitsWord(value); err != nil {
				return fmt.Errorf("parameter %s: %w", name, err)
			}
		}
	}
	for name := range c.query {
		if !known[name] && c.operation.at("responses", "400").value != nil { // otherwise the call ignores the query
			return fmt.Errorf("parameter %q is not in the description", name)
		}
	}
	return nil
}

// judgeBody checks the request's body. The lines of NDJSON are judged by their results.
func (c call) judgeBody() error {
	switch body := c.operation.at("requestBody"); {
	case c.body == "" && at(body.value, "required") != true:
		return nil
	case body.value == nil:
		return errors.New("a body is not in the description")
	case c.media == typeLines:
		return body.at("content").has(c.media)
	default:
		return body.at("content").fitsBody(c.media, c.body)
	}
}

// descriptions holds the description for each set of kinds, with the schemas compiled so far.
//
//nolint:gochecknoglobals // shared by all tests
var descriptions sync.Map

// contractOf returns the service's contract. It builds the contract at the first call, with another
// handler, because this one counts and logs its requests.
func (s *service) contractOf(t testing.TB) *contract {
	t.Helper()
	s.described.Do(func() {
		key := fmt.Sprint(s.activities.Kinds().All())
		d, ok := descriptions.Load(key)
		if !ok {
			d = newDescription(t, httpapi.New(httpapi.Config{Activities: s.activities}))
			descriptions.Store(key, d)
		}
		s.contract = &contract{description: d.(*description), kinds: s.activities.Kinds(), seen: make(map[string]bool)}
	})
	return s.contract
}

// TestPatterns: patterns use only syntax that all regular-expression languages share, because tools
// fail at classes of Unicode.
func TestPatterns(t *testing.T) {
	c := open(t).contractOf(t)
	patterns := regexp.MustCompile(`"pattern":"((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(asText(t, c.document), -1)
	if len(patterns) == 0 {
		t.Fatal("the description has no patterns")
	}
	for _, p := range patterns {
		if strings.Contains(strings.ToLower(p[1]), `\\p`) {
			t.Errorf("pattern %s", p[1])
		}
	}
	for text, want := range map[string]bool{"é \u2028": true, "a\u0000": false, "a\u001f": false, "a\u007f": false, "\u009f": false, "\u00a0": true} {
		if err := c.schema("ID").fits(asText(t, text)); (err == nil) != want {
			t.Errorf("the id %q: %v", text, err)
		}
	}
}

// TestContractFindsFaults: an exchange that the description allows does not match a faulty one.
func TestContractFindsFaults(t *testing.T) {
	s := open(t)
	list := s.exchange(t, "GET", "/v1/users/1/blocks?limit=5", "")
	filter := s.exchange(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"2"}]}`)
	record := s.exchange(t, "PUT", "/v1/users/1/blocks/2", "")
	missing := s.exchange(t, "POST", "/v1/feed/filter", `{"viewer":"1"}`)
	unknown := s.exchange(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"x":1}`)
	style := s.exchange(t, "GET", "/docs/style.css", "")
	for _, c := range []struct {
		exchange
		edit
	}{
		{list, edit{"paths /v1/users/{user}/blocks get responses 200", nil, "no status 200"}},
		{list, edit{"paths /v1/users/{user}/blocks get responses 200 content application/json", nil, `no body of type "application/json"`}},
		{list, edit{"paths /v1/users/{user}/blocks get responses 200 content", nil, "the body is not in the description"}},
		{list, edit{"paths /v1/users/{user}/blocks get parameters", nil, `parameter "limit" is not in the description`}},
		{list, edit{"paths /v1/users/{user}/blocks get parameters 1 schema maximum", 4, "parameter limit: "}},
		{list, edit{"paths /v1/users/{user}/blocks get parameters 0 schema", map[string]any{"type": "string", "minLength": 2}, "parameter user: "}},
		{list, edit{"paths /v1/users/{user}/blocks get parameters 2 required", true, "parameter cursor: 0 values"}},
		{list, edit{"paths /v1/users/{user}/blocks get", nil, "want 405"}},
		{list, edit{"paths /v1/users/{user}/blocks", nil, "want 404"}},
		{list, edit{"components headers RequestID schema", map[string]any{"maxLength": 1}, "header X-Request-Id: "}},
		{record, edit{"paths /v1/users/{user}/blocks/{target} put responses 200 headers X-Other", map[string]any{"required": true, "schema": true}, "the header X-Other is missing"}},
		{record, edit{"components schemas Changed properties changed type", "string", "at '/changed'"}},
		{record, edit{"components schemas Changed required", []any{"other"}, "missing property 'other'"}},
		{record, edit{"paths /v1/users/{user}/blocks/{target} put requestBody", map[string]any{"required": true, "content": map[string]any{"application/json": nil}}, "accepted"}},
		{filter, edit{"paths /v1/feed/filter post requestBody", nil, "a body is not in the description"}},
		{filter, edit{"paths /v1/feed/filter post requestBody content application/json", nil, `no body of type "application/json"`}},
		{filter, edit{"components schemas FilterRequest properties viewer", nil, "the request was accepted: "}},
		{filter, edit{"components schemas FilterRequest properties posts maxItems", 0, "the request was accepted: "}},
		{missing, edit{"components schemas FilterRequest required", nil, "matches the description"}},
		{unknown, edit{"components schemas FilterRequest properties x", true, "matches the description"}},
		{missing, edit{"components schemas Error", map[string]any{"required": []any{"other"}}, "missing property 'other'"}},
		{missing, edit{"paths /v1/feed/filter post responses 400", nil, "no status 400"}},
		{style, edit{"paths /docs/style.css get responses 200 content text/css", nil, `no body of type "text/css"`}},
	} {
		if err := contractWith(t, s.Handler, c.edit).judge(c.exchange); err == nil || !strings.Contains(err.Error(), c.complain) {
			t.Errorf("%s %s, with %s = %v: error %v, want %q", c.method, c.target, c.in, c.to, err, c.complain)
		}
	}
}

// exchange makes a request, and returns it with its answer, which match the description.
func (s *service) exchange(t *testing.T, method, target, body string) exchange {
	t.Helper()
	return exchange{method: method, target: target, contentType: "application/json", body: body, answer: s.do(t, method, target, body)}
}

// edit is a change of a document.
type edit struct {
	in       string // what changes: the part under these names, separated by spaces
	to       any    // what it becomes; nil: it is removed
	complain string // part of the error that finds it
}

// contractWith returns the contract that h describes, with edits.
func contractWith(t *testing.T, h http.Handler, edits ...edit) *contract {
	t.Helper()
	_, a := ask(t, h, http.MethodGet, "/openapi.json", "")
	tree, err := jsonschema.UnmarshalJSON(strings.NewReader(a.Body))
	must(t, err)
	for _, f := range edits {
		names := strings.Fields(f.in)
		parent, last := tree, names[len(names)-1]
		for _, name := range names[:len(names)-1] {
			if list, ok := parent.([]any); ok {
				i, err := strconv.Atoi(name)
				must(t, err)
				parent = list[i]
			} else {
				parent = at(parent, name)
			}
		}
		object, ok := parent.(map[string]any)
		if !ok {
			t.Fatalf("the document has no %s", f.in)
		}
		if object[last] = f.to; f.to == nil {
			delete(object, last)
		}
	}
	d, err := describe(asText(t, tree))
	must(t, err)
	return &contract{description: d, kinds: activity.BuiltinKinds(), seen: make(map[string]bool)}
}

// TestFaultsOfDocuments: all that is wrong with a document is found.
func TestFaultsOfDocuments(t *testing.T) {
	faults := []edit{
		{"openapi", "3.0.1", "at '/openapi'"},
		{"info title", nil, "missing property 'title'"},
		{"nothing", 1, "at '/nothing': false schema"},
		{"paths none", map[string]any{}, "at '/paths/none': false schema"},
		{"paths /v1/kinds get responses 20", map[string]any{"description": ""}, "kinds/get/responses/20': false schema"},
		{"paths /v1/kinds get responses 200 description", nil, "missing property 'description'"},
		{"paths /v1/pages get responses 200 content application/json schema", []any{}, "at '/paths/~1v1~1pages/get/responses/200"},
		{"paths /v1/stats get responses 200 content application/json schema", map[string]any{"type": "text"}, "is not valid against metaschema"},
		{"paths /healthz get responses 200 content application/json schema $ref", "#/components/schemas/None", "/components/schemas/None"},
		{"paths /v1/kinds get responses 200 headers X-Request-Id $ref", "#/components/headers/None", "nothing is at #/components/headers/None"},
		{"components schemas Recorded properties", []any{}, "/components/schemas/Recorded"},
		{"paths /v1/kinds get operationId", "filterFeed", "have the operationId filterFeed"},
		{"paths /v1/kinds get parameters", []any{map[string]any{"in": "query", "schema": true}}, "missing property 'name'"},
		{"paths /v1/users/{user} get parameters", nil, "describes the parameters []"},
	}
	err := contractWith(t, open(t).Handler, faults...).valid(officialSchema(t))
	for _, f := range faults {
		if err == nil || !strings.Contains(err.Error(), f.complain) {
			t.Errorf("%s = %v: error %v, want %q", f.in, f.to, err, f.complain)
		}
	}
}

// officialSchema returns the schema of OpenAPI 3.1, https://spec.openapis.org/oas/3.1/schema/2022-10-07.
func officialSchema(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/openapi-3.1.json")
	must(t, err)
	return string(text)
}
