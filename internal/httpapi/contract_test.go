//go:build !race

package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/cache"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/content"
	failures "github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi-validator/router"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

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

// description is the OpenAPI document of all services with the same kinds.
type description struct {
	document  map[string]any
	model     *v3.Document
	validator validator.Validator
	schemas   schema_validation.SchemaValidator
	routes    router.Router
}

// maxJudged is the length of the longest body that is checked against its schema, in bytes. Longer
// ones have the same form.
const maxJudged = 32 << 10

// typeLines is NDJSON. The description has the schema of a line.
const typeLines = "application/x-ndjson"

func newDescription(t testing.TB, h http.Handler) *description {
	t.Helper()
	_, a := ask(t, h, http.MethodGet, "/openapi.json", "")
	if a.Status != http.StatusOK {
		t.Fatalf("GET /openapi.json: %d %s", a.Status, a.Body)
	}
	document, err := libopenapi.NewDocument([]byte(a.Body))
	must(t, err)
	model, err := document.BuildV3Model()
	must(t, err)
	compiled := &lazyCache{SchemaCache: cache.NewDefaultCache()}
	options := []config.Option{
		config.WithSchemaCache(compiled), config.WithFormatAssertions(), config.WithContentAssertions(), config.WithRejectUndeclaredRequestBody(),
		config.WithBodyDecoder(typeLines, content.JSONDecoder()), config.WithoutSecurityValidation(), // TestScopes
	}
	v, errs := validator.NewValidator(document, options...)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	compiled.inUse = true
	return &description{
		document: a.JSON, model: &model.Model, validator: v,
		schemas: schema_validation.NewSchemaValidator(options...), routes: router.NewRouter(&model.Model),
	}
}

// lazyCache compiles schemas when they are needed; compiling all of them takes seconds.
type lazyCache struct {
	cache.SchemaCache

	inUse bool
}

// Load reports every schema as present while the validator is being built.
func (l *lazyCache) Load(key uint64) (*cache.SchemaCacheEntry, bool) {
	if !l.inUse {
		return nil, true
	}
	return l.SchemaCache.Load(key)
}

// at returns the value in v under the names, or nil.
func at(v any, names ...string) any {
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// fits returns why text does not match the named schema.
func (d *description) fits(name, text string) error {
	schema := d.model.Components.Schemas.GetOrZero(name)
	if schema == nil {
		return fmt.Errorf("no schema %s", name)
	}
	return valid(d.schemas.ValidateSchemaStringWithVersion(schema.Schema(), text, 3.1))
}

// valid turns the result of a validator into an error.
func valid(ok bool, errs []*failures.ValidationError) error {
	var all []error
	for _, err := range errs {
		all = append(all, err)
	}
	if !ok && len(all) == 0 {
		return errors.New("not valid")
	}
	return errors.Join(all...)
}

// judge returns how x differs from the description.
func (c *contract) judge(x exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.target = c.canonical(x.target)
	target, _, _ := strings.Cut(x.target, "?")
	switch {
	case strings.HasPrefix(target, "/ops/"),
		strings.HasPrefix(target, "/docs/") && target != "/docs/style.css": // files of pages: see TestFilesOfPages
		return nil
	case x.Header.Get("X-Request-ID") == "": // answered by net/http, which did not accept the request
		return is(x.answer, 400, "")
	}
	r, err := http.NewRequestWithContext(context.Background(), strings.Replace(x.method, http.MethodHead, http.MethodGet, 1), "http://localhost"+x.target, strings.NewReader(x.body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", x.contentType)
	route, err := c.routes.FindRoute(r)
	switch {
	case errors.Is(err, router.ErrPathNotFound), strings.HasSuffix(target, "/"):
		return is(x.answer, 404, "not_found")
	case r.Method == http.MethodOptions: // the router's answer, with the allowed methods
		return is(x.answer, 204, "")
	case errors.Is(err, router.ErrMethodNotAllowed):
		return is(x.answer, 405, "method_not_allowed")
	case err != nil:
		return err
	case x.Code == "not_found" && strings.Contains(target, "//"):
		return nil
	}
	c.seen[x.method+" "+route.Path+" "+strconv.Itoa(x.Status)] = true
	operation := at(c.document, "paths", route.Path, strings.ToLower(r.Method))
	if err := c.judgeAnswer(x, r, operation); err != nil {
		return err
	}
	return c.judgeRequest(x, r, operation)
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

// judgeAnswer checks the answer to r, and refuses what the description does not mention, unlike the
// validator.
func (d *description) judgeAnswer(x exchange, r *http.Request, operation any) error {
	response := at(operation, "responses", strconv.Itoa(x.Status))
	if x.Header.Get("Retry-After") != "" && at(response, "headers", "Retry-After") == nil {
		return errors.New("Retry-After is not in the description")
	}
	if response != nil && at(response, "content") == nil && (x.Body != "" || x.Header.Get("Content-Type") != "") {
		return errors.New("the body is not in the description")
	}
	bodies := []string{x.Body}
	switch media, _, _ := mime.ParseMediaType(x.Header.Get("Content-Type")); {
	case len(x.Body) > maxJudged:
		bodies = []string{""}
	case media == typeLines && x.Body != "":
		bodies = slices.Collect(strings.Lines(x.Body))
	}
	for _, body := range bodies {
		res := &http.Response{StatusCode: x.Status, Header: x.Header, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		if err := valid(d.validator.ValidateHttpResponse(r, res)); err != nil {
			return fmt.Errorf("%.200s: %w", body, err)
		}
	}
	return nil
}

// judgeRequest checks r: an accepted request must match the description, and one whose body was
// refused for its form must not.
func (d *description) judgeRequest(x exchange, r *http.Request, operation any) error {
	if len(x.body) > maxJudged {
		return nil
	}
	if x.Status >= 300 {
		wrong := slices.Contains([]string{"unknown_field", "invalid_type", "missing_field"}, x.Code) &&
			!strings.HasSuffix(x.Field, ".until") && !strings.HasSuffix(x.Field, ".since") // the schema cannot express this rule
		if wrong && r.Header.Get("Content-Type") == "application/json" && x.body != "" && d.validBody(r) == nil {
			return fmt.Errorf("the request was refused with %s of %s, but matches the description", x.Code, x.Field)
		}
		return nil
	}
	params, _ := at(operation, "parameters").([]any)
	for name, values := range r.URL.Query() {
		known := slices.ContainsFunc(params, func(p any) bool { return at(p, "name") == name && at(p, "in") == "query" })
		if (!known || len(values) != 1) && at(operation, "responses", "400") != nil { // otherwise the call ignores the query
			return fmt.Errorf("parameter %q was accepted, but is not in the description", name)
		}
	}
	if media, _, _ := mime.ParseMediaType(x.contentType); media == typeLines {
		return nil
	}
	if err := valid(d.validator.ValidateHttpRequestSync(r)); err != nil {
		return fmt.Errorf("the request was accepted: %w", err)
	}
	return nil
}

func (d *description) validBody(r *http.Request) error {
	return valid(d.validator.GetRequestBodyValidator().ValidateRequestBody(r))
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
		if err := c.fits("ID", asText(t, text)); (err == nil) != want {
			t.Errorf("the id %q: %v", text, err)
		}
	}
}
