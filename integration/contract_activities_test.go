package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// activityTerms tests single activities, lists and counts.
func activityTerms() []term {
	return []term{
		{"PUT blocks: both feeds drop the other; again: unchanged", func(t *testing.T, c *contract, id func(string) string) {
			a, b := id("a"), id("b")
			c.wants(t, "PUT", path("users", a, "blocks", b), "", changed)
			c.wants(t, "PUT", path("users", a, "blocks", b), "", unchanged)
			c.sees(t, ask{Viewer: a, Posts: []post{by("p", b)}}, "", "p block "+b)
			c.sees(t, ask{Viewer: b, Posts: []post{by("p", a)}}, "", "p block "+a)
			c.sees(t, ask{Viewer: id("c"), Posts: []post{by("p", a), by("q", b)}}, "p q", "")
		}},
		{"DELETE blocks: both feeds are as before", func(t *testing.T, c *contract, id func(string) string) {
			a, b := id("a"), id("b")
			c.wants(t, "DELETE", path("users", a, "blocks", b), "", unchanged)
			c.wants(t, "PUT", path("users", a, "blocks", b), "", changed)
			c.wants(t, "DELETE", path("users", b, "blocks", a), "", unchanged) // the block is by a
			c.wants(t, "DELETE", path("users", a, "blocks", b), "", changed)
			c.wants(t, "DELETE", path("users", a, "blocks", b), "", unchanged)
			c.sees(t, ask{Viewer: a, Posts: []post{by("p", b)}}, "p", "")
			c.sees(t, ask{Viewer: b, Posts: []post{by("p", a)}}, "p", "")
		}},
		{"PUT and DELETE of hides, likes and added kinds of posts", func(t *testing.T, c *contract, id func(string) string) {
			u, p := id("u"), id("p")
			for _, plural := range []string{"hides", "likes", "reports", "marks"} {
				c.wants(t, "PUT", path("users", u, plural, p), "", changed)
				c.wants(t, "PUT", path("users", u, plural, p), "", unchanged)
				c.wants(t, "DELETE", path("users", u, plural, p), "", changed)
				c.wants(t, "DELETE", path("users", u, plural, p), "", unchanged)
			}
			c.sees(t, ask{Viewer: u, Posts: []post{by(p, "x")}}, p, "")
			c.wants(t, "PUT", path("users", u, "reports", p), "", changed)
			c.sees(t, ask{Viewer: u, Posts: []post{by(p, "x")}}, "", p+" report")
		}},
		{"kinds of users added: one-way in one feed, two-way in both", func(t *testing.T, c *contract, id func(string) string) {
			a, b := id("a"), id("b")
			c.wants(t, "PUT", path("users", a, "mutes", b), "", changed)
			c.sees(t, ask{Viewer: a, Posts: []post{by("p", b)}}, "", "p mute "+b)
			c.sees(t, ask{Viewer: b, Posts: []post{by("p", a)}}, "p", "")
			c.wants(t, "DELETE", path("users", a, "mutes", b), "", changed)
			c.wants(t, "PUT", path("users", a, "feuds", b), "", changed)
			c.sees(t, ask{Viewer: a, Posts: []post{by("p", b)}}, "", "p feud "+b)
			c.sees(t, ask{Viewer: b, Posts: []post{by("p", a)}}, "", "p feud "+a)
		}},
		{"ids: 1 to 256 bytes of UTF-8, percent-encoded in paths", oddIDs()},
		{"until: ends by itself", untilEnds()},
		{"POST seen: up to 1,000", func(t *testing.T, c *contract, id func(string) string) {
			u := id("u")
			var a ask
			ids := make([]string, 1001)
			for i := range ids {
				ids[i] = fmt.Sprint("seen", i)
				a.Posts = append(a.Posts, by(ids[i], "x"))
			}
			body := func(ids []string) string { return jsonOf(t, map[string]any{"posts": ids}) }
			c.refuses(t, "POST", path("users", u, "seen"), body(ids), "400 out_of_range posts")
			c.refuses(t, "POST", path("users", u, "seen"), body(nil), "400 invalid_type posts")
			c.refuses(t, "POST", path("users", u, "seen"), body([]string{"p", ""}), "400 invalid_id posts[1]")
			c.wants(t, "POST", path("users", u, "seen"), body(ids[:1000]), `{"recorded":1000}`)
			c.wants(t, "POST", path("users", u, "seen"), body([]string{"seen0", "seen0", "seen1"}), `{"recorded":2}`)
			a.Viewer = u
			if f := c.check(t, a); f.kept() != "seen1000" || len(f.Dropped) != 1000 || f.Dropped[999].Kind != "seen" {
				t.Errorf("keeps %q, drops %d", f.kept(), len(f.Dropped))
			}
		}},
		{"GET lists: newest first, complete in parts", lists()},
		{"limits of a kind: 409, exact under concurrent writers", limits()},
		{"GET /v1/kinds", func(t *testing.T, c *contract, _ func(string) string) {
			const user, drop = `"target":"user","effect":"drop"`, `"target":"post","effect":"drop"`
			c.wants(t, "GET", "/v1/kinds", "", `{"kinds":[`+
				`{"name":"block","plural":"blocks",`+user+`,"two_way":true,"ledger":true,"limit":null},`+
				`{"name":"hide","plural":"hides",`+drop+`,"two_way":false,"ledger":true,"limit":null},`+
				`{"name":"like","plural":"likes","target":"post","effect":"annotate","two_way":false,"ledger":true,"limit":null},`+
				`{"name":"seen","plural":"seen",`+drop+`,"two_way":false,"ledger":false,"window_seconds":2592000,"parts":6,"limit":null},`+
				`{"name":"mute","plural":"mutes",`+user+`,"two_way":false,"ledger":true,"limit":7},`+
				`{"name":"report","plural":"reports",`+drop+`,"two_way":false,"ledger":true,"limit":null},`+
				`{"name":"feud","plural":"feuds",`+user+`,"two_way":true,"ledger":true,"limit":3},`+
				`{"name":"mark","plural":"marks","target":"post","effect":"annotate","two_way":false,"ledger":true,"limit":null}]}`)
		}},
		{"GET /v1/users/{user}: how many of each kind", func(t *testing.T, c *contract, id func(string) string) {
			u, v := id("u"), id("v")
			c.say(t, "POST", "/v1/activities", batch(t, act(u, "block", v, "add"), act(v, "feud", u, "add"),
				act(u, "hide", "p", "add"), act(u, "hide", "q", "add"), act(u, "like", "p", "add"), act(u, "seen", "p", "add")))
			c.wants(t, "GET", path("users", u), "", `{"counts":{"block":1,"feud":0,"hide":2,"like":1,"mark":0,"mute":0,"report":0}}`)
			c.wants(t, "GET", path("users", v), "", `{"counts":{"block":0,"feud":1,"hide":0,"like":0,"mark":0,"mute":0,"report":0}}`)
		}},
	}
}

func oddIDs() trial {
	return func(t *testing.T, c *contract, id func(string) string) {
		u := id("u/1%_😀")
		ids := []string{
			"/", "a/b", "a%2Fb", "%", "%25", "_", "a_b", "a%5Fb", "😀", "👩‍👩‍👧", "é", "..", ".", "a b", "?", "#", "+", "&=", ":", "\"", "\\",
			strings.Repeat("x", 256), strings.Repeat("/", 256), strings.Repeat("😀", 64),
		}
		var a ask
		for _, p := range ids {
			a.Posts = append(a.Posts, by(p, "x"))
		}
		for i, p := range ids {
			c.wants(t, "PUT", path("users", u, "hides", p), "", changed)
			c.wants(t, "PUT", path("users", u, "hides", p), "", unchanged)
			a.Viewer = u
			if f := c.check(t, a); len(f.Dropped) != i+1 || f.Dropped[i].ID != p {
				t.Errorf("after %q is hidden, %s is dropped", p, f.reasons())
			}
		}
		if got := c.list(t, u, "hides", 1000); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(ids))) {
			t.Errorf("list %q", got)
		}
		for _, other := range []string{id("u/1%_"), strings.ReplaceAll(u, "/", "%2F"), strings.ReplaceAll(u, "_", "%5F")} {
			if n := c.counts(t, other)["hide"]; n != 0 {
				t.Errorf("user %q has %d", other, n)
			}
		}
		for _, bad := range []string{strings.Repeat("x", 257), "\x00", "a\n", "\x7f", "\u0085", "\xff"} {
			c.refuses(t, "PUT", path("users", u, "hides", bad), "", "400 invalid_id target")
			c.refuses(t, "PUT", path("users", bad, "hides", "p"), "", "400 invalid_id user")
		}
		c.refuses(t, "PUT", "/v1/users//hides/p", "", "400 invalid_id user")
	}
}

func untilEnds() trial {
	return func(t *testing.T, c *contract, id func(string) string) {
		a, b := id("a"), id("b")
		at := func(plural, target string, until time.Time) string {
			return path("users", a, plural, target) + "?until=" + url.QueryEscape(until.Format(time.RFC3339Nano))
		}
		c.wants(t, "PUT", at("hides", "far", time.Date(2100, 1, 1, 2, 0, 0, 0, time.FixedZone("", 7200))), "", changed)
		c.wants(t, "PUT", at("hides", "far", time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)), "", unchanged)
		c.wants(t, "PUT", at("hides", "far", time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)), "", changed)
		var l listed
		c.read(t, "GET", path("users", a, "hides"), "", &l)
		if len(l.Items) != 1 || l.Items[0].Until != "2101-01-01T00:00:00Z" {
			t.Errorf("list %v", l)
		}
		c.refuses(t, "PUT", at("hides", "p", time.Now().Add(-time.Second)), "", "400 out_of_range until")
		c.refuses(t, "PUT", path("users", a, "hides", "p")+"?until=tomorrow", "", "400 out_of_range until")
		c.refuses(t, "DELETE", at("hides", "far", time.Now().Add(time.Hour)), "", "400 unknown_parameter until")

		c.wants(t, "PUT", path("users", a, "blocks", b), "", changed)
		end := time.Now().Add(6 * time.Second) // leaves a busy machine time for the calls before the end
		for _, put := range []string{at("blocks", b, end), at("hides", "near", end), at("mutes", b, end)} {
			c.wants(t, "PUT", put, "", changed)
		}
		c.sees(t, ask{Viewer: a, Posts: []post{by("far", "x"), by("near", "x"), by("p", b)}}, "", "far hide, near hide, p block "+b)
		ended := func(viewer string, p post) {
			err := c.awaits(t, p.ID+" is back", func() error {
				if f := c.check(t, ask{Viewer: viewer, Posts: []post{p}}); f.kept() == "" {
					return errors.New(f.reasons())
				}
				return nil
			})
			if early := time.Until(end); err != nil || early > 0 {
				t.Errorf("%v, %v before the end", err, early)
			}
		}
		ended(a, by("near", "x"))
		ended(a, by("p", b))
		ended(b, by("p", a))
		if got := c.counts(t, a); got["hide"] != 1 || got["block"]+got["mute"] != 0 {
			t.Errorf("counts %v", got)
		}
		c.wants(t, "DELETE", path("users", a, "blocks", b), "", unchanged)
		c.sees(t, ask{Viewer: a, Posts: []post{by("far", "x")}}, "", "far hide")
	}
}

func lists() trial {
	return func(t *testing.T, c *contract, id func(string) string) {
		u := id("u")
		c.wants(t, "GET", path("users", u, "hides"), "", `{"items":[]}`)
		c.wants(t, "GET", path("users", u, "mutes"), "", `{"items":[]}`)
		want := make([]string, 0, 25)
		for i := range 25 {
			p := fmt.Sprintf("p/%02d", (i*7)%25)
			c.wants(t, "PUT", path("users", u, "hides", p), "", changed)
			want = append([]string{p}, want...)
		}
		c.wants(t, "PUT", path("users", u, "hides", want[3]), "", unchanged) // the hide keeps its place in the list
		var l listed
		c.read(t, "GET", path("users", u, "hides"), "", &l)
		last := time.Now().Add(time.Minute)
		for _, i := range l.Items {
			since, err := time.Parse(time.RFC3339Nano, i.Since)
			if err != nil || !since.Before(last) || time.Since(since) > time.Hour {
				t.Errorf("%s since %s, after %v (%v)", i.Target, i.Since, last, err)
			}
			last = since
		}
		for _, limit := range []int{1, 7, 24, 25, 1000} {
			if got := c.list(t, u, "hides", limit); !slices.Equal(got, want) {
				t.Errorf("limit %d: %v, want %v", limit, got, want)
			}
		}
		// Changes between two pages of a list must not skip or repeat the other items.
		c.read(t, "GET", path("users", u, "hides")+"?limit=10", "", &l)
		c.wants(t, "PUT", path("users", u, "hides", "new"), "", changed)
		c.wants(t, "DELETE", path("users", u, "hides", l.Items[9].Target), "", changed)
		var rest listed
		c.read(t, "GET", path("users", u, "hides")+"?cursor="+url.QueryEscape(l.Next), "", &rest)
		if len(rest.Items) != 15 || rest.Items[0].Target != want[10] || rest.Items[14].Target != want[24] || rest.Next != "" {
			t.Errorf("the page after the removed tenth item: %v", rest)
		}
		c.refuses(t, "GET", path("users", u, "hides")+"?limit=0", "", "400 out_of_range limit")
		c.refuses(t, "GET", path("users", u, "hides")+"?limit=1001", "", "400 out_of_range limit")
		c.refuses(t, "GET", path("users", u, "hides")+"?cursor=x", "", "400 invalid_cursor cursor")
		c.refuses(t, "GET", path("users", u, "seen"), "", "405 method_not_allowed")
	}
}

func limits() trial {
	return func(t *testing.T, c *contract, id func(string) string) {
		for plural, limit := range map[string]int{"mutes": 7, "feuds": 3} {
			const writers = 30
			u := id("u-" + plural)
			var made, over, odd atomic.Int64
			var wg sync.WaitGroup
			for i := range writers {
				wg.Go(func() {
					h, err := c.try(t.Context(), "PUT", path("users", u, plural, fmt.Sprint(id("t"), i)), "")
					p, _ := h.problem()
					switch {
					case err == nil && h.status == http.StatusOK && h.body == changed:
						made.Add(1)
					case err == nil && h.status == http.StatusConflict && p.Code == "limit_reached" && p.Limit == limit && p.Field == "":
						over.Add(1)
					default:
						odd.Add(1)
						t.Errorf("%d %s %v", h.status, h.body, err)
					}
				})
			}
			wg.Wait()
			if made.Load() != int64(limit) || over.Load() != int64(writers-limit) {
				t.Errorf("%s: %d made, %d refused, want %d of %d", plural, made.Load(), over.Load(), limit, writers)
			}
			has := c.list(t, u, plural, 100)
			if len(has) != limit || slices.Max(slices.Collect(maps.Values(c.counts(t, u)))) != limit {
				t.Fatalf("%s: %v", plural, has)
			}
			c.wants(t, "PUT", path("users", u, plural, has[0]), "", unchanged) // a repeat adds nothing
			c.wants(t, "PUT", path("users", u, plural, has[0])+"?until=2100-01-01T00:00:00Z", "", changed)
			c.refuses(t, "PUT", path("users", u, plural, id("more")), "", "409 limit_reached")
			c.sees(t, ask{Viewer: u, Posts: []post{by("p", id("more"))}}, "p", "")
			c.wants(t, "PUT", path("users", has[0], plural, u), "", changed) // the other user has a separate limit
			c.wants(t, "DELETE", path("users", u, plural, has[1]), "", changed)
			c.wants(t, "PUT", path("users", u, plural, id("more")), "", changed)
		}
	}
}
