package rest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// The fuzz tests check answers against the standard library's reading of the request, so that code
// under test cannot confirm itself.

// strictly decodes JSON into v, and reports whether it is valid for a strict reader: one value in
// UTF-8, without unknown fields, nulls and duplicate names.
func strictly(body []byte, v any) bool {
	if !utf8.Valid(body) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if dec.Decode(v) != nil || !errors.Is(endOf(dec), io.EOF) {
		return false
	}
	return distinct(json.NewDecoder(bytes.NewReader(body)))
}

func endOf(dec *json.Decoder) error {
	_, err := dec.Token()
	return err
}

// distinct reports whether the next value, which is valid, has no null and no duplicate name.
func distinct(dec *json.Decoder) bool {
	t, err := dec.Token()
	if err != nil || t == nil {
		return false
	}
	open, ok := t.(json.Delim)
	if !ok {
		return true
	}
	names := make(map[any]bool)
	for dec.More() {
		if open == '{' {
			name, err := dec.Token()
			if err != nil || names[name] {
				return false
			}
			names[name] = true
		}
		if !distinct(dec) {
			return false
		}
	}
	return endOf(dec) == nil
}

func soundID(id string) bool {
	return id != "" && len(id) <= 256 && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}

type fuzzLine struct {
	User, Kind, Target, Op string
	Until                  *string
}

func (l fuzzLine) sound() bool {
	if l.Until != nil {
		at, err := time.Parse(time.RFC3339, *l.Until)
		if err != nil || !at.After(time.Now().Add(-time.Minute)) || l.Op != "add" || l.Kind == "seen" {
			return false
		}
	}
	switch {
	case !soundID(l.User) || !soundID(l.Target) || l.Op != "add" && l.Op != "remove":
		return false
	case l.Kind == "block":
		return l.User != l.Target
	default:
		return l.Kind == "hide" || l.Kind == "like" || l.Kind == "seen" && l.Op == "add"
	}
}

// refused asserts that a is an error about the request.
func refused(t *testing.T, a httpapitest.Answer) {
	t.Helper()
	if a.Status != 400 && a.Status != 413 && a.Status != 422 || a.Code == "" || !utf8.ValidString(a.Body) || len(a.Body) > 1000 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
}

func sequences(t testing.TB, s *httpapitest.Service) map[uint32]uint64 {
	t.Helper()
	all := make(map[uint32]uint64)
	_, err := s.Whole.Changed(t.Context(), "", func(page uint32, s ledger.PageState) error {
		all[page] = s.Sequence
		return nil
	})
	httpapitest.Must(t, err)
	return all
}

func FuzzFilterBody(f *testing.F) {
	s := httpapitest.Open(f)
	s.Want(f, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Want(f, "PUT", "/v1/users/1/likes/a", "", 200, httpapitest.Yes)
	for _, m := range malformedFeeds() {
		f.Add([]byte(m.body))
	}
	f.Add([]byte(`{"viewer":"1","posts":[{"id":"a","author":"2"},{"id":"b","author":"3","actors":["4"]}],"annotate":["like"]}`))
	f.Add([]byte(`{"viewer":"1","posts":[{"id":"a"},{"id":"b"}],"kinds":["seen","hide"],"annotate":["like"]}`))
	f.Add([]byte(`{"viewer":"\ud83d\ude00","posts":[],"kinds":[]}`))
	f.Add([]byte(`{"viewer":"7","posts":[{"id":"a"},{"id":"b"},{"id":"a"}],"kinds":["hide"],"limit":1,"record_seen":true,"exact":true}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 {
			t.Skip("a request without a body")
		}
		a := s.Do(t, "POST", "/v1/feed/filter", string(body))
		if a.Status != 200 {
			refused(t, a)
			return
		}
		var req struct {
			Viewer string
			Posts  []struct {
				ID, Author string
				Actors     []string
			}
			Kinds, Annotate []string
			Limit           *int
			RecordSeen      bool `json:"record_seen"`
			Exact           bool
		}
		if !strictly(body, &req) || !soundID(req.Viewer) || req.Posts == nil || len(req.Posts) > 10_000 ||
			req.Limit != nil && (*req.Limit < 1 || *req.Limit > 10_000) {
			t.Fatalf("answered %s", a.Body)
		}
		var res struct {
			Posts   []map[string]any `json:"posts"`
			Dropped []struct {
				ID string `json:"id"`
			} `json:"dropped"`
			Next     int   `json:"next"`
			Degraded []any `json:"degraded"`
		}
		if err := json.Unmarshal([]byte(a.Body), &res); err != nil || res.Posts == nil || res.Dropped == nil || res.Degraded == nil {
			t.Fatalf("answer %s", a.Body)
		}
		for _, p := range req.Posts {
			users := req.Kinds == nil || slices.Contains(req.Kinds, "block")
			if !soundID(p.ID) || users && !soundID(p.Author) || slices.ContainsFunc(p.Actors, func(id string) bool { return !soundID(id) }) {
				t.Fatalf("answered %s, with the post %+v", a.Body, p)
			}
		}
		if req.Limit != nil && (len(res.Posts) > *req.Limit || res.Next > 0 && len(res.Posts) < *req.Limit) || res.Next >= max(1, len(req.Posts)) {
			t.Fatalf("limit %d, next of %d posts, in %s", *req.Limit, len(req.Posts), a.Body)
		}
		if res.Next > 0 {
			req.Posts = req.Posts[:res.Next]
		}
		for _, p := range req.Posts {
			switch {
			case len(res.Posts) > 0 && res.Posts[0]["id"] == p.ID:
				if len(res.Posts[0]) != 1+len(req.Annotate) {
					t.Fatalf("kept %v", res.Posts[0])
				}
				res.Posts = res.Posts[1:]
			case len(res.Dropped) > 0 && res.Dropped[0].ID == p.ID:
				res.Dropped = res.Dropped[1:]
			default:
				t.Fatalf("%q has no answer in %s", p.ID, a.Body)
			}
		}
		if len(res.Posts)+len(res.Dropped) > 0 {
			t.Fatalf("more answers than posts: %s", a.Body)
		}
	})
}

func FuzzActivitiesBody(f *testing.F) {
	s := httpapitest.Open(f)
	for _, m := range malformedBatches() {
		f.Add([]byte(m.body))
	}
	f.Add([]byte(httpapitest.Lines(httpapitest.UntilLine("hide", "p", "2020-01-01T00:00:00Z"), httpapitest.UntilLine("hide", "p", "0001-01-01T00:00:00Z"))))
	f.Add([]byte(httpapitest.Lines(httpapitest.ActivityLine("1", "seen", "p", "add"), httpapitest.ActivityLine("é", "hide", "%2F", "remove"), httpapitest.UntilLine("hide", "u", "2100-01-01T00:00:00.5+05:00"))))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 {
			t.Skip("a request without a body")
		}
		before := sequences(t, s)
		a := s.Do(t, "POST", "/v1/activities", string(body))
		if a.Status != 200 {
			refused(t, a)
			if after := sequences(t, s); !maps.Equal(before, after) {
				t.Fatalf("%s, but sequences %v are now %v", a.Body, before, after)
			}
			return
		}
		var req struct{ Activities []fuzzLine }
		var res struct {
			Results []struct {
				Changed *bool `json:"changed"`
				Error   struct {
					Code string `json:"code"`
				} `json:"error"`
			} `json:"results"`
		}
		httpapitest.Must(t, json.Unmarshal([]byte(a.Body), &res))
		if !strictly(body, &req) || len(req.Activities) != len(res.Results) || len(res.Results) == 0 {
			t.Fatalf("answered %s", a.Body)
		}
		for i, l := range req.Activities {
			if r := res.Results[i]; r.Error.Code != "out_of_range" && (!l.sound() || r.Changed == nil) {
				t.Fatalf("answered %s, with the line %+v", a.Body, l)
			}
		}
	})
}

func FuzzNDJSON(f *testing.F) {
	s := httpapitest.Open(f)
	for _, m := range malformedBatches() {
		f.Add([]byte(strings.ReplaceAll(m.body, ",{", "\n{")))
	}
	add := httpapitest.ActivityLine("1", "hide", "p", "add")
	f.Add([]byte(add + "\n" + add[:20] + "\n" + httpapitest.ActivityLine("1", "hide", "p", "remove") + "\n\n \n"))
	f.Add([]byte(add + strings.Repeat(" ", 16<<10) + "\n" + add + "\r\n" + add))
	f.Add([]byte(httpapitest.UntilLine("hide", "u", "2020-01-01T00:00:00Z") + "\n" + httpapitest.UntilLine("like", "u", "2100-01-01T00:00:00Z") + "\n" + add))
	f.Fuzz(func(t *testing.T, body []byte) {
		asked := bytes.Split(body, []byte("\n"))
		if last := len(asked) - 1; len(bytes.TrimSpace(asked[last])) == 0 && len(asked[last]) <= 16<<10 {
			asked = asked[:last]
		}
		if len(body) == 0 {
			t.Skip("a request without a body")
		}
		got := s.NDJSON(t, string(body))
		if len(got) != len(asked) {
			t.Fatalf("%d lines for %d: %q", len(got), len(asked), got)
		}
		for i, text := range got {
			var l fuzzLine
			var res struct {
				Changed *bool
				Error   *struct{ Code, Message, Field string }
			}
			if !strictly([]byte(text), &res) || (res.Changed == nil) != (res.Error != nil) {
				t.Fatalf("line %d is %s", i, text)
			}
			long := len(asked[i]) > 16<<10
			switch {
			case res.Error != nil && (res.Error.Code == "" || res.Error.Message == "" || (res.Error.Code == "too_large") != long):
				t.Fatalf("line %d is %s", i, text)
			case res.Error != nil && (res.Error.Code == "internal" || res.Error.Code == "unavailable"):
				t.Fatalf("line %d is %s", i, text)
			case res.Error == nil && (long || !strictly(asked[i], &l) || !l.sound()):
				t.Fatalf("line %d, %q, is answered %s", i, asked[i], text)
			}
		}
	})
}

// FuzzPathID tries the end of a path in the form in which it is sent.
func FuzzPathID(f *testing.F) {
	s := httpapitest.Open(f)
	for _, id := range oddIDs() {
		f.Add(id)
		f.Add(url.PathEscape(id))
		f.Add(httpapitest.EveryByte(id))
	}
	for _, raw := range []string{"", "%", "%2", "%zz", "%00", "%ff", "é%2F", "a/../b", "\"%2f"} {
		f.Add(raw)
	}
	const list = "/v1/users/fuzz/hides"
	f.Fuzz(func(t *testing.T, raw string) {
		path := list + "/" + raw
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("PUT " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")))
		if err != nil || r.RequestURI != path || strings.Contains(raw, "?") {
			t.Skip("the server refuses it, or it is another path")
		}
		id, err := url.PathUnescape(raw)
		if err != nil {
			t.Fatalf("%q was accepted: %v", raw, err)
		}
		a := httpapitest.Serve(t, s, r)
		switch {
		case raw == "" || strings.Contains(raw, "/"):
			if a.Status != 404 || a.Code != "not_found" {
				t.Fatalf("%q: %d %s", raw, a.Status, a.Body)
			}
		case !soundID(id):
			if a.Status != 400 || a.Code != "invalid_id" || a.Field != "target" {
				t.Fatalf("%q: %d %s", raw, a.Status, a.Body)
			}
		default:
			if a.Status != 200 || a.Body != httpapitest.Yes {
				t.Fatalf("%q: %d %s", raw, a.Status, a.Body)
			}
			if got, _, _ := s.Items(t, list); !slices.Equal(got, []string{id}) {
				t.Fatalf("%q: %q, want %q", raw, got, id)
			}
			s.Want(t, "DELETE", list+"/"+httpapitest.EveryByte(id), "", 200, httpapitest.Yes)
		}
	})
}
