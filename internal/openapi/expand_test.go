package openapi

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/feedfilter/feedfilter/activity"
)

// expanded returns a description with some more members, expanded, in JSON.
func expanded(t *testing.T, members string) (string, error) {
	t.Helper()
	kinds, err := activity.NewKinds(
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "super-hide", Plural: "hides", Target: activity.Post, Effect: activity.Drop, Limit: 3},
		activity.Kind{Name: "seen", Plural: "seen", Target: activity.Post, Effect: activity.Drop, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := expand([]byte(`
components: {schemas: {Error: {properties: {error: {properties: {code: {x-enumDescriptions:
  {gone: "404: gone.", self_block: "422: oneself.", limit_reached: "409: too many."}}}}}}}}
`+members), kinds)
	if err != nil {
		return "", err
	}
	document, err := yaml.MarshalWithOptions(tree, yaml.JSON())
	return string(document), err
}

func TestExpand(t *testing.T) {
	for members, want := range map[string]string{
		"all: [every, <kind.name>]":         `, "all": ["every", "mute", "super-hide", "seen"]}`,
		"all: [<kind.name>, <kind.plural>]": `, "all": ["mute", "super-hide", "seen", "mutes", "hides"]}`,
		"none: [<annotating.name>]":         `, "none": []}`,
		"none: {<annotating.name>: 1}":      `, "none": {}}`,
		"x-error-groups: [[gone], nil]":     `"409: too many."}}}}}}}}}`,
		"/<ledger.plural>: <ledger.Name>\n/<ledger.plural>/<ledger.name>: [<ledger.name>]": `, "/mutes": "Mute", "/mutes/mute": ["mute"], ` +
			`"/hides": "SuperHide", "/hides/super-hide": ["super-hide"]}`,
		"<windowed.name>: {<windowed.window>: 1, <dropping.name>: <dropping.effect>}": `, "seen": {"1h0m0s": 1, ` +
			`"mute": "Feeds of the user leave out posts with the target as author or actor.", ` +
			`"super-hide": "Feeds of the user leave the post out.", "seen": "Feeds of the user leave the post out."}}`,
	} {
		if got, err := expanded(t, members); err != nil || !strings.HasSuffix(got, want+"\n") {
			t.Errorf("%s: error %v, got %s, want %s at the end", members, err, got, want)
		}
	}
}

// TestExpandErrors: the answers are by status, without codes that the kind cannot cause.
func TestExpandErrors(t *testing.T) {
	got, err := expanded(t, "any: {x-errors: [[limit_reached, [gone, gone]], self_block]}\n<ledger.name>: {x-errors: [self_block, [limit_reached]]}")
	descriptions := regexp.MustCompile(`"(any|mute|super-hide)"|"description": "[^"]*"`).FindAllString(got, -1)
	want := []string{
		`"any"`, "\"description\": \"Not Found: `gone`.\"", "\"description\": \"Conflict: `limit_reached`.\"",
		"\"description\": \"Unprocessable Entity: `self_block`.\"",
		`"mute"`, "\"description\": \"Unprocessable Entity: `self_block`.\"",
		`"super-hide"`, "\"description\": \"Conflict: `limit_reached`.\"",
	}
	if err != nil || !slices.Equal(descriptions, want) {
		t.Errorf("error %v, got %q, want %q", err, descriptions, want)
	}
}

// TestExpandRefuses: nothing unknown ends up in a document.
func TestExpandRefuses(t *testing.T) {
	for members, want := range map[string]string{
		"a: {x-nothing: 1}":                  "a: x-nothing: unknown extension",
		"a: {x-errors: [gone, nothing]}":     `a: x-errors: error code "nothing"`,
		"a: {x-errors: [[gone], {gone: 1}]}": "x-errors: error code",
		"a: {x-errors: [*nothing, gone]}":    "nothing",
		"a: <nothing.name>":                  "a: placeholder <nothing.name> is unknown here",
		"<nothing.name>: 1":                  "placeholder <nothing.name> is unknown here",
		"a: [<nothing.name>]":                "placeholder <nothing.name> is unknown here",
		"<kind.nothing>: 1":                  "placeholder <kind.nothing> is unknown here",
		"a: <kind.name>":                     "placeholder <kind.name> is unknown here",
		"<kind.name>: <ledger.name>":         "placeholder <ledger.name> is unknown here",
	} {
		if got, err := expanded(t, members); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s; got %s", members, err, want, got)
		}
	}
}
