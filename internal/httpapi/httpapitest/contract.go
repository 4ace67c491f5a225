//go:build !race

package httpapitest

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// Contract compares requests and answers with the description of a service. It checks everything
// that the tests of this package send (see Service.Do). It checks nothing under the race detector:
// checks take turns, and would hide races of calls made at once.
type Contract struct {
	*Description

	kinds *activity.Kinds

	mu   sync.Mutex
	Seen map[string]bool // "<method> <path> <status>" of checked answers
}

// typeLines is NDJSON. The description has the schema of a line.
const typeLines = "application/x-ndjson"

// call is a request that the description has an operation for.
type call struct {
	Exchange

	operation Part
	media     string            // media type of the request's body
	path      map[string]string // values of the path's parameters
	query     url.Values
}

// Judge returns how x differs from the description.
func (c *Contract) Judge(x Exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.Target = c.canonical(x.Target)
	target, query, _ := strings.Cut(x.Target, "?")
	switch {
	case strings.HasPrefix(target, "/ops/"),
		strings.HasPrefix(target, "/docs/") && target != "/docs/style.css": // files of pages: see TestFilesOfPages
		return nil
	case x.Header.Get("X-Request-ID") == "": // answered by net/http, which did not accept the request
		return is(x.Answer, 400, "")
	}
	route, path := c.route(target)
	method := strings.ToLower(strings.Replace(x.Method, http.MethodHead, http.MethodGet, 1))
	operation := c.Part("paths", route, method)
	switch {
	case route == "", strings.HasSuffix(target, "/"):
		return is(x.Answer, 404, "not_found")
	case x.Method == http.MethodOptions: // the router's answer, with the allowed methods
		return is(x.Answer, 204, "")
	case operation.value == nil:
		return is(x.Answer, 405, "method_not_allowed")
	case x.Code == "not_found" && strings.Contains(target, "//"):
		return nil
	}
	c.Seen[x.Method+" "+route+" "+strconv.Itoa(x.Status)] = true
	media, _, err := mime.ParseMediaType(x.ContentType)
	if err != nil {
		media = x.ContentType
	}
	values, err := url.ParseQuery(query)
	if err != nil && x.Status < 300 {
		return fmt.Errorf("the request was accepted: %w", err)
	}
	return call{Exchange: x, operation: operation, media: media, path: path, query: values}.judge()
}

// inPath matches a target with the name of a kind, or another word in its place.
var inPath = regexp.MustCompile(`^(/v1/(?:users|targets)/[^/?]*/)([^/?]*)(.*)$`)

// canonical returns a target as the description has it: with the plural of a kind. The head of the
// description says that its name works, too.
func (c *Contract) canonical(target string) string {
	parts := inPath.FindStringSubmatch(target)
	if parts == nil {
		return target
	}
	if k, ok := c.kinds.Named(parts[2]); ok {
		parts[2] = k.Plural
	}
	return strings.Join(parts[1:], "")
}

func is(a Answer, status int, code string) error {
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
	if wrong && c.ContentType == "application/json" && c.Sent != "" && c.judgeBody() == nil {
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
	for name := range response.Members("headers") {
		header, values := response.at("headers", name), c.Header.Values(name)
		if len(values) == 0 && At(header.value, "required") == true {
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
	if c.Method == http.MethodHead && c.Body == "" {
		return contents.has(media)
	}
	return contents.fitsBody(media, c.Body)
}

// judgeParameters checks the parameters in the path and the query.
func (c call) judgeParameters() error {
	known := make(map[string]bool)
	for parameter := range c.operation.items("parameters") {
		name, _ := At(parameter.value, "name").(string)
		var values []string
		switch in := At(parameter.value, "in"); in {
		case "path":
			values = []string{c.path[name]}
		case "query":
			known[name], values = true, c.query[name]
		default:
			return fmt.Errorf("parameter %s: this test does not check parameters in %v", name, in)
		}
		if len(values) > 1 || len(values) == 0 && At(parameter.value, "required") == true {
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
	case c.Sent == "" && At(body.value, "required") != true:
		return nil
	case body.value == nil:
		return errors.New("a body is not in the description")
	case c.media == typeLines:
		return body.at("content").has(c.media)
	default:
		return body.at("content").fitsBody(c.media, c.Sent)
	}
}

// descriptions holds the description for each set of kinds, with the schemas compiled so far.
//
//nolint:gochecknoglobals // shared by all tests
var descriptions sync.Map

// ContractOf returns the service's contract. It builds the contract at the first call, with another
// handler, because this one counts and logs its requests.
func (s *Service) ContractOf(t testing.TB) *Contract {
	t.Helper()
	s.Described.Do(func() {
		key := fmt.Sprint(s.Activities.Kinds().All())
		d, ok := descriptions.Load(key)
		if !ok {
			d = newDescription(t, httpapi.New(httpapi.Config{Activities: s.Activities}))
			descriptions.Store(key, d)
		}
		s.Contract = &Contract{Description: d.(*Description), kinds: s.Activities.Kinds(), Seen: make(map[string]bool)}
	})
	return s.Contract
}

//go:embed testdata/openapi-3.1.json
var officialSchema string

// OfficialSchema returns the schema of OpenAPI 3.1:
// https://spec.openapis.org/oas/3.1/schema/2022-10-07.
func OfficialSchema() string { return officialSchema }

// Operations returns the operations of the description, by "<METHOD> <path>".
func (c *Contract) Operations() map[string]map[string]any {
	all := make(map[string]map[string]any)
	paths, _ := c.document["paths"].(map[string]any)
	for path, item := range paths {
		for method, operation := range item.(map[string]any) {
			all[strings.ToUpper(method)+" "+path] = operation.(map[string]any)
		}
	}
	return all
}

// AsText returns v in JSON.
func AsText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	Must(t, err)
	return string(text)
}
