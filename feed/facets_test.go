package feed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// TestManyFacetIDs: kinds look at the first ids of a facet. If a post has more, the answer names
// every kind that did not look at them, with the facet, and nothing else changes.
func TestManyFacetIDs(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: moreKinds(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: "domain", Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "follow", Plural: "follows", Target: "domain", Effect: activity.Keep, Over: []string{"mute", "hide"}, Fanout: true},
		activity.Kind{Name: "tag-mute", Plural: "tag-mutes", Target: "tag", Effect: activity.Drop},
		activity.Kind{Name: "note", Plural: "notes", Target: "domain", Effect: activity.Annotate},
	)})
	record(t, r, "1 mute d64", "2 mute d65", "1 tag-mute d1", "3 hide p0", "3 follow d65")
	ids := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("d", i+1))
		}
		return all
	}
	post := func(id string, n int) feed.Post {
		return feed.Post{ID: id, Author: "9", Facets: map[activity.Facet][]string{"domain": ids(n), "tag": {"t"}}}
	}
	names := func(all []activity.Degraded) (kinds []string) {
		for _, d := range all {
			if !strings.Contains(d.Reason, `"domain"`) {
				t.Errorf("%s is degraded because %s", d.Kind, d.Reason)
			}
			kinds = append(kinds, d.Kind)
		}
		return kinds
	}
	for _, c := range []struct {
		viewer   string
		ids      int
		dropped  bool
		degraded []string
	}{
		{"1", feed.MaxFacetIDs, true, nil},
		{"1", feed.MaxFacetIDs + 1, true, []string{"mute", "note", "follow"}},
		{"1", 10_000, true, []string{"mute", "note", "follow"}},
		{"2", feed.MaxFacetIDs + 1, false, []string{"mute", "note", "follow"}},
		{"3", feed.MaxFacetIDs + 1, true, []string{"mute", "note", "follow"}},
	} {
		posts := []feed.Post{post("p0", c.ids), {ID: "p1", Author: "8"}}
		a := filter(t, r, feed.Request{Viewer: c.viewer, Posts: posts, Annotate: []string{"note"}})
		if got := names(a.Degraded); (len(a.Dropped) == 1) != c.dropped || !slices.Equal(got, c.degraded) {
			t.Errorf("%+v: dropped %+v, degraded %v", c, a.Dropped, got)
		}
		if len(posts[0].Facets["domain"]) != c.ids {
			t.Fatal("the caller's posts were changed")
		}
		e, err := feed.Explain(t.Context(), r, c.viewer, posts[0])
		must(t, err)
		if got := names(e.Degraded); e.Dropped != c.dropped || !slices.Equal(got, c.degraded) {
			t.Errorf("%+v: explained as %+v", c, e)
		}
		f := fanOut(t, r, feed.FanoutRequest{Post: posts[0], Viewers: []string{"1", "2"}})
		want := slices.DeleteFunc(slices.Clone(c.degraded), func(k string) bool { return k == "note" })
		if got := names(f.Degraded); len(f.Dropped) != 1 || f.Dropped[0].At != 0 || !slices.Equal(got, want) {
			t.Errorf("%+v: fan-out %+v", c, f)
		}
	}
	if a := filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{post("p0", 65)}, Kinds: []string{"tag-mute", "hide"}}); a.Degraded != nil {
		t.Errorf("no kind looks at domains: %+v", a.Degraded)
	}
	many := slices.Repeat([]feed.Post{post("p0", 5000)}, 290) // of each, 67 ids count
	if a := filter(t, r, feed.Request{Viewer: "1", Posts: many}); len(a.Degraded) != 2 {
		t.Errorf("%+v", a.Degraded)
	}
	invalid := post("p0", feed.MaxFacetIDs+1)
	invalid.Facets["domain"][feed.MaxFacetIDs] = "\n"
	_, err := feed.Filter(t.Context(), r, feed.Request{Viewer: "1", Posts: []feed.Post{invalid}})
	if err == nil || !strings.Contains(err.Error(), "facets.domain[64]") {
		t.Errorf("an invalid id beyond the first: %v", err)
	}
}
