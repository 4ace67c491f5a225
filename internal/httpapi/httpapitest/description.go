//go:build !race

package httpapitest

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// documentURL names the document where the schemas are compiled. Nothing is fetched from it.
const documentURL = "https://localhost/openapi.json"

// Description is the OpenAPI document of all services with the same kinds. Schemas of OpenAPI 3.1
// are JSON Schema 2020-12.
type Description struct {
	document map[string]any
	routes   map[string][]string // the segments of each path

	mu       sync.Mutex // guards compiler
	compiler *jsonschema.Compiler
}

func newDescription(t testing.TB, h http.Handler) *Description {
	t.Helper()
	_, a := Ask(t, h, http.MethodGet, "/openapi.json", "")
	if a.Status != http.StatusOK {
		t.Fatalf("GET /openapi.json: %d %s", a.Status, a.Body)
	}
	d, err := describe(a.Body)
	Must(t, err)
	return d
}

// describe reads a document.
func describe(text string) (*Description, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := &Description{routes: make(map[string][]string), compiler: jsonschema.NewCompiler()}
	d.document, _ = document.(map[string]any)
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	d.compiler.AssertContent()
	if err := d.compiler.AddResource(documentURL, document); err != nil {
		return nil, err
	}
	for path := range d.Part("paths").Members() {
		d.routes[path] = strings.Split(path, "/")
	}
	return d, nil
}

// route returns the path of the document that a path of a request stands for, and the values of its
// parameters. A segment without parameters goes before one with; "" if there is no such path.
func (d *Description) route(target string) (path string, values map[string]string) {
	segments, fixed := strings.Split(target, "/"), -1
	for candidate, want := range d.routes {
		same, parameters := 0, make(map[string]string)
		fits := len(want) == len(segments)
		for i := 0; fits && i < len(want); i++ {
			name, templated := strings.CutPrefix(want[i], "{")
			segment, err := url.PathUnescape(segments[i])
			switch {
			case !templated && want[i] == segment:
				same++
			case templated && err == nil:
				parameters[strings.TrimSuffix(name, "}")] = segment
			default:
				fits = false
			}
		}
		if fits && same > fixed {
			path, values, fixed = candidate, parameters, same
		}
	}
	return path, values
}

// Part is a value of a document, and its JSON pointer there. The value is nil if there is none.
type Part struct {
	of      *Description
	pointer string
	value   any
}

// Part returns the value of the document under the names.
func (d *Description) Part(names ...string) Part {
	return Part{of: d, value: d.document}.at(names...)
}

// Schema returns a schema of the components.
func (d *Description) Schema(name string) Part { return d.Part("components", "schemas", name) }

// at returns the value under the names. It follows references on the way.
func (p Part) at(names ...string) Part {
	for _, name := range names {
		p = p.resolved()
		object, _ := p.value.(map[string]any)
		escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		p = Part{of: p.of, pointer: p.pointer + "/" + escaped, value: object[name]}
	}
	return p
}

// resolved returns what p refers to, or p if that is no reference.
func (p Part) resolved() Part {
	pointer, ok := At(p.value, "$ref").(string)
	if !ok {
		return p
	}
	names := strings.Split(strings.TrimPrefix(pointer, "#/"), "/")
	for i, name := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return p.of.Part(names...)
}

// Members returns the members of the object under the names.
func (p Part) Members(names ...string) map[string]any {
	object, _ := p.at(names...).resolved().value.(map[string]any)
	return object
}

// items returns the items of the list under the name.
func (p Part) items(name string) iter.Seq[Part] {
	list := p.at(name)
	items, _ := list.value.([]any)
	return func(yield func(Part) bool) {
		for i, item := range items {
			if !yield(Part{of: p.of, pointer: list.pointer + "/" + strconv.Itoa(i), value: item}.resolved()) {
				return
			}
		}
	}
}

// compiled returns the schema that p is.
func (p Part) compiled() (*jsonschema.Schema, error) {
	if p.value == nil {
		return nil, fmt.Errorf("the description has no schema %s", p.pointer)
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.of.compiler.Compile(documentURL + "#" + (&url.URL{Path: p.pointer}).EscapedPath())
}

// Fits returns why a text in JSON does not match the schema p.
func (p Part) Fits(text string) error {
	schema, err := p.compiled()
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("%.200s: %w", text, err)
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Errorf("%.200s: %w", text, err)
	}
	return nil
}

// fitsWord returns why a text outside JSON, such as a parameter, does not match the schema p. The
// text may stand for a string, a number or a boolean.
func (p Part) fitsWord(text string) error {
	schema, err := p.compiled()
	if err != nil {
		return err
	}
	if err = schema.Validate(text); err == nil {
		return nil
	}
	if v, invalid := jsonschema.UnmarshalJSON(strings.NewReader(text)); invalid == nil {
		return schema.Validate(v)
	}
	return err
}

// has returns an error if the contents p do not have the media type.
func (p Part) has(media string) error {
	if _, ok := p.Members()[media]; !ok {
		return fmt.Errorf("the description has no body of type %q here", media)
	}
	return nil
}

// fitsBody returns why a body does not match the contents p.
func (p Part) fitsBody(media, body string) error {
	if err := p.has(media); err != nil {
		return err
	}
	schema := p.at(media, "schema")
	switch media {
	case "application/json":
		return schema.Fits(body)
	case typeLines:
		for line := range strings.Lines(body) {
			if err := schema.Fits(line); err != nil {
				return err
			}
		}
		return nil
	default:
		return schema.fitsWord(body)
	}
}

// Valid returns why the document is not OpenAPI 3.1, or has schemas that are not JSON Schema. The
// official schema of OpenAPI leaves the schemas of a document to JSON Schema.
func (d *Description) Valid(official string) error {
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(official))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("openapi.json", text); err != nil {
		return err
	}
	schema, err := compiler.Compile("openapi.json")
	if err != nil {
		return err
	}
	faults := []error{schema.Validate(d.document)}
	faults = append(faults, d.validParts(d.Part())...)
	ids := make(map[any]string)
	for path := range d.routes {
		for method := range d.Part("paths", path).Members() {
			operation := d.Part("paths", path, method)
			id := At(operation.value, "operationId")
			if other := ids[id]; other != "" {
				faults = append(faults, fmt.Errorf("%s and %s %s have the operationId %v", other, method, path, id))
			}
			ids[id] = method + " " + path
			faults = append(faults, validPath(path, operation))
		}
	}
	return errors.Join(faults...)
}

// validParts checks p and what is below it: references have a target, and schemas compile.
func (d *Description) validParts(p Part) (faults []error) {
	if _, ok := At(p.value, "$ref").(string); ok && p.resolved().value == nil {
		faults = append(faults, fmt.Errorf("%s: nothing is at %v", p.pointer, At(p.value, "$ref")))
	}
	list, _ := p.value.([]any)
	for i, item := range list {
		faults = append(faults, d.validParts(Part{of: d, pointer: p.pointer + "/" + strconv.Itoa(i), value: item})...)
	}
	object, _ := p.value.(map[string]any)
	for name, value := range object {
		escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		member := Part{of: d, pointer: p.pointer + "/" + escaped, value: value}
		switch {
		case name == "example":
		case name == "schema", p.pointer == "/components/schemas":
			if _, err := member.compiled(); err != nil {
				faults = append(faults, err)
			}
		default:
			faults = append(faults, d.validParts(member)...)
		}
	}
	return faults
}

// validPath returns an error if an operation does not describe exactly the parameters of its path.
func validPath(path string, operation Part) error {
	var want, got []string
	for segment := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			want = append(want, strings.TrimSuffix(name, "}"))
		}
	}
	for parameter := range operation.items("parameters") {
		if At(parameter.value, "in") == "path" {
			got = append(got, fmt.Sprint(At(parameter.value, "name")))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Errorf("%s: describes the parameters %q", path, got)
	}
	return nil
}

// At returns the value in v under the names, or nil.
func At(v any, names ...string) any {
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}
