package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/ops"
	"github.com/feedfilter/feedfilter/internal/inspect"
)

// populated is a service whose 16 pages hold both sides of 60 blocks, and 40 hides of user 0.
func populated(t *testing.T, c httpapi.Config) *service {
	t.Helper()
	s := newService(t, c, nil)
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf(`{"user":"%d","kind":"block","target":"t%d","op":"add"}`, i, i))
	}
	for i := range 40 {
		lines = append(lines, fmt.Sprintf(`{"user":"0","kind":"hide","target":"secret-post-%d","op":"add"}`, i))
	}
	if a := s.do(t, "POST", "/v1/activities", `{"activities":[`+strings.Join(lines, ",")+`]}`); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return s
}

// pageOf returns an answer of /v1/ops/pages/{number}.
func (s *service) pageOf(t *testing.T, number uint32) (p inspect.Page) {
	t.Helper()
	a := s.do(t, "GET", fmt.Sprintf("/v1/ops/pages/%d", number), "")
	if err := json.Unmarshal([]byte(a.Body), &p); a.Status != 200 || err != nil {
		t.Fatalf("page %d: %d %s, %v", number, a.Status, a.Body, err)
	}
	return p
}

// lookedAt waits until the scrub has surveyed every page again.
func (s *service) lookedAt(t *testing.T) {
	t.Helper()
	from := s.activities.Stats().ScrubRounds
	s.await(t, "every page is surveyed", func() error {
		if n := s.activities.Stats().ScrubRounds; n < from+2 {
			return fmt.Errorf("%d rounds, from %d", n, from)
		}
		return nil
	})
}

// TestOpsPage: the answer has the state of the page and of the ledger, to the last key, and no
// plain ids.
func TestOpsPage(t *testing.T) {
	ids := access.NewIDs()
	s := populated(t, httpapi.Config{Access: limits.Access{IDs: ids}})
	u := s.do(t, "GET", "/v1/ops/users/0", "")
	number, _ := u.JSON["page"].(float64)
	a := s.do(t, "GET", fmt.Sprintf("/v1/ops/pages/%d", int(number)), "")
	if strings.Contains(a.Body, "secret") || strings.Contains(a.Body, `"t`) && strings.Contains(a.Body, `"t0"`) {
		t.Errorf("a plain id: %s", a.Body)
	}
	p := s.pageOf(t, uint32(number))
	kinds := 0
	for _, n := range p.Ledger.Kinds {
		kinds += n
	}
	if p.State != "sound" || !*p.Agrees || p.Residual != 0 || p.Behind != 0 || len(p.Lacks) != 0 || p.Dedicated || p.Damage != "" ||
		p.Ledger.Kinds["hide"] != 40 || kinds != p.Ledger.Keys || p.Ledger.Keys != int(p.Page.Keys) || p.Ledger.Sequence != p.Page.Sequence {
		t.Errorf("%+v, %+v, %+v", p, p.Page, p.Ledger)
	}
	if l := p.Ledger.Largest; l[0] != (inspect.UserKeys{User: ids.Hash("0"), Keys: 41}) || len(l) != min(10, p.Ledger.Users) {
		t.Errorf("largest %+v", l)
	}
}

// TestOpsPageHidesNames: ids are also hashed without a configured function, always the same way.
func TestOpsPageHidesNames(t *testing.T) {
	s := newService(t, httpapi.Config{}, nil)
	s.do(t, "PUT", "/v1/users/recognizable/hides/p", "")
	var number any
	if number = s.do(t, "GET", "/v1/ops/users/recognizable", "").JSON["page"]; number == nil {
		t.Fatal("there is no page")
	}
	path := fmt.Sprintf("/v1/ops/pages/%v", number)
	a, b := s.do(t, "GET", path, ""), s.do(t, "GET", path, "")
	if strings.Contains(a.Body, "recognizable") || a.Body != b.Body || !strings.Contains(a.Body, `"largest":[{"user":"`) {
		t.Errorf("got %s, then %s", a.Body, b.Body)
	}
}

func TestOpsUserAndKey(t *testing.T) {
	s := populated(t, httpapi.Config{})
	s.do(t, "POST", "/v1/users/0/seen", `{"posts":["p1"]}`)
	var u inspect.User
	a := s.do(t, "GET", "/v1/ops/users/0", "")
	must(t, json.Unmarshal([]byte(a.Body), &u))
	if u.User != "0" || u.Page != u.Slot || u.Dedicated || !reflect.DeepEqual(u.Counts, map[string]int{"block": 1, "hide": 40}) || u.Keys != 41 ||
		u.PageHolds != 41 || len(u.Lacks) != 0 || u.PageState != "sound" || u.PageKeys < 41 || len(u.Hash) != 16 ||
		len(u.Windows) != 1 || u.Windows[0].Kind != "seen" || u.Windows[0].Keys != 1 || u.FeedBytes <= u.Windows[0].Bytes {
		t.Errorf("%s", a.Body)
	}
	key := func(path string) (k inspect.Key) {
		t.Helper()
		a := s.do(t, "GET", "/v1/ops/users/"+path, "")
		if err := json.Unmarshal([]byte(a.Body), &k); a.Status != 200 || err != nil {
			t.Fatalf("%d %s %v", a.Status, a.Body, err)
		}
		return k
	}
	k := key("0/keys/block/t0")
	if k.Kind != "block" || k.User != "0" || k.Target != "t0" || len(k.Sides) != 4 || len(k.Words) != 4 {
		t.Fatalf("%+v", k)
	}
	direct, reverse := k.Sides[0], k.Sides[2]
	if direct.Key != "block:U0_Ut0" || direct.Side != "direct" || direct.Page != u.Page || direct.Verdict != "held" || !*direct.Ledger || direct.Since.IsZero() ||
		!direct.Reported || direct.PageState != "sound" {
		t.Errorf("%+v", direct)
	}
	if reverse.Key != "block:Ut0_U0" || reverse.Verdict != "absent" || *reverse.Ledger || reverse.Reported || !reverse.Since.IsZero() {
		t.Errorf("%+v", reverse)
	}
	if k := key("0/keys/seen/p1"); len(k.Sides) != 1 || k.Sides[0].Verdict != "reported" || k.Sides[0].Ledger != nil || k.Sides[0].Until.IsZero() {
		t.Errorf("%+v", k)
	}
	if k := key("a%2Fb/keys/hide/c%20d"); k.User != "a/b" || k.Target != "c d" || k.Sides[0].Verdict != "absent" {
		t.Errorf("%+v", k)
	}
}

func TestOpsRebuild(t *testing.T) {
	s := populated(t, httpapi.Config{})
	u := s.do(t, "GET", "/v1/ops/users/0", "")
	number, _ := u.JSON["page"].(float64)
	before := s.pageOf(t, uint32(number))
	a := s.do(t, "POST", fmt.Sprintf("/v1/ops/pages/%d/rebuild", int(number)), "")
	after := s.pageOf(t, uint32(number))
	if a.Status != 200 || a.JSON["number"] != number || a.JSON["keys"] != float64(before.Page.Keys) || a.JSON["sequence"] != float64(before.Page.Sequence) ||
		a.JSON["bytes"] != float64(after.Page.BitsBytes+after.Page.RegionsBytes) || len(a.JSON) != 5 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if after.Page.Build == before.Page.Build || !*after.Agrees || after.Page.Keys != before.Page.Keys {
		t.Errorf("page %+v became %+v", before.Page, after.Page)
	}
}

func TestOpsScrub(t *testing.T) {
	s := populated(t, httpapi.Config{})
	s.want(t, "GET", "/v1/ops/scrub", "", 200, `{"running":false,"done":0,"all":0,"found":{},"failed":0,"unasked":0}`)
	for _, body := range []string{"", "{}", `{"rate":100000}`} {
		if a := s.do(t, "POST", "/v1/ops/scrub", body); a.Status != 202 || a.JSON["running"] == nil || a.JSON["started"] == nil {
			t.Errorf("%q: %d %s", body, a.Status, a.Body)
		}
		s.await(t, "the scrub has ended", func() error {
			a := s.do(t, "GET", "/v1/ops/scrub", "")
			if a.JSON["running"] != false || a.JSON["done"] != 16.0 || a.JSON["all"] != 16.0 || a.JSON["failed"] != 0.0 || a.JSON["ended"] == nil || a.JSON["trouble"] != nil {
				return fmt.Errorf("%s", a.Body)
			}
			return nil
		})
	}
	s.store.set(failing)
	s.do(t, "POST", "/v1/ops/scrub", "")
	s.await(t, "the scrub has ended", func() error {
		if a := s.do(t, "GET", "/v1/ops/scrub", ""); a.JSON["running"] != false || a.JSON["unasked"] != 16.0 {
			return fmt.Errorf("%s", a.Body)
		}
		return nil
	})
}

func TestOpsHealth(t *testing.T) {
	begin := time.Now()
	sources := []follow.Status{
		{Name: "app", Stats: &follow.Stats{Trouble: "there is no table", Behind: 7, Lag: 1.5, Skipped: map[string]uint64{"self": 2}}}, {Name: "other", Followed: true, Proved: time.Unix(1_700_000_000, 0).UTC()},
	}
	s := populated(t, httpapi.Config{
		About: ops.About{Version: "v9.9.9", Ledger: "sqlite", PageStore: "memory"}, MaxRequests: 7, Sources: func() []follow.Status { return sources },
	})
	s.lookedAt(t)
	a := s.do(t, "GET", "/v1/ops/health", "")
	pages, _ := a.JSON["pages"].(map[string]any)
	scrub, _ := a.JSON["scrub"].(map[string]any)
	for k, want := range map[string]any{
		"status": "ready", "version": "v9.9.9", "ledger": "sqlite", "page_store": "memory", "false_positive_rate": 1e-8, "staleness_bound_ms": 100.0,
		"down": []any{}, "requests": map[string]any{"in_progress": 0.0, "limit": 7.0},
		"sampling": map[string]any{
			"feeds": 0.0, "candidates": 0.0, "misses": 0.0, "false_positives": 0.0, "late": 0.0, "undecided": 0.0, "skipped": 0.0, "errors": 0.0, "repaired": 0.0,
		},
		"reshape": map[string]any{"pages": 16.0, "homes": 16.0, "reshaped": 16.0, "running": false},
		"sources": []any{
			map[string]any{"name": "app", "followed": false, "trouble": "there is no table", "behind_bytes": 7.0, "behind_seconds": 1.5, "skipped": map[string]any{"self": 2.0}},
			map[string]any{"name": "other", "followed": true, "proved_at": "2023-11-14T22:13:20Z"},
		},
	} {
		if !reflect.DeepEqual(a.JSON[k], want) {
			t.Errorf("%s: %v, want %v", k, a.JSON[k], want)
		}
	}
	if pages["shared"] != 16.0 || pages["dedicated"] != 0.0 || pages["looked_at"] != 16.0 || pages["faulty"] != 0.0 || pages["keys"] != 160.0 ||
		pages["keys_per_page"] != 10.0 || pages["due"] != 0.0 || pages["due_from"] != 4096.0 || scrub["pages"] != 16.0 || len(a.JSON) != 15 {
		t.Errorf("%s", a.Body)
	}
	at, _ := pages["counted_at"].(string)
	if counted, err := time.Parse(time.RFC3339, at); err != nil || counted.Before(begin) || counted.After(time.Now()) {
		t.Errorf("counted at %q, %v", at, err)
	}
	s.store.set(failing)
	if a := s.do(t, "GET", "/v1/ops/health", ""); a.Status != 200 || a.JSON["status"] != "degraded" || strings.Contains(a.Body, "hunter2") ||
		!reflect.DeepEqual(a.JSON["down"], []any{map[string]any{"dependency": "pages", "reason": "it failed; see the log"}}) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	s.ledger.set(failing)
	if a := s.do(t, "GET", "/v1/ops/health", ""); a.Status != 200 || a.JSON["status"] != "unavailable" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestOpsRefuses(t *testing.T) {
	s := newService(t, httpapi.Config{}, nil)
	for _, c := range []struct {
		method, target, body string
		status               int
		code, field          string
	}{
		{"GET", "/v1/ops", "", 404, "not_found", ""},
		{"GET", "/v1/ops/health?x=1", "", 400, "unknown_parameter", "x"},
		{"GET", "/v1/ops/health", "{}", 400, "unexpected_body", ""},
		{"POST", "/v1/ops/health", "", 405, "method_not_allowed", ""},
		{"GET", "/v1/ops/history?window=2h", "", 400, "out_of_range", "window"},
		{"GET", "/v1/ops/history?window=", "", 400, "out_of_range", "window"},
		{"GET", "/v1/ops/history?window=1h&window=1h", "", 400, "repeated_parameter", "window"},
		{"GET", "/v1/ops/history?from=1", "", 400, "unknown_parameter", "from"},
		{"GET", "/v1/ops/profiles", "", 404, "not_found", ""},
		{"GET", "/v1/ops/profiles/cmdline", "", 404, "not_found", ""},
		{"POST", "/v1/ops/profiles/cpu", "", 405, "method_not_allowed", ""},
		{"GET", "/v1/ops/profiles/cpu?seconds=0", "", 400, "out_of_range", "seconds"},
		{"GET", "/v1/ops/profiles/cpu?seconds=61", "", 400, "out_of_range", "seconds"},
		{"GET", "/v1/ops/profiles/cpu?seconds=+1", "", 400, "out_of_range", "seconds"},
		{"GET", "/v1/ops/profiles/cpu?seconds=", "", 400, "out_of_range", "seconds"},
		{"GET", "/v1/ops/profiles/cpu?seconds=1&seconds=1", "", 400, "repeated_parameter", "seconds"},
		{"GET", "/v1/ops/profiles/cpu?debug=1", "", 400, "unknown_parameter", "debug"},
		{"GET", "/v1/ops/profiles/heap?seconds=1", "", 400, "unknown_parameter", "seconds"},
		{"GET", "/v1/ops/profiles/goroutine", "x", 400, "unexpected_body", ""},
		{"GET", "/v1/ops/pages", "", 404, "not_found", ""},
		{"GET", "/v1/ops/pages/16", "", 404, "not_found", ""},
		{"GET", "/v1/ops/pages/16777216", "", 404, "not_found", ""},
		{"GET", "/v1/ops/pages/2147483648", "", 404, "not_found", ""},
		{"GET", "/v1/ops/pages/x", "", 400, "invalid_id", "number"},
		{"GET", "/v1/ops/pages/-1", "", 400, "invalid_id", "number"},
		{"GET", "/v1/ops/pages/+1", "", 400, "invalid_id", "number"},
		{"GET", "/v1/ops/pages/01", "", 400, "invalid_id", "number"},
		{"GET", "/v1/ops/pages/4294967296", "", 400, "invalid_id", "number"},
		{"GET", "/v1/ops/pages/1?cells=16", "", 400, "unknown_parameter", "cells"},
		{"GET", "/v1/ops/pages/1", "x", 400, "unexpected_body", ""},
		{"POST", "/v1/ops/pages/16/rebuild", "", 404, "not_found", ""},
		{"POST", "/v1/ops/pages/1/rebuild?force=1", "", 400, "unknown_parameter", "force"},
		{"POST", "/v1/ops/pages/1/rebuild", "{}", 400, "unexpected_body", ""},
		{"GET", "/v1/ops/pages/1/rebuild", "", 405, "method_not_allowed", ""},
		{"POST", "/v1/ops/scrub", `{"rate":0}`, 400, "out_of_range", "rate"},
		{"POST", "/v1/ops/scrub", `{"rate":100001}`, 400, "out_of_range", "rate"},
		{"POST", "/v1/ops/scrub", `{"rate":null}`, 400, "invalid_type", "rate"},
		{"POST", "/v1/ops/scrub", `{"pages":1}`, 400, "unknown_field", "pages"},
		{"POST", "/v1/ops/scrub", `null`, 400, "invalid_type", ""},
		{"GET", "/v1/ops/scrub?x=1", "", 400, "unknown_parameter", "x"},
		{"GET", "/v1/ops/users/%00", "", 400, "invalid_id", "user"},
		{"GET", "/v1/ops/users/1?x=1", "", 400, "unknown_parameter", "x"},
		{"GET", "/v1/ops/users/1/keys/bless/2", "", 422, "unknown_kind", "kind"},
		{"GET", "/v1/ops/users/1/keys/block/1", "", 422, "self_block", "target"},
		{"GET", "/v1/ops/users/1/keys/hide/%0A", "", 400, "invalid_id", "target"},
		{"GET", "/v1/ops/users/1/keys/hide/a/b", "", 404, "not_found", ""},
	} {
		if a := s.do(t, c.method, c.target, c.body); a.Status != c.status || a.Code != c.code || a.Field != c.field {
			t.Errorf("%s %s %s: %d %s, want %d %s %q", c.method, c.target, c.body, a.Status, a.Body, c.status, c.code, c.field)
		}
	}
}

// TestOpsWithoutLedger: without a ledger, pages are neither surveyed nor rebuilt.
func TestOpsWithoutLedger(t *testing.T) {
	recorder, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: &favfilter.Memory{}, Pages: 64})
	must(t, err)
	t.Cleanup(recorder.Close)
	s := &service{Handler: httpapi.New(httpapi.Config{Activities: recorder, About: ops.About{Ledger: "none"}}), activities: recorder}
	for i := range 100 {
		s.do(t, "PUT", fmt.Sprintf("/v1/users/%d/hides/p", i), "")
	}
	var k inspect.Key
	if err := json.Unmarshal([]byte(s.do(t, "GET", "/v1/ops/users/1/keys/hide/p", "").Body), &k); err != nil || k.Sides[0].Verdict != "reported" ||
		k.Sides[0].Ledger != nil {
		t.Errorf("%+v, %v", k, err)
	}
	if p := s.pageOf(t, k.Sides[0].Page); p.Ledger != nil || p.Agrees != nil || p.Page.Keys == 0 || p.State != "sound" {
		t.Errorf("%+v", p)
	}
	a := s.do(t, "GET", "/v1/ops/health", "")
	if reshape, there := a.JSON["reshape"]; a.JSON["status"] != "ready" || !there || reshape != nil || a.JSON["poll_age_ms"] != 0.0 {
		t.Errorf("%s", a.Body)
	}
	for _, target := range []string{"/v1/ops/pages/1/rebuild", "/v1/ops/scrub"} {
		if a := s.do(t, "POST", target, ""); a.Status != 501 || a.Code != "no_ledger" {
			t.Errorf("%s: %d %s", target, a.Status, a.Body)
		}
	}
}

// TestOpsHistoryInTheBackground: the history is kept in the background, and ends with it.
func TestOpsHistoryInTheBackground(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	s := newService(t, httpapi.Config{Background: func(do func(context.Context)) {
		go func() {
			defer close(ended)
			do(ctx)
		}()
	}}, nil)
	if a := s.do(t, "GET", "/v1/ops/history", ""); a.Status != 200 || a.JSON["step_seconds"] != 5.0 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	cancel()
	<-ended
}
