package limits_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

func TestAudit(t *testing.T) {
	a := httpapitest.Audited(t, nil)
	u, v, p := a.IDs.Hash("u"), a.IDs.Hash("v"), a.IDs.Hash("p")
	for _, c := range []struct {
		method, path, body, token, media string
		want                             map[string]any // nil: no line
	}{
		{"PUT", "/v1/users/u/blocks/v", "", "activity", "", map[string]any{"route": "/v1/users/:user/blocks/:target", "op": "add", "kind": "block", "user": u, "target": v, "changed": 1.0}},
		{"PUT", "/v1/users/u/blocks/v", "", "all", "", map[string]any{"route": "/v1/users/:user/blocks/:target", "op": "add", "kind": "block", "user": u, "target": v, "changed": 0.0, "token": "all"}},
		{"DELETE", "/v1/users/u/blocks/v", "", "activity", "", map[string]any{"route": "/v1/users/:user/blocks/:target", "op": "remove", "kind": "block", "user": u, "target": v, "changed": 1.0}},
		{"POST", "/v1/users/u/seen", `{"posts":["p","q","p"]}`, "activity", "", map[string]any{
			"route": "/v1/users/:user/seen", "op": "add", "kind": "seen", "user": u, "counts": map[string]any{"seen": map[string]any{"add": 2.0, "remove": 0.0}}, "changed": 2.0}},
		{"POST", "/v1/activities", httpapitest.Lines(httpapitest.ActivityLine("u", "hide", "p", "add"), httpapitest.ActivityLine("u", "hide", "q", "remove")), "activity", "", map[string]any{
			"route": "/v1/activities", "changed": 2.0,
			"counts": map[string]any{"block": map[string]any{"add": 1.0, "remove": 0.0}, "hide": map[string]any{"add": 1.0, "remove": 1.0}}}},
		{"POST", "/v1/activities", httpapitest.ActivityLine("u", "like", "p", "add") + "\nbad\n" + httpapitest.ActivityLine("u", "like", "p", "add") + "\n", "activity", "application/x-ndjson", map[string]any{
			"route": "/v1/activities", "changed": 1.0, "counts": map[string]any{"like": map[string]any{"add": 2.0, "remove": 0.0}}}},
		{"POST", "/v1/feed/explain", `{"viewer":"u","post":{"id":"p","author":"v"}}`, "ops", "", map[string]any{"route": "/v1/feed/explain", "op": "explain", "user": u, "target": p, "changed": 0.0, "token": "ops"}},
		{"POST", "/v1/feed/explain", `{"viewer":"u","post":{"author":"v"}}`, "ops", "", map[string]any{"route": "/v1/feed/explain", "op": "explain", "user": u, "target": v, "changed": 0.0, "token": "ops"}},
		{"POST", "/v1/feed/filter", `{"viewer":"u","posts":[{"id":"r","author":"w"}],"record_seen":true}`, "all", "", map[string]any{
			"route": "/v1/feed/filter", "op": "add", "user": u, "counts": map[string]any{"seen": map[string]any{"add": 1.0, "remove": 0.0}}, "changed": 1.0, "token": "all"}},
		{"GET", "/v1/ops/users/u/keys/block/v", "", "ops", "", map[string]any{"route": "/v1/ops/users/:user/keys/:kind/:target", "op": "inspect", "kind": "block", "user": u, "target": v, "changed": 0.0, "token": "ops"}},
		{"GET", "/v1/ops/users/u/keys/zqx/v", "", "ops", "", map[string]any{"route": "/v1/ops/users/:user/keys/:kind/:target", "status": 422.0, "code": "unknown_kind", "changed": 0.0, "token": "ops"}},
		{"GET", "/v1/ops/users/u", "", "ops", "", nil},
		{"GET", "/v1/ops/profiles/goroutine", "", "ops", "", map[string]any{"route": "/v1/ops/profiles/goroutine", "op": "profile", "changed": 0.0, "token": "ops"}},
		{"PUT", "/v1/pages", `{"pages":16}`, "fleet", "", map[string]any{"route": "/v1/pages", "op": "reshape", "pages": 16.0, "changed": 0.0, "token": "fleet"}},
		{"PUT", "/v1/pages", `{"pages":16,"force":true}`, "fleet", "", map[string]any{
			"route": "/v1/pages", "op": "reshape", "pages": 16.0, "force": true, "changed": 0.0, "token": "fleet"}},
		{"POST", "/v1/ops/pages/0/rebuild", "", "fleet", "", map[string]any{
			"route": "/v1/ops/pages/:number/rebuild", "changed": 0.0, "token": "fleet"}},
		{"POST", "/v1/ops/scrub", "", "fleet", "", map[string]any{"route": "/v1/ops/scrub", "status": 202.0, "changed": 0.0, "token": "fleet"}},
		{"PUT", "/v1/pages", `{"pages":16}`, "activity", "", map[string]any{
			"route": "/v1/pages", "status": 403.0, "code": "forbidden", "token": "activity",
			"reason": "the token lacks the required scope: ops:write", "suppressed": 0.0}},
		{"DELETE", "/v1/users/u", "", "activity", "", map[string]any{"route": "/v1/users/:user", "op": "delete_user", "user": u, "changed": 2.0}},
		{"PUT", "/v1/users/u/blocks/u", "", "activity", "", map[string]any{"route": "/v1/users/:user/blocks/:target", "status": 422.0, "code": "self_block", "changed": 0.0}},
		{"PUT", "/v1/users/u/blocks/v", "", "feed", "", map[string]any{"route": "/v1/users/:user/blocks/:target", "status": 403.0, "code": "forbidden", "token": "feed",
			"reason": "the token lacks the required scope: activity:write", "suppressed": 0.0}},
		{"GET", "/v1/users/u", "", "wrong", "", map[string]any{"route": "/v1/users/:user", "status": 401.0, "code": "unauthenticated", "reason": "the token is not known", "suppressed": 0.0}},
		{"GET", "/v1/users/u", "", "old", "", map[string]any{"route": "/v1/users/:user", "status": 401.0, "code": "unauthenticated", "reason": "the token has expired", "suppressed": 0.0}},
		{"POST", "/v1/feed/filter", `{"viewer":"u","posts":[{"id":"p","author":"v"}]}`, "feed", "", nil},
		{"GET", "/v1/users/u/blocks", "", "feed", "", nil},
		{"GET", "/v1/users/u/blocks/v", "", "feed", "", nil},
		{"GET", "/v1/targets/u/blocks", "", "feed", "", nil},
		{"POST", "/v1/users/u/preview", `{"kind":"block","targets":["v"]}`, "feed", "", nil},
		{"GET", "/healthz", "", "", "", nil},
		{"GET", "/nothing", "", "", "", nil},
	} {
		headers := append(httpapitest.As(c.token), "X-Request-Id", "id-1")
		if c.media != "" {
			headers = append(headers, "Content-Type", c.media)
		}
		res := a.Do(t, c.method, c.path, c.body, headers...)
		got := a.Take(t)
		if c.want == nil {
			if len(got) > 0 {
				t.Errorf("%s %s: audited %v", c.method, c.path, got)
			}
			continue
		}
		want := map[string]any{"request_id": "id-1", "remote": "192.0.2.1", "method": c.method, "status": 200.0}
		if c.token == "activity" {
			want["token"] = c.token
		}
		maps.Copy(want, c.want)
		if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s %s: %d %s\naudited %v\n   want %v", c.method, c.path, res.Status, res.Body, got, want)
		}
	}
}

// TestAuditReads: what a token's holder reads about other users can be audited.
func TestAuditReads(t *testing.T) {
	var c httpapi.Config
	c.Access.AuditReads = true
	a := httpapitest.AuditedBy(t, c)
	message := func(m proto.Message) string {
		text, err := proto.Marshal(m)
		httpapitest.Must(t, err)
		return string(text)
	}
	u, p := a.IDs.Hash("u"), a.IDs.Hash("p")
	fanout := map[string]any{"op": "fanout", "user": u, "target": p}
	for _, c := range []struct {
		call, body string
		want       map[string]any // nil: no line
	}{
		{"GET /v1/users/u/blocks", "", map[string]any{"op": "list", "kind": "block", "user": u}},
		{"HEAD /v1/users/u/blocks", "", map[string]any{"op": "list", "kind": "block", "user": u}},
		{"GET /v1/users/u/blocks/p", "", map[string]any{"op": "get", "kind": "block", "user": u, "target": p, "code": "no_activity"}},
		{"GET /v1/targets/u/block", "", map[string]any{"op": "incoming", "kind": "block", "user": u}},
		{"GET /v1/users/u", "", map[string]any{"op": "count", "user": u}},
		{"GET /v1/users/u/export", "", map[string]any{"op": "export", "user": u}},
		{"POST /v1/users/u/preview", `{"kind":"block","targets":["v"]}`, map[string]any{"op": "preview", "user": u}},
		{"POST /v1/fanout/filter", `{"post":"p","author":"u","viewers":["v"]}`, fanout},
		{"GET /v1/ops/users/u", "", map[string]any{"op": "inspect", "user": u}},
		{"POST " + feedfilterv1connect.ActivityServiceListProcedure, message(&feedfilterv1.ListRequest{User: "u", Plural: "blocks"}),
			map[string]any{"op": "list", "kind": "block", "user": u}},
		{"POST " + feedfilterv1connect.ActivityServiceListProcedure, message(&feedfilterv1.ListRequest{User: "u", Plural: "blocks", Target: new("p")}),
			map[string]any{"op": "get", "kind": "block", "user": u, "target": p}},
		{"POST " + feedfilterv1connect.ActivityServiceListProcedure, message(&feedfilterv1.ListRequest{User: "u", Plural: "blocks", Incoming: true}),
			map[string]any{"op": "incoming", "kind": "block", "user": u}},
		{"POST " + feedfilterv1connect.ActivityServiceCountProcedure, message(&feedfilterv1.CountRequest{User: "u"}),
			map[string]any{"op": "count", "user": u}},
		{"POST " + feedfilterv1connect.FeedServiceFanoutProcedure,
			message(&feedfilterv1.FanoutRequest{Post: "p", Author: "u", Viewers: []string{"v"}}), fanout},
		{"POST /v1/feed/filter", `{"viewer":"u","posts":[{"id":"p","author":"v"}]}`, nil},
		{"GET /v1/stats", "", nil},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		headers := append(httpapitest.As("all"), "X-Request-Id", "id-1")
		var res httpapitest.Answer
		if strings.HasPrefix(path, "/feedfilter.") {
			_, res = httpapitest.Ask(t, a.Handler, method, path, c.body, append(headers, "Content-Type", "application/proto")...)
		} else {
			res = a.Do(t, method, path, c.body, headers...)
		}
		lines := a.Take(t)
		if c.want == nil {
			if len(lines) > 0 {
				t.Errorf("%s: audited %v", c.call, lines)
			}
			continue
		}
		maps.Copy(c.want, map[string]any{
			"request_id": "id-1", "remote": "192.0.2.1", "method": method, "status": float64(res.Status), "token": "all", "changed": 0.0,
		})
		if len(lines) == 1 {
			delete(lines[0], "route")
		}
		if len(lines) != 1 || !reflect.DeepEqual(lines[0], c.want) {
			t.Errorf("%s: %d %s\naudited %v\n   want %v", c.call, res.Status, res.Body, lines, c.want)
		}
	}
}

// TestLogOfStrangers: a caller without a token requests unknown paths, and the service is down. The
// log does not fill up. It still has errors of callers with tokens, ten at once for each, and the
// audit log still has refusals.
func TestLogOfStrangers(t *testing.T) {
	var log httpapitest.LockedBuffer
	a := httpapitest.Audited(t, slog.New(slog.NewJSONHandler(&log, nil)))
	a.Store.Set(httpapitest.Failing)
	a.Ledger.Set(httpapitest.Failing)
	for _, call := range [][2]string{{"GET", "/nothing"}, {"DELETE", "/healthz"}, {"GET", "/docs?x=1"}, {"GET", "/readyz"}} {
		for range 2000 {
			a.Do(t, call[0], call[1], "")
		}
	}
	if n := strings.Count(log.String(), "\n"); n < 20 || n > 200 { // ten for each of two throttles, and one a second
		t.Errorf("8000 requests have %d lines in the log", n)
	}
	if !strings.Contains(log.String(), `"suppressed":`) {
		t.Error("no line has the number of suppressed lines")
	}
	a.Do(t, "GET", "/v1/stats", "")
	if lines := a.Take(t); len(lines) != 1 || lines[0]["suppressed"] != 0.0 {
		t.Errorf("one request was refused; the audit log has %v", lines)
	}
	for range 2000 {
		a.Do(t, "GET", "/v1/stats", "", httpapitest.As("guess")...)
	}
	if n := len(a.Take(t)); n < 9 || n > 60 {
		t.Errorf("2000 guesses of a token have %d lines in the audit log", n)
	}
	for i := range 50 {
		a.Do(t, "GET", "/v1/stats?x=1", "", append(httpapitest.As("ops"), "X-Request-Id", fmt.Sprintf("known-%d", i))...)
	}
	a.Do(t, "GET", "/v1/stats?x=1", "", append(httpapitest.As("all"), "X-Request-Id", "known-other")...)
	if n := strings.Count(log.String(), `"request_id":"known-`); n < 11 || n > 20 || !strings.Contains(log.String(), "known-other") {
		t.Errorf("51 requests with two tokens have %d lines in the log", n)
	}
}

// TestNoIDsInLogs makes every call, valid and invalid, with recognizable ids, while dependencies
// work and while they fail. Neither the audit log nor the log from level info on contains an id,
// plain or escaped.
func TestNoIDsInLogs(t *testing.T) {
	var log httpapitest.LockedBuffer
	a := httpapitest.Audited(t, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo})))
	const user, post = "USERzqx1", "POSTzqx1"
	calls := []string{
		"POST /v1/feed/filter {\"viewer\":\"%[1]s\",\"posts\":[{\"id\":\"%[2]s\",\"author\":\"%[1]s2\",\"actors\":[\"%[1]s3\"]}],\"record_seen\":true,\"exact\":true}",
		"POST /v1/feed/explain {\"viewer\":\"%[1]s\",\"post\":{\"id\":\"%[2]s\",\"author\":\"%[1]s2\"}}",
		"POST /v1/users/%[1]s/seen {\"posts\":[\"%[2]s\"]}", "POST /v1/users/%[1]s/seen {\"posts\":[\"%[2]s\",7]}",
		"POST /v1/users/%[1]s/preview {\"kind\":\"block\",\"targets\":[\"%[1]s2\"]}", "POST /v1/users/%[1]s/preview {\"kind\":\"%[1]s\",\"targets\":[\"%[1]s2\"]}",
		"POST /v1/activities {\"activities\":[{\"user\":\"%[1]s\",\"kind\":\"hide\",\"target\":\"%[2]s\",\"op\":\"add\"}]}",
		"POST /v1/activities {\"activities\":[{\"user\":\"%[1]s\",\"kind\":\"%[1]s\",\"target\":\"%[2]s\",\"op\":\"%[2]s\"}]}",
		"GET /v1/ops/users/%[1]s", "GET /v1/ops/users/%[1]s/keys/hide/%[2]s", "GET /v1/ops/users/%[1]s/keys/%[1]s/%[2]s", "GET /v1/ops/pages/%[1]s",
		"POST /v1/activities {\"%[1]s\":1}", "POST /v1/activities %[1]s",
		"PUT /v1/pages {\"pages\":\"%[1]s\"}", "GET /v1/users/%[1]s", "GET /v1/users/%[1]s/export", "GET /v1/stats?%[1]s=1", "GET /%[1]s/%[2]s", "GET /v1/users/%[1]s/%[2]s",
		"%[1]s /v1/users/%[1]s", "GET /v1/users/%[1]s%%00/blocks", "DELETE /v1/users/%[1]s",
	}
	for _, plural := range []string{"blocks", "hides", "likes"} {
		calls = append(calls, "PUT /v1/users/%[1]s/"+plural+"/%[2]s", "PUT /v1/users/%[1]s/"+plural+"/%[1]s", "DELETE /v1/users/%[1]s/"+plural+"/%[2]s",
			"GET /v1/users/%[1]s/"+plural, "GET /v1/users/%[1]s/"+plural+"/%[2]s", "GET /v1/targets/%[1]s/"+plural, "GET /v1/users/%[1]s/"+plural+"?cursor=%[2]s", "PUT /v1/users/%[1]s/"+plural+"/%[2]s/%[2]s", "PUT /v1/users/%[1]s/"+plural+"/%[2]s?until=%[2]s")
	}
	statuses := make(map[int]int)
	for _, mode := range []httpapitest.Fault{httpapitest.Sound, httpapitest.Failing, httpapitest.Sound, httpapitest.Panicing} {
		if mode == httpapitest.Panicing { // only feeds panic
			calls = []string{"POST /v1/feed/filter {\"viewer\":\"%[1]s\",\"posts\":[{\"id\":\"%[2]s\",\"author\":\"%[1]s2\"}]}"}
		}
		a.Store.Set(mode)
		if mode == httpapitest.Failing {
			a.Ledger.Set(mode)
		} else {
			a.Ledger.Set(httpapitest.Sound)
		}
		for i, c := range calls {
			parts := strings.SplitN(fmt.Sprintf(c, user, post)+"  ", " ", 3)
			for _, token := range []string{"all", "feed", user} {
				for _, media := range []string{"application/json", "application/x-ndjson"} {
					if media == "application/x-ndjson" && !strings.Contains(c, "/v1/activities") {
						continue
					}
					res := a.Do(t, parts[0], parts[1], strings.TrimSpace(parts[2]), append(httpapitest.As(token), "Content-Type", media, "X-Request-Id", fmt.Sprint("r", i))...)
					statuses[res.Status]++
				}
			}
		}
	}
	for _, want := range []int{200, 400, 401, 403, 404, 405, 422, 500, 503} {
		if statuses[want] == 0 {
			t.Errorf("no request was answered %d: %v", want, statuses)
		}
	}
	for name, text := range map[string]string{"log": log.String(), "audit log": a.Out.String()} {
		if len(text) < 5000 {
			t.Errorf("the %s has %d bytes", name, len(text))
		}
		for line := range strings.Lines(text) {
			if strings.Contains(strings.ToLower(line), "zqx1") {
				t.Errorf("the %s contains an id: %s", name, line)
			}
		}
	}
	if !slices.ContainsFunc(a.Take(t), func(l map[string]any) bool { return l["user"] == a.IDs.Hash(user) }) {
		t.Error("the audit log lacks the hash of the user")
	}
}

// TestAuditUnavailable: while the audit log fails, lines of an open stream are refused. They are
// recorded again once the log works.
func TestAuditUnavailable(t *testing.T) {
	out := &brokenLog{}
	c := httpapi.Config{}
	c.Access.Audit = access.NewAudit(out, access.AuditRefuse, slog.New(slog.DiscardHandler))
	s := httpapitest.NewService(t, c, activity.BuiltinKinds())
	stream := s.Duplex(t, s.Start(t))
	put := func() int { return s.Do(t, "PUT", "/v1/users/1/blocks/2", "").Status }
	wantLine := func(target, want string) {
		t.Helper()
		stream.Write(httpapitest.ActivityLine("1", "block", target, "add") + "\n")
		if got := stream.Line(); !strings.HasPrefix(got, want) {
			t.Errorf("block of %s: %s, want %s", target, got, want)
		}
	}
	wantLine("3", httpapitest.Yes)
	out.broken.Store(true)
	if status := put(); status != 200 { // the failure is not noticed yet
		t.Errorf("%d", status)
	}
	if status := put(); status != 503 {
		t.Errorf("%d", status)
	}
	wantLine("4", `{"error":{"code":"audit_unavailable"`)
	out.broken.Store(false)
	for end := time.Now().Add(time.Minute); put() != 200; {
		if time.Now().After(end) {
			t.Fatal("blocks are still refused after a minute")
		}
	}
	wantLine("4", httpapitest.Yes)
	if n := strings.Count(out.String(), `"status":200`); n != 2 {
		t.Errorf("%d lines of blocks: %s", n, out)
	}
}

// brokenLog refuses lines while it is broken.
type brokenLog struct {
	httpapitest.LockedBuffer

	broken atomic.Bool
}

func (b *brokenLog) Write(line []byte) (int, error) {
	if b.broken.Load() {
		return 0, errors.New("no space left")
	}
	return b.LockedBuffer.Write(line)
}

// What is recorded under one id has one hash, however it was typed.
func TestAuditOfFoldedIDs(t *testing.T) {
	kinds := httpapitest.KindsWith(t,
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Effect: activity.Drop, Fold: activity.FoldText},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop, Fold: activity.FoldHost},
	)
	a := httpapitest.Audits{IDs: access.NewIDs(), Out: new(bytes.Buffer)}
	c := httpapi.Config{}
	c.Access.IDs, c.Access.Audit = a.IDs, access.NewAudit(a.Out, access.AuditRefuse, slog.New(slog.DiscardHandler))
	a.Service, _ = httpapitest.Guarded(t, c, kinds)
	for _, call := range []struct{ method, path, recorded string }{
		{"PUT", "word-mutes/Climate%20%20CHANGE", "climate change"},
		{"DELETE", "word-mutes/climate-change", "climate change"},
		{"PUT", "domain-mutes/X.Example.", "x.example"},
		{"DELETE", "domain-mutes/https:%2F%2Fx.example", "x.example"},
	} {
		a.Do(t, call.method, "/v1/users/u/"+call.path, "", httpapitest.As("all")...)
		if lines := a.Take(t); len(lines) != 1 || lines[0]["target"] != a.IDs.Hash(call.recorded) || lines[0]["changed"] != 1.0 {
			t.Errorf("%s %s: audited %v, want the hash of %s", call.method, call.path, lines, call.recorded)
		}
	}
}
