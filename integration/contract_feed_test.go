package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// feedTerms tests feeds.
func feedTerms() []term {
	return []term{
		{"author and actors: a block in either direction", func(t *testing.T, c *contract, id func(string) string) {
			v, mine, theirs, other := id("v"), id("mine"), id("theirs"), id("other")
			c.wants(t, "PUT", path("users", v, "blocks", mine), "", changed)
			c.wants(t, "PUT", path("users", theirs, "blocks", v), "", changed)
			c.wants(t, "PUT", path("users", v, "hides", "h"), "", changed)
			c.sees(t, ask{Viewer: v, Posts: []post{
				by("k1", other), by("a1", mine), by("a2", theirs), by("k2", v), by("a3", other, v, other, mine), by("a4", other, theirs, mine),
				by("a5", mine, theirs), by("h", other), by("h", mine), by("k3", other, id("another")), by("a1", mine),
			}}, "k1 k2 k3", fmt.Sprintf("a1 block %[1]s, a2 block %[2]s, a3 block %[1]s, a4 block %[2]s, a5 block %[1]s, h hide, h block %[1]s, a1 block %[1]s", mine, theirs))
		}},
		{"kinds: in their order; default: every kind that drops", func(t *testing.T, c *contract, id func(string) string) {
			v, b := id("v"), id("b")
			for _, p := range []string{
				path("users", v, "blocks", b), path("users", v, "mutes", b), path("users", v, "hides", "p"),
				path("users", v, "likes", "p"), path("users", v, "reports", "p"),
			} {
				c.wants(t, "PUT", p, "", changed)
			}
			c.wants(t, "POST", path("users", v, "seen"), `{"posts":["p"]}`, `{"recorded":1}`)
			posts := []post{by("p", b), by("q", b), by("r", id("x"))}
			c.sees(t, ask{Viewer: v, Posts: posts}, "r", "p block "+b+", q block "+b)
			for _, s := range []struct{ kinds, kept, reasons string }{
				{"hide block", "r", "p hide, q block " + b},
				{"seen mute", "r", "p seen, q mute " + b},
				{"report hide", "q r", "p report"},
				{"feud", "p q r", ""},
				{"", "p q r", ""},
			} {
				kinds := strings.Fields(s.kinds)
				c.sees(t, ask{Viewer: v, Posts: posts, Kinds: append([]string{}, kinds...)}, s.kept, s.reasons)
			}
			for _, s := range []struct{ kinds, code, field string }{
				{`["like"]`, "wrong_effect", "kinds[0]"}, {`["hide","follow"]`, "unknown_kind", "kinds[1]"}, {`["blocked-by"]`, "unknown_kind", "kinds[0]"},
			} {
				c.refuses(t, "POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":%q,"posts":[],"kinds":%s}`, v, s.kinds), strings.Join([]string{"422", s.code, s.field}, " "))
			}
		}},
		{"annotate: a field for each kind; default: none", func(t *testing.T, c *contract, id func(string) string) {
			v := id("v")
			c.wants(t, "PUT", path("users", v, "likes", "p"), "", changed)
			c.wants(t, "PUT", path("users", v, "marks", "q"), "", changed)
			c.wants(t, "PUT", path("users", v, "hides", "h"), "", changed)
			c.wants(t, "PUT", path("users", v, "likes", "h"), "", changed)
			const posts = `"posts":[{"id":"p","author":"x"},{"id":"q","author":"x"},{"id":"h","author":"x"}]`
			const dropped = `"dropped":[{"id":"h","kind":"hide"}],"degraded":[]}`
			viewer := fmt.Sprintf(`{"viewer":%q,`, v)
			c.wants(t, "POST", "/v1/feed/filter", viewer+posts+`}`, `{"posts":[{"id":"p"},{"id":"q"}],`+dropped)
			c.wants(t, "POST", "/v1/feed/filter", viewer+posts+`,"annotate":["like"]}`, `{"posts":[{"id":"p","like":true},{"id":"q","like":false}],`+dropped)
			c.wants(t, "POST", "/v1/feed/filter", viewer+posts+`,"annotate":["mark","like"]}`,
				`{"posts":[{"id":"p","mark":false,"like":true},{"id":"q","mark":true,"like":false}],`+dropped)
			c.refuses(t, "POST", "/v1/feed/filter", viewer+posts+`,"annotate":["hide"]}`, "422 wrong_effect annotate[0]")
		}},
		{"posts: up to 5,000, in the caller's order", func(t *testing.T, c *contract, id func(string) string) {
			a := ask{Viewer: id("v"), Kinds: []string{"hide"}}
			var want []string
			for i := range 5001 {
				p := fmt.Sprint((i * 3571) % 5003)
				a.Posts = append(a.Posts, post{ID: p})
				want = append(want, p)
			}
			c.refuses(t, "POST", "/v1/feed/filter", jsonOf(t, a), "400 out_of_range posts")
			a.Posts = a.Posts[:5000]
			if f := c.check(t, a); f.kept() != strings.Join(want[:5000], " ") {
				t.Errorf("%d kept, %d dropped: some are missing or in the wrong order", len(f.Posts), len(f.Dropped))
			}
			c.sees(t, ask{Viewer: id("v"), Posts: []post{}}, "", "")
		}},
		{"limit and next: scrolling through all", func(t *testing.T, c *contract, id func(string) string) {
			v := id("v")
			var all []post
			var kept, dropped []string
			for i := range 100 {
				p := fmt.Sprint("p", i)
				all = append(all, by(p, id("x")))
				if i%3 != 0 {
					kept = append(kept, p)
					continue
				}
				c.wants(t, "PUT", path("users", v, "hides", p), "", changed)
				dropped = append(dropped, p+" hide")
			}
			for _, limit := range []int{1, 7, 66, 67, 5000} {
				var gotKept, gotDropped []string
				for rest := all; ; {
					f := c.check(t, ask{Viewer: v, Posts: rest, Limit: limit})
					if len(f.Posts) > limit || f.Next > 0 && (len(f.Posts) != limit || f.Next != len(f.Posts)+len(f.Dropped)) {
						t.Fatalf("limit %d: %d kept, %d dropped, next %d", limit, len(f.Posts), len(f.Dropped), f.Next)
					}
					gotKept = append(gotKept, strings.Fields(f.kept())...)
					if f.reasons() != "" {
						gotDropped = append(gotDropped, strings.Split(f.reasons(), ", ")...)
					}
					if f.Next == 0 {
						break
					}
					rest = rest[f.Next:]
				}
				if !slices.Equal(gotKept, kept) || !slices.Equal(gotDropped, dropped) {
					t.Errorf("limit %d: %d kept, %d dropped", limit, len(gotKept), len(gotDropped))
				}
			}
			c.refuses(t, "POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":%q,"posts":[],"limit":0}`, v), "400 out_of_range limit")
			c.refuses(t, "POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":%q,"posts":[],"limit":5001}`, v), "400 out_of_range limit")
		}},
		{"record_seen: kept posts become seen", func(t *testing.T, c *contract, id func(string) string) {
			v := id("v")
			c.wants(t, "PUT", path("users", v, "hides", "h"), "", changed)
			a := ask{Viewer: v, Posts: []post{by("p", "x"), by("h", "x"), by("q", "x"), by("p", "x"), by("r", "x")}, Limit: 2, RecordSeen: true}
			c.sees(t, a, "p q", "h hide")
			a.RecordSeen = false
			c.sees(t, a, "r", "p seen, h hide, q seen, p seen")
			c.wants(t, "DELETE", path("users", v, "hides", "h"), "", changed)
			a.Limit, a.RecordSeen, a.Kinds = 0, true, []string{"block"} // seen is recorded even if unchecked; p is kept once
			c.sees(t, a, "p h q r", "p seen")
			a.Kinds = nil
			c.sees(t, a, "", "p seen, h seen, q seen, p seen, r seen")
			c.sees(t, ask{Viewer: id("w"), Posts: a.Posts[:1]}, "p", "")
		}},
		{"explain: dropped or kept, by whom, since when, how certain", explains()},
	}
}

// explanation is the answer to an explain request.
type explanation struct {
	Dropped bool     `json:"dropped"`
	Reasons []reason `json:"reasons"`
	Page    struct {
		Number            uint32  `json:"number"`
		Sequence          uint64  `json:"sequence"`
		Keys              int     `json:"keys"`
		Bytes             int     `json:"bytes"`
		FalsePositiveRate float64 `json:"false_positive_rate"`
	} `json:"page"`
	Degraded []any `json:"degraded"`
}

type reason struct {
	Kind      string    `json:"kind"`
	Effect    string    `json:"effect"`
	Actor     string    `json:"actor"`
	Direction string    `json:"direction"`
	Certainty string    `json:"certainty"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Parts     []string  `json:"parts"`
}

func (c *contract) explain(t testing.TB, viewer string, p post) (e explanation) {
	t.Helper()
	c.read(t, "POST", "/v1/feed/explain", jsonOf(t, map[string]any{"viewer": viewer, "post": p}), &e)
	return e
}

func explains() trial {
	return func(t *testing.T, c *contract, id func(string) string) {
		v, a, b := id("v"), id("a"), id("b")
		start := time.Now()
		c.wants(t, "PUT", path("users", v, "blocks", a)+"?until=2100-01-01T00:00:00Z", "", changed)
		c.wants(t, "PUT", path("users", b, "blocks", v), "", changed)
		c.wants(t, "PUT", path("users", v, "likes", "p"), "", changed)
		c.wants(t, "POST", path("users", v, "seen"), `{"posts":["p"]}`, `{"recorded":1}`)
		e := c.explain(t, v, by("p", a, b, v, id("x")))
		want := []reason{
			{Kind: "block", Effect: "drop", Actor: a, Direction: "by_viewer", Certainty: "certain", Until: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)},
			{Kind: "block", Effect: "drop", Actor: b, Direction: "by_actor", Certainty: "certain"},
			{Kind: "seen", Effect: "drop", Direction: "by_viewer", Certainty: "unconfirmed"},
			{Kind: "like", Effect: "annotate", Direction: "by_viewer", Certainty: "certain"},
		}
		if !e.Dropped || len(e.Reasons) != len(want) || len(e.Degraded) > 0 {
			t.Fatalf("%+v", e)
		}
		for i, r := range e.Reasons {
			since, until, parts := r.Since, r.Until, r.Parts
			r.Since, r.Parts = time.Time{}, nil
			if r.Kind == "seen" { // windows have parts of five days
				if len(parts) != 1 || parts[0] == "" || since.After(time.Now()) || since.Before(start.Add(-5*24*time.Hour-time.Minute)) || until.Sub(since) != 35*24*time.Hour {
					t.Errorf("seen from %v until %v in %q", since, until, parts)
				}
				r.Until = time.Time{}
			} else if since.Before(start.Add(-time.Second)) || since.After(time.Now().Add(time.Second)) || parts != nil {
				t.Errorf("%s since %v, parts %q", r.Kind, since, parts)
			}
			if fmt.Sprint(r) != fmt.Sprint(want[i]) {
				t.Errorf("reason %d: %+v, want %+v", i, r, want[i])
			}
		}
		if p := e.Page; p.Number >= contractPages || p.Sequence == 0 || p.Keys < 3 || p.Bytes < 64 || p.FalsePositiveRate <= 0 || p.FalsePositiveRate > 1e-6 {
			t.Errorf("page %+v", p)
		}
		c.sees(t, ask{Viewer: v, Posts: []post{by("p", id("x"), b, a)}}, "", "p block "+b)
		var l listed
		c.read(t, "GET", path("users", v, "blocks"), "", &l)
		if since, err := time.Parse(time.RFC3339Nano, l.Items[0].Since); err != nil || !since.Equal(e.Reasons[0].Since) {
			t.Errorf("explained since %v, listed since %v (%v)", e.Reasons[0].Since, since, err)
		}
		if e := c.explain(t, v, by("q", id("x"))); e.Dropped || len(e.Reasons) > 0 {
			t.Errorf("a clean post: %+v", e)
		}
		c.wants(t, "PUT", path("users", v, "likes", "l"), "", changed)
		if e := c.explain(t, v, by("l", id("x"))); e.Dropped || len(e.Reasons) != 1 || e.Reasons[0].Kind != "like" {
			t.Errorf("a liked post: %+v", e)
		}
		c.refuses(t, "POST", "/v1/feed/explain", fmt.Sprintf(`{"viewer":%q,"post":{"id":"","author":"x"}}`, v), "400 invalid_id post.id")
		c.refuses(t, "POST", "/v1/feed/explain", fmt.Sprintf(`{"viewer":%q}`, v), "400 missing_field post")
	}
}
