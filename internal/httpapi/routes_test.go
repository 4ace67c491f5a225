package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
)

// TestEveryRouteIsDescribed: each route has its place in calls, and nothing else is there.
func TestEveryRouteIsDescribed(t *testing.T) {
	r, err := activity.Open(t.Context(), activity.Config{Store: &favfilter.Memory{}, Pages: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	s := &service{recorder: r}
	described := calls(r.Kinds())
	for _, r := range s.routes() {
		route := r.method + " " + r.path
		if r.below() {
			if route != "GET /ops/*" {
				t.Errorf("%s is left out of the description: only files of a page may be", route)
			}
			continue
		}
		c, ok := described[route]
		delete(described, route)
		if !ok {
			t.Errorf("%s is not described: add it to calls, in openapicalls.go", route)
			continue
		}
		if c.id == "" || c.tag == "" || c.summary == "" || len(c.answers) == 0 {
			t.Errorf("%s is described without its id, tag, summary or answers", route)
		}
	}
	for route := range described {
		t.Errorf("%s is described, and there is no such route", route)
	}
}

// TestEveryCodeIsDescribed: codes that calls may be answered with have a text, and are in docs/API.md.
func TestEveryCodeIsDescribed(t *testing.T) {
	texts := codeTexts()
	text, err := os.ReadFile("../../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\n## Errors\n")
	for code := range allCodes(t) {
		if texts[code] == "" {
			t.Errorf("the code %q has no text: add it to codeTexts, in openapierrors.go", code)
		}
		if !strings.Contains(list, "`"+code+"`") {
			t.Errorf("docs/API.md lacks the code %q", code)
		}
		delete(texts, code)
	}
	for code := range texts {
		t.Errorf("there is a text on the code %q, and no such code", code)
	}
	for route, c := range calls(activity.BuiltinKinds()) {
		for _, code := range c.codes {
			if codeTexts()[code] == "" {
				t.Errorf("%s: there is no code %q", route, code)
			}
		}
	}
}

// allCodes are the constants code... of this package, and Code... of activity, as their source has them.
func allCodes(t *testing.T) map[string]bool {
	t.Helper()
	codes := make(map[string]bool)
	for file, prefix := range map[string]string{"errors.go": "code", "../../activity/errors.go": "Code"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: %s is no literal", file, spec.Names[0])
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
