package httpapi_test

import (
	"strings"
	"testing"
)

// TestTooMany exceeds the limits that a body of the default length has room for.
func TestTooMany(t *testing.T) {
	s := open(t)
	post := `{"id":"p"}`
	a := s.do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[`+repeated(5001, post)+`],"kinds":[]}`)
	if a.Status != 400 || a.Code != "out_of_range" || a.Field != "posts" {
		t.Errorf("5,001 posts: %d %s", a.Status, a.Body)
	}
	a = s.do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[`+repeated(5000, post)+`],"kinds":[]}`)
	if a.Status != 200 || len(a.JSON["posts"].([]any)) != 5000 {
		t.Errorf("5,000 posts: %d %.200s", a.Status, a.Body)
	}
	for name, c := range map[string]struct {
		path, body string
		field      string // "": the request is answered 200
		message    string
	}{
		"most ids": {
			"/v1/feed/filter", `{"viewer":"1","posts":[` + repeated(5000, `{"id":"p","author":"2","actors":["3","4"]}`) + `]}`, "", "",
		},
		"more ids": {
			"/v1/feed/filter", `{"viewer":"1","posts":[` + repeated(5000, `{"id":"p","author":"2","actors":["3","4","5"]}`) + `]}`,
			"posts", "25000 ids of posts, related posts, authors, actors and facets, at most 20000",
		},
		"most values of a list": {
			"/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"2","actors":[` + repeated(10_000, `"3"`) + `]}]}`,
			"posts[0].actors", "10000 actors, at most 100",
		},
		"most actors": {
			"/v1/feed/explain", `{"viewer":"1","post":{"id":"p","author":"2","actors":[` + repeated(100, `"3"`) + `]}}`, "", "",
		},
		"more actors": {
			"/v1/feed/explain", `{"viewer":"1","post":{"id":"p","author":"2","actors":[` + repeated(101, `"3"`) + `]}}`,
			"post.actors", "101 actors, at most 100",
		},
	} {
		a := s.do(t, "POST", c.path, c.body)
		switch {
		case c.field == "" && a.Status == 200:
		case a.Status != 422 || a.Code != "too_many_ids" || a.Field != c.field || !strings.Contains(a.Body, c.message):
			t.Errorf("%s: %d %.200s", name, a.Status, a.Body)
		}
	}
	for _, list := range []string{`"actors":[%s]`, `"related":[%s]`, `"facets":{"tag":[%s]}`} {
		body := `{"viewer":"1","posts":[{"id":"p","author":"2",` + strings.Replace(list, "%s", repeated(200_000, `"3"`), 1) + `}]}`
		if a := s.do(t, "POST", "/v1/feed/filter", body); a.Status != 400 || a.Code != "out_of_range" {
			t.Errorf("200,000 of %s: %d %s", list, a.Status, a.Body)
		}
	}
	a = s.do(t, "POST", "/v1/activities", `{"activities":[`+repeated(10_001, line)+`]}`)
	if a.Status != 400 || a.Code != "out_of_range" || a.Field != "activities" {
		t.Errorf("10,001 activities: %d %s", a.Status, a.Body)
	}
	s.want(t, "GET", "/v1/users/1/blocks", "", 200, `{"items":[]}`)
	deep := `{"posts":[` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "]}"
	if a := s.do(t, "POST", "/v1/users/1/seen", deep); a.Status != 400 || a.Code != "malformed_json" {
		t.Errorf("20,000 levels instead of a string: %d %s", a.Status, a.Body)
	}
	if a := s.do(t, "POST", "/v1/feed/filter", strings.Repeat(" ", 1<<20)); a.Status != 400 {
		t.Errorf("a body of 1 MiB: %d %s", a.Status, a.Body)
	}
	if a := s.do(t, "POST", "/v1/feed/filter", strings.Repeat(" ", 1<<20+1)); a.Status != 413 || a.Code != "too_large" {
		t.Errorf("a body of more than 1 MiB: %d %s", a.Status, a.Body)
	}
}
