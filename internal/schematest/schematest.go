// Package schematest helps tests to compare code that reads and writes fields by hand with the
// Protobuf schema, the OpenAPI document and structs.
package schematest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const advice = "read or write a new field by hand, and add it to the test"

// Complete fails t unless a message has all fields of its schema, and so have the messages in it.
// Of a list, it looks at the first value. unset names the fields that must be empty, such as
// "FilterResponse.kept".
func Complete(t testing.TB, m proto.Message, unset ...string) {
	t.Helper()
	complete(t, m.ProtoReflect(), unset)
}

func complete(t testing.TB, m protoreflect.Message, unset []string) {
	t.Helper()
	for f := range fields(m) {
		empty := slices.Contains(unset, string(m.Descriptor().Name()+"."+f.Name()))
		if m.Has(f) == empty {
			t.Errorf("%s is set: %v; %s", f.FullName(), m.Has(f), advice)
		}
		if one, ok := first(m, f); ok {
			complete(t, one, unset)
		}
	}
}

// fields calls yield with the fields of a message.
func fields(m protoreflect.Message) func(yield func(protoreflect.FieldDescriptor) bool) {
	return func(yield func(protoreflect.FieldDescriptor) bool) {
		for i := range m.Descriptor().Fields().Len() {
			if !yield(m.Descriptor().Fields().Get(i)) {
				return
			}
		}
	}
}

// first returns the first message in a field.
//
//nolint:ireturn // what the library has for messages
func first(m protoreflect.Message, f protoreflect.FieldDescriptor) (protoreflect.Message, bool) {
	switch {
	case f.Message() == nil || !m.Has(f):
		return nil, false
	case f.IsList():
		return m.Get(f).List().Get(0).Message(), true
	default:
		return m.Get(f).Message(), true
	}
}

// WithoutEach clears each field of a message, and of the messages in it, one after the other. It
// calls do while the field is clear, and then sets the field again.
func WithoutEach(m proto.Message, do func(field string)) { withoutEach(m.ProtoReflect(), do) }

func withoutEach(m protoreflect.Message, do func(field string)) {
	for f := range fields(m) {
		if one, ok := first(m, f); ok {
			withoutEach(one, do)
		}
		if m.Has(f) {
			whole := proto.Clone(m.Interface())
			m.Clear(f)
			do(string(f.FullName()))
			proto.Reset(m.Interface())
			proto.Merge(m.Interface(), whole)
		}
	}
}

// ZeroEach sets each field of a struct to zero, one after the other. It calls do while the field is
// zero, and then sets the field again. It fails t if a field is zero before.
func ZeroEach(t testing.TB, pointer any, do func(field string)) {
	t.Helper()
	v := reflect.ValueOf(pointer).Elem()
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		if field.IsZero() {
			t.Errorf("%s.%s is zero; %s", v.Type(), name, advice)
			continue
		}
		value := reflect.ValueOf(field.Interface())
		field.SetZero()
		do(name)
		field.Set(value)
	}
}

// JSONNames returns the names of the fields of a struct in JSON, in their order.
func JSONNames[T any]() (names []string) {
	for field := range reflect.TypeFor[T]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// NamesAt returns the names of the objects at a path of decoded JSON, sorted. A list on the path
// stands for all its values.
func NamesAt(v any, path ...string) []string {
	names := make(map[string]bool)
	addNames(names, v, path)
	return slices.Sorted(maps.Keys(names))
}

func addNames(to map[string]bool, v any, path []string) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			addNames(to, one, path)
		}
	case map[string]any:
		if len(path) > 0 {
			addNames(to, v[path[0]], path[1:])
			return
		}
		for name := range v {
			to[name] = true
		}
	}
}

// OpenAPI has the schemas of an OpenAPI document, by name.
type OpenAPI map[string]any

// ReadOpenAPI returns the schemas of a document.
func ReadOpenAPI(t testing.TB, document []byte) OpenAPI {
	t.Helper()
	var d struct {
		Components struct {
			Schemas OpenAPI `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		t.Fatal(err)
	}
	return d.Components.Schemas
}

// Names returns the names of the fields at a path, such as "FilterRequest.posts.actors", sorted.
// There are none at a wrong path.
func (o OpenAPI) Names(path string) []string {
	fields := map[string]any(o)
	for name := range strings.SplitSeq(path, ".") {
		fields, _ = o.object(fields[name])["properties"].(map[string]any)
	}
	return slices.Sorted(maps.Keys(fields))
}

// object returns the schema that v stands for: of a reference, of the values of a list, or the last
// of alternatives.
func (o OpenAPI) object(v any) map[string]any {
	schema, _ := v.(map[string]any)
	if ref, ok := schema["$ref"].(string); ok {
		return o.object(o[strings.TrimPrefix(ref, "#/components/schemas/")])
	}
	if items, ok := schema["items"]; ok {
		return o.object(items)
	}
	if alternatives, ok := schema["oneOf"].([]any); ok {
		return o.object(alternatives[len(alternatives)-1])
	}
	return schema
}
