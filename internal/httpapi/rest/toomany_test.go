package rest_test

import (
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// TestTooMany exceeds the limits that a body of the default length has room for.
func TestTooMany(t *testing.T) {
	s := httpapitest.Open(t)
	feed := func(posts string) string { return `{"viewer":"1","posts":[` + posts + `]}` }
	explain := func(actors int) string {
		return `{"viewer":"1","post":{"id":"p","author":"2","actors":[` + httpapitest.Repeated(actors, `"3"`) + `]}}`
	}
	const most = 1 << 20
	for name, c := range map[string]struct {
		path, body, code, field, message string // no code: the request is answered 200
	}{
		"most posts":  {filterPath, feed(httpapitest.Repeated(10_000, `{"id":"p","author":"2"}`)), "", "", ""},
		"more posts":  {filterPath, feed(httpapitest.Repeated(10_001, `{"id":"p"}`)), "out_of_range", "posts", ""},
		"most ids":    {filterPath, feed(httpapitest.Repeated(5000, `{"id":"p","author":"2","actors":["3","4"]}`)), "", "", ""},
		"most actors": {explainPath, explain(100), "", "", ""},
		"more actors": {explainPath, explain(101), "too_many_ids", "post.actors", "101 actors, at most 100"},
		"more ids": {
			filterPath, feed(httpapitest.Repeated(5000, `{"id":"p","author":"2","actors":["3","4","5"]}`)), "too_many_ids", "posts",
			"25000 ids of posts, related posts, authors, actors and facets, at most 20000",
		},
		"most values of a list": {
			filterPath, feed(`{"id":"p","author":"2","actors":[` + httpapitest.Repeated(10_000, `"3"`) + `]}`), "too_many_ids", "posts[0].actors", "10000 actors, at most 100",
		},
		"200,000 actors":    {filterPath, feed(`{"id":"p","author":"2","actors":[` + httpapitest.Repeated(200_000, `"3"`) + `]}`), "out_of_range", "posts[0].actors", ""},
		"200,000 related":   {filterPath, feed(`{"id":"p","author":"2","related":[` + httpapitest.Repeated(200_000, `"3"`) + `]}`), "out_of_range", "posts[0].related", ""},
		"200,000 of facets": {filterPath, feed(`{"id":"p","author":"2","facets":{"tag":[` + httpapitest.Repeated(200_000, `"3"`) + `]}}`), "out_of_range", "posts[0].facets.tag", ""},
		"10,001 activities": {batchPath, `{"activities":[` + httpapitest.Repeated(10_001, httpapitest.Line) + `]}`, "out_of_range", "activities", ""},
		"20,000 levels":     {seenPath, `{"posts":[` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "]}", "malformed_json", "posts[0]" + strings.Repeat(".0[0]", 11) + "....", ""},
		"1 MiB":             {filterPath, strings.Repeat(" ", most-len(feed(""))) + feed(""), "", "", ""},
		"more than 1 MiB":   {filterPath, strings.Repeat(" ", most+1), "too_large", "", ""},
	} {
		a := s.Do(t, "POST", strings.TrimPrefix(c.path, "POST "), c.body)
		if (a.Status == 200) != (c.code == "") || a.Code != c.code || a.Field != c.field || !strings.Contains(a.Body, c.message) {
			t.Errorf("%s: %d %.200s, want %s of %q", name, a.Status, a.Body, c.code, c.field)
		}
	}
	s.Want(t, "GET", "/v1/users/1/blocks", "", 200, `{"items":[]}`)
}
