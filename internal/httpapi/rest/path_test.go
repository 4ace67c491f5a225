package rest_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// oddIDs returns valid ids that a router, a URL or a key might mishandle.
func oddIDs() []string {
	return []string{
		"a/b", "/", "//", "/a", "a/", "a//b", "../x", ".", "..", "...", "./.", "%", "%%", "%2F", "%252F", "%25", "a%2fb", "%zz", "100%",
		"_", "__", "a_b", ":", "a:b", ":user", ":target", "*", "a*", "+", "a+b", " ", "a b", " a", "a ", "?", "a?b=c", "#", "a#b", "&", "a&b", "=", ";", "a;b=c",
		"\\", "\"", "'", "<script>", "{", "}", "[", "]", "|", "^", "`", "~", "!", "$", "@", ",", "(", ")", "-", "null", "0", "-1",
		"blocks", "hides", "é", "e\u0301", "ß", "İ", "日本", "😀", "👩‍👩‍👧", "\u202e", "\u2028", "\ufeff", "\ufffd", "a\u00a0b",
		strings.Repeat("x", 256), strings.Repeat("é", 128), strings.Repeat("/", 256), strings.Repeat("%", 256),
	}
}

// TestOddIDs sends ids in paths, bodies and lists to a real server.
func TestOddIDs(t *testing.T) {
	s := httpapitest.Open(t)
	addr := s.Start(t)
	get := func(method, target string) string {
		t.Helper()
		a := httpapitest.Raw(t, addr, method+" "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if a.Status != 200 {
			t.Errorf("%s %s: %d %s", method, target, a.Status, a.Body)
		}
		return a.Body
	}
	ids := oddIDs()
	for i, id := range ids {
		one, other := url.PathEscape(id), httpapitest.EveryByte(id)
		if i%2 == 0 {
			one, other = other, one
		}
		quoted, err := json.Marshal(id)
		httpapitest.Must(t, err)
		feed := `{"viewer":"v","posts":[{"id":` + string(quoted) + `}],"kinds":["hide"]}`
		if got := get("PUT", "/v1/users/v/hides/"+one); got != httpapitest.Yes {
			t.Errorf("put %q: %s", id, got)
		}
		if got := get("PUT", "/v1/users/v/hides/"+other); got != httpapitest.No {
			t.Errorf("put %q with other escapes: %s", id, got)
		}
		if got, _, _ := s.Items(t, "/v1/users/v/hides"); !slices.Equal(got, []string{id}) {
			t.Errorf("list of %q: %q", id, got)
		}
		if a := s.Do(t, "POST", "/v1/feed/filter", feed); len(a.JSON["dropped"].([]any)) != 1 {
			t.Errorf("feed of %q: %s", id, a.Body)
		}
		if got := get("DELETE", "/v1/users/v/hides/"+other); got != httpapitest.Yes {
			t.Errorf("delete %q: %s", id, got)
		}
		if a := s.Do(t, "POST", "/v1/feed/filter", feed); len(a.JSON["posts"].([]any)) != 1 {
			t.Errorf("feed without %q: %s", id, a.Body)
		}
		// The same id as a user.
		if got := get("PUT", "/v1/users/"+one+"/likes/p"); got != httpapitest.Yes {
			t.Errorf("put of %q: %s", id, got)
		}
		if got := get("GET", "/v1/users/"+other+"/likes?limit=1"); !strings.HasPrefix(got, `{"items":[{"target":"p",`) {
			t.Errorf("list of user %q: %s", id, got)
		}
	}
	// Each user has exactly one like: no user was taken for another.
	for _, id := range ids {
		if got := get("DELETE", "/v1/users/"+url.PathEscape(id)+"/likes/p"); got != httpapitest.Yes {
			t.Errorf("user %q: %s", id, got)
		}
	}
}

// TestLiteralPaths sends unescaped ids in forms that clients may leave unescaped.
func TestLiteralPaths(t *testing.T) {
	s := httpapitest.Open(t)
	addr := s.Start(t)
	for target, want := range map[string]string{
		"/v1/users/v/hides/.":           ".",
		"/v1/users/v/hides/..":          "..",
		"/v1/users/v/hides/a+b":         "a+b",
		"/v1/users/v/hides/a:b":         "a:b",
		"/v1/users/v/hides/é":           "é",
		"/v1/users/v/hides/é%2Fb":       "é/b",
		"/v1/users/v/hides/\"%2f\"":     "\"/\"",
		"http://h/v1/users/v/hides/%2e": ".",
	} {
		a := httpapitest.Raw(t, addr, "PUT "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if a.Status != 200 {
			t.Errorf("%s: %d %s", target, a.Status, a.Body)
			continue
		}
		if got, _, _ := s.Items(t, "/v1/users/v/hides"); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", target, got, want)
		}
		s.Want(t, "DELETE", "/v1/users/v/hides/"+httpapitest.EveryByte(want), "", 200, httpapitest.Yes)
	}
}
