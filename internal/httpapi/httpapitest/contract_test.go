//go:build !race

package httpapitest

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/feedfilter/feedfilter/activity"
)

// TestPatterns: patterns use only syntax that all regular-expression languages share, because tools
// fail at classes of Unicode.
func TestPatterns(t *testing.T) {
	c := Open(t).ContractOf(t)
	patterns := regexp.MustCompile(`"pattern":"((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(AsText(t, c.document), -1)
	if len(patterns) == 0 {
		t.Fatal("the description has no patterns")
	}
	for _, p := range patterns {
		if strings.Contains(strings.ToLower(p[1]), `\\p`) {
			t.Errorf("pattern %s", p[1])
		}
	}
	for text, want := range map[string]bool{"é \u2028": true, "a\u0000": false, "a\u001f": false, "a\u007f": false, "\u009f": false, "\u00a0": true} {
		if err := c.Schema("ID").Fits(AsText(t, text)); (err == nil) != want {
			t.Errorf("the id %q: %v", text, err)
		}
	}
}

// TestContractFindsFaults: an exchange that the description allows does not match a faulty one.
func TestContractFindsFaults(t *testing.T) {
	s := Open(t)
	list := s.exchange(t, "GET", "/v1/users/1/blocks?limit=5", "")
	filter := s.exchange(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"2"}]}`)
	record := s.exchange(t, "PUT", "/v1/users/1/blocks/2", "")
	missing := s.exchange(t, "POST", "/v1/feed/filter", `{"viewer":"1"}`)
	unknown := s.exchange(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"x":1}`)
	style := s.exchange(t, "GET", "/docs/style.css", "")
	for _, c := range []struct {
		Exchange
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
		if err := contractWith(t, s.Handler, c.edit).Judge(c.Exchange); err == nil || !strings.Contains(err.Error(), c.complain) {
			t.Errorf("%s %s, with %s = %v: error %v, want %q", c.Method, c.Target, c.in, c.to, err, c.complain)
		}
	}
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
	err := contractWith(t, Open(t).Handler, faults...).Valid(OfficialSchema())
	for _, f := range faults {
		if err == nil || !strings.Contains(err.Error(), f.complain) {
			t.Errorf("%s = %v: error %v, want %q", f.in, f.to, err, f.complain)
		}
	}
}

// exchange makes a request, and returns it with its answer, which match the description.
func (s *Service) exchange(t *testing.T, method, target, body string) Exchange {
	t.Helper()
	return Exchange{Method: method, Target: target, ContentType: "application/json", Sent: body, Answer: s.Do(t, method, target, body)}
}

// edit is a change of a document.
type edit struct {
	in       string // what changes: the part under these names, separated by spaces
	to       any    // what it becomes; nil: it is removed
	complain string // part of the error that finds it
}

// contractWith returns the contract that h describes, with edits.
func contractWith(t *testing.T, h http.Handler, edits ...edit) *Contract {
	t.Helper()
	_, a := Ask(t, h, http.MethodGet, "/openapi.json", "")
	tree, err := jsonschema.UnmarshalJSON(strings.NewReader(a.Body))
	Must(t, err)
	for _, f := range edits {
		names := strings.Fields(f.in)
		parent, last := tree, names[len(names)-1]
		for _, name := range names[:len(names)-1] {
			if list, ok := parent.([]any); ok {
				i, err := strconv.Atoi(name)
				Must(t, err)
				parent = list[i]
			} else {
				parent = At(parent, name)
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
	d, err := describe(AsText(t, tree))
	Must(t, err)
	return &Contract{Description: d, kinds: activity.BuiltinKinds(), Seen: make(map[string]bool)}
}
