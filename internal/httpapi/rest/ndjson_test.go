package rest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

func TestStream(t *testing.T) {
	s := httpapitest.Open(t)
	add, remove := httpapitest.ActivityLine("1", "block", "2", "add"), httpapitest.ActivityLine("1", "block", "2", "remove")
	got := s.NDJSON(t, strings.Join([]string{
		add,
		" " + add + "\t\r",
		`{"user":"1","kind":"block","target":"2"}`,
		`nonsense`,
		``,
		remove,
		`{"user":"1","kind":"blockz","target":"2","op":"add"}`,
		`{"user":"1","kind":"block","target":"1","op":"add"}`,
		`{"user":"1","kind":"block","target":"","op":"add"}`,
		`{"user":"1","kind":"block","target":"3","op":"toggle"}`,
		add + add,
		`[` + add + `]`,
		`null`,
		`{"user":"1","kind":"hide","target":null,"op":"add"}`,
		`{"user":"1","kind":"hide","target":"\u0000","op":"add"}`,
		`{"user":"1","kind":"hide","hide":"p","op":"add"}`,
		`{"user":"1","kind":"hide","kind":"like","target":"p","op":"add"}`,
		"{\"user\":\"1\",\"kind\":\"hide\",\"target\":\"\xff\",\"op\":\"add\"}",
		httpapitest.ActivityLine("1", "seen", "p", "remove"),
		httpapitest.ActivityLine("1", "hide", "p", "add"),
		httpapitest.UntilLine("hide", "p", "soon"),
		httpapitest.UntilLine("seen", "q", "2100-01-01T00:00:00Z"),
		`{"user":"1","kind":"hide","target":"p","op":"remove","until":"2100-01-01T00:00:00Z"}`,
		"",
	}, "\n"))
	want := []any{
		httpapitest.Yes, httpapitest.No, "missing_field op", "malformed_json", "malformed_json", httpapitest.Yes, "unknown_kind kind", "self_block target", "invalid_id target",
		"unknown_op op", "malformed_json", "invalid_type", "invalid_type", "invalid_type target", "invalid_id target", "unknown_field hide",
		"duplicate_key kind", "malformed_json target", "unsupported_op op", httpapitest.Yes,
		"out_of_range until", "unsupported_op until", "unknown_field until",
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %q", len(got), len(want), got)
	}
	for i, w := range want {
		if w == httpapitest.Yes || w == httpapitest.No {
			if got[i] != w {
				t.Errorf("line %d: %s, want %s", i, got[i], w)
			}
			continue
		}
		code, field, _ := strings.Cut(w.(string), " ")
		httpapitest.WantError(t, got[i], code, field)
	}
	s.Want(t, "GET", "/v1/users/1/blocks", "", 200, `{"items":[]}`)
	if got, _, _ := s.Items(t, "/v1/users/1/hides"); !slices.Equal(got, []string{"p"}) {
		t.Errorf("hides: %v", got)
	}
}

func TestStreamEnds(t *testing.T) {
	s := httpapitest.Open(t)
	add, remove := httpapitest.ActivityLine("1", "hide", "p", "add"), httpapitest.ActivityLine("1", "hide", "p", "remove")
	for body, want := range map[string][]string{
		"":                           nil,
		"  ":                         nil,
		add:                          {httpapitest.Yes},
		remove + "\n":                {httpapitest.Yes},
		add + "\n  ":                 {httpapitest.Yes},
		remove + "\n" + add:          {httpapitest.Yes, httpapitest.Yes},
		add[:len(add)-1]:             {"malformed_json"},
		"\n":                         {"malformed_json"},
		remove + "\n\n" + add + "\n": {httpapitest.Yes, "malformed_json", httpapitest.Yes},
	} {
		// Each body starts from the same state. The post is hidden if the first line undoes that.
		s.Do(t, map[bool]string{true: "PUT", false: "DELETE"}[strings.HasPrefix(body, remove)], "/v1/users/1/hides/p", "")
		got := s.NDJSON(t, body)
		if len(got) != len(want) {
			t.Errorf("%q: %q", body, got)
			continue
		}
		for i, w := range want {
			if w == httpapitest.Yes && got[i] != httpapitest.Yes {
				t.Errorf("%q: line %d is %s", body, i, got[i])
			} else if w != httpapitest.Yes {
				httpapitest.WantError(t, got[i], w, "")
			}
		}
	}
}

// TestLineLengths sends lines around the limit of 16 KiB, and longer than the read buffer.
func TestLineLengths(t *testing.T) {
	const limit = 16 << 10
	s := httpapitest.Open(t)
	var body []string
	var want []bool
	for i, n := range []int{limit, limit + 1, limit - 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300 << 10, limit, 128 << 10, limit + 1} {
		l := httpapitest.ActivityLine("1", "hide", fmt.Sprint("p", i), "add")
		body = append(body, l+strings.Repeat(" ", n-len(l)))
		want = append(want, n <= limit)
	}
	for _, end := range []string{"", "\n", "\n" + httpapitest.ActivityLine("1", "like", "last", "add")} {
		got := s.NDJSON(t, strings.Join(body, "\n")+end)
		if strings.Contains(end, "last") {
			if last := got[len(got)-1]; last != httpapitest.Yes {
				t.Errorf("after the long line: %s", last)
			}
			got = got[:len(got)-1]
		}
		if len(got) != len(want) {
			t.Fatalf("%d lines, want %d: %q", len(got), len(want), got)
		}
		for i, sound := range want {
			if sound {
				if got[i] != httpapitest.Yes && got[i] != httpapitest.No {
					t.Errorf("line %d: %s", i, got[i])
				}
			} else {
				httpapitest.WantError(t, got[i], "too_large", "")
			}
		}
	}
	if got, _, _ := s.Items(t, "/v1/users/1/hides"); len(got) != 3 {
		t.Errorf("hides: %v", got)
	}
}

// TestStreamLength sends a stream longer than a chunk, and than the limit of a JSON body.
func TestStreamLength(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxBodyBytes: 1000}, nil)
	var body strings.Builder
	var want []string
	for i := range 3500 {
		if i%100 == 99 {
			body.WriteString("nonsense\n")
			want = append(want, "malformed_json")
			continue
		}
		// Each post occurs twice; the second line changes nothing.
		fmt.Fprintln(&body, httpapitest.ActivityLine("1", "hide", fmt.Sprintf("post-%d", i/2), "add"))
		changed := httpapitest.Yes
		if i%2 == 1 && (i-1)%100 != 99 {
			changed = httpapitest.No
		}
		want = append(want, changed)
	}
	got := s.NDJSON(t, body.String())
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i, w := range want {
		if w == httpapitest.Yes || w == httpapitest.No {
			if got[i] != w {
				t.Fatalf("line %d: %s, want %s", i, got[i], w)
			}
			continue
		}
		httpapitest.WantError(t, got[i], w, "")
	}
}
