package httpapi_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
)

// tokenEntry returns a token of a file: its name, its scopes, and more fields. The token is its
// name.
func tokenEntry(name, scopes, more string) string {
	list := `"` + strings.ReplaceAll(scopes, ",", `","`) + `"`
	return fmt.Sprintf(`{"name":%q,"hash":%q,"scopes":[%s]%s}`, name, access.HashToken(name), list, more)
}

func writeTokens(t testing.TB, file string, entries ...string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(`{"tokens":[`+strings.Join(entries, ",")+`]}`), 0o600))
}

// tokensOf returns tokens from a file.
func tokensOf(t testing.TB, entries ...string) (tokens *access.Tokens, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "tokens.json")
	writeTokens(t, file, entries...)
	tokens, err := access.OpenTokens(access.TokensConfig{File: file})
	must(t, err)
	return tokens, file
}

// as returns the headers of a request with the token.
func as(token string) []string { return []string{"Authorization", "Bearer " + token} }

// guarded is a service that requires tokens. There is one for each scope (fleet for ops:write), one
// with all scopes (all), and an expired one (old).
func guarded(t testing.TB, c httpapi.Config, kinds *activity.Kinds) (s *service, file string) {
	t.Helper()
	c.Access.Tokens, file = tokensOf(t, tokenEntry("feed", "feed:read", ""), tokenEntry("activity", "activity:write", ""), tokenEntry("ops", "ops:read", ""),
		tokenEntry("fleet", "ops:write", ""), tokenEntry("source", "source:write", ""), tokenEntry("all", "feed:read,activity:write,source:write,ops:read,ops:write", ""),
		tokenEntry("old", "feed:read,activity:write,ops:read,ops:write", `,"expires":"2020-01-01T00:00:00Z"`))
	return newLogged(t, c, kinds, c.Logger), file
}

// TestScopes requests every route with every token. The table is the contract: a route that is
// missing from it fails the test.
func TestScopes(t *testing.T) {
	s, _ := guarded(t, httpapi.Config{}, kindsWith(t, activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop}))
	const anybody, read, write = "none feed activity source ops fleet all old wrong", "feed all", "activity all"
	const ops, fleet = "ops all", "fleet all"
	may := map[string]string{
		"GET /healthz": anybody, "GET /readyz": anybody,
		"GET /openapi.json": anybody, "GET /docs": anybody, "GET /docs/style.css": anybody, "GET /docs/*": anybody,
		"GET /ops": anybody, "GET /ops/*": anybody,
		"GET /v1/ops/profiles/cpu": ops, "GET /v1/ops/profiles/heap": ops, "GET /v1/ops/profiles/goroutine": ops,
		"GET /v1/ops/health": ops, "GET /v1/ops/history": ops, "GET /v1/ops/pages/:number": ops,
		"GET /v1/ops/scrub": ops, "GET /v1/ops/users/:user": ops, "GET /v1/ops/users/:user/keys/:kind/:target": ops,
		"POST /v1/ops/pages/:number/rebuild": fleet, "POST /v1/ops/scrub": fleet,
		"GET /metrics": ops, "GET /v1/stats": ops, "GET /v1/kinds": "feed activity source ops fleet all", "GET /v1/pages": ops, "PUT /v1/pages": fleet,
		"POST /v1/feed/filter": read, "POST /v1/fanout/filter": read, "POST /v1/feed/explain": "feed ops all",
		"GET /v1/users/:user": read, "DELETE /v1/users/:user": write, "GET /v1/users/:user/export": read, "POST /v1/users/:user/preview": read,
		"POST /v1/activities": write, "POST /v1/users/:user/seen": write, "POST /v1/sources/:name/events": "source all",
	}
	for procedure, tokens := range map[string]string{
		"feedfilter.v1.FeedService/Filter": read, "feedfilter.v1.FeedService/Explain": "feed ops all",
		"feedfilter.v1.FeedService/Fanout":     read,
		"feedfilter.v1.ActivityService/Record": write, "feedfilter.v1.ActivityService/RecordPosts": write,
		"feedfilter.v1.ActivityService/RecordBatch": write, "feedfilter.v1.ActivityService/RecordStream": write,
		"feedfilter.v1.ActivityService/List": read, "feedfilter.v1.ActivityService/Count": read,
		"grpc.health.v1.Health/Check": anybody, "grpc.health.v1.Health/Watch": anybody,
		"grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      anybody,
		"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": anybody,
	} {
		may["POST /"+procedure] = tokens
	}
	for _, plural := range []string{"blocks", "hides", "likes", "mutes"} {
		list := "/v1/users/:user/" + plural
		may["GET "+list], may["PUT "+list+"/:target"], may["DELETE "+list+"/:target"] = read, write, write
		may["GET "+list+"/:target"] = read
	}
	may["GET /v1/targets/:user/blocks"], may["GET /v1/targets/:user/mutes"] = read, read
	for name := range may {
		if path, ok := strings.CutPrefix(name, "GET "); ok {
			may["HEAD "+path] = may[name]
		}
	}
	s.endLong(t)
	handler, _ := s.Handler.(*httpapi.Handler)
	e, ok := handler.Handler.(*echo.Echo)
	if !ok {
		t.Fatalf("the service is a %T", handler.Handler)
	}
	there := make(map[string]bool)
	for _, r := range e.Routes() {
		if r.Method != echo.RouteNotFound {
			there[r.Method+" "+r.Path] = true
		}
	}
	for name := range there {
		if may[name] == "" {
			t.Errorf("%s is missing from the table of this test", name)
		}
	}
	for name, tokens := range may {
		if !there[name] {
			t.Errorf("%s is in the table, but there is no such route", name)
		}
		method, path, _ := strings.Cut(name, " ")
		path = strings.NewReplacer(":user", "u", ":target", "x", ":name", "app").Replace(path)
		for _, token := range []string{"none", "feed", "activity", "source", "ops", "fleet", "all", "old", "wrong"} {
			headers := as(token)
			if token == "none" {
				headers = nil
			}
			var a answer
			if isProcedure(path) { // OpenAPI does not describe procedures
				_, a = ask(t, s.Handler, method, path, "", headers...)
			} else {
				a = s.do(t, method, path, "", headers...)
			}
			status, code := 0, ""
			switch {
			case slices.Contains(strings.Fields(tokens), token):
			case slices.Contains([]string{"none", "old", "wrong"}, token):
				status, code = 401, "unauthenticated"
			default:
				status, code = 403, "forbidden"
			}
			if method == http.MethodHead { // the answer has no body with the code
				code = ""
			}
			got := a.Status
			if got != 401 && got != 403 {
				got = 0
			}
			challenge := a.Header.Get("WWW-Authenticate")
			if got != status || status != 0 && a.Code != code || a.Status >= 500 || (challenge != "") != (status != 0) {
				t.Errorf("%s with token %s: %d %s, %q; want %d %s", name, token, a.Status, a.Body, challenge, status, code)
			}
			switch {
			case status == 403 && !strings.Contains(challenge, `error="insufficient_scope", scope="`):
				t.Errorf("%s with token %s: %s", name, token, challenge)
			case token == "none" && status == 401 && strings.Contains(challenge, "error="), token == "old" && status == 401 && !strings.Contains(challenge, `error="invalid_token"`):
				t.Errorf("%s with token %s: %s", name, token, challenge)
			}
		}
	}
	// Unknown paths and methods are the same with every token.
	for _, token := range []string{"all", "wrong"} {
		if a := s.do(t, "GET", "/v1/nothing", "", as(token)...); a.Status != 404 {
			t.Errorf("unknown path: %d %s", a.Status, a.Body)
		}
		if a := s.do(t, "PUT", "/v1/stats", "", as(token)...); a.Status != 405 {
			t.Errorf("unknown method: %d %s", a.Status, a.Body)
		}
	}
}

// TestForbidden: a refused request changes nothing, names the missing scope, and is counted.
func TestForbidden(t *testing.T) {
	s, _ := guarded(t, httpapi.Config{}, nil)
	a := s.do(t, "PUT", "/v1/users/1/blocks/2", "", as("feed")...)
	if a.Status != 403 || !strings.Contains(a.Body, "activity:write") || a.Field != "" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := s.do(t, "GET", "/v1/users/1/blocks", "", as("feed")...); a.Body != `{"items":[]}` {
		t.Errorf("afterwards: %s", a.Body)
	}
	// Recording shown posts needs the scope for writes, whichever decoder reads the body.
	for _, body := range []string{
		`{"viewer":"1","posts":[{"id":"p","author":"2"}],"record_seen":true}`, `{"viewer":"1","posts":[{"id":"p","author":"\u0032"}],"record_seen":true}`,
	} {
		if a := s.do(t, "POST", "/v1/feed/filter", body, as("feed")...); a.Status != 403 || a.Field != "record_seen" || !strings.Contains(a.Body, "activity:write") {
			t.Errorf("record_seen: %d %s", a.Status, a.Body)
		}
		for range 2 {
			a := s.do(t, "POST", "/v1/feed/filter", strings.Replace(body, "true", "false", 1), as("feed")...)
			if a.Status != 200 || !strings.Contains(a.Body, `"posts":[{"id":"p"}]`) {
				t.Errorf("the post was recorded: %d %s", a.Status, a.Body)
			}
		}
	}
	if a := s.do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"2"}],"record_seen":true}`, as("all")...); a.Status != 200 {
		t.Errorf("with both scopes: %d %s", a.Status, a.Body)
	}
	s.do(t, "GET", "/v1/stats", "")
	a = s.do(t, "GET", "/v1/stats", "", as("ops")...)
	counts, _ := a.JSON["access"].(map[string]any)
	refused, _ := counts["refused"].(map[string]any)
	file, _ := counts["token_file"].(map[string]any)
	if refused["forbidden"] != 3.0 || refused["unauthenticated"] != 1.0 || len(refused) != 6 || file["failing"] != false || file["reloads"] != 0.0 {
		t.Errorf("counted: %v", counts)
	}
	exported := s.do(t, "GET", "/metrics", "", as("ops")...).Body
	for _, line := range []string{
		`feedfilter_requests_refused_total{reason="forbidden"} 3`, `feedfilter_requests_refused_total{reason="unauthenticated"} 1`,
		`feedfilter_token_file_reloads_total{result="failed"} 0`, `feedfilter_token_file_reloads_total{result="ok"} 0`,
	} {
		if !strings.Contains(exported, "\n"+line+"\n") {
			t.Errorf("there is no line %s", line)
		}
	}
	if requests := a.JSON["requests"].(map[string]any); requests["in_progress"] != 0.0 || requests["shed"] != 0.0 {
		t.Errorf("requests: %v", requests)
	}
}

// TestStrangersCostNothing: a request without a token takes no slot, its body is not read, and its
// connection stays open only after a small body.
func TestStrangersCostNothing(t *testing.T) {
	s, _ := guarded(t, httpapi.Config{MaxRequests: 1, Timeout: time.Hour}, nil)
	open := s.ledger.lists.shut()
	defer open()
	held := make(chan answer, 2) // one in progress, and one that is refused
	for range 2 {
		go func() { held <- s.do(t, "GET", "/v1/users/1/blocks", "", as("feed")...) }()
	}
	wantOverloaded(t, "the second of two", await(t, held), true)
	for i := range 4 {
		a, length := s.unread(t, i)
		if a.Status != 401 || (a.Header.Get("Connection") == "close") != (length != 2) {
			t.Errorf("a body of %d: %d, header %v", length, a.Status, a.Header)
		}
	}
	open()
	if a := await(t, held); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestTokenRate(t *testing.T) {
	tokens, _ := tokensOf(t, tokenEntry("a", "feed:read,activity:write,ops:read", `,"rate":0.001,"burst":5`), tokenEntry("b", "feed:read,ops:read", ""))
	s := newService(t, httpapi.Config{Access: limits.Access{Tokens: tokens}}, nil)
	limited := func(what string, a answer, least, most int) {
		t.Helper()
		var after int
		_, _ = fmt.Sscan(a.Header.Get("Retry-After"), &after)
		if a.Status != 429 || a.Code != "rate_limited" || after < least || after > most {
			t.Errorf("%s: %d %s, Retry-After %d; want 429 and %d to %d", what, a.Status, a.Body, after, least, most)
		}
	}
	for range 2 {
		if a := s.do(t, "GET", "/v1/users/1/blocks", "", as("a")...); a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	// A batch that exceeds the rate is accepted, and later requests pay for it: 2 + 11 of 5 leave a
	// debt of 8.
	if a := s.do(t, "POST", "/v1/activities", lines(slices.Repeat([]string{activityLine("1", "hide", "p", "add")}, 10)...), as("a")...); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	limited("after a batch", s.do(t, "PUT", "/v1/users/1/hides/q", "", as("a")...), 8900, 9001)
	limited("a stream", s.do(t, "POST", "/v1/activities", "", append(as("a"), "Content-Type", "application/x-ndjson")...), 8900, 9001)
	if a := s.do(t, "GET", "/v1/users/1/hides", "", as("b")...); a.Status != 200 || strings.Contains(a.Body, `"q"`) || !strings.Contains(a.Body, `"p"`) {
		t.Errorf("another token: %d %s", a.Status, a.Body)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		for range 10 {
			if a := s.do(t, "GET", path, "", as("a")...); a.Status != 200 {
				t.Errorf("%s: %d", path, a.Status)
			}
		}
	}
}

func TestUserRate(t *testing.T) {
	s := newService(t, httpapi.Config{Access: limits.Access{Users: access.NewUsers(access.Rate{PerSecond: 0.01, Burst: 2})}}, nil)
	const feed, explain = `{"viewer":"%s","posts":[]}`, `{"viewer":"%s","post":{"id":"p","author":"2"}}`
	for i, ask := range []func(user string) answer{
		func(u string) answer { return s.do(t, "POST", "/v1/feed/filter", fmt.Sprintf(feed, u)) },
		func(u string) answer { return s.do(t, "POST", "/v1/feed/explain", fmt.Sprintf(explain, u)) },
		func(u string) answer { return s.do(t, "PUT", "/v1/users/"+u+"/blocks/x", "") },
		func(u string) answer { return s.do(t, "PUT", "/v1/users/"+u+"/hides/p", "") },
		func(u string) answer { return s.do(t, "DELETE", "/v1/users/"+u+"/hides/p", "") },
		func(u string) answer { return s.do(t, "GET", "/v1/users/"+u+"/hides", "") },
		func(u string) answer { return s.do(t, "GET", "/v1/targets/"+u+"/block", "") },
		func(u string) answer { return s.do(t, "GET", "/v1/users/"+u, "") },
		func(u string) answer { return s.do(t, "GET", "/v1/users/"+u+"/export", "") },
		func(u string) answer { return s.do(t, "POST", "/v1/users/"+u+"/seen", `{"posts":["p"]}`) },
		func(u string) answer {
			return s.do(t, "POST", "/v1/users/"+u+"/preview", `{"kind":"hide","targets":["p"]}`)
		},
		func(u string) answer { return s.do(t, "DELETE", "/v1/users/"+u, "") },
	} {
		user := fmt.Sprint("u", i)
		for n, want := range []int{200, 200, 429} {
			a := ask(user)
			if a.Status != want || want == 429 && (a.Code != "rate_limited" || a.Header.Get("Retry-After") == "") {
				t.Errorf("%d, call %d: %d %s, want %d", i, n, a.Status, a.Body, want)
			}
		}
		// The rate covers all calls about a user, however the path is escaped.
		if a := s.do(t, "GET", fmt.Sprintf("/v1/users/%%75%d/likes", i), ""); a.Status != 429 {
			t.Errorf("%d, escaped: %d", i, a.Status)
		}
	}
	// Batches do not count, and malformed requests get their own error.
	for range 5 {
		if a := s.do(t, "POST", "/v1/activities", lines(activityLine("u1", "hide", "p", "add"))); a.Status != 200 {
			t.Errorf("batch: %d %s", a.Status, a.Body)
		}
		if a := s.do(t, "GET", "/v1/users/%ff/hides", ""); a.Status != 400 {
			t.Errorf("no id: %d %s", a.Status, a.Body)
		}
	}
	if a := s.do(t, "POST", "/v1/feed/filter", `{"viewer":"","posts":[]}`); a.Status != 400 {
		t.Errorf("no viewer: %d %s", a.Status, a.Body)
	}
}

// TestTokensChange replaces the token file under load. No request with a valid token is refused.
func TestTokensChange(t *testing.T) {
	s, file := guarded(t, httpapi.Config{}, nil)
	tokens := func(names ...string) {
		t.Helper()
		entries := make([]string, len(names))
		for i, n := range names {
			entries[i] = tokenEntry(n, "feed:read", "")
		}
		next := file + ".next"
		writeTokens(t, next, entries...)
		must(t, os.Rename(next, file))
	}
	reload := func() {
		t.Helper()
		must(t, s.tokens.Reload(t.Context()))
	}
	tokens("one", "two")
	reload()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, token := range []string{"two", "two", "two"} {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if a := s.do(t, "GET", "/v1/users/1/blocks", "", as(token)...); a.Status != 200 {
					t.Errorf("%s: %d %s", token, a.Status, a.Body)
				}
			}
		})
	}
	for i := range 20 { // token two is always valid
		tokens("two", fmt.Sprint("other", i))
		reload()
		if a := s.do(t, "GET", "/v1/users/1/blocks", "", as("one")...); a.Status != 401 {
			t.Errorf("a removed token: %d", a.Status)
		}
		if a := s.do(t, "GET", "/v1/users/1/blocks", "", as(fmt.Sprint("other", i))...); a.Status != 200 {
			t.Errorf("a new token: %d", a.Status)
		}
	}
	close(stop)
	all.Wait()
}

// TestStreamOutlivesToken: after its token ends, each line of a stream is refused.
func TestStreamOutlivesToken(t *testing.T) {
	s, file := guarded(t, httpapi.Config{}, nil)
	d := s.duplex(t, s.start(t), as("activity")...)
	d.write(activityLine("1", "hide", "p", "add") + "\n")
	if got := d.line(); got != yes {
		t.Fatal(got)
	}
	for _, c := range []struct{ scopes, code string }{{"ops:read", "forbidden"}, {"", "unauthenticated"}} {
		entries := []string{tokenEntry("feed", "feed:read", "")}
		if c.scopes != "" {
			entries = append(entries, tokenEntry("activity", c.scopes, ""))
		}
		writeTokens(t, file, entries...)
		must(t, s.tokens.Reload(t.Context()))
		d.write(activityLine("1", "hide", "q", "add") + "\n")
		wantError(t, d.line(), c.code, "")
	}
	if a := s.do(t, "GET", "/v1/users/1/hides", "", as("feed")...); !strings.Contains(a.Body, `"p"`) || strings.Contains(a.Body, `"q"`) {
		t.Errorf("recorded: %s", a.Body)
	}
	_ = d.in.Close()
	if err := d.end(); err != nil {
		t.Errorf("end: %v", err)
	}
}
