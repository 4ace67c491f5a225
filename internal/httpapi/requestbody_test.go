package httpapi_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// TestBodiesOfCopies: no code of the server assigns to the Body of a request that is not its own
// copy. net/http looks at the Body of the request that it passes to a handler, to find out whether
// the body was read to its end. If another Body stands there, net/http takes a body that was closed
// early for consumed, and answers the rest of it as a request: see TestBodiesAreNotAnswered.
func TestBodiesOfCopies(t *testing.T) {
	const root = "../.."
	files := 0
	for _, dir := range []string{"cmd/feedfilter", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			files++
			for _, found := range foreignBodies(t, name, string(text)) {
				t.Errorf("%s: assign to the Body of a copy, made by WithContext or Clone in the same function", found)
			}
			return nil
		})
		httpapitest.Must(t, err)
	}
	if files < 100 {
		t.Errorf("%d files were checked", files)
	}
}

// TestForeignBodies checks what TestBodiesOfCopies finds.
func TestForeignBodies(t *testing.T) {
	for body, want := range map[string]int{
		"r := k.Request(); r.Body = other": 1,
		"k.Request().Body = other":         1,
		"c.req.Body = other":               1,
		"_, r.Body = other, other":         1,
		"(r).Body = other":                 1,
		"body := &r.Body; *body = other":   1,
		"*r = *other":                      1,
		"*(k.Request()) = *other":          1,
		"func() { r := r.WithContext(ctx); _ = r }(); r.Body = other":                1,
		"r := r.WithContext(ctx); r = k.Request(); r.Body = other":                   1,
		"copied := r.WithContext(ctx); copied.Body = other; r.Body = other":          1,
		"r := r.WithContext(ctx); r.Body = other":                                    0,
		"copied := k.Request().Clone(ctx); if body != nil { copied.Body = body }":    0,
		"r, err := http.NewRequestWithContext(ctx, m, u, b); _ = err; r.Body = body": 0,
		"res := http.Response{Body: other}; _ = res.Body; answer.Text = other":       0,
		"*n = 1; *p = *q": 0,
	} {
		if got := foreignBodies(t, "case.go", "package p\nfunc (r *http.Request) f() {"+body+"}"); len(got) != want {
			t.Errorf("%s: %v, want %d", body, got, want)
		}
	}
}

// foreignBodies returns the places in a file that assign to a field Body, or to a whole request, of
// something that its function has not created. It goes by names alone: the server has no other
// fields of that name.
func foreignBodies(t *testing.T, name, text string) (all []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	httpapitest.Must(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			return true
		}
		requests := requestNames(f)
		for _, at := range foreignIn(f.Body, requests) {
			all = append(all, files.Position(at).String())
		}
		return false
	})
	return all
}

// requestNames returns the names of a function's parameters and receiver that are requests.
func requestNames(f *ast.FuncDecl) (names []string) {
	fields := slices.Clone(f.Type.Params.List)
	if f.Recv != nil {
		fields = append(fields, f.Recv.List...)
	}
	for _, p := range fields {
		pointer, _ := p.Type.(*ast.StarExpr)
		if pointer == nil {
			continue
		}
		if of, ok := pointer.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Request" {
			for _, n := range p.Names {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// foreignIn returns where a block assigns to a Body, or to one of the requests as a whole. A
// variable is its function's own after its definition by a call that creates or copies a request,
// until it gets another value.
func foreignIn(block *ast.BlockStmt, requests []string) (found []token.Pos) {
	own := make(map[string]bool)
	ast.Inspect(block, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit: // its variables are its own
			found = append(found, foreignIn(n.Body, requests)...)
			return false
		case *ast.UnaryExpr:
			if n.Op == token.AND && isBody(n.X, own) {
				found = append(found, n.Pos())
			}
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				if isBody(to, own) || isWhole(to, requests) {
					found = append(found, to.Pos())
				}
			}
			if name, ok := n.Lhs[0].(*ast.Ident); ok {
				own[name.Name] = len(n.Rhs) == 1 && copies(n.Rhs[0])
			}
		}
		return true
	})
	return found
}

// isBody reports whether an expression is a field Body of something that is not own.
func isBody(e ast.Expr, own map[string]bool) bool {
	field, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok || field.Sel.Name != "Body" {
		return false
	}
	name, ok := ast.Unparen(field.X).(*ast.Ident)
	return !ok || !own[name.Name]
}

// isWhole reports whether an expression is a request that a pointer leads to.
func isWhole(e ast.Expr, requests []string) bool {
	to, ok := ast.Unparen(e).(*ast.StarExpr)
	if !ok {
		return false
	}
	switch of := ast.Unparen(to.X).(type) {
	case *ast.Ident:
		return slices.Contains(requests, of.Name)
	case *ast.CallExpr:
		method, ok := of.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Request"
	default:
		return false
	}
}

// copies reports whether an expression is a call that copies or creates a request.
func copies(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	of, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"WithContext", "Clone", "NewRequest", "NewRequestWithContext"}, of.Sel.Name)
}
