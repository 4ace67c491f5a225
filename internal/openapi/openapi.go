// Package openapi has the description of the API: openapi.yaml, which it turns into an OpenAPI 3.1
// document for programs, and Swagger UI, which shows that document to people.
package openapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/feedfilter/feedfilter/activity"
)

// source is a text/template of YAML, and YAML itself; its head says how.
//
//go:embed openapi.yaml
var source []byte

// Document returns the description of a service with these kinds, in JSON. The same kinds give the
// same document.
func Document(kinds *activity.Kinds) ([]byte, error) {
	codes, err := readCodes()
	if err != nil {
		return nil, err
	}
	t := template{lists: sorts(kinds), functions: codes.functions()}
	text, err := t.fill(string(source))
	if err != nil {
		return nil, fmt.Errorf("fill in the description: %w", err)
	}
	document, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("turn the description into JSON: %w", err)
	}
	return document, nil
}

// sorts are the kinds as the template names them.
func sorts(kinds *activity.Kinds) map[string][]activity.Kind {
	all := map[string][]activity.Kind{"Kinds": kinds.All()}
	for _, k := range kinds.All() {
		keeper, effect := "Windowed", "Dropping"
		if k.InLedger() {
			keeper = "Ledger"
		}
		if k.Effect == activity.Annotate {
			effect = "Annotating"
		}
		all[keeper], all[effect] = append(all[keeper], k), append(all[effect], k)
	}
	return all
}

// list returns the kinds' names. The template has the first and the last quote around them.
func list(kinds []activity.Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return join(names)
}

func join(names []string) string { return strings.Join(names, `", "`) }

// camel writes "super-like" as "SuperLike".
func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// codes are the codes of errors, each with its status and meaning: "404: there is nothing ...".
type codes map[string]string

// readCodes reads the table of codes.
func readCodes() (codes, error) {
	const table = "$.components.schemas.Error.properties.error.properties.code.x-enumDescriptions"
	path, err := yaml.PathString(table)
	if err != nil {
		return nil, fmt.Errorf("find the codes of errors: %w", err)
	}
	var all codes
	if err := path.Read(bytes.NewReader(source), &all); err != nil {
		return nil, fmt.Errorf("read the codes of errors: %w", err)
	}
	return all, nil
}

// functions are those that the description calls.
func (c codes) functions() map[string]function {
	return map[string]function{
		"camel": func(args ...any) (any, error) { return camel(fmt.Sprint(args...)), nil },
		"codes": func(...any) (any, error) { return c.list(), nil },
		"eq":    func(args ...any) (any, error) { return len(args) == 2 && args[0] == args[1], nil },
		"errors": func(args ...any) (any, error) {
			some := make([]string, len(args))
			for i, arg := range args {
				some[i] = fmt.Sprint(arg)
			}
			return c.answers(some...)
		},
		"list": func(args ...any) (any, error) {
			if len(args) == 1 {
				if kinds, ok := args[0].([]activity.Kind); ok {
					return list(kinds), nil
				}
			}
			return nil, fmt.Errorf("list %v: takes one list of kinds", args)
		},
		"print": func(args ...any) (any, error) { return fmt.Sprint(args...), nil },
	}
}

// list writes all codes between quotes that stand in the template.
func (c codes) list() string { return join(slices.Sorted(maps.Keys(c))) }

// answer is a member of an operation's responses.
const answer = `
        "%d":
          description: "%s: ` + "`%s`" + `."
          headers: {X-Request-Id: {$ref: "#/components/headers/RequestID"}%s}
          content:
            application/json:
              schema:
                allOf:
                  - $ref: "#/components/schemas/Error"
                  - properties: {error: {properties: {code: {enum: ["%s"]}}}}
              example: {error: {code: %s, message: %q}}`

// answers writes the error answers with some codes, by status. Codes are separated by spaces.
func (c codes) answers(some ...string) (string, error) {
	byStatus := make(map[int][]string)
	for _, code := range slices.Sorted(strings.FieldsSeq(strings.Join(some, " "))) {
		status, err := strconv.Atoi(c[code][:min(3, len(c[code]))])
		if err != nil {
			return "", fmt.Errorf("error code %q: no status in the table of codes", code)
		}
		byStatus[status] = append(byStatus[status], code)
	}
	var text strings.Builder
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		group := slices.Compact(byStatus[status])
		var more string
		switch status {
		case http.StatusUnauthorized:
			more = `, WWW-Authenticate: {$ref: "#/components/headers/WWWAuthenticate"}`
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			more = `, Retry-After: {$ref: "#/components/headers/RetryAfter"}`
		}
		_, meaning, _ := strings.Cut(strings.TrimSuffix(c[group[0]], "."), ": ")
		fmt.Fprintf(&text, answer, status, http.StatusText(status), strings.Join(group, "`, `"), more, join(group), group[0], meaning)
	}
	return text.String(), nil
}
