package rest_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// state is everything that a service shows of its data.
type state struct {
	lists     map[string]string
	feeds     []string
	sequences map[uint32]uint64
}

// stateOf returns the state of the users' activities.
func stateOf(t testing.TB, s *httpapitest.Service, users ...string) state {
	t.Helper()
	st := state{lists: make(map[string]string)}
	for _, user := range users {
		for _, plural := range []string{"blocks", "hides", "likes"} {
			path := "/v1/users/" + user + "/" + plural
			a := s.Do(t, "GET", path, "")
			if a.Status != http.StatusOK {
				t.Fatalf("GET %s: %d %s", path, a.Status, a.Body)
			}
			st.lists[path] = a.Body
		}
		a := s.Do(t, "POST", "/v1/feed/filter", `{"viewer":"`+user+`","posts":[`+
			`{"id":"p1","author":"2"},{"id":"p2","author":"3"},{"id":"p3","author":"4"},{"id":"p4","author":"5"},{"id":"x","author":"5"}],"annotate":["like"]}`)
		if a.Status != http.StatusOK {
			t.Fatalf("feed: %d %s", a.Status, a.Body)
		}
		st.feeds = append(st.feeds, a.Body)
	}
	st.sequences = sequences(t, s)
	return st
}

func (s state) equal(o state) bool { return reflect.DeepEqual(s, o) }

// malformed is a request that must be refused. The default method is POST. A body is sent with its
// length and as JSON, unless headers say otherwise.
type malformed struct {
	request string // method and target
	headers string // lines
	body    string

	status      int
	code, field string
}

func (m malformed) raw() string {
	var b strings.Builder
	b.WriteString(m.request + " HTTP/1.1\r\nHost: x\r\n")
	if m.headers != "" {
		for line := range strings.SplitSeq(m.headers, "\n") {
			b.WriteString(line + "\r\n")
		}
	}
	if m.body != "" && !strings.Contains(m.headers, "Content-Type") {
		b.WriteString("Content-Type: application/json\r\n")
	}
	if m.body != "" && !strings.Contains(m.headers, "Content-Length") && !strings.Contains(m.headers, "chunked") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(m.body))
	}
	return b.String() + "\r\n" + m.body
}

// exchange returns the request and its answer, for the comparison with the description.
func (m malformed) exchange(a httpapitest.Answer) httpapitest.Exchange {
	method, target, _ := strings.Cut(m.request, " ")
	x := httpapitest.Exchange{Method: method, Target: target, ContentType: "application/json", Sent: m.body, Answer: a}
	for line := range strings.SplitSeq(m.headers, "\n") {
		if name, value, _ := strings.Cut(line, ": "); name == "Content-Type" {
			x.ContentType = value
		}
	}
	return x
}

const (
	filterPath = "POST /v1/feed/filter"
	batchPath  = "POST /v1/activities"
	seenPath   = "POST /v1/users/1/seen"

	explainPath = "POST /v1/feed/explain"
	fanoutPath  = "POST /v1/fanout/filter"
	previewPath = "POST /v1/users/1/preview"
)

func malformedPaths() []malformed {
	long := strings.Repeat("x", 257)
	return append(append(malformedUntil(), malformedSince()...), []malformed{
		// Routes.
		{request: "GET /", status: 404, code: "not_found"},
		{request: "GET /v1", status: 404, code: "not_found"},
		{request: "GET //v1/users/1/blocks", status: 404, code: "not_found"},
		{request: "GET /v1//users/1/blocks", status: 404, code: "not_found"},
		{request: "GET /v1/./users/1/blocks", status: 404, code: "not_found"},
		{request: "GET /v1/users/1/blocks/", status: 404, code: "not_found"},
		{request: "GET /v1%2Fusers/1/blocks", status: 404, code: "not_found"},
		{request: "GET /v1/users/%00", status: 400, code: "invalid_id", field: "user"},
		{request: "PUT /v1/users/1", status: 405, code: "method_not_allowed"},
		{request: "DELETE /v1/users/%0A", status: 400, code: "invalid_id", field: "user"},
		{request: "DELETE /v1/users/1", body: "{}", status: 400, code: "unexpected_body"},
		{request: "GET /v1/pages?x=1", status: 400, code: "unknown_parameter", field: "x"},
		{request: "PUT /v1/pages?x=1", body: `{"pages":16}`, status: 400, code: "unknown_parameter", field: "x"},
		{request: "PUT /v1/pages", body: `{}`, status: 400, code: "missing_field", field: "pages"},
		{request: "PUT /v1/pages", body: `{"pages":null}`, status: 400, code: "invalid_type", field: "pages"},
		{request: "PUT /v1/pages", body: `{"pages":"16"}`, status: 400, code: "invalid_type", field: "pages"},
		{request: "PUT /v1/pages", body: `{"pages":16.5}`, status: 400, code: "invalid_type", field: "pages"},
		{request: "PUT /v1/pages", body: `{"pages":0}`, status: 400, code: "out_of_range", field: "pages"},
		{request: "PUT /v1/pages", body: `{"pages":48}`, status: 400, code: "out_of_range", field: "pages"},
		{request: "PUT /v1/pages", body: `{"pages":33554432}`, status: 400, code: "out_of_range", field: "pages"},
		{request: "PUT /v1/pages", body: `{"pages":4294967312}`, status: 400, code: "out_of_range", field: "pages"},
		{request: "PUT /v1/pages", body: `{"pages":16,"now":true}`, status: 400, code: "unknown_field", field: "now"},
		{request: "GET /v1/users/1/stats", status: 404, code: "not_found"},
		{request: "PUT /v1/users/1/follows/2", status: 404, code: "not_found"},
		{request: "PUT /v1/users/1/blocks/2/3", status: 404, code: "not_found"},
		{request: "PUT /v1/users/1/blocks//2", status: 404, code: "not_found"},
		{request: "PUT /v1/users/1/seen/p1", status: 404, code: "not_found"},
		{request: "OPTIONS /v1/nothing", status: 404, code: "not_found"},
		{request: "POST /v1/users/1/blocks/2", status: 405, code: "method_not_allowed"},
		{request: "PUT /v1/targets/2/blocks", status: 405, code: "method_not_allowed"},
		{request: "GET /v1/targets/2/hides", status: 404, code: "not_found"},
		{request: "GET /v1/targets/2/blocks/1", status: 404, code: "not_found"},
		{request: "GET /v1/targets/2", status: 404, code: "not_found"},
		{request: "GET /v1/targets/%00/blocks", status: 400, code: "invalid_id", field: "user"},
		{request: "GET /v1/targets/2/blocks?limit=0", status: 400, code: "out_of_range", field: "limit"},
		{request: "GET /v1/targets/2/blocks?cursor=x", status: 400, code: "invalid_cursor", field: "cursor"},
		{request: "GET /v1/users/1/blocks/99", status: 404, code: "no_activity"},
		{request: "GET /v1/users/1/blocks/1", status: 404, code: "no_activity"},
		{request: "GET /v1/users/1/blocks/%00", status: 400, code: "invalid_id", field: "target"},
		{request: "GET /v1/users/1/blocks/2?x=1", status: 400, code: "unknown_parameter", field: "x"},
		{request: "GET /v1/users/1/blocks/2", body: `{}`, status: 400, code: "unexpected_body"},
		{request: "PUT /v1/users/1/blocks", status: 405, code: "method_not_allowed"},
		{request: "GET /v1/users/1/seen", status: 405, code: "method_not_allowed"},
		{request: "POST /healthz", status: 405, code: "method_not_allowed"},
		{request: "BREW /v1/activities", status: 405, code: "method_not_allowed"},
		// Ids in paths. The server itself refuses invalid URLs.
		{request: "PUT /v1/users/1/blocks/%zz", status: 400},
		{request: "PUT /v1/users/1/blocks/a b", status: 400},
		{request: "PUT /v1/users//blocks/2", status: 400, code: "invalid_id", field: "user"},
		{request: "PUT /v1/users/1/blocks/%00", status: 400, code: "invalid_id", field: "target"},
		{request: "PUT /v1/users/1/blocks/%0A", status: 400, code: "invalid_id", field: "target"},
		{request: "PUT /v1/users/1/blocks/%7F", status: 400, code: "invalid_id", field: "target"},
		{request: "PUT /v1/users/1/blocks/%FF", status: 400, code: "invalid_id", field: "target"},
		{request: "PUT /v1/users/1/blocks/\xff", status: 400, code: "invalid_id", field: "target"},
		{request: "PUT /v1/users/1/blocks/%ED%A0%80", status: 400, code: "invalid_id", field: "target"},
		{request: "PUT /v1/users/1/blocks/" + long, status: 400, code: "invalid_id", field: "target"},
		{request: "POST /v1/users/%80/seen", body: `{"posts":["x"]}`, status: 400, code: "invalid_id", field: "user"},
		{request: "PUT /v1/users/1/blocks/1", status: 422, code: "self_block", field: "target"},
		{request: "PUT /v1/users/1/blocks/%31", status: 422, code: "self_block", field: "target"},
		// Queries.
		{request: "PUT /v1/users/1/blocks/9?x", status: 400, code: "unknown_parameter", field: "x"},
		{request: "DELETE /v1/users/1/blocks/2?=", status: 400, code: "unknown_parameter"},
		{request: "PUT /v1/users/1/blocks/9?a=%zz", status: 400, code: "malformed_query"},
		{request: "PUT /v1/users/1/blocks/9?a;b", status: 400, code: "malformed_query"},
		{request: "GET /v1/users/1/blocks?Limit=1", status: 400, code: "unknown_parameter", field: "Limit"},
		{request: "GET /v1/users/1/blocks?limit=1&limit=1", status: 400, code: "repeated_parameter", field: "limit"},
		{request: "GET /v1/users/1/blocks?limit=0", status: 400, code: "out_of_range", field: "limit"},
		{request: "GET /v1/users/1/blocks?limit=1001", status: 400, code: "out_of_range", field: "limit"},
		{request: "GET /v1/users/1/blocks?limit=", status: 400, code: "out_of_range", field: "limit"},
		{request: "GET /v1/users/1/blocks?limit=05", status: 400, code: "out_of_range", field: "limit"},
		{request: "GET /v1/users/1/blocks?limit=99999999999999999999", status: 400, code: "out_of_range", field: "limit"},
		{request: "GET /v1/users/1/blocks?cursor=x", status: 400, code: "invalid_cursor", field: "cursor"},
		{request: "GET /v1/users/1/blocks?cursor=MSA", status: 400, code: "invalid_cursor", field: "cursor"},
		{request: filterPath + "?viewer=1", body: `{"viewer":"1","posts":[]}`, status: 400, code: "unknown_parameter", field: "viewer"},
		{request: batchPath + "?dry_run=1", body: httpapitest.Lines(), status: 400, code: "unknown_parameter", field: "dry_run"},
		{request: seenPath + "?x=1", body: `{"posts":["x"]}`, status: 400, code: "unknown_parameter", field: "x"},
		{request: "GET /healthz?x=1", status: 400, code: "unknown_parameter", field: "x"},
		{request: "GET /v1/users/1/export?limit=1", status: 400, code: "unknown_parameter", field: "limit"},
		{request: "GET /readyz?x=1", status: 400, code: "unknown_parameter", field: "x"},
		{request: "GET /v1/stats?x=1", status: 400, code: "unknown_parameter", field: "x"},
	}...)
}

func malformedBodies() []malformed {
	good := `{"posts":["x"]}`
	return []malformed{
		// Bodies that must be missing, and bodies of other types.
		{request: "PUT /v1/users/1/blocks/9", body: `{}`, status: 400, code: "unexpected_body"},
		{request: "DELETE /v1/users/1/blocks/2", body: ` `, status: 400, code: "unexpected_body"},
		{request: "PUT /v1/users/1/blocks/9", headers: "Transfer-Encoding: chunked", body: "1\r\nx\r\n0\r\n\r\n", status: 400, code: "unexpected_body"},
		{request: "PUT /v1/users/1/blocks/9", headers: "Transfer-Encoding: chunked", body: "zz\r\n", status: 400, code: "unreadable_body"},
		{request: "GET /v1/users/1/blocks", body: `{}`, status: 400, code: "unexpected_body"},
		{request: seenPath, headers: "Content-Type: text/plain", body: good, status: 415, code: "unsupported_media_type"},
		{request: seenPath, headers: "Content-Type: ", body: good, status: 415, code: "unsupported_media_type"},
		{request: seenPath, headers: "Content-Type: application/json; charset=latin1", body: good, status: 415, code: "unsupported_media_type"},
		{request: seenPath, headers: "Content-Type: application/x-ndjson", body: good, status: 415, code: "unsupported_media_type"},
		{request: seenPath, headers: "Content-Type: application/json\nContent-Encoding: gzip", body: good, status: 415, code: "unsupported_media_type"},
		{request: filterPath, headers: "Content-Type: application/x-ndjson", body: `{"viewer":"1","posts":[]}`, status: 415, code: "unsupported_media_type"},
		{request: batchPath, headers: "Content-Type: text/csv", body: httpapitest.Lines(), status: 415, code: "unsupported_media_type"},
		{request: batchPath, headers: "Content-Type: application/x-ndjson\nContent-Encoding: br", body: httpapitest.Line, status: 415, code: "unsupported_media_type"},
		{request: batchPath, headers: "Content-Type: application/x-ndjson; charset=utf-16", body: httpapitest.Line, status: 415, code: "unsupported_media_type"},
		// Lengths.
		{request: seenPath, body: good + strings.Repeat(" ", 4097-len(good)), status: 413, code: "too_large"},
		{request: filterPath, headers: "Content-Length: 9223372036854775807", body: good, status: 413, code: "too_large"},
		{request: batchPath, body: strings.Repeat(" ", 4097), status: 413, code: "too_large"},
		{request: seenPath, headers: "Transfer-Encoding: chunked", body: "f\r\n" + good + "\r\n1001\r\n" + strings.Repeat(" ", 4097) + "\r\n0\r\n\r\n", status: 413, code: "too_large"},
		{request: seenPath, headers: "Transfer-Encoding: chunked", body: "f\r\n" + good + "\r\nxyz\r\n", status: 400, code: "unreadable_body"},
		// Invalid JSON, and more than one value.
		{request: seenPath, headers: "Content-Type: application/json\nContent-Length: 0", status: 400, code: "malformed_json"},
		{request: seenPath, body: `{`, status: 400, code: "malformed_json"},
		{request: seenPath, body: `{"posts":["x]}`, status: 400, code: "malformed_json"},
		{request: seenPath, body: `{"posts":["x",]}`, status: 400, code: "malformed_json", field: "posts"},
		{request: seenPath, body: `{posts:["x"]}`, status: 400, code: "malformed_json"},
		{request: seenPath, body: `{"posts":[NaN]}`, status: 400, code: "malformed_json", field: "posts[0]"},
		{request: seenPath, body: `{"posts":["x"]} {}`, status: 400, code: "malformed_json"},
		{request: seenPath, body: `{"posts":["x"]}` + "\x00", status: 400, code: "malformed_json"},
		{request: seenPath, body: "\ufeff" + good, status: 400, code: "malformed_json"},
		{request: seenPath, body: "{\"posts\":[\"\xff\"]}", status: 400, code: "malformed_json", field: "posts[0]"},
		{request: seenPath, body: `{"posts":["\ud800"]}`, status: 400, code: "malformed_json", field: "posts[0]"},
		{request: seenPath, body: "{\"posts\":[\"a\nb\"]}", status: 400, code: "malformed_json", field: "posts[0]"},
		{request: seenPath, body: strings.Repeat("[", 4000), status: 400, code: "invalid_type"},
		{request: seenPath, body: `{"posts":` + strings.Repeat("[", 4000), status: 400, code: "malformed_json"},
		{request: seenPath, body: `{"posts":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}", status: 400, code: "invalid_type", field: "posts[0]"},
		// Wrong values and unknown fields.
		{request: seenPath, body: `null`, status: 400, code: "invalid_type"},
		{request: seenPath, body: `[]`, status: 400, code: "invalid_type"},
		{request: seenPath, body: `{}`, status: 400, code: "missing_field", field: "posts"},
		{request: seenPath, body: `{"posts":null}`, status: 400, code: "invalid_type", field: "posts"},
		{request: seenPath, body: `{"posts":"x"}`, status: 400, code: "invalid_type", field: "posts"},
		{request: seenPath, body: `{"posts":{"0":"x"}}`, status: 400, code: "invalid_type", field: "posts"},
		{request: seenPath, body: `{"posts":["x",true]}`, status: 400, code: "invalid_type", field: "posts[1]"},
		{request: seenPath, body: `{"posts":["x",null]}`, status: 400, code: "invalid_type", field: "posts[1]"},
		{request: seenPath, body: `{"posts":["x",1]}`, status: 400, code: "invalid_type", field: "posts[1]"},
		{request: seenPath, body: `{"posts":["x"],"Posts":["y"]}`, status: 400, code: "unknown_field", field: "Posts"},
		{request: seenPath, body: `{"posts":["x"],"":1}`, status: 400, code: "unknown_field"},
		{request: seenPath, body: `{"posts":["x"],"` + strings.Repeat("y", 100) + `":1}`, status: 400, code: "unknown_field", field: strings.Repeat("y", 64) + "..."},
		{request: seenPath, body: `{"posts":["x"],"posts":["y"]}`, status: 400, code: "duplicate_key", field: "posts"},
		{request: seenPath, body: `{"posts":["x"],"\u0070osts":["y"]}`, status: 400, code: "duplicate_key", field: "posts"},
		{request: seenPath, body: `{"posts":[]}`, status: 400, code: "out_of_range", field: "posts"},
		{request: seenPath, body: `{"posts":[` + httpapitest.Repeated(1001, `""`) + `]}`, status: 400, code: "out_of_range", field: "posts"},
		{request: seenPath, body: `{"posts":["x",""]}`, status: 400, code: "invalid_id", field: "posts[1]"},
		{request: seenPath, body: `{"posts":["x","` + strings.Repeat("é", 129) + `"]}`, status: 400, code: "invalid_id", field: "posts[1]"},
	}
}

func malformedFeeds() []malformed {
	const viewer = `{"viewer":"1",`
	return []malformed{
		{request: filterPath, body: `null`, status: 400, code: "invalid_type"},
		{request: filterPath, body: `{"posts":[]}`, status: 400, code: "invalid_id", field: "viewer"},
		{request: filterPath, body: `{"viewer":"","posts":[]}`, status: 400, code: "invalid_id", field: "viewer"},
		{request: filterPath, body: `{"viewer":1,"posts":[]}`, status: 400, code: "invalid_type", field: "viewer"},
		{request: filterPath, body: `{"viewer":"1"}`, status: 400, code: "missing_field", field: "posts"},
		{request: filterPath, body: viewer + `"posts":null}`, status: 400, code: "invalid_type", field: "posts"},
		{request: filterPath, body: viewer + `"posts":[{}]}`, status: 400, code: "invalid_id", field: "posts[0].id"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p"}]}`, status: 400, code: "invalid_id", field: "posts[0].author"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":null}],"kinds":[]}`, status: 400, code: "invalid_type", field: "posts[0].author"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","actors":["3",""]}]}`, status: 400, code: "invalid_id", field: "posts[0].actors[1]"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","actors":null}]}`, status: 400, code: "invalid_type", field: "posts[0].actors"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","lang":"en"}]}`, status: 400, code: "unknown_field", field: "posts[0].lang"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","id":"q","author":"2"}]}`, status: 400, code: "duplicate_key", field: "posts[0].id"},
		{request: filterPath, body: viewer + `"posts":[],"limit":0}`, status: 400, code: "out_of_range", field: "limit"},
		{request: filterPath, body: viewer + `"posts":[],"limit":10001}`, status: 400, code: "out_of_range", field: "limit"},
		{request: filterPath, body: viewer + `"posts":[],"limit":1.5}`, status: 400, code: "invalid_type", field: "limit"},
		{request: filterPath, body: viewer + `"posts":[],"limit":NaN}`, status: 400, code: "malformed_json", field: "limit"},
		{request: filterPath, body: viewer + `"posts":[],"record_seen":1}`, status: 400, code: "invalid_type", field: "record_seen"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p"},{"id":""}],"kinds":["hide"],"record_seen":true}`, status: 400, code: "invalid_id", field: "posts[1].id"},
		{request: filterPath, body: viewer + `"posts":[],"exact":"yes"}`, status: 400, code: "invalid_type", field: "exact"},
		{request: previewPath, body: `{}`, status: 400, code: "missing_field", field: "kind"},
		{request: previewPath, body: `{"kind":"block"}`, status: 400, code: "missing_field", field: "targets"},
		{request: previewPath, body: `{"kind":"block","targets":[]}`, status: 400, code: "out_of_range", field: "targets"},
		{request: previewPath, body: `{"kind":"block","targets":["2",3]}`, status: 400, code: "invalid_type", field: "targets[1]"},
		{request: previewPath, body: `{"kind":"block","targets":["2","1"]}`, status: 422, code: "self_block", field: "targets[1]"},
		{request: previewPath, body: `{"kind":"hide","targets":["2",""]}`, status: 400, code: "invalid_id", field: "targets[1]"},
		{request: previewPath, body: `{"kind":"mutes","targets":["2"]}`, status: 422, code: "unknown_kind", field: "kind"},
		{request: previewPath, body: `{"kind":"seen","targets":["2"]}`, status: 422, code: "unsupported_op", field: "kind"},
		{request: explainPath, body: `{}`, status: 400, code: "missing_field", field: "post"},
		{request: explainPath, body: viewer + `"post":null}`, status: 400, code: "invalid_type", field: "post"},
		{request: explainPath, body: viewer + `"post":{}}`, status: 400, code: "invalid_id", field: "post.author"},
		{request: explainPath, body: viewer + `"post":{"id":"p"}}`, status: 400, code: "invalid_id", field: "post.author"},
		{request: explainPath, body: viewer + `"post":{"id":"p","author":"2","actors":[""]}}`, status: 400, code: "invalid_id", field: "post.actors[0]"},
		{request: explainPath, body: viewer + `"post":{"id":"p","author":"2"},"exact":true}`, status: 400, code: "unknown_field", field: "exact"},
		{request: explainPath, body: viewer + `"post":{"id":"p","author":"2","facets":{"tag":["a"]}}}`, status: 422, code: "unknown_facet", field: "post.facets.tag"},
		{request: explainPath, body: `{"post":{"id":"p","author":"2"}}`, status: 400, code: "invalid_id", field: "viewer"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","facets":{"tag":["a"]}}]}`, status: 422, code: "unknown_facet", field: "posts[0].facets.tag"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","actors":[{"id":"3","role":"Repost"}]}]}`, status: 400, code: "out_of_range", field: "posts[0].actors[0].role"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","actors":["3",{"role":"repost"}]}]}`, status: 400, code: "invalid_id", field: "posts[0].actors[1]"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","actors":[{"id":"3","roles":"a"}]}]}`, status: 400, code: "unknown_field", field: "posts[0].actors[0].roles"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","actors":null}]}`, status: 400, code: "invalid_type", field: "posts[0].actors"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","actors":[null]}]}`, status: 400, code: "invalid_type", field: "posts[0].actors[0]"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","actors":[{"id":"3","role":null}]}]}`, status: 400, code: "invalid_type", field: "posts[0].actors[0].role"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","actors":[{"id":"3","id":"3"}]}]}`, status: 400, code: "duplicate_key", field: "posts[0].actors[0].id"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","facets":{"user":["a"]}}]}`, status: 422, code: "unknown_facet", field: "posts[0].facets.user"},
		{request: fanoutPath, body: `{"author":"2","viewers":["1"],"post":"\n"}`, status: 400, code: "invalid_id", field: "post"},
		{request: filterPath, body: viewer + `"posts":[],"lists":["L","L"]}`, status: 400, code: "out_of_range", field: "lists[1]"},
		{request: filterPath, body: viewer + `"posts":[],"lists":[""]}`, status: 400, code: "invalid_id", field: "lists[0]"},
		{request: filterPath, body: viewer + `"posts":[],"lists":null}`, status: 400, code: "invalid_type", field: "lists"},
		{request: filterPath, body: viewer + `"posts":[],"lists":["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q","r","s","t","u"]}`, status: 400, code: "out_of_range", field: "lists"},
		{request: explainPath, body: viewer + `"post":{"id":"p","author":"2"},"lists":["L","L"]}`, status: 400, code: "out_of_range", field: "lists[1]"},
		{request: fanoutPath, body: `{"author":"2"}`, status: 400, code: "missing_field", field: "viewers"},
		{request: fanoutPath, body: `{"viewers":["1"]}`, status: 400, code: "invalid_id", field: "author"},
		{request: fanoutPath, body: `{"author":"2","viewers":["1",""]}`, status: 400, code: "invalid_id", field: "viewers[1]"},
		{request: fanoutPath, body: `{"author":"2","viewers":null}`, status: 400, code: "invalid_type", field: "viewers"},
		{request: fanoutPath, body: `{"author":"2","viewers":["1"],"id":"3"}`, status: 400, code: "unknown_field", field: "id"},
		{request: fanoutPath, body: `{"author":"2","viewers":["1"],"facets":{"tag":["x"]}}`, status: 422, code: "unknown_facet", field: "facets.tag"},
		{request: fanoutPath, body: `{"author":"2","viewers":["1"],"kinds":["hide"]}`, status: 422, code: "unsupported_op", field: "kinds[0]"},
		{request: fanoutPath, body: `{"author":"2","viewers":["1"],"kinds":["like"]}`, status: 422, code: "wrong_effect", field: "kinds[0]"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","related":null}]}`, status: 400, code: "invalid_type", field: "posts[0].related"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","related":["a",""]}]}`, status: 400, code: "invalid_id", field: "posts[0].related[1]"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","facets":null}]}`, status: 400, code: "invalid_type", field: "posts[0].facets"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","facets":{"tag":null}}]}`, status: 400, code: "invalid_type", field: "posts[0].facets.tag"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","facets":{"tag":"a"}}]}`, status: 400, code: "invalid_type", field: "posts[0].facets.tag"},
		{request: filterPath, body: viewer + `"posts":[{"id":"p","author":"2","facets":{"tag":[],"tag":[]}}]}`, status: 400, code: "duplicate_key", field: "posts[0].facets.tag"},
		{request: filterPath, body: viewer + `"posts":[],"kinds":null}`, status: 400, code: "invalid_type", field: "kinds"},
		{request: filterPath, body: viewer + `"posts":[],"kinds":["follow"]}`, status: 422, code: "unknown_kind", field: "kinds[0]"},
		{request: filterPath, body: viewer + `"posts":[],"kinds":["blocked-by"]}`, status: 422, code: "unknown_kind", field: "kinds[0]"},
		{request: filterPath, body: viewer + `"posts":[],"kinds":["block","like"]}`, status: 422, code: "wrong_effect", field: "kinds[1]"},
		{request: filterPath, body: viewer + `"posts":[],"kinds":["block","block"]}`, status: 400, code: "out_of_range", field: "kinds[1]"},
		{request: filterPath, body: viewer + `"posts":[],"annotate":["hide"]}`, status: 422, code: "wrong_effect", field: "annotate[0]"},
		{request: filterPath, body: viewer + `"posts":[` + httpapitest.Repeated(201, `{"id":"p"}`) + `,{"id":""}],"kinds":["hide"]}`, status: 400, code: "invalid_id", field: "posts[201].id"},
	}
}

func malformedBatches() []malformed {
	second := func(l string) string { return httpapitest.Lines(l) }
	until := func(at string) string { return `{"user":"1","kind":"hide","target":"p","op":"add","until":` + at + `}` }
	return []malformed{
		{request: batchPath, body: `{}`, status: 400, code: "missing_field", field: "activities"},
		{request: batchPath, body: `{"activities":[]}`, status: 400, code: "out_of_range", field: "activities"},
		{request: batchPath, body: `{"activities":null}`, status: 400, code: "invalid_type", field: "activities"},
		{request: batchPath, body: second(`{"user":null,"kind":"hide","target":"p","op":"add"}`), status: 400, code: "invalid_type", field: "activities[1].user"},
		{request: batchPath, body: httpapitest.Lines("null"), status: 400, code: "invalid_type", field: "activities[1]"},
		{request: batchPath, body: httpapitest.Line, status: 400, code: "unknown_field", field: "user"},
		{request: batchPath, body: second(`{}`), status: 400, code: "missing_field", field: "activities[1].kind"},
		{request: batchPath, body: second(`{"kind":"block","target":"8","op":"add"}`), status: 400, code: "invalid_id", field: "activities[1].user"},
		{request: batchPath, body: second(`{"user":"1","kind":"block","op":"add"}`), status: 400, code: "invalid_id", field: "activities[1].target"},
		{request: batchPath, body: second(`{"user":"1","kind":"block","target":"8"}`), status: 400, code: "missing_field", field: "activities[1].op"},
		{request: batchPath, body: second(`{"user":"1","kind":"block","target":"8","op":"put"}`), status: 422, code: "unknown_op", field: "activities[1].op"},
		{request: batchPath, body: second(`{"user":"1","kind":"blocked-by","target":"8","op":"add"}`), status: 422, code: "unknown_kind", field: "activities[1].kind"},
		{request: batchPath, body: second(`{"user":"1","kind":"block","target":"1","op":"add"}`), status: 422, code: "self_block", field: "activities[1].target"},
		{request: batchPath, body: second(`{"user":"1","kind":"seen","target":"p","op":"remove"}`), status: 422, code: "unsupported_op", field: "activities[1].op"},
		{request: batchPath, body: second(`{"user":"1\u009f","kind":"hide","target":"p","op":"add"}`), status: 400, code: "invalid_id", field: "activities[1].user"},
		{request: batchPath, body: second(until(`"x"`)), status: 400, code: "out_of_range", field: "activities[1].until"},
		{request: batchPath, body: second(until(`"9999-12-31T23:59:59-00:01"`)), status: 400, code: "out_of_range", field: "activities[1].until"},
		{request: batchPath, body: second(until(`null`)), status: 400, code: "invalid_type", field: "activities[1].until"},
		{request: batchPath, body: second(until(`4102444800`)), status: 400, code: "invalid_type", field: "activities[1].until"},
		{request: batchPath, body: second(strings.Replace(until(`"2100-01-01T00:00:00Z"`), "add", "remove", 1)), status: 400, code: "unknown_field", field: "activities[1].until"},
		{request: batchPath, body: second(strings.Replace(until(`"2100-01-01T00:00:00Z"`), "hide", "seen", 1)), status: 422, code: "unsupported_op", field: "activities[1].until"},
		{request: batchPath, body: second(`{"user":"1","kind":"hide","target":7,"op":"add"}`), status: 400, code: "invalid_type", field: "activities[1].target"},
		{request: batchPath, body: second(`{"user":"1","user":"2","kind":"hide","target":"p","op":"add"}`), status: 400, code: "duplicate_key", field: "activities[1].user"},
		{request: batchPath, body: httpapitest.Lines()[:len(httpapitest.Lines())-2], status: 400, code: "malformed_json"},
	}
}

// TestMalformed sends invalid requests, byte for byte, to a real server with data, and checks after
// each that nothing has changed.
func TestMalformed(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxBodyBytes: 4096}, nil)
	s.Want(t, "POST", "/v1/activities", httpapitest.Lines(
		`{"user":"1","kind":"block","target":"2","op":"add"}`, `{"user":"3","kind":"block","target":"1","op":"add"}`,
		`{"user":"1","kind":"block","target":"9","op":"remove"}`,
		`{"user":"1","kind":"hide","target":"p3","op":"add"}`, `{"user":"1","kind":"like","target":"p4","op":"add"}`,
	), 200, `{"results":[`+httpapitest.Repeated(6, httpapitest.Yes)+`]}`)
	users := []string{"1", "2", "9"}
	before := stateOf(t, s, users...)
	if len(before.sequences) == 0 || !strings.Contains(before.feeds[0], `"posts":[{"id":"p4","like":true},{"id":"x","like":false}]`) {
		t.Fatalf("unexpected state at the start: %+v", before)
	}
	addr := s.Start(t)
	var cases []malformed
	for _, some := range [][]malformed{malformedPaths(), malformedBodies(), malformedFeeds(), malformedBatches()} {
		cases = append(cases, some...)
	}
	if len(cases) < 80 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, m := range cases {
		a := httpapitest.Raw(t, addr, m.raw())
		if err := s.ContractOf(t).Judge(m.exchange(a)); err != nil {
			t.Errorf("%.120s\n%.120s\n%d %s: %v", m.request, m.body, a.Status, a.Body, err)
		}
		if a.Status != m.status || a.Code != m.code || a.Field != m.field {
			t.Errorf("%.120s\n%s\n%.120s\ngot  %d %s\nwant %d %q %q", m.request, m.headers, m.body, a.Status, a.Body, m.status, m.code, m.field)
		}
		if m.code != "" && (a.Header.Get("Content-Type") != "application/json" || a.Header.Get("X-Request-ID") == "") {
			t.Errorf("%.120s: header %v", m.request, a.Header)
		}
		if m.status == 405 && !strings.Contains(a.Header.Get("Allow"), "OPTIONS, ") {
			t.Errorf("%.120s: Allow %q", m.request, a.Header.Get("Allow"))
		}
		if len(a.Body) > 600 {
			t.Errorf("%.120s: an error of %d bytes", m.request, len(a.Body))
		}
		if after := stateOf(t, s, users...); !after.equal(before) {
			t.Fatalf("%.120s\n%.120s\nchanged\n%+v\nto\n%+v", m.request, m.body, before, after)
		}
	}
	t.Logf("%d cases", len(cases))
}
