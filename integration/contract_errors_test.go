package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// errorTerms tests refused requests.
func errorTerms() []term {
	const (
		filter = "/v1/feed/filter"
		good   = `{"viewer":"v","posts":[{"id":"p","author":"a"}]}`
	)
	posts := func(t *testing.T, c *contract, cases ...[3]string) {
		t.Helper()
		for _, s := range cases {
			c.refuses(t, "POST", filter, s[0], strings.TrimSpace("400 "+s[1]+" "+s[2]))
		}
	}
	return []term{
		{"400: malformed or out of range", func(t *testing.T, c *contract, _ func(string) string) {
			posts(t, c,
				[3]string{`{"viewer":"v","posts":[{"id":"p","author":"a"},{"id":"q","author":""}]}`, "invalid_id", "posts[1].author"},
				[3]string{`{"viewer":"v","posts":[{"id":"p","author":"a","actors":["b",""]}]}`, "invalid_id", "posts[0].actors[1]"},
				[3]string{`{"viewer":"","posts":[]}`, "invalid_id", "viewer"},
				[3]string{`{"viewer":"v"}`, "missing_field", "posts"},
				[3]string{`{"viewer":7,"posts":[]}`, "invalid_type", "viewer"},
			)
		}},
		{"400: unknown fields, duplicate keys, trailing data, invalid UTF-8, NaN, deep nesting", func(t *testing.T, c *contract, _ func(string) string) {
			posts(t, c,
				[3]string{`{"viewer":"v","posts":[],"Kinds":[]}`, "unknown_field", "Kinds"},
				[3]string{`{"viewer":"v","viewer":"v","posts":[]}`, "duplicate_key", "viewer"},
				[3]string{good + `{}`, "malformed_json", ""},
				[3]string{good + ` x`, "malformed_json", ""},
				[3]string{"{\"viewer\":\"\xff\",\"posts\":[]}", "malformed_json", "viewer"},
				[3]string{`{"viewer":"v","posts":[],"limit":NaN}`, "malformed_json", "limit"},
				[3]string{`{"viewer":"v","posts":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "invalid_type", "posts[0]"},
				[3]string{strings.Repeat("[", 100_000), "invalid_type", ""},
			)
		}},
		{"404: unknown route or kind", func(t *testing.T, c *contract, _ func(string) string) {
			c.refuses(t, "GET", "/v1/nothing", "", "404 not_found")
			c.refuses(t, "PUT", "/v1/users/1/follows/2", "", "404 not_found")
			c.refuses(t, "PUT", "/v1/users/1/blocks/2/3", "", "404 not_found")
		}},
		{"405: wrong method", func(t *testing.T, c *contract, _ func(string) string) {
			c.refuses(t, "GET", filter, "", "405 method_not_allowed")
			c.refuses(t, "POST", "/v1/users/1/mutes", "{}", "405 method_not_allowed")
		}},
		{"413: too large", func(t *testing.T, c *contract, _ func(string) string) {
			c.refuses(t, "POST", filter, strings.Repeat(" ", 1<<20+1), "413 too_large")
			c.wants(t, "POST", filter, good+strings.Repeat(" ", 1<<20-len(good)), `{"posts":[{"id":"p"}],"dropped":[],"degraded":[]}`)
		}},
		{"415: not JSON", func(t *testing.T, c *contract, _ func(string) string) {
			if h := c.say(t, "POST", filter, good, "text/plain"); h.status != 415 || !strings.Contains(h.body, `"unsupported_media_type"`) {
				t.Errorf("%d %s", h.status, h.body)
			}
		}},
		{"422: unknown kind or a self-block", func(t *testing.T, c *contract, _ func(string) string) {
			c.refuses(t, "POST", filter, `{"viewer":"v","posts":[],"kinds":["follow"]}`, "422 unknown_kind kinds[0]")
			for _, plural := range []string{"blocks", "mutes", "feuds"} {
				c.refuses(t, "PUT", path("users", "a_b", plural, "a_b"), "", "422 self_block target")
			}
		}},
	}
}

// withoutServers stops first Redis, then Postgres.
func withoutServers(c *contract) func(t *testing.T) {
	return func(t *testing.T) {
		id := func(name string) string { return "outage." + name }
		v, b := id("v"), id("b")
		c.wants(t, "PUT", path("users", v, "blocks", b), "", changed)
		c.wants(t, "POST", path("users", v, "seen"), `{"posts":["s"]}`, `{"recorded":1}`)
		posts := []post{by("p", b), by("s", "x"), by("k", "x")}
		unavailable := func(t *testing.T, method, path, body string) {
			t.Helper()
			h := c.say(t, method, path, body)
			if p, err := h.problem(); err != nil || h.status != 503 || p.Code != "unavailable" || h.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %d %s, Retry-After %q (%v)", method, path, h.status, h.body, h.header.Get("Retry-After"), err)
			}
		}
		degraded := func(f filtered) (kinds []string) {
			for _, d := range f.Degraded {
				if d.Reason == "" {
					t.Errorf("degraded without a reason: %v", f.Degraded)
				}
				kinds = append(kinds, d.Kind)
			}
			return slices.Compact(kinds)
		}
		c.redis.Kill()
		t.Run("without Redis: blocks still drop, seen is degraded", func(t *testing.T) {
			f := c.check(t, ask{Viewer: v, Posts: posts})
			if f.kept() != "s k" || f.reasons() != "p block "+b || !slices.Equal(degraded(f), []string{"seen"}) {
				t.Errorf("keeps %q, drops %q, degraded %v", f.kept(), f.reasons(), f.Degraded)
			}
			if f := c.check(t, ask{Viewer: v, Posts: posts, Kinds: []string{"block"}}); len(f.Degraded) > 0 {
				t.Errorf("degraded %v, but the feed did not ask for seen", f.Degraded)
			}
			f = c.check(t, ask{Viewer: v, Posts: posts, Kinds: []string{"block"}, RecordSeen: true})
			if f.kept() != "s k" || !slices.Equal(degraded(f), []string{"seen"}) || !strings.Contains(fmt.Sprint(f.Degraded), "recorded") {
				t.Errorf("record_seen: keeps %q, degraded %v", f.kept(), f.Degraded)
			}
			c.wants(t, "PUT", path("users", v, "hides", "k"), "", changed)
			if f := c.check(t, ask{Viewer: v, Posts: posts}); f.kept() != "s" {
				t.Errorf("after one is hidden: %q", f.kept())
			}
			unavailable(t, "POST", path("users", v, "seen"), `{"posts":["k"]}`)
		})
		c.redis.Restart()
		page := fmt.Sprintf("fav:{%s/%d}:bits", c.filter, c.explain(t, v, posts[0]).Page.Number)
		err := c.awaits(t, "nothing is degraded, and the page is back", func() error {
			if f := c.check(t, ask{Viewer: v, Posts: posts}); len(f.Degraded) > 0 || !slices.Contains(c.keys(t), page) {
				return errors.New(fmt.Sprint("degraded ", f.Degraded))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		c.postgres.Kill()
		t.Run("without Postgres: 503 for what needs it, feeds go on", func(t *testing.T) {
			unavailable(t, "PUT", path("users", v, "hides", "q"), "")
			unavailable(t, "DELETE", path("users", v, "hides", "k"), "")
			unavailable(t, "GET", path("users", v, "blocks"), "")
			unavailable(t, "GET", path("users", v), "")
			unavailable(t, "GET", path("users", v, "export"), "")
			unavailable(t, "DELETE", path("users", v), "")
			unavailable(t, "POST", path("users", v, "preview"), `{"kind":"hide","targets":["q"]}`)
			if f := c.check(t, ask{Viewer: v, Posts: posts[:1]}); f.reasons() != "p block "+b {
				t.Errorf("keeps %q, drops %q", f.kept(), f.reasons())
			}
			c.wants(t, "POST", path("users", v, "seen"), `{"posts":["k"]}`, `{"recorded":1}`)
		})
		c.postgres.Restart()
		err = c.awaits(t, "writes are taken", func() error {
			if h := c.say(t, "PUT", path("users", v, "hides", "q"), ""); h.status != 200 {
				return fmt.Errorf("%d %s", h.status, h.body)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
