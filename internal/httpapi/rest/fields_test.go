package rest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/openapi"
	"github.com/feedfilter/feedfilter/internal/schematest"
)

// fullAnswer returns a feed with all that an answer can have.
func fullAnswer() (feed.Answer, feed.Request) {
	return feed.Answer{
		Kept: []int{0}, Annotated: [][]int{{0}}, Next: 2,
		Dropped: []feed.Dropped{
			{At: 1, Kind: "block", Actor: "2", Target: "3", List: "L", Unconfirmed: true},
		},
		Degraded: []activity.Degraded{{Kind: "seen", Reason: "unavailable"}},
	}, feed.Request{Posts: []feed.Post{{ID: "p"}, {ID: "q"}}, Annotate: []string{"like"}}
}

// answers returns a feed in both forms.
func answers(t *testing.T, a feed.Answer, req feed.Request) (kept, dropped any) {
	t.Helper()
	for text, into := range map[string]*any{
		string(appendFeed(nil, a, req)): &kept, string(appendDropped(nil, a, req.Annotate)): &dropped,
	} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return kept, dropped
}

// TestFieldsAreDescribed: the fields that are read and written have the names of the OpenAPI
// document, and there are no others.
func TestFieldsAreDescribed(t *testing.T) {
	full, req := fullAnswer()
	kept, dropped := answers(t, full, req)
	document, err := openapi.Document(activity.BuiltinKinds())
	if err != nil {
		t.Fatal(err)
	}
	schemas := schematest.ReadOpenAPI(t, document)
	for path, got := range map[string][]string{
		"FilterRequest":              schematest.JSONNames[filterRequest](),
		"FilterRequest.posts":        schematest.JSONNames[feedPost](),
		"FilterRequest.posts.actors": {nameID, nameRole},
		"FilterAnswer":               schematest.NamesAt(kept),
		"FilterAnswer.posts":         schematest.NamesAt(kept, "posts"),
		"FilterAnswer.dropped":       schematest.NamesAt(kept, "dropped"),
		"FilterAnswer.degraded":      schematest.NamesAt(kept, "degraded"),
		"DroppedAnswer":              schematest.NamesAt(dropped),
		"DroppedAnswer.dropped":      schematest.NamesAt(dropped, "dropped"),
		"DroppedAnswer.annotated":    schematest.NamesAt(dropped, "annotated"),
		"DroppedAnswer.degraded":     schematest.NamesAt(dropped, "degraded"),
		"FanoutRequest":              schematest.JSONNames[fanoutRequest](),
		"FanoutRequest.actors":       {nameID, nameRole},
		"FanoutAnswer":               schematest.JSONNames[fanoutAnswer](),
		"FanoutAnswer.dropped":       schematest.JSONNames[droppedViewer](),
	} {
		want := schemas.Names(path)
		slices.Sort(got)
		if !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s has the fields %q, and is described with %q", path, got, want)
		}
	}
}

// TestEveryFieldIsWritten: each field of an answer changes its text.
func TestEveryFieldIsWritten(t *testing.T) {
	a, req := fullAnswer()
	kept, dropped := answers(t, a, req)
	check := func(field string) {
		if a.Annotated == nil {
			a.Annotated = [][]int{nil} // one list for each kind to annotate
		}
		k, d := answers(t, a, req)
		if reflect.DeepEqual(k, kept) && reflect.DeepEqual(d, dropped) {
			t.Errorf("the field %s is not written", field)
		}
	}
	schematest.ZeroEach(t, &a, check)
	schematest.ZeroEach(t, &a.Dropped[0], check)
	schematest.ZeroEach(t, &a.Degraded[0], check)
}

// TestEveryFieldIsRead: the decoders by hand know each field of the strict decoder, and refuse it
// twice.
func TestEveryFieldIsRead(t *testing.T) {
	values := map[string]string{
		"viewer": `"1"`, "posts": `[{"id":"p"}]`, "kinds": `["block"]`, "annotate": `["like"]`,
		"lists": `["L"]`, "limit": "3", "record_seen": "true", "exact": "true", "after": `"position"`,
		"within": `"2s"`, "answer": `"dropped"`, "id": `"p"`, "author": `"2"`, "actors": `["3"]`,
		"related": `["q"]`, "facets": `{"tag":["t"]}`, "role": `"repost"`, "text": `"words"`,
		"post": `"p"`, "viewers": `["1"]`,
	}
	readsFeed := func(body string) (any, bool) {
		in := wire.NewBuffer()
		req, ok := readFeed(body, in)
		if ok {
			agree(t, body)
		}
		return []any{req, in.DroppedOnly}, ok
	}
	readsFanout := func(body string) (any, bool) {
		req, ok := readFanout(body, wire.NewBuffer())
		if ok {
			fanoutAgrees(t, body)
		}
		return req, ok
	}
	for _, c := range []struct {
		fields []string
		around string // the rest of the body
		read   func(body string) (any, bool)
	}{
		{schematest.JSONNames[filterRequest](), "%s", readsFeed},
		{schematest.JSONNames[feedPost](), `{"viewer":"1","posts":[%s]}`, readsFeed},
		{[]string{"id", "role"}, `{"viewer":"1","posts":[{"id":"p","actors":[%s]}]}`, readsFeed},
		{schematest.JSONNames[fanoutRequest](), "%s", readsFanout},
	} {
		body := func(fields []string) string {
			members := make([]string, len(fields))
			for i, name := range fields {
				members[i] = fmt.Sprintf("%q:%s", name, values[name])
			}
			return fmt.Sprintf(c.around, "{"+strings.Join(members, ",")+"}")
		}
		whole, ok := c.read(body(c.fields))
		if !ok {
			t.Errorf("not read by hand: %s", body(c.fields))
		}
		for i, name := range c.fields {
			if values[name] == "" {
				t.Errorf("the field %s is new: read it by hand, and add a value here", name)
			}
			others := slices.Delete(slices.Clone(c.fields), i, i+1)
			if got, ok := c.read(body(others)); ok && reflect.DeepEqual(got, whole) {
				t.Errorf("the field %s has no effect: %s", name, body(c.fields))
			}
			if _, ok := c.read(body(append(slices.Clone(c.fields), name))); ok {
				t.Errorf("the field %s is read twice: %s", name, body(c.fields))
			}
		}
	}
}
