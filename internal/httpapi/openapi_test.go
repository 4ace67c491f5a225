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
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
)

// TestDocumentIsOpenAPI: the document is valid OpenAPI 3.1, and each example matches its schema.
func TestDocumentIsOpenAPI(t *testing.T) {
	for name, s := range map[string]*httpapitest.Service{
		"built-in kinds": httpapitest.Open(t), "own kinds": httpapitest.NewService(t, httpapi.Config{}, httpapitest.OwnKinds(t)), "without a ledger": httpapitest.OpenWithoutLedger(t),
	} {
		c := s.ContractOf(t)
		if err := c.Valid(httpapitest.OfficialSchema()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		schemas := 0
		for name := range c.Part("components", "schemas").Members() {
			schemas++
			if err := c.Schema(name).Fits("[[]]"); err == nil {
				t.Errorf("the schema %s accepts anything", name)
			}
		}
		examples := 0
		for route, operation := range c.Operations() {
			method, target, body := good(t, c, route)
			for status, response := range httpapitest.At(operation, "responses").(map[string]any) {
				headers := make(http.Header)
				for header := range mapAt(response, "headers") {
					headers.Set(header, "1")
				}
				for media, content := range mapAt(response, "content") {
					example := httpapitest.At(content, "example")
					if example == nil {
						continue
					}
					text, ok := example.(string)
					if !ok {
						text = httpapitest.AsText(t, example)
					}
					examples++
					headers.Set("Content-Type", media)
					code, _ := strconv.Atoi(status)
					x := httpapitest.Exchange{Method: method, Target: target, ContentType: "application/json", Sent: body, Answer: httpapitest.Answer{Status: code, Header: headers, Body: text}}
					if err := c.Judge(x); err != nil {
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
	object, _ := httpapitest.At(v, names...).(map[string]any)
	return object
}

// TestEveryAnswerIsDescribed gets every described status of every call, except those named at its
// end, and checks each answer against the description.
func TestEveryAnswerIsDescribed(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{}, httpapitest.OwnKinds(t))
	s.EndLong(t) // no profile takes time
	c := s.ContractOf(t)
	c.Seen = make(map[string]bool) // without the requests for the description itself
	useEachCall(t, s)
	sendEvents(t, s)
	refuseEachCall(t, s)
	overloadEachCall(t, s)
	keepOutOfEachCall(t, s)

	s.Do(t, "PUT", "/v1/users/9/blocks/1", "")
	s.Do(t, "PUT", "/v1/users/9/blocks/2", "") // over the limit of 1
	for _, target := range []string{"a", "b", "c", "d"} {
		s.Do(t, "PUT", "/v1/users/9/super-likes/"+target, "")
		s.Do(t, "PUT", "/v1/users/9/domain-mutes/"+target, "")
	}
	s.Do(t, "POST", "/v1/feed/explain", `{"viewer":"1","post":{"id":"p","author":"2","actors":[`+httpapitest.Repeated(101, `"3"`)+`]}}`)
	s.Do(t, "POST", "/v1/fanout/filter", `{"author":"1","viewers":["2"],"kinds":["hide"]}`)
	s.Do(t, "GET", "/v1/ops/pages/5000000", "")
	s.Do(t, "POST", "/v1/ops/pages/5000000/rebuild", "")
	s.Do(t, "GET", "/ops", "", "If-None-Match", s.Do(t, "GET", "/ops", "").Header.Get("ETag"))
	follow(t, s)
	s.Store.Set(httpapitest.Hanging)
	s.Await(t, "a scrub is under way", func() error {
		if a := s.Do(t, "POST", "/v1/ops/scrub", ""); a.Status != 200 {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	s.Store.Set(httpapitest.Failing)
	s.Do(t, "PUT", "/v1/pages", `{"pages":512}`)
	s.Ledger.Set(httpapitest.Failing)
	s.Do(t, "GET", "/readyz", "")

	plain := httpapitest.OpenWithoutLedger(t)
	plain.EndLong(t)
	plain.ContractOf(t).Seen = c.Seen
	useEachCall(t, plain)
	for _, method := range []string{"blocks", "hides", "likes"} {
		plain.Do(t, "PUT", "/v1/users/1/"+method+"/2?until=2100-01-01T00:00:00Z", "")
	}
	plain.Do(t, "POST", httpapitest.EventsPath, httpapitest.EventAt("c", 1, 2))
	plain.Do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"exact":true}`)
	plain.Do(t, "POST", "/v1/fanout/filter", `{"author":"1","viewers":["2"],"exact":true}`)
	plain.Do(t, "POST", "/v1/activities", httpapitest.Lines(httpapitest.UntilLine("hide", "u", "2100-01-01T00:00:00Z")))

	for route, operation := range c.Operations() {
		answers := operation["responses"].(map[string]any)
		for status := range answers {
			switch own := strings.Contains(route, "mute") || strings.Contains(route, "super"); {
			case c.Seen[route+" "+status]:
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
	t.Logf("%d answers checked", len(c.Seen))
}

// follow makes all kinds of the ledger those of a source, and has them written nevertheless.
func follow(t *testing.T, s *httpapitest.Service) {
	t.Helper()
	var kinds []string
	for _, k := range s.Activities.Kinds().All() {
		if k.InLedger() {
			kinds = append(kinds, k.Name)
		}
	}
	recorder, _ := s.Activities.(*activity.Recorder)
	_, err := recorder.Follow(t.Context(), "app", "test", kinds, time.Minute, false)
	httpapitest.Must(t, err)
	for route := range s.ContractOf(t).Operations() {
		if method, target, body := good(t, s.Contract, route); strings.HasSuffix(route, "/{target}") || route == "POST /v1/activities" {
			if a := s.Do(t, method, target, body); method != "GET" && a.Code != "followed" {
				t.Errorf("%s of a followed kind: %d %s", route, a.Status, a.Body)
			}
		}
	}
}

// SendEvents gets the answers to events that are described.
func sendEvents(t *testing.T, s *httpapitest.Service) {
	t.Helper()
	with := httpapitest.NewService(t, httpapi.Config{}, httpapitest.OwnKinds(t))
	with.Handler = httpapitest.Receiving(t, with.Activities, httpapi.Config{})
	with.ContractOf(t).Seen = s.Contract.Seen
	method, target, body := good(t, s.Contract, httpapitest.SendEvents)
	with.Want(t, method, target, body, 200, `{"recorded":1,"replayed":0,"skipped":0}`)
	with.Want(t, method, target, body, 200, `{"recorded":0,"replayed":1,"skipped":0}`)
	with.Do(t, method, target, httpapitest.EventAt("t", 1<<40, 0))
	with.Do(t, method, target, httpapitest.EventAt("c", 1<<40, 1))
	recorder, _ := with.Activities.(*activity.Recorder)
	httpapitest.Must(t, recorder.Release(t.Context(), "block"))
	_, err := recorder.Follow(t.Context(), "other", "test", []string{"block"}, time.Minute, false)
	httpapitest.Must(t, err)
	if a := with.Do(t, method, target, body); a.Code != "followed" {
		t.Errorf("a kind of another source: %d %s", a.Status, a.Body)
	}
}

// good returns a request from an example of the operation.
func good(t testing.TB, c *httpapitest.Contract, route string) (method, target, body string) {
	t.Helper()
	method, target, _ = strings.Cut(route, " ")
	params, _ := httpapitest.At(c.Operations()[route], "parameters").([]any)
	query := make(url.Values)
	for _, p := range params {
		name, example := httpapitest.At(p, "name").(string), httpapitest.At(p, "example")
		switch {
		case httpapitest.At(p, "in") == "path":
			target = strings.Replace(target, "{"+name+"}", fmt.Sprint(example), 1)
		case example != nil:
			query.Set(name, fmt.Sprint(example))
		}
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if example := httpapitest.At(c.Operations()[route], "requestBody", "content", "application/json", "example"); example != nil {
		text, err := json.Marshal(example)
		httpapitest.Must(t, err)
		body = string(text)
	}
	return method, target, body
}

// useEachCall makes every call twice, with the example of the description, and then reads what the
// writes left. It raises the number of pages last, because that removes the pages of the examples.
func useEachCall(t *testing.T, s *httpapitest.Service) {
	t.Helper()
	const raise = "PUT /v1/pages"
	routes := slices.Sorted(maps.Keys(s.ContractOf(t).Operations()))
	routes = slices.DeleteFunc(routes, func(route string) bool { return route == raise || route == httpapitest.SendEvents })
	reads := slices.DeleteFunc(slices.Clone(routes), func(route string) bool { return !strings.HasPrefix(route, "GET /v1/users/") })
	for i, route := range slices.Concat(routes, routes, reads, []string{raise, raise}) {
		method, target, body := good(t, s.Contract, route)
		a := s.Do(t, method, target, body)
		if gone := a.Code == "no_activity" && i < 2*len(routes); a.Status >= 300 && a.Code != "no_ledger" && !gone {
			t.Errorf("the example of %s: %d %s", route, a.Status, a.Body)
		}
	}
}

// readerOf is a body whose Read is a function.
type readerOf func() error

func (r readerOf) Read([]byte) (int, error) { return 0, r() }

// refuseEachCall makes every call with each error that calls of its kind can have.
func refuseEachCall(t *testing.T, s *httpapitest.Service) {
	t.Helper()
	c := s.ContractOf(t)
	for route, operation := range c.Operations() {
		method, target, body := good(t, c, route)
		s.Do(t, method, target+"?nothing=1", body)
		self := strings.Replace(target, "/2", "/1", 1)
		s.Do(t, method, self, strings.NewReplacer(`"block"`, `"nothing"`, `"like"`, `"nothing"`).Replace(body))
		if body != "" {
			s.Do(t, method, target, body, "Content-Type", "text/plain")
		}
		if httpapitest.At(operation, "responses", "408") == nil {
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
			a := httpapitest.Serve(t, s, r)
			if err := c.Judge(httpapitest.Exchange{Method: method, Target: target, Answer: a}); err != nil || a.Status != status {
				t.Errorf("%s: %d %s, want %d: %v", route, a.Status, a.Body, status, err)
			}
		}
	}
}

// overloadEachCall makes every call while the maximum number is in progress.
func overloadEachCall(t *testing.T, s *httpapitest.Service) {
	t.Helper()
	full := &httpapitest.Service{Handler: httpapi.New(httpapi.Config{Activities: s.Activities, MaxRequests: 1}), Activities: s.Activities, Contract: s.ContractOf(t)}
	full.Described.Do(func() {})
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
	for route := range full.Contract.Operations() {
		method, target, body := good(t, full.Contract, route)
		if a := full.Do(t, method, target, body); (a.Status == 503) != (a.Code == "overloaded") {
			t.Errorf("%s: %d %s", route, a.Status, a.Body)
		}
	}
	close(finish)
	<-done
}

// keepOutOfEachCall makes every call without a token, with the wrong scope, over the rate, and for
// another host.
func keepOutOfEachCall(t *testing.T, s *httpapitest.Service) {
	t.Helper()
	tokens, _ := httpapitest.TokensOf(t, httpapitest.TokenEntry("feed", "feed:read", ""), httpapitest.TokenEntry("activity", "activity:write", ""), httpapitest.TokenEntry("ops", "ops:read", ""),
		httpapitest.TokenEntry("often", "feed:read,activity:write,source:write,ops:read,ops:write", `,"rate":0.001,"burst":1`))
	closed := &httpapitest.Service{
		Handler:    httpapi.New(httpapi.Config{Activities: s.Activities, Access: limits.Access{Tokens: tokens, Hosts: []string{"example.com"}}}),
		Activities: s.Activities, Contract: s.ContractOf(t),
	}
	closed.Described.Do(func() {})
	closed.EndLong(t)
	closed.Do(t, "GET", "/v1/kinds", "", httpapitest.As("often")...) // the one call that the rate allows
	for route := range closed.Contract.Operations() {
		method, target, body := good(t, closed.Contract, route)
		closed.Do(t, method, target, body)
		for _, token := range []string{"feed", "activity", "ops", "often"} {
			closed.Do(t, method, target, body, httpapitest.As(token)...)
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "http://evil.example"+target, http.NoBody)
		a := httpapitest.Serve(t, closed, r)
		if err := closed.Contract.Judge(httpapitest.Exchange{Method: method, Target: target, Answer: a}); err != nil || a.Status != 421 {
			t.Errorf("%s for another host: %d %s, %v", route, a.Status, a.Body, err)
		}
	}
}

// TestMetricsAsDescribed: metrics are available in both formats of the description.
func TestMetricsAsDescribed(t *testing.T) {
	s := httpapitest.Open(t)
	for accept, end := range map[string]string{"text/plain": "\n", "application/openmetrics-text": "\n# EOF\n"} {
		a := s.Do(t, "GET", "/metrics", "", "Accept", accept)
		if a.Status != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), accept) || !strings.HasSuffix(a.Body, end) ||
			!strings.Contains(a.Body, "\nfeedfilter_http_requests_shed_total 0") {
			t.Errorf("%s: %d %v %.200s", accept, a.Status, a.Header, a.Body)
		}
	}
}
