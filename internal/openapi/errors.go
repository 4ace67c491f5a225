package openapi

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// codes are the codes of errors, each with its status and meaning: "404: there is nothing ...".
type codes map[string]string

// readCodes reads the table of codes.
func readCodes(text []byte) (codes, error) {
	const table = "$.components.schemas.Error.properties.error.properties.code.x-enumDescriptions"
	path, err := yaml.PathString(table)
	if err != nil {
		return nil, fmt.Errorf("find the codes of errors: %w", err)
	}
	var all codes
	if err := path.Read(bytes.NewReader(text), &all); err != nil {
		return nil, fmt.Errorf("read the codes of errors: %w", err)
	}
	return all, nil
}

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

// answers returns the error answers with some codes, by status.
func (c codes) answers(some []string) (yaml.MapSlice, error) {
	byStatus := make(map[int][]string)
	for _, code := range slices.Sorted(slices.Values(some)) {
		number, _, _ := strings.Cut(c[code], ": ")
		status, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("error code %q: no status in the table of codes", code)
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
		fmt.Fprintf(&text, answer, status, http.StatusText(status),
			strings.Join(group, "`, `"), more, strings.Join(group, `", "`), group[0], meaning)
	}
	var members yaml.MapSlice
	err := yaml.UnmarshalWithOptions([]byte(text.String()), &members, yaml.UseOrderedMap())
	return members, err
}
