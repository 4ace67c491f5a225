package openapi_test

import (
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/openapi"
)

// described is a small API with one of everything that a page shows.
func described() *openapi.Document {
	low, high := 1.0, 5000.0
	text := func(about string) *openapi.Schema {
		return &openapi.Schema{Type: openapi.Types{"string"}, Description: about}
	}
	failed := &openapi.Schema{
		Properties: openapi.Ordered[*openapi.Schema]{{Name: "error", Value: &openapi.Schema{
			Properties: openapi.Ordered[*openapi.Schema]{{Name: "code", Value: &openapi.Schema{
				Enum: []string{"bad"}, EnumTexts: openapi.Ordered[string]{{Name: "bad", Value: "it is <bad>"}},
			}}},
		}}},
	}
	item := &openapi.Schema{Properties: openapi.Ordered[*openapi.Schema]{{Name: "id", Value: &openapi.Schema{Ref: "#/components/schemas/ID"}}}, Required: []string{"id"}}
	body := &openapi.Schema{Properties: openapi.Ordered[*openapi.Schema]{
		{Name: "items", Value: &openapi.Schema{Items: &openapi.Schema{Ref: "#/components/schemas/Item"}, MinItems: 1, MaxItems: 10_000}},
		{Name: "by_name", Value: &openapi.Schema{
			Type: openapi.Types{openapi.Object}, Additional: &openapi.Schema{Type: openapi.Types{openapi.Integer}, Minimum: &low},
		}},
		{Name: "bits", Value: &openapi.Schema{Type: openapi.Types{openapi.String}, Encoding: "base64"}},
		{Name: "limit", Value: &openapi.Schema{Type: openapi.Types{"integer"}, Minimum: &low, Maximum: &high}},
	}}
	return &openapi.Document{
		OpenAPI: openapi.Version, Info: openapi.Info{Title: "An <API>", Description: "One `code`, **strong** & `a < b`.\n\n- first\n- second\n\nodd ` mark", Version: "1"},
		Tags: []openapi.Tag{{Name: "Things"}},
		Paths: openapi.Ordered[openapi.PathItem]{{Name: "/things/{user}", Value: openapi.PathItem{{Name: "post", Value: &openapi.Operation{
			Tags: []string{"Things"}, ID: "makeThing", Summary: "Make <things>", Security: []map[string][]string{{"token": {"thing:write"}}},
			Parameters: []openapi.Parameter{{Name: "user", In: "path", Required: true, Schema: text(""), Example: []byte(`"1"`)},
				{Name: "limit", In: "query", Schema: &openapi.Schema{Type: openapi.Types{"integer"}, Minimum: &low, Maximum: &high}}},
			RequestBody: &openapi.RequestBody{Content: openapi.Ordered[openapi.MediaType]{{
				Name: "application/json", Value: openapi.MediaType{Schema: body, Example: []byte(`{"items":[{"id":"it's"}]}`)},
			}}},
			Responses: openapi.Ordered[openapi.Response]{
				{Name: "200", Value: openapi.Response{Description: "Made of `this`, <all>."}},
				{Name: "400", Value: openapi.Response{Description: "Not.", Content: openapi.Ordered[openapi.MediaType]{{
					Name: "application/json", Value: openapi.MediaType{Schema: &openapi.Schema{AllOf: []*openapi.Schema{{Ref: "#/components/schemas/Error"}, failed}}},
				}}}},
			},
		}}}}},
		Components: openapi.Components{Schemas: openapi.Ordered[*openapi.Schema]{
			{Name: "ID", Value: &openapi.Schema{Type: openapi.Types{"string"}, MinLength: 1, MaxLength: 256}}, {Name: "Item", Value: item}, {Name: "Error", Value: failed},
		}},
	}
}

// TestPage: what the document says is on the page, and all of it is text there, whatever it has in it.
func TestPage(t *testing.T) {
	html, err := openapi.Page(described(), "/style.css", "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		"title":     "<h1>An &lt;API&gt;</h1>",
		"prose":     "<p>One <code>code</code>, <strong>strong</strong> &amp; <code>a &lt; b</code>.</p><ul><li>first</li><li>second</li></ul><p>odd ` mark</p>",
		"way there": `<a href="#makeThing">`,
		"place":     `<section id="makeThing"`,
		"route":     `<code>/things/{user}</code>`,
		"scope":     "Token with <code>thing:write</code>",
		"parameter": `<code>limit</code></th><td>query</td><td class="type">integer, 1 to 5,000</td>`,
		"array":     `<code>items</code></th><td class="type">array of 1 to 10,000</td>`,
		"within":    `<code>items[].<wbr/>id</code><span class="needed">needed</span></th><td class="type"><a href="#type-ID">ID</a></td>`,
		"range":     `<code>limit</code></th><td class="type">integer, 1 to 5,000</td>`,
		"answer":    `<span class="status">200</span> Made of <code>this</code>, &lt;all&gt;.`,
		"map":       `<code>by_<wbr/>name</code></th><td class="type">object of integer, at least 1</td>`,
		"bytes":     `<code>bits</code></th><td class="type">string, base64</td>`,
		"error":     `<td>400</td><th scope="row"><code>bad</code></th><td><p>it is &lt;bad&gt;</p></td>`,
		"curl": "curl http://127.0.0.1:8080/things/1 \\\n  -H &#34;Authorization: Bearer $TOKEN&#34; \\\n  -H &#39;Content-Type: application/json&#39; " +
			"\\\n  -d &#39;{&#34;items&#34;:[{&#34;id&#34;:&#34;it&#39;\\&#39;&#39;s&#34;}]}&#39;",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the %s, %s, is not on the page", what, want)
		}
	}
	if t.Failed() {
		t.Log(string(html))
	}
}

// TestPageNeedsNothing: every tag is closed, every link within the page leads somewhere, and there is nothing that a policy without
// scripts and inline styles would refuse.
func TestPageNeedsNothing(t *testing.T) {
	html, err := openapi.Page(described(), "/style.css", "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(string(html)))
	d.Entity = xml.HTMLEntity
	ids, links, loads := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		tag, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if tag.Name.Local == "script" || tag.Name.Local == "style" || tag.Name.Local == "iframe" {
			t.Errorf("there is a <%s>", tag.Name.Local)
		}
		for _, a := range tag.Attr {
			switch name := a.Name.Local; {
			case name == "id" && ids[a.Value]:
				t.Errorf("the id %s is there twice", a.Value)
			case name == "id":
				ids[a.Value] = true
			case name == "href" && tag.Name.Local == "a":
				links[a.Value] = true
			case name == "href", name == "src":
				loads[a.Value] = true
			case name == "style", strings.HasPrefix(name, "on"):
				t.Errorf("<%s %s=%q>", tag.Name.Local, name, a.Value)
			}
		}
	}
	for link := range links {
		if id, within := strings.CutPrefix(link, "#"); link != "/openapi.json" && (!within || !ids[id]) {
			t.Errorf("the link %s leads nowhere", link)
		}
	}
	if got := slices.Sorted(maps.Keys(loads)); !slices.Equal(got, []string{"/style.css", "data:,"}) {
		t.Errorf("it loads %q", got)
	}
	if len(links) < 6 || !strings.Contains(string(openapi.Style()), "prefers-color-scheme: dark") {
		t.Errorf("links %v", links)
	}
}

// TestExamplesOnLines: of a long example each member has a line, but for what fits into one; it is the same value.
func TestExamplesOnLines(t *testing.T) {
	d := described()
	long := strings.Repeat("x", 60)
	d.Paths[0].Value[0].Value.RequestBody.Content[0].Value.Example = []byte(`{"a":[{"b":1,"c":[]},{"b":2,"d":"` + long + `"}],"e":{"f":{"g":"` + long + `","h":null}},"i":[]}`)
	html, err := openapi.Page(d, "/style.css", "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"a\": [\n    {\"b\":1,\"c\":[]},\n    {\"b\":2,\"d\":\"" + long + "\"}\n  ],\n  \"e\": {\n    \"f\": {\n      \"g\": \"" + long + "\",\n      \"h\": null\n    }\n  },\n  \"i\": []\n}"
	if !strings.Contains(string(html), "<code>"+strings.ReplaceAll(want, `"`, "&#34;")+"</code>") {
		t.Errorf("not on the page: %s", want)
	}
}
