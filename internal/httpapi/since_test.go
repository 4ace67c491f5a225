package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
)

// Lines of a batch may say when something was done: what one service exports, another takes.
func TestSinceInBatch(t *testing.T) {
	s := open(t)
	const exported = `{"user":"1","kind":"hide","target":"p","op":"add","since":"2026-01-02T03:04:05.000001Z"}`
	s.do(t, "POST", "/v1/activities", `{"activities":[`+exported+`]}`)
	if got := s.do(t, "GET", "/v1/users/1/export", "").Body; strings.TrimSpace(got) != exported {
		t.Errorf("recorded and exported it is %s, want %s", got, exported)
	}
	// What is there already keeps its beginning.
	s.do(t, "POST", "/v1/activities", `{"activities":[`+strings.Replace(exported, "2026", "2025", 1)+`]}`)
	if got := s.do(t, "GET", "/v1/users/1/export", "").Body; strings.TrimSpace(got) != exported {
		t.Errorf("recorded again and exported it is %s, want %s", got, exported)
	}
}

// malformedSince are beginnings that are refused.
func malformedSince() []malformed {
	var all []malformed
	line := func(kind, op, since string) string {
		return fmt.Sprintf(`{"activities":[{"user":"1","kind":%q,"target":"9","op":%q,"since":%q}]}`, kind, op, since)
	}
	for _, text := range []string{"", "x", "1767322445", "2026-01-02", "2100-01-01T00:00:00Z", "0000-12-31T00:00:00Z"} {
		all = append(all, malformed{
			request: "POST /v1/activities", body: line("hide", "add", text), status: 400, code: "out_of_range", field: "activities[0].since",
		})
	}
	return append(all,
		malformed{
			request: "POST /v1/activities", body: line("hide", "remove", "2026-01-02T03:04:05Z"), status: 400, code: "unknown_field",
			field: "activities[0].since",
		},
		malformed{
			request: "POST /v1/activities", body: line("seen", "add", "2026-01-02T03:04:05Z"), status: 422, code: "unsupported_op",
			field: "activities[0].since",
		},
	)
}
