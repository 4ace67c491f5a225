//go:build !race

package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
)

// operations returns the operations of the description, by "<METHOD> <path>".
func (c *contract) operations() map[string]map[string]any {
	all := make(map[string]map[string]any)
	paths, _ := c.document["paths"].(map[string]any)
	for path, item := range paths {
		for method, operation := range item.(map[string]any) {
			all[strings.ToUpper(method)+" "+path] = operation.(map[string]any)
		}
	}
	return all
}

// TestDocumentIsOpenAPI: the document is valid OpenAPI 3.1, and each example matches its schema.
func TestDocumentIsOpenAPI(t *testing.T) {
	for name, s := range map[string]*service{
		"built-in kinds": open(t), "own kinds": newService(t, httpapi.Config{}, ownKinds(t)), "without a ledger": openWithoutLedger(t),
	} {
		c := s.contractOf(t)
		if err := c.valid(officialSchema(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		schemas := 0
		for name := range c.part("components", "schemas").members() {
			schemas++
			if err := c.schema(name).fits("[[]]"); err == nil {
				t.Errorf("the schema %s accepts anything", name)
			}
		}
		examples := 0
		for route, operation := range c.operations() {
			method, target, body := c.good(t, route)
			for status, response := range at(operation, "responses").(map[string]any) {
				headers := make(http.Header)
				for header := range mapAt(response, "headers") {
					headers.Set(header, "1")
				}
				for media, content := range mapAt(response, "content") {
					example := at(content, "example")
					if example == nil {
						continue
					}
					text, ok := example.(string)
					if !ok {
						text = asText(t, example)
					}
					examples++
					headers.Set("Content-Type", media)
					code, _ := strconv.Atoi(status)
					x := exchange{method: method, target: target, contentType: "application/json", body: body, answer: answer{Status: code, Header: headers, Body: text}}
					if err := c.judge(x); err != nil {
						t.Errorf("%s: the example of %s, %s: %v", name, route, status, err)
					}
				}
			}
		}
		if examples < 250 || schemas < 20 {
			t.Errorf("%s: %d examples, %d schemas", name, examples, schemas)
		}
	}
}

// mapAt is like at, for an object; nil if there is none.
func mapAt(v any, names ...string) map[string]any {
	object, _ := at(v, names...).(map[string]any)
	return object
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}

// TestEveryAnswerIsDescribed gets every described status of every call, except those named at its
// end, and checks each answer against the description.
func TestEveryAnswerIsDescribed(t *testing.T) {
	s := newService(t, httpapi.Config{}, ownKinds(t))
	s.endLong(t) // no profile takes time
	c := s.contractOf(t)
	c.seen = make(map[string]bool) // without the requests for the description itself
	s.useEachCall(t)
	s.sendEvents(t)
	s.refuseEachCall(t)
	s.overloadEachCall(t)
	s.keepOutOfEachCall(t)

	s.do(t, "PUT", "/v1/users/9/blocks/1", "")
	s.do(t, "PUT", "/v1/users/9/blocks/2", "") // over the limit of 1
	for _, target := range []string{"a", "b", "c", "d"} {
		s.do(t, "PUT", "/v1/users/9/super-likes/"+target, "")
		s.do(t, "PUT", "/v1/users/9/domain-mutes/"+target, "")
	}
	s.do(t, "POST", "/v1/feed/explain", `{"viewer":"1","post":{"id":"p","author":"2","actors":[`+repeated(101, `"3"`)+`]}}`)
	s.do(t, "POST", "/v1/fanout/filter", `{"author":"1","viewers":["2"],"kinds":["hide"]}`)
	s.do(t, "GET", "/v1/ops/pages/5000000", "")
	s.do(t, "POST", "/v1/ops/pages/5000000/rebuild", "")
	s.do(t, "GET", "/ops", "", "If-None-Match", s.do(t, "GET", "/ops", "").Header.Get("ETag"))
	s.follow(t)
	s.store.set(hanging)
	s.await(t, "a scrub is under way", func() error {
		if a := s.do(t, "POST", "/v1/ops/scrub", ""); a.Status != 200 {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	s.store.set(failing)
	s.do(t, "PUT", "/v1/pages", `{"pages":512}`)
	s.ledger.set(failing)
	s.do(t, "GET", "/readyz", "")

	plain := openWithoutLedger(t)
	plain.endLong(t)
	plain.contractOf(t).seen = c.seen
	plain.useEachCall(t)
	for _, method := range []string{"blocks", "hides", "likes"} {
		plain.do(t, "PUT", "/v1/users/1/"+method+"/2?until=2100-01-01T00:00:00Z", "")
	}
	plain.do(t, "POST", eventsPath, eventAt("c", 1, 2))
	plain.do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"exact":true}`)
	plain.do(t, "POST", "/v1/fanout/filter", `{"author":"1","viewers":["2"],"exact":true}`)
	plain.do(t, "POST", "/v1/activities", lines(untilLine("hide", "u", "2100-01-01T00:00:00Z")))

	for route, operation := range c.operations() {
		answers := operation["responses"].(map[string]any)
		for status := range answers {
			switch own := strings.Contains(route, "mute") || strings.Contains(route, "super"); {
			case c.seen[route+" "+status]:
			case status == "403" && route == "GET /v1/kinds": // every token may call it
			case status == "409" && route == "DELETE /v1/users/{user}": // TestStuck
			case status == "422" && route == "PUT /v1/pages": // TestPagesForced
			case status == "501" && own: // services without a ledger have no kinds with limits
			case status == "500" && answers["408"] == nil: // the call cannot fail
			default:
				t.Errorf("%s: the description has %s, which no request of this test gets", route, status)
			}
		}
	}
	t.Logf("%d answers checked", len(c.seen))
}

// follow makes all kinds of the ledger those of a source, and has them written nevertheless.
func (s *service) follow(t *testing.T) {
	t.Helper()
	var kinds []string
	for _, k := range s.activities.Kinds().All() {
		if k.InLedger() {
			kinds = append(kinds, k.Name)
		}
	}
	recorder, _ := s.activities.(*activity.Recorder)
	_, err := recorder.Follow(t.Context(), "app", "test", kinds, time.Minute, false)
	must(t, err)
	for route := range s.contractOf(t).operations() {
		if method, target, body := s.contract.good(t, route); strings.HasSuffix(route, "/{target}") || route == "POST /v1/activities" {
			if a := s.do(t, method, target, body); method != "GET" && a.Code != "followed" {
				t.Errorf("%s of a followed kind: %d %s", route, a.Status, a.Body)
			}
		}
	}
}

// sendEvents gets the answers to events that are described.
func (s *service) sendEvents(t *testing.T) {
	t.Helper()
	with := newService(t, httpapi.Config{}, ownKinds(t))
	with.Handler = receiving(t, with.activities, httpapi.Config{})
	with.contractOf(t).seen = s.contract.seen
	method, target, body := s.contract.good(t, sendEvents)
	with.want(t, method, target, body, 200, `{"recorded":1,"replayed":0,"skipped":0}`)
	with.want(t, method, target, body, 200, `{"recorded":0,"replayed":1,"skipped":0}`)
	with.do(t, method, target, eventAt("t", 1<<40, 0))
	with.do(t, method, target, eventAt("c", 1<<40, 1))
	recorder, _ := with.activities.(*activity.Recorder)
	must(t, recorder.Release(t.Context(), "block"))
	_, err := recorder.Follow(t.Context(), "other", "test", []string{"block"}, time.Minute, false)
	must(t, err)
	if a := with.do(t, method, target, body); a.Code != "followed" {
		t.Errorf("a kind of another source: %d %s", a.Status, a.Body)
	}
}

// good returns a request from an example of the operation.
func (c *contract) good(t testing.TB, route string) (method, target, body string) {
	t.Helper()
	method, target, _ = strings.Cut(route, " ")
	params, _ := at(c.operations()[route], "parameters").([]any)
	query := make(url.Values)
	for _, p := range params {
		name, example := at(p, "name").(string), at(p, "example")
		switch {
		case at(p, "in") == "path":
			target = strings.Replace(target, "{"+name+"}", fmt.Sprint(example), 1)
		case example != nil:
			query.Set(name, fmt.Sprint(example))
		}
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if example := at(c.operations()[route], "requestBody", "content", "application/json", "example"); example != nil {
		text, err := json.Marshal(example)
		must(t, err)
		body = string(text)
	}
	return method, target, body
}

// useEachCall makes every call twice, with the example of the description, and then reads what the
// writes left. It raises the number of pages last, because that removes the pages of the examples.
func (s *service) useEachCall(t *testing.T) {
	t.Helper()
	const raise = "PUT /v1/pages"
	routes := slices.Sorted(maps.Keys(s.contractOf(t).operations()))
	routes = slices.DeleteFunc(routes, func(route string) bool { return route == raise || route == sendEvents })
	reads := slices.DeleteFunc(slices.Clone(routes), func(route string) bool { return !strings.HasPrefix(route, "GET /v1/users/") })
	for i, route := range slices.Concat(routes, routes, reads, []string{raise, raise}) {
		method, target, body := s.contract.good(t, route)
		a := s.do(t, method, target, body)
		if gone := a.Code == "no_activity" && i < 2*len(routes); a.Status >= 300 && a.Code != "no_ledger" && !gone {
			t.Errorf("the example of %s: %d %s", route, a.Status, a.Body)
		}
	}
}

// readerOf is a body whose Read is a function.
type readerOf func() error

func (r readerOf) Read([]byte) (int, error) { return 0, r() }

// refuseEachCall makes every call with each error that calls of its kind can have.
func (s *service) refuseEachCall(t *testing.T) {
	t.Helper()
	c := s.contractOf(t)
	for route, operation := range c.operations() {
		method, target, body := c.good(t, route)
		s.do(t, method, target+"?nothing=1", body)
		self := strings.Replace(target, "/2", "/1", 1)
		s.do(t, method, self, strings.NewReplacer(`"block"`, `"nothing"`, `"like"`, `"nothing"`).Replace(body))
		if body != "" {
			s.do(t, method, target, body, "Content-Type", "text/plain")
		}
		if at(operation, "responses", "408") == nil {
			continue // the call ignores its body
		}
		for status, length := range map[int]int64{408: -1, 500: 10, 413: 1 << 30} {
			if status == 413 && body == "" {
				continue
			}
			r := httptest.NewRequestWithContext(t.Context(), method, target, readerOf(func() error {
				if status == 500 {
					panic("injected failure of a body")
				}
				return os.ErrDeadlineExceeded
			}))
			r.ContentLength = length
			r.Header.Set("Content-Type", "application/json")
			a := serve(t, s, r)
			if err := c.judge(exchange{method: method, target: target, answer: a}); err != nil || a.Status != status {
				t.Errorf("%s: %d %s, want %d: %v", route, a.Status, a.Body, status, err)
			}
		}
	}
}

// overloadEachCall makes every call while the maximum number is in progress.
func (s *service) overloadEachCall(t *testing.T) {
	t.Helper()
	full := &service{Handler: httpapi.New(httpapi.Config{Activities: s.activities, MaxRequests: 1}), activities: s.activities, contract: s.contractOf(t)}
	full.described.Do(func() {})
	begun, finish := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/feed/filter", readerOf(func() error {
			close(begun)
			<-finish
			return io.ErrUnexpectedEOF
		}))
		r.Header.Set("Content-Type", "application/json")
		full.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-begun
	for route := range full.contract.operations() {
		method, target, body := full.contract.good(t, route)
		if a := full.do(t, method, target, body); (a.Status == 503) != (a.Code == "overloaded") {
			t.Errorf("%s: %d %s", route, a.Status, a.Body)
		}
	}
	close(finish)
	<-done
}

// keepOutOfEachCall makes every call without a token, with the wrong scope, over the rate, and for
// another host.
func (s *service) keepOutOfEachCall(t *testing.T) {
	t.Helper()
	tokens, _ := tokensOf(t, tokenEntry("feed", "feed:read", ""), tokenEntry("activity", "activity:write", ""), tokenEntry("ops", "ops:read", ""),
		tokenEntry("often", "feed:read,activity:write,source:write,ops:read,ops:write", `,"rate":0.001,"burst":1`))
	closed := &service{
		Handler:    httpapi.New(httpapi.Config{Activities: s.activities, Access: limits.Access{Tokens: tokens, Hosts: []string{"example.com"}}}),
		activities: s.activities, contract: s.contractOf(t),
	}
	closed.described.Do(func() {})
	closed.endLong(t)
	closed.do(t, "GET", "/v1/kinds", "", as("often")...) // the one call that the rate allows
	for route := range closed.contract.operations() {
		method, target, body := closed.contract.good(t, route)
		closed.do(t, method, target, body)
		for _, token := range []string{"feed", "activity", "ops", "often"} {
			closed.do(t, method, target, body, as(token)...)
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "http://evil.example"+target, http.NoBody)
		a := serve(t, closed, r)
		if err := closed.contract.judge(exchange{method: method, target: target, answer: a}); err != nil || a.Status != 421 {
			t.Errorf("%s for another host: %d %s, %v", route, a.Status, a.Body, err)
		}
	}
}

// TestMetricsAsDescribed: metrics are available in both formats of the description.
func TestMetricsAsDescribed(t *testing.T) {
	s := open(t)
	for accept, end := range map[string]string{"text/plain": "\n", "application/openmetrics-text": "\n# EOF\n"} {
		a := s.do(t, "GET", "/metrics", "", "Accept", accept)
		if a.Status != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), accept) || !strings.HasSuffix(a.Body, end) ||
			!strings.Contains(a.Body, "\nfeedfilter_http_requests_shed_total 0") {
			t.Errorf("%s: %d %v %.200s", accept, a.Status, a.Header, a.Body)
		}
	}
}
