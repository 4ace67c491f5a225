// Package openapi has the description of the API: openapi.yaml, which it expands to an OpenAPI 3.1
// document for programs, and Swagger UI, which shows that document to people.
package openapi

import (
	_ "embed"
	"fmt"

	"github.com/goccy/go-yaml"

	"github.com/feedfilter/feedfilter/activity"
)

// source is the description in YAML. Its head says what Document expands.
//
//go:embed openapi.yaml
var source []byte

// Document returns the description of a service with these kinds, in JSON. The same kinds give the
// same document.
func Document(kinds *activity.Kinds) ([]byte, error) {
	tree, err := expand(source, kinds)
	if err != nil {
		return nil, fmt.Errorf("expand the description: %w", err)
	}
	document, err := yaml.MarshalWithOptions(tree, yaml.JSON())
	if err != nil {
		return nil, fmt.Errorf("turn the description into JSON: %w", err)
	}
	return document, nil
}
