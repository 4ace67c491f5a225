package rest_test

import (
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

func TestFilter(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/3/blocks/1", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/hides/h", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/likes/l", "", 200, httpapitest.Yes)
	s.Want(t, "POST", "/v1/users/1/seen", `{"posts":["s"]}`, 200, `{"recorded":1}`)
	for _, c := range []struct{ request, want string }{
		{ // By default, all kinds that drop.
			`"posts":[{"id":"a","author":"4"},{"id":"b","author":"2"},{"id":"c","author":"3"},{"id":"h","author":"4"},{"id":"s","author":"4"},{"id":"l","author":"4"}]`,
			`{"posts":[{"id":"a"},{"id":"l"}],"dropped":[{"id":"b","kind":"block","actor":"2"},{"id":"c","kind":"block","actor":"3"},{"id":"h","kind":"hide"},{"id":"s","kind":"seen"}],"degraded":[]}`,
		},
		{ // Actors, and the order of fields.
			`"posts":[{"actors":["5","3"],"author":"4","id":"a"},{"id":"b","author":"4","actors":[]}]`,
			`{"posts":[{"id":"b"}],"dropped":[{"id":"a","kind":"block","actor":"3"}],"degraded":[]}`,
		},
		{ // No kinds to check: all posts are kept, and need no authors.
			`"posts":[{"id":"h"},{"id":"s"},{"id":"h"}],"kinds":[]`,
			`{"posts":[{"id":"h"},{"id":"s"},{"id":"h"}],"dropped":[],"degraded":[]}`,
		},
		{ // The request sets the order of kinds.
			`"posts":[{"id":"h","author":"2"}],"kinds":["hide","block"]`,
			`{"posts":[],"dropped":[{"id":"h","kind":"hide"}],"degraded":[]}`,
		},
		{ // Annotations, only on kept posts.
			`"posts":[{"id":"l"},{"id":"x"},{"id":"h"}],"kinds":["hide"],"annotate":["like"]`,
			`{"posts":[{"id":"l","like":true},{"id":"x","like":false}],"dropped":[{"id":"h","kind":"hide"}],"degraded":[]}`,
		},
		{ // Only dropped posts, by index.
			`"posts":[{"id":"l"},{"id":"h"},{"id":"x"},{"id":"h"},{"id":"l"},{"id":"x"}],"kinds":["hide"],"annotate":["like"],"answer":"dropped"`,
			`{"dropped":[{"index":1,"kind":"hide"},{"index":3,"kind":"hide"}],"annotated":{"like":[0,4]},"degraded":[]}`,
		},
		{ // An id that is kept once and dropped once, by another author: the index identifies the post.
			`"posts":[{"id":"a","author":"4"},{"id":"a","author":"2"},{"id":"b","author":"4"},{"id":"c","author":"4"}],"limit":2,"answer":"dropped"`,
			`{"dropped":[{"index":1,"kind":"block","actor":"2"}],"next":3,"degraded":[]}`,
		},
		{`"posts":[{"id":"h"}],"kinds":["hide"],"answer":"kept"`, `{"posts":[],"dropped":[{"id":"h","kind":"hide"}],"degraded":[]}`},
		{`"posts":[],"answer":"\u0064ropped","annotate":["like"]`, `{"dropped":[],"annotated":{"like":[]},"degraded":[]}`},
		{`"posts":[],"annotate":[]`, `{"posts":[],"dropped":[],"degraded":[]}`},
		{`"posts":[{"id":"\u003cb\u003e \"\\ \ud83d\ude00"}],"kinds":["hide"]`, `{"posts":[{"id":"<b> \"\\ 😀"}],"dropped":[],"degraded":[]}`},
	} {
		s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1",`+c.request+`}`, 200, c.want)
	}
	for _, answer := range []string{`""`, `"all"`, `"Kept"`} {
		a := s.Do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"answer":`+answer+`}`)
		if a.Status != 400 || a.Code != "out_of_range" || a.Field != "answer" {
			t.Errorf("answer %s: %d %s", answer, a.Status, a.Body)
		}
	}
	// A block works in both directions.
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"2","posts":[{"id":"a","author":"1"}],"kinds":["block"]}`, 200,
		`{"posts":[],"dropped":[{"id":"a","kind":"block","actor":"1"}],"degraded":[]}`)
}

func TestContentTypes(t *testing.T) {
	s := httpapitest.Open(t)
	for _, media := range []string{"application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=\"UTF-8\"", "application/json; profile=x"} {
		a := s.Do(t, "POST", "/v1/feed/filter", " {\"viewer\":\"1\",\"posts\":[]}\r\n", "Content-Type", media, "Content-Encoding", "identity")
		if a.Status != 200 {
			t.Errorf("%s: %d %s", media, a.Status, a.Body)
		}
	}
}

// TestMethods checks methods that are not calls of the API.
func TestMethods(t *testing.T) {
	s := httpapitest.Open(t)
	addr := s.Start(t)
	for target, allow := range map[string]string{
		"/v1/users/1/blocks/2": "OPTIONS, DELETE, GET, HEAD, PUT",
		"/v1/users/1/blocks":   "OPTIONS, GET, HEAD",
		"/v1/users/1/seen":     "OPTIONS, POST",
		"/v1/activities":       "OPTIONS, POST",
		"/healthz":             "OPTIONS, GET, HEAD",
	} {
		for _, method := range []string{"OPTIONS", "BREW"} {
			a := httpapitest.Raw(t, addr, method+" "+target+" HTTP/1.1\r\nHost: x\r\nOrigin: http://elsewhere\r\nAccess-Control-Request-Method: PUT\r\n\r\n")
			status := map[string]int{"OPTIONS": 204, "BREW": 405}[method]
			if got := a.Header.Get("Allow"); got != allow || a.Status != status {
				t.Errorf("%s %s: %d, Allow %q, want %d and %q", method, target, a.Status, got, status, allow)
			}
			for name := range a.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: header %s is set", method, target, name)
				}
			}
		}
	}
	for target, status := range map[string]int{"/v1/users/1/blocks": 200, "/readyz": 200, "/v1/users/%00/blocks": 400, "/v1/activities": 405} {
		a := httpapitest.Raw(t, addr, "HEAD "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if a.Status != status || a.Body != "" || a.Header.Get("Content-Length") == "0" {
			t.Errorf("HEAD %s: %d %q %v", target, a.Status, a.Body, a.Header)
		}
	}
}
