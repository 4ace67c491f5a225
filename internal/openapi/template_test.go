package openapi

import (
	"strings"
	"testing"
	texttemplate "text/template"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// The description is what package text/template makes of the source.
func TestFill(t *testing.T) {
	more, err := activity.NewKinds(append(activity.BuiltinKinds().All(),
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Annotate, Limit: 3},
		activity.Kind{Name: "super-like", Plural: "super-likes", Target: activity.Post, Effect: activity.Annotate},
		activity.Kind{Name: "glimpse", Plural: "glimpses", Target: activity.Post, Effect: activity.Drop, Window: 90 * time.Minute})...)
	if err != nil {
		t.Fatal(err)
	}
	codes, err := readCodes()
	if err != nil {
		t.Fatal(err)
	}
	reference, err := texttemplate.New("").Funcs(texttemplate.FuncMap{
		"camel": camel, "codes": codes.list, "errors": codes.answers, "list": list,
	}).Parse(string(source))
	if err != nil {
		t.Fatal(err)
	}
	for name, kinds := range map[string]*activity.Kinds{"built-in kinds": activity.BuiltinKinds(), "more kinds": more} {
		var want strings.Builder
		if err := reference.Execute(&want, sorts(kinds)); err != nil {
			t.Fatal(err)
		}
		filler := template{lists: sorts(kinds), functions: codes.functions()}
		got, err := filler.fill(string(source))
		if err != nil || got != want.String() {
			t.Errorf("%s: error %v, %d bytes, text/template writes %d", name, err, len(got), want.Len())
		}
	}
}

// What the language does not have is an error, and not an empty text.
func TestFillRefuses(t *testing.T) {
	for _, source := range []string{
		"{{.Nothing}}", "{{$x = .Kinds}}", "{{range .Kinds}}{{.Nothing}}{{end}}", "{{range .Kinds}}{{else}}{{end}}",
		"{{range $i, $k := .Kinds}}{{end}}", `{{range "text"}}{{end}}`, `{{"text" | print}}`, `{{list "text"}}`,
		`{{errors "nothing"}}`, "{{with .Kinds}}{{end}}", "{{block}}", "{{.Kinds.Name}}", `{{"text" "more"}}`, "{{1.5}}", "{{$x := .Kinds}}{{$x.Name}}",
	} {
		filler := template{lists: sorts(activity.BuiltinKinds()), functions: codes{}.functions()}
		if got, err := filler.fill(source); err == nil {
			t.Errorf("%s: filled in as %q", source, got)
		}
	}
}
