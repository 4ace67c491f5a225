package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// results returns the answer to a batch.
func results(all ...string) string { return `{"results":[` + strings.Join(all, ",") + `]}` }

// limitReached is the result of a line that exceeds a limit of mutes.
const limitReached = `{"error":{"code":"limit_reached","message":"limit of 7 mutes reached","limit":7}}`

// batchTerms tests batches of activities.
func batchTerms() []term {
	return []term{
		{"POST activities: a result per line, in order", func(t *testing.T, c *contract, id func(string) string) {
			a, b := id("a"), id("b")
			c.wants(t, "POST", "/v1/activities", batch(t,
				act(a, "hide", "p", "add"), act(a, "hide", "p", "add"), act(a, "hide", "p", "remove"), act(a, "hide", "p", "remove"),
				act(a, "block", b, "add"), act(b, "like", "q", "add"), act(a, "seen", "s", "add"), act(a, "report", "r", "add"),
			), results(changed, unchanged, changed, unchanged, changed, changed, changed, changed))
			c.sees(t, ask{Viewer: a, Posts: []post{by("p", "x"), by("y", b), by("s", "x"), by("r", "x")}}, "p", "y block "+b+", s seen, r report")
			until := act(a, "hide", "u", "add")
			until["until"] = "2100-01-01T00:00:00Z"
			c.wants(t, "POST", "/v1/activities", batch(t, until, until), results(changed, unchanged))
		}},
		{"a line takes effect wholly or not at all: both sides of a block", func(t *testing.T, c *contract, id func(string) string) {
			a := id("a")
			var lines []map[string]string
			for i := range 40 {
				lines = append(lines, act(a, "block", id(fmt.Sprint("b", i)), "add"))
			}
			c.say(t, "POST", "/v1/activities", batch(t, lines...))
			for i := range 40 {
				b := id(fmt.Sprint("b", i))
				c.sees(t, ask{Viewer: a, Posts: []post{by("p", b)}}, "", "p block "+b)
				c.sees(t, ask{Viewer: b, Posts: []post{by("p", a)}}, "", "p block "+a)
			}
		}},
		{"a batch has up to 10,000 lines", func(t *testing.T, c *contract, id func(string) string) {
			u := id("u")
			lines := make([]map[string]string, 10_001)
			for i := range lines {
				lines[i] = act(u, "like", fmt.Sprint("p", i), "add")
			}
			c.refuses(t, "POST", "/v1/activities", batch(t, lines...), "400 out_of_range activities")
			c.refuses(t, "POST", "/v1/activities", `{"activities":[]}`, "400 out_of_range activities")
			if n := c.counts(t, u)["like"]; n != 0 {
				t.Errorf("%d activities recorded by a refused batch", n)
			}
			c.wants(t, "POST", "/v1/activities", batch(t, lines[:10_000]...), results(slices.Repeat([]string{changed}, 10_000)...))
			if n := c.counts(t, u)["like"]; n != 10_000 {
				t.Errorf("%d of 10,000", n)
			}
		}},
		{"a JSON batch is validated before any line takes effect", func(t *testing.T, c *contract, id func(string) string) {
			u := id("u")
			good := act(u, "hide", "p", "add")
			for _, bad := range []struct {
				line        map[string]string
				status      int
				code, field string
			}{
				{act(u, "block", u, "add"), 422, "self_block", "target"},
				{act(u, "mute", u, "remove"), 422, "self_block", "target"},
				{act(u, "follow", "x", "add"), 422, "unknown_kind", "kind"},
				{act(u, "hide", "x", "toggle"), 422, "unknown_op", "op"},
				{act(u, "seen", "x", "remove"), 422, "unsupported_op", "op"},
				{act(u, "hide", "", "add"), 400, "invalid_id", "target"},
				{act("", "hide", "x", "add"), 400, "invalid_id", "user"},
				{act(u, "hide", "a\nb", "add"), 400, "invalid_id", "target"},
				{map[string]string{"user": u, "kind": "hide", "target": "x"}, 400, "missing_field", "op"},
				{map[string]string{"user": u, "kind": "hide", "target": "x", "op": "add", "more": ""}, 400, "unknown_field", "more"},
			} {
				c.refuses(t, "POST", "/v1/activities", batch(t, good, good, bad.line, good), fmt.Sprintf("%d %s activities[2].%s", bad.status, bad.code, bad.field))
			}
			if n := c.counts(t, u)["hide"]; n != 0 {
				t.Errorf("%d activities recorded by a refused batch", n)
			}
			c.sees(t, ask{Viewer: u, Posts: []post{by("p", "x")}}, "p", "")
		}},
		{"an until that has passed is the error of its line alone", func(t *testing.T, c *contract, id func(string) string) {
			u := id("u")
			late := map[string]string{"user": u, "kind": "hide", "target": "x", "op": "add", "until": "2020-01-01T00:00:00Z"}
			c.wants(t, "POST", "/v1/activities", batch(t, act(u, "hide", "p", "add"), late, act(u, "hide", "q", "add")),
				results(changed, `{"error":{"code":"out_of_range","message":"not in the future","field":"until"}}`, changed))
			if n := c.counts(t, u)["hide"]; n != 2 {
				t.Errorf("%d activities recorded, want 2", n)
			}
		}},
		{"a line over a limit gets limit_reached", func(t *testing.T, c *contract, id func(string) string) {
			u := id("u")
			var lines []map[string]string
			want := slices.Repeat([]string{changed}, 7)
			for i := range 9 {
				lines = append(lines, act(u, "mute", id(fmt.Sprint("t", i)), "add"))
			}
			lines = append(lines, act(u, "hide", "p", "add"), act(u, "mute", id("t0"), "remove"), act(u, "mute", id("t8"), "add"), act(u, "mute", id("t1"), "add"))
			want = append(want, limitReached, limitReached, changed, changed, changed, unchanged)
			c.wants(t, "POST", "/v1/activities", batch(t, lines...), results(want...))
			got := c.list(t, u, "mutes", 100)
			if len(got) != 7 || slices.Contains(got, id("t7")) || !slices.Contains(got, id("t8")) || c.counts(t, u)["hide"] != 1 {
				t.Errorf("%v", got)
			}
		}},
		{"NDJSON: each line gets its own result line, errors included", ndjson()},
		{"preview: what an import would change, changing nothing", preview()},
	}
}

func ndjson() trial {
	return func(t *testing.T, c *contract, id func(string) string) {
		u := id("u")
		var lines []string
		for i := range 9 {
			lines = append(lines, jsonOf(t, act(u, "mute", id(fmt.Sprint("t", i)), "add")))
		}
		lines = append(lines,
			jsonOf(t, act(u, "hide", "p", "add")), jsonOf(t, act(u, "block", u, "add")), jsonOf(t, act(u, "follow", "x", "add")),
			`{"user":`, "", jsonOf(t, act(u, "hide", "p", "add")), jsonOf(t, act(u, "hide", "q", "add")))
		want := append(slices.Repeat([]string{changed}, 7), limitReached, limitReached, changed,
			`"self_block"`, `"unknown_kind"`, `"malformed_json"`, `"malformed_json"`, unchanged, changed)
		h := c.say(t, "POST", "/v1/activities", strings.Join(lines, "\n"), "application/x-ndjson")
		got := strings.Split(strings.TrimSuffix(h.body, "\n"), "\n")
		if h.status != 200 || h.header.Get("Content-Type") != "application/x-ndjson" || len(got) != len(want) {
			t.Fatalf("%d, %d lines of %d: %s", h.status, len(got), len(want), h.body)
		}
		for i := range want {
			isError := strings.HasPrefix(want[i], `"`)
			if !isError && got[i] != want[i] || isError && !strings.HasPrefix(got[i], `{"error":{"code":`+want[i]) {
				t.Errorf("line %d, %s: %s, want %s", i, lines[i], got[i], want[i])
			}
		}
		if counts := c.counts(t, u); counts["mute"] != 7 || counts["hide"] != 2 || counts["block"] != 0 {
			t.Errorf("counts %v", counts)
		}
	}
}

func preview() trial {
	return func(t *testing.T, c *contract, id func(string) string) {
		u := id("u")
		for i := range 5 {
			c.wants(t, "PUT", path("users", u, "mutes", id(fmt.Sprint("t", i))), "", changed)
		}
		c.wants(t, "PUT", path("users", u, "blocks", id("t0")), "", changed)
		at := path("users", u, "preview")
		body := func(kind string, targets ...string) string {
			return jsonOf(t, map[string]any{"kind": kind, "targets": targets})
		}
		before, feed := c.list(t, u, "mutes", 100), c.check(t, ask{Viewer: u, Posts: []post{by("p", id("new1"))}})
		c.wants(t, "POST", at, body("mute", id("t0"), id("t1")), `{"new":0,"present":2,"total":5,"limit":7,"over":false}`)
		c.wants(t, "POST", at, body("mute", id("t0"), id("new1"), id("new2"), id("new1")), `{"new":2,"present":1,"total":7,"limit":7,"over":false}`)
		c.wants(t, "POST", at, body("mute", id("new1"), id("new2"), id("new3")), `{"new":3,"present":0,"total":8,"limit":7,"over":true}`)
		c.wants(t, "POST", at, body("block", id("t0"), id("t1")), `{"new":1,"present":1,"total":2,"limit":null,"over":false}`)
		c.wants(t, "POST", path("users", id("t0"), "preview"), body("block", u), `{"new":1,"present":0,"total":1,"limit":null,"over":false}`)
		c.refuses(t, "POST", at, body("block", "x", u), "422 self_block targets[1]")
		c.refuses(t, "POST", at, body("follow", "x"), "422 unknown_kind kind")
		c.refuses(t, "POST", at, body("mute"), "400 invalid_type targets")
		after, then := c.list(t, u, "mutes", 100), c.check(t, ask{Viewer: u, Posts: []post{by("p", id("new1"))}})
		if !slices.Equal(before, after) || feed.kept() != "p" || then.kept() != "p" {
			t.Errorf("something changed: %v to %v, %q to %q", before, after, feed.kept(), then.kept())
		}
	}
}
