package integration

import (
	"fmt"
	"slices"
	"testing"
)

const contractPages = 32

// TestContract tests every line of the API's contract over HTTP, on both deployments. Each line is
// a subtest.
func TestContract(t *testing.T) {
	onBoth(t, func(t *testing.T, d deployment) {
		c := d.serve(t, "contract", "--pages", fmt.Sprint(contractPages), "--false-positive-rate", "1e-6")
		t.Run("Activities", func(t *testing.T) { c.hold(t, slices.Concat(activityTerms(), batchTerms())) })
		t.Run("Feed", func(t *testing.T) { c.hold(t, feedTerms()) })
		t.Run("Errors", func(t *testing.T) { c.hold(t, errorTerms()) })
		t.Run("exact", exact(d))
		t.Run("a user deleted", deletesAll(d))
		t.Run("users deleted under load", deletesUnderLoad(d))
		t.Run("a heavy user exported and deleted", heavyUser(d))
		if d.redis != nil {
			t.Run("outage", withoutServers(c))
		}
	})
}

// exact asks for feeds on a page with a false positive rate of 0.5, and compares exact feeds with
// the recorded activities.
func exact(d deployment) func(t *testing.T) {
	return func(t *testing.T) {
		c := d.serve(t, "exact", "--pages", "1", "--false-positive-rate", "0.5")
		const v, n = "v", 2000
		var lines []map[string]string
		var posts []post
		var kept, dropped, liked []string
		for i := range n {
			id, author := fmt.Sprint("p", i), fmt.Sprint("a", i)
			posts = append(posts, by(id, author))
			switch i % 8 {
			case 0:
				lines = append(lines, act(v, "block", author, "add"))
				dropped = append(dropped, id+" block "+author)
				continue
			case 1:
				lines = append(lines, act(author, "block", v, "add"))
				dropped = append(dropped, id+" block "+author)
				continue
			case 2:
				lines = append(lines, act(v, "hide", id, "add"))
				dropped = append(dropped, id+" hide")
				continue
			case 3:
				lines = append(lines, act(v, "like", id, "add"))
				liked = append(liked, id)
			}
			kept = append(kept, id)
		}
		for i := range 600 { // keys of other users fill the page
			lines = append(lines, act(fmt.Sprint("w", i), "report", "x", "add"))
		}
		if h := c.say(t, "POST", "/v1/activities", batch(t, lines...)); h.status != 200 {
			t.Fatal(h.body)
		}
		likes := func(f filtered) (ids []string) {
			for _, p := range f.Posts {
				if p["like"] == true {
					ids = append(ids, fmt.Sprint(p["id"]))
				}
			}
			return ids
		}
		a := ask{Viewer: v, Posts: posts, Kinds: []string{"block", "hide", "mute", "report", "feud"}, Annotate: []string{"like"}}
		plain := c.check(t, a)
		falseDrops := len(plain.Dropped) - len(dropped)
		falseMarks := len(slices.DeleteFunc(likes(plain), func(id string) bool { return slices.Contains(liked, id) }))
		if falseDrops < 5 || falseMarks == 0 || len(plain.Posts) == 0 {
			t.Fatalf("%d false drops and %d false annotations of %d posts: too few to test exact", falseDrops, falseMarks, len(kept))
		}
		a.Exact = true
		f := c.check(t, a)
		if f.kept() != join(kept, " ") || f.reasons() != join(dropped, ", ") {
			t.Errorf("exact keeps %d of %d, drops %d of %d", len(f.Posts), len(kept), len(f.Dropped), len(dropped))
		}
		if got := likes(f); !slices.Equal(got, liked) {
			t.Errorf("exact annotates %v, want %v", got, liked)
		}
		t.Logf("without exact, %d of %d posts were dropped wrongly, %d annotated wrongly", falseDrops, len(kept), falseMarks)
		explained := 0
		for _, x := range plain.Dropped {
			if !slices.Contains(kept, x.ID) || explained == 20 {
				continue
			}
			explained++
			e := c.explain(t, v, by(x.ID, "a"+x.ID[1:]))
			if !e.Dropped || e.Reasons[0].Kind != x.Kind || slices.ContainsFunc(e.Reasons, func(r reason) bool {
				return r.Effect == "drop" && (r.Certainty != "false" && r.Kind != "seen" || r.Certainty == "false" && (!r.Since.IsZero() || !r.Until.IsZero()))
			}) {
				t.Errorf("%s is dropped for %s; explained: %+v", x.ID, x.Kind, e)
			}
		}
		c.wants(t, "POST", path("users", v, "seen"), `{"posts":["s"]}`, `{"recorded":1}`)
		if f := c.check(t, ask{Viewer: v, Posts: []post{by("s", "x")}, Kinds: []string{"seen"}, Exact: true}); len(f.Dropped) != 1 || !f.Dropped[0].Unconfirmed {
			t.Errorf("the feed does not report seen as unconfirmed: %+v", f)
		}
	}
}
