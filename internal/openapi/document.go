// Package openapi describes an HTTP API as an OpenAPI 3.1 document, and renders one as a page for people.
//
// It has what this service's description needs of the specification (https://spec.openapis.org/oas/v3.1.1), no more.
package openapi

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is that of the specification which documents are written to.
const Version = "3.1.1"

// Document is a whole description. Texts are CommonMark, of which the page renders paragraphs and `code`.
type Document struct {
	OpenAPI    string                `json:"openapi"` // Version
	Info       Info                  `json:"info"`
	Servers    []Server              `json:"servers,omitzero"`
	Tags       []Tag                 `json:"tags,omitzero"` // in the order in which operations are shown
	Paths      Ordered[PathItem]     `json:"paths"`
	Components Components            `json:"components"`
	Docs       ExternalDocumentation `json:"externalDocs,omitzero"`
}

// Info is what a document is about.
type Info struct {
	Title       string  `json:"title"`
	Summary     string  `json:"summary,omitzero"`
	Description string  `json:"description,omitzero"`
	Version     string  `json:"version"`
	License     License `json:"license,omitzero"`
}

// License is the API's.
type License struct {
	Name       string `json:"name"`
	Identifier string `json:"identifier,omitzero"` // of SPDX
}

// ExternalDocumentation is where there is more to read.
type ExternalDocumentation struct {
	Description string `json:"description,omitzero"`
	URL         string `json:"url"`
}

// Server is where the API is, relative to the document.
type Server struct {
	URL string `json:"url"`
}

// Tag groups operations.
type Tag struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
}

// PathItem has the operations of a path, by method in lower case.
type PathItem = Ordered[*Operation]

// Operation is one method of a path.
type Operation struct {
	Tags        []string              `json:"tags,omitzero"`
	ID          string                `json:"operationId"`
	Summary     string                `json:"summary,omitzero"`
	Description string                `json:"description,omitzero"`
	Parameters  []Parameter           `json:"parameters,omitzero"`
	RequestBody *RequestBody          `json:"requestBody,omitzero"`
	Responses   Ordered[Response]     `json:"responses"` // by status
	Security    []map[string][]string `json:"security,omitzero"`
}

// Parameter is one of a path or a query.
type Parameter struct {
	Name        string         `json:"name"`
	In          string         `json:"in"` // "path" or "query"
	Description string         `json:"description,omitzero"`
	Required    bool           `json:"required,omitzero"`
	Schema      *Schema        `json:"schema"`
	Example     jsontext.Value `json:"example,omitzero"`
}

// RequestBody is what an operation takes.
type RequestBody struct {
	Description string             `json:"description,omitzero"`
	Required    bool               `json:"required,omitzero"`
	Content     Ordered[MediaType] `json:"content"`
}

// MediaType is a body of one type. Where the type is of lines, the schema is that of one, and the example has some.
type MediaType struct {
	Schema  *Schema        `json:"schema,omitzero"`
	Example jsontext.Value `json:"example,omitzero"`
}

// Response is an answer of one status.
type Response struct {
	Description string             `json:"description"`
	Headers     Ordered[Header]    `json:"headers,omitzero"`
	Content     Ordered[MediaType] `json:"content,omitzero"`
}

// Header is one of an answer, or a reference to one.
type Header struct {
	Ref         string  `json:"$ref,omitzero"`
	Description string  `json:"description,omitzero"`
	Schema      *Schema `json:"schema,omitzero"`
}

// Components are what operations refer to.
type Components struct {
	Schemas         Ordered[*Schema]        `json:"schemas,omitzero"`
	Headers         Ordered[Header]         `json:"headers,omitzero"`
	SecuritySchemes Ordered[SecurityScheme] `json:"securitySchemes,omitzero"`
}

// SecurityScheme is a way to say who calls.
type SecurityScheme struct {
	Type        string `json:"type"`
	Scheme      string `json:"scheme,omitzero"`
	Description string `json:"description,omitzero"`
}

// Schema is what a value has to be, in JSON Schema 2020-12. A limit that is 0 is none.
type Schema struct {
	Ref         string           `json:"$ref,omitzero"`
	Type        Types            `json:"type,omitzero"`
	Format      string           `json:"format,omitzero"`
	Description string           `json:"description,omitzero"`
	Enum        []string         `json:"enum,omitzero"`
	Default     jsontext.Value   `json:"default,omitzero"`
	Pattern     string           `json:"pattern,omitzero"`
	Encoding    string           `json:"contentEncoding,omitzero"` // of bytes in a string, such as "base64"
	MinLength   int              `json:"minLength,omitzero"`       // characters
	MaxLength   int              `json:"maxLength,omitzero"`
	Minimum     *float64         `json:"minimum,omitzero"`
	Maximum     *float64         `json:"maximum,omitzero"`
	Items       *Schema          `json:"items,omitzero"`
	MinItems    int              `json:"minItems,omitzero"`
	MaxItems    int              `json:"maxItems,omitzero"`
	Unique      bool             `json:"uniqueItems,omitzero"`
	Properties  Ordered[*Schema] `json:"properties,omitzero"`
	Required    []string         `json:"required,omitzero"`
	AllOf       []*Schema        `json:"allOf,omitzero"`
	OneOf       []*Schema        `json:"oneOf,omitzero"`

	// EnumTexts say what values of Enum mean, an extension that other readers of such documents know, too.
	EnumTexts Ordered[string] `json:"x-enumDescriptions,omitzero"`

	// Additional are the properties that are not named: a *Schema, or false for none.
	Additional any `json:"additionalProperties,omitzero"`
}

// Types of values.
const (
	Object  = "object"
	Array   = "array"
	String  = "string"
	Integer = "integer"
	Number  = "number"
	Boolean = "boolean"
	Null    = "null"
)

// Types are those that a value may have. One is written by itself.
type Types []string

// MarshalJSONTo writes the types.
func (t Types) MarshalJSONTo(enc *jsontext.Encoder) error {
	if len(t) == 1 {
		return enc.WriteToken(jsontext.String(t[0]))
	}
	return json.MarshalEncode(enc, []string(t))
}

// Ordered is an object whose members keep their order, and have different names.
type Ordered[T any] []Member[T]

// Member is one of an object.
type Member[T any] struct {
	Name  string
	Value T
}

// Get returns the value of a name.
func (o Ordered[T]) Get(name string) (value T, ok bool) { //nolint:ireturn // what it holds
	for _, m := range o {
		if m.Name == name {
			return m.Value, true
		}
	}
	return value, false
}

// With returns o with one member more.
func (o Ordered[T]) With(name string, value T) Ordered[T] {
	return append(o, Member[T]{name, value})
}

// MarshalJSONTo writes the object.
func (o Ordered[T]) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, m := range o {
		if err := enc.WriteToken(jsontext.String(m.Name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(enc, m.Value); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}

// JSON returns the document as it is served, the same for the same document.
func (d *Document) JSON() ([]byte, error) {
	text, err := json.Marshal(d, json.Deterministic(true), jsontext.WithIndent(" "))
	if err != nil {
		return nil, fmt.Errorf("write the API's description: %w", err)
	}
	return text, nil
}

// Schema returns the component that a reference such as "#/components/schemas/Post" is to, or s itself.
func (d *Document) Schema(s *Schema) *Schema {
	if s == nil || s.Ref == "" {
		return s
	}
	named, _ := d.Components.Schemas.Get(refName(s.Ref))
	return named
}
