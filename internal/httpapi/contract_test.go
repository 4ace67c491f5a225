package httpapi_test

import (
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

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// contract is a service's own description, by which its requests and answers are judged: all that the tests of this
// package exchange with services (see service.do), and not only those that are about the description.
type contract struct {
	document map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	seen     map[string]bool // "<method> <path> <status>" of answers judged
}

// maxJudged is the length of the longest body that is held against its schema, in bytes: large ones have the shape of small ones.
const maxJudged = 32 << 10

// documentURL is where the description stands for references within it.
const documentURL = "https://feedfilter.test/openapi.json"

func newContract(t testing.TB, h http.Handler) *contract {
	t.Helper()
	_, a := ask(t, h, http.MethodGet, "/openapi.json", "")
	if a.Status != http.StatusOK {
		t.Fatalf("GET /openapi.json: %d %s", a.Status, a.Body)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(a.Body))
	if err != nil {
		t.Fatal(err)
	}
	c := &contract{document: a.JSON, compiler: jsonschema.NewCompiler(), seen: make(map[string]bool)}
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(documentURL, doc); err != nil {
		t.Fatal(err)
	}
	return c
}

// at returns what is in v under the names, nil if nothing is.
func at(v any, names ...string) any {
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// path returns the path of the description that target, without a query, is of: one without parameters before others.
func (c *contract) path(target string) string {
	paths, _ := c.document["paths"].(map[string]any)
	if paths[target] != nil {
		return target
	}
	given := strings.Split(target, "/")
	for path := range paths {
		parts := strings.Split(path, "/")
		if len(parts) != len(given) || given[len(given)-1] == "" || !strings.Contains(path, "{") {
			continue
		}
		same := true
		for i, part := range parts {
			same = same && (strings.HasPrefix(part, "{") || part == given[i])
		}
		if same {
			return path
		}
	}
	return ""
}

// schema returns the one at the end of a path of names from the top of the description.
func (c *contract) schema(names ...string) (*jsonschema.Schema, error) {
	var pointer strings.Builder
	for _, name := range names {
		pointer.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)))
	}
	return c.compiler.Compile(documentURL + "#" + pointer.String())
}

// fits returns why text is no value of the schema at names.
func (c *contract) fits(text string, names ...string) error {
	s, err := c.schema(names...)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// exchange is a request and its answer.
type exchange struct {
	method, target, contentType, body string
	answer
}

// judge returns what of x is not as the description has it.
func (c *contract) judge(x exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	target, query, _ := strings.Cut(x.target, "?")
	path, method := c.path(target), strings.ToLower(x.method)
	if method == "head" {
		method = "get"
	}
	operation := at(c.document, "paths", path, method)
	switch {
	case strings.HasPrefix(target, "/ops/"): // the page's files, which are not described: see TestFilesOfThePage
		return nil
	case path == "":
		return is(x.answer, 404, "not_found")
	case method == "options": // the router's, which names the methods
		return is(x.answer, 204, "")
	case operation == nil:
		return is(x.answer, 405, "method_not_allowed")
	case x.Header.Get("X-Request-ID") == "": // of net/http, which took it for no request
		return is(x.answer, 400, "")
	case x.Code == "not_found" && strings.Contains(target, "//"):
		return nil
	}
	status := strconv.Itoa(x.Status)
	c.seen[x.method+" "+path+" "+status] = true
	names := []string{"paths", path, method}
	return firstOf(
		func() error { return c.judgeAnswer(x, append(names, "responses", status)) },
		func() error { return c.judgeQuery(x, query, operation, names) },
		func() error { return c.judgeRequest(x, append(names, "requestBody", "content")) },
	)
}

func firstOf(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func is(a answer, status int, code string) error {
	if a.Status != status || a.Code != code {
		return fmt.Errorf("answered %d %s, want %d %s", a.Status, a.Body, status, code)
	}
	return nil
}

// judgeAnswer judges the answer by the response at names.
func (c *contract) judgeAnswer(x exchange, names []string) error {
	response, _ := at(c.document, names...).(map[string]any)
	if response == nil {
		return fmt.Errorf("there is no such status in the description")
	}
	headers, _ := response["headers"].(map[string]any)
	for name := range headers {
		if x.Header.Get(name) == "" {
			return fmt.Errorf("the header %s is missing", name)
		}
	}
	if x.Header.Get("Retry-After") != "" && headers["Retry-After"] == nil {
		return fmt.Errorf("a Retry-After that the description does not have")
	}
	if response["content"] == nil {
		if x.Body != "" || x.Header.Get("Content-Type") != "" {
			return fmt.Errorf("a body that the description does not have")
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(x.Header.Get("Content-Type"))
	if err != nil || at(response, "content", media) == nil {
		return fmt.Errorf("the type %q is not in the description", x.Header.Get("Content-Type"))
	}
	if x.method == http.MethodHead || len(x.Body) > maxJudged {
		return nil
	}
	names = append(names, "content", media, "schema")
	switch media {
	case "application/json":
		return c.fits(x.Body, names...)
	case "application/x-ndjson":
		for line := range strings.Lines(x.Body) {
			if err := c.fits(line, names...); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
	}
	return nil
}

// judgeQuery judges the query of a request that was taken: each parameter is in the description, and as it says.
func (c *contract) judgeQuery(x exchange, query string, operation any, names []string) error {
	values, err := url.ParseQuery(query)
	if x.Status >= 300 || at(operation, "responses", "400") == nil { // or it does not look at the query
		return nil
	}
	if err != nil {
		return err
	}
	params, _ := at(operation, "parameters").([]any)
	for name, given := range values {
		i := slices.IndexFunc(params, func(p any) bool { return at(p, "name") == name && at(p, "in") == "query" })
		if i < 0 || len(given) != 1 {
			return fmt.Errorf("a parameter %q was taken that is not in the description", name)
		}
		number := c.fits(given[0], append(names, "parameters", strconv.Itoa(i), "schema")...)
		text := c.fits(strconv.Quote(given[0]), append(names, "parameters", strconv.Itoa(i), "schema")...)
		if number != nil && text != nil {
			return fmt.Errorf("the parameter %s was taken: %w", name, text)
		}
	}
	return nil
}

// judgeRequest judges the body of a request by the one at names: one that was taken is as the schema has it, and one that was
// refused for its shape is not.
func (c *contract) judgeRequest(x exchange, names []string) error {
	if x.body == "" || len(x.body) > maxJudged {
		return nil
	}
	content := at(c.document, names...)
	if content == nil {
		if x.Status < 300 {
			return fmt.Errorf("a body was taken that is not in the description")
		}
		return nil
	}
	media, _, _ := mime.ParseMediaType(x.contentType)
	if x.Status < 300 && at(content, media) == nil {
		return fmt.Errorf("a body of type %q was taken", media)
	}
	if media != "application/json" {
		return nil
	}
	err := c.fits(x.body, append(names, media, "schema")...)
	switch {
	case x.Status < 300 && err != nil:
		return fmt.Errorf("the request was taken: %w", err)
	case err == nil && slices.Contains([]string{"unknown_field", "invalid_type", "missing_field"}, x.Code) &&
		!strings.HasSuffix(x.Field, ".until") && !strings.HasSuffix(x.Field, ".since"): // that only what is added has one, the schema does not say
		return fmt.Errorf("the request was refused, %s of %s, and is as the description has it", x.Code, x.Field)
	}
	return nil
}

// examples returns the examples of the description, each with the names that lead to its schema.
func (c *contract) examples() (all [][]string, texts []any) {
	var walk func(v any, names []string)
	walk = func(v any, names []string) {
		switch v := v.(type) {
		case map[string]any:
			if example := v["example"]; example != nil && v["schema"] != nil {
				all, texts = append(all, append(slices.Clone(names), "schema")), append(texts, example)
			}
			for name, member := range v {
				if name != "example" {
					walk(member, append(slices.Clone(names), name))
				}
			}
		case []any:
			for i, member := range v {
				walk(member, append(slices.Clone(names), strconv.Itoa(i)))
			}
		}
	}
	walk(c.document, nil)
	return all, texts
}

// contractOf returns the service's contract, made when it is first asked for, by a handler of its own: this one counts
// and logs what it is asked.
func (s *service) contractOf(t testing.TB) *contract {
	t.Helper()
	s.described.Do(func() { s.contract = newContract(t, httpapi.New(httpapi.Config{Recorder: s.recorder})) })
	return s.contract
}

// exchange is what the description is to be held against.
func (m malformed) exchange(a answer) exchange {
	method, target, _ := strings.Cut(m.request, " ")
	x := exchange{method: method, target: target, contentType: "application/json", body: m.body, answer: a}
	for line := range strings.SplitSeq(m.headers, "\n") {
		if name, value, _ := strings.Cut(line, ": "); name == "Content-Type" {
			x.contentType = value
		}
	}
	return x
}

// TestPatterns: languages differ in their regular expressions: not all have classes of Unicode, and tools that read the description
// stumble over them.
func TestPatterns(t *testing.T) {
	c := open(t).contractOf(t)
	patterns := regexp.MustCompile(`"pattern":"((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(asText(t, c.document), -1)
	if len(patterns) == 0 {
		t.Fatal("there are no patterns")
	}
	for _, p := range patterns {
		if strings.Contains(strings.ToLower(p[1]), `\\p`) {
			t.Errorf("pattern %s", p[1])
		}
	}
	for text, want := range map[string]bool{"é \u2028": true, "a\u0000": false, "a\u001f": false, "a\u007f": false, "\u009f": false, "\u00a0": true} {
		if err := c.fits(asText(t, text), "components", "schemas", "ID"); (err == nil) != want {
			t.Errorf("the id %q: %v", text, err)
		}
	}
}
