package client_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/feedfilter/feedfilter/client"
)

// sentJSON returns the body that Filter sends, and its error.
func sentJSON(t *testing.T, req client.FilterRequest) (body string, err error) {
	t.Helper()
	c, _ := over(t, client.Options{MaxAttempts: 1}, func(r *http.Request, _ int) (*http.Response, error) {
		text, err := io.ReadAll(r.Body)
		body = string(text)
		return answered(r, 400, `{"error":{"code":"x","message":""}}`), err
	})
	_, err = c.Filter(t.Context(), req)
	return body, err
}

// TestFilterJSON: a request has the fields of docs/API.md that are set, and no id breaks out of its
// string.
func TestFilterJSON(t *testing.T) {
	odd := "a\"b\\c\n\u2028\u007fé"
	const written = `"a\"b\\c\n` + "\u2028\u007fé" + `"`
	for _, c := range []struct {
		req  client.FilterRequest
		want string
	}{
		{client.FilterRequest{}, `{"viewer":"","posts":[],"answer":"dropped"}`},
		{
			client.FilterRequest{Viewer: odd, Posts: []client.Post{{ID: odd, Author: odd}, {ID: "p2"}, {}}},
			`{"viewer":` + written + `,"posts":[{"id":` + written + `,"author":` + written + `},{"id":"p2"},{"id":""}],"answer":"dropped"}`,
		},
		{
			client.FilterRequest{
				Viewer: "1", Kinds: []string{"block"}, Annotate: []string{"like"}, Lists: []string{"L"}, Limit: 2, RecordSeen: true, Exact: true,
				Posts: []client.Post{
					{ID: "p", Actors: []string{"2", "3"}, Roles: []string{"", "repost"}},
					{ID: "q", Author: odd, Actors: []string{"2", odd}, Related: []string{odd, "s"}},
					{ID: "r", Facets: map[string][]string{"tag": {odd, "t"}, "domain": {}}, Actors: []string{}},
					{ID: "t", Roles: []string{"quote"}},
					{ID: "u", Text: odd},
				},
			},
			`{"viewer":"1","posts":[{"id":"p","actors":[{"id":"2"},{"id":"3","role":"repost"}]},` +
				`{"id":"q","author":` + written + `,"actors":["2",` + written + `],"related":[` + written + `,"s"]},` +
				`{"id":"r","facets":{"domain":[],"tag":[` + written + `,"t"]}},{"id":"t","actors":[{"id":"","role":"quote"}]},{"id":"u","text":` + written + `}],` +
				`"kinds":["block"],"annotate":["like"],"lists":["L"],"limit":2,"record_seen":true,"exact":true,"answer":"dropped"}`,
		},
		{client.FilterRequest{Viewer: "1", Kinds: []string{}}, `{"viewer":"1","posts":[],"kinds":[],"answer":"dropped"}`},
	} {
		if got, _ := sentJSON(t, c.req); got != c.want {
			t.Errorf("%+v: sent\n%s, want\n%s", c.req, got, c.want)
		}
	}
}

// TestFilterJSONOfInvalidText: text that JSON cannot have is refused before it is sent.
func TestFilterJSONOfInvalidText(t *testing.T) {
	const bad = "a\xff"
	for field, req := range map[string]client.FilterRequest{
		"viewer": {Viewer: bad}, "id": {Posts: []client.Post{{ID: bad}}}, "author": {Posts: []client.Post{{ID: "p", Author: bad}}},
		"actor": {Posts: []client.Post{{ID: "p", Actors: []string{bad}}}}, "role": {Posts: []client.Post{{ID: "p", Roles: []string{bad}}}},
		"text": {Posts: []client.Post{{ID: "p", Text: bad}}}, "kind": {Kinds: []string{bad}},
	} {
		if body, err := sentJSON(t, req); body != "" || !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: %v, sent %q", field, err, body)
		}
	}
}

// TestPostJSONOfInvalidText: so is that of a post to explain or to fan out.
func TestPostJSONOfInvalidText(t *testing.T) {
	c, sent := over(t, client.Options{MaxAttempts: 1}, func(r *http.Request, _ int) (*http.Response, error) {
		return answered(r, 400, `{"error":{"code":"x","message":""}}`), nil
	})
	post := client.Post{ID: "p", Author: "2", Actors: []string{"a\xff"}, Roles: []string{"repost"}}
	if _, err := c.Explain(t.Context(), client.ExplainRequest{Viewer: "1", Post: post}); !errors.Is(err, client.ErrInvalid) || sent.asked.Load() > 0 {
		t.Errorf("explain: %v, %d requests", err, sent.asked.Load())
	}
	if _, err := c.Fanout(t.Context(), client.FanoutRequest{Post: post, Viewers: []string{"1"}}); !errors.Is(err, client.ErrInvalid) || sent.asked.Load() > 0 {
		t.Errorf("fan-out: %v, %d requests", err, sent.asked.Load())
	}
}
