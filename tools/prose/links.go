package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

const module = "github.com/feedfilter/feedfilter"

// majorVersion is the end of an import path that is not the package's name.
var majorVersion = regexp.MustCompile(`/v\d+$`)

// tree is all Go files. A link in their comments has to name something: a declaration, or a member
// of a type or package. What it named may have been renamed, moved or removed. Names of packages
// outside of this module are not looked up.
type tree struct {
	files   *token.FileSet
	folders map[string]*folder // by path
}

func newTree() *tree { return &tree{token.NewFileSet(), make(map[string]*folder)} }

// folder is the files of a package and of its tests.
type folder struct {
	files   []*ast.File
	names   map[string]bool     // declared, such as Name and Type.Member
	embeds  map[string][]string // what a type embeds, such as Type and package.Type
	imports map[string]string   // paths of imported packages, by name
}

// add parses a file.
func (t *tree) add(name string, source []byte) error {
	if generated.Match(source[:min(len(source), 1000)]) {
		return nil
	}
	const mode = parser.ParseComments | parser.SkipObjectResolution
	file, err := parser.ParseFile(t.files, name, source, mode)
	if err != nil {
		return err
	}
	f := t.folders[path.Dir(name)]
	if f == nil {
		f = &folder{
			names:   make(map[string]bool),
			embeds:  make(map[string][]string),
			imports: make(map[string]string),
		}
		t.folders[path.Dir(name)] = f
	}
	f.files = append(f.files, file)
	f.names[file.Name.Name] = true
	for _, one := range file.Imports {
		at, err := strconv.Unquote(one.Path.Value)
		if err != nil {
			return err
		}
		as := strings.TrimPrefix(path.Base(majorVersion.ReplaceAllString(at, "")), "go-")
		if one.Name != nil {
			as = one.Name.Name
		}
		f.imports[as] = at
	}
	for _, d := range file.Decls {
		f.declare(d)
	}
	return nil
}

// declare notes what a declaration declares.
func (f *folder) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = typeName(d.Recv.List[0].Type) + "." + name
		}
		f.names[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					f.names[name.Name] = true
				}
			case *ast.TypeSpec:
				f.names[s.Name.Name] = true
				f.members(s.Name.Name, s.Type)
			}
		}
	}
}

// members notes the fields and methods of a type.
func (f *folder) members(of string, t ast.Expr) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		if name := typeName(t); name != "" {
			f.embeds[of] = append(f.embeds[of], name)
		}
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			f.names[of+"."+name.Name] = true
		}
		if name := typeName(field.Type); len(field.Names) == 0 && name != "" {
			f.names[of+"."+name[strings.LastIndex(name, ".")+1:]] = true
			f.embeds[of] = append(f.embeds[of], name)
		}
	}
}

// typeName returns the name of a type, such as Type or package.Type, without its pointer and
// arguments; "": it has none.
func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.IndexExpr:
		return typeName(t.X)
	case *ast.IndexListExpr:
		return typeName(t.X)
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return typeName(t.X) + "." + t.Sel.Name
	default:
		return ""
	}
}

// linkText is a link and what stands around it: an index, a slice and a link of Markdown are none.
var linkText = regexp.MustCompile(
	`(^|[\s("])\[(\*?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){0,2})\]($|[\s.,;:!?)"])`,
)

// broken returns the links of all files that name nothing, by file.
func (t *tree) broken() map[string][]violation {
	all := make(map[string][]violation)
	for _, f := range t.folders {
		for _, file := range f.files {
			for _, group := range file.Comments {
				for _, c := range group.List {
					at := t.files.Position(c.Pos())
					for _, name := range t.brokenIn(f, c.Text) {
						v := violation{at.Line, "link", name + " names nothing"}
						all[at.Filename] = append(all[at.Filename], v)
					}
				}
			}
		}
	}
	return all
}

// brokenIn returns the links of a comment that name nothing.
func (t *tree) brokenIn(f *folder, comment string) (all []string) {
	if strings.HasPrefix(comment, "//\t") { // code
		return nil
	}
	for _, m := range linkText.FindAllStringSubmatch(comment, -1) {
		if name := strings.TrimPrefix(m[2], "*"); !t.has(f, name, 0) {
			all = append(all, name)
		}
	}
	return all
}

// maxEmbedded is how deep an embedded member may be.
const maxEmbedded = 5

// has reports whether a name means something in a folder.
func (t *tree) has(f *folder, name string, depth int) bool {
	if f.names[name] || depth > maxEmbedded {
		return f.names[name]
	}
	first, rest, qualified := strings.Cut(name, ".")
	if !qualified {
		return false
	}
	for _, embedded := range f.embeds[first] {
		if t.has(f, embedded+"."+rest, depth+1) {
			return true
		}
	}
	at, imported := f.imports[first]
	other := t.folders[strings.TrimPrefix(at, module+"/")]
	return imported && (other == nil || t.has(other, rest, depth+1))
}
