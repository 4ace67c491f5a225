package feed_test

import (
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// TestOwnPostsByRole: a viewer's own post stays if it mentions or quotes somebody blocked, and is
// dropped if somebody blocked has another role on it, or an unknown one. Feeds, explanations and
// fan-outs agree, on either side of a block, for every kind that drops and for lists.
func TestOwnPostsByRole(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: fanoutKinds(t), FalsePositiveRate: 1e-8})
	record(t, r, "1 block 2", "3 block 1", "1 mute 4", "1 no-repost 4", "L block 5", "1 domain-mute 2", "1 trash 2")
	own := func(actor, role string) feed.Post {
		return feed.Post{ID: "p", Author: "1", Actors: []string{"9", actor}, Roles: []string{"repost", role}}
	}
	both := func(actor string, roles ...string) feed.Post {
		return feed.Post{ID: "p", Author: "1", Actors: []string{actor, actor}, Roles: roles}
	}
	for i, c := range []struct {
		post feed.Post
		kind string // that drops it; "": none
	}{
		{own("2", "mention"), ""},
		{own("2", "quote"), ""},
		{own("2", "repost"), "block"},
		{own("2", "reply"), "block"},
		{own("2", "author"), "block"},
		{own("2", ""), "block"},
		{feed.Post{ID: "p", Author: "1", Actors: []string{"2"}}, "block"},
		{both("2", "quote", "mention"), ""},
		{both("2", "mention", "repost"), "block"},
		{both("2", "mention"), "block"}, // the second is unknown
		{own("3", "mention"), ""},
		{own("3", "repost"), "block"},
		{own("4", "quote"), ""},
		{own("4", "repost"), "mute"},
		{own("5", "mention"), ""},
		{own("5", "repost"), "list"},
		{feed.Post{ID: "p", Author: "9", Actors: []string{"2"}, Roles: []string{"mention"}}, "block"},
		{feed.Post{ID: "p", Author: "9", Actors: []string{"1", "2"}, Roles: []string{"repost", "quote"}}, "block"},
		{feed.Post{ID: "p", Author: "1", Facets: map[activity.Facet][]string{"domain": {"2"}}}, "domain-mute"},
		{feed.Post{ID: "2", Author: "1"}, "trash"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for _, exact := range []bool{false, true} {
				var got string
				a := filter(t, r, feed.Request{Viewer: "1", Lists: []string{"L"}, Posts: []feed.Post{c.post}, Exact: exact})
				for _, d := range a.Dropped {
					if got = d.Kind; d.List != "" {
						got = "list"
					}
				}
				if got != c.kind {
					t.Errorf("exact %t: a feed drops it for %q, want %q", exact, got, c.kind)
				}
				if c.kind == "list" {
					continue // a fan-out knows no lists
				}
				got = ""
				for _, d := range fanOut(t, r, feed.FanoutRequest{Post: c.post, Viewers: []string{"1"}, Exact: exact}).Dropped {
					got = d.Kind
				}
				if got != c.kind {
					t.Errorf("exact %t: a fan-out drops it for %q, want %q", exact, got, c.kind)
				}
			}
			if e, err := feed.Explain(t.Context(), r, "1", c.post, "L"); err != nil || e.Dropped != (c.kind != "") {
				t.Errorf("explained by %+v, %v", e, err)
			}
		})
	}
}

// TestOwnPostsAnnotated: kinds that annotate or keep look at everybody on a viewer's own post.
func TestOwnPostsAnnotated(t *testing.T) {
	kinds := newKinds(t,
		activity.Kind{Name: "friend", Plural: "friends", Target: activity.User, Effect: activity.Annotate},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"domain-mute"}},
	)
	r := openWith(t, activity.Config{Kinds: kinds})
	record(t, r, "1 friend 2", "1 follow 3", "1 domain-mute x")
	posts := []feed.Post{
		{ID: "a", Author: "1", Actors: []string{"2"}, Roles: []string{"mention"}},
		{ID: "b", Author: "1", Actors: []string{"3"}, Roles: []string{"quote"}, Facets: map[activity.Facet][]string{"domain": {"x"}}},
	}
	a := filter(t, r, feed.Request{Viewer: "1", Posts: posts, Annotate: []string{"friend"}})
	if len(a.Kept) != 2 || !a.annotated(0, 0) || a.annotated(0, 1) {
		t.Errorf("kept %v, annotated %v", a.Kept, a.Annotated)
	}
}
