package feed_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// seeking notes the ids that are sought in pages. Where a page is probed, any other id counts as
// found, and drops a post.
type seeking struct {
	activity.Activities

	sought []string // facet and id
}

func (s *seeking) note(ids iter.Seq2[activity.Facet, string]) iter.Seq2[activity.Facet, string] {
	s.sought = nil
	for facet, id := range ids {
		s.sought = append(s.sought, string(facet)+" "+id)
	}
	slices.Sort(s.sought)
	s.sought = slices.Compact(s.sought)
	return ids
}

func (s *seeking) View(
	ctx context.Context, user string, kinds []activity.Kind, ids iter.Seq2[activity.Facet, string], lists ...string,
) (*activity.View, error) {
	return s.Activities.View(ctx, user, kinds, s.note(ids), lists...)
}

func (s *seeking) Audiences(
	ctx context.Context, owners []activity.Owner, kinds []activity.Kind, users iter.Seq2[activity.Facet, string],
) ([]*activity.View, error) {
	return s.Activities.Audiences(ctx, owners, kinds, s.note(users))
}

// TestEveryIDIsSought: feeds seek each id that a kind looks at, and fan-outs each viewer.
func TestEveryIDIsSought(t *testing.T) {
	s := &seeking{Activities: openWith(t, activity.Config{Kinds: fanoutKinds(t)})}
	kinds := []string{"block", "mute", "trash", "domain-mute"} // none that asks the ledger
	fanout := feed.FanoutRequest{Post: feed.Post{Author: "2"}, Viewers: []string{"1", "3", "4"}, Kinds: kinds}
	if _, err := feed.Fanout(t.Context(), s, fanout); err != nil {
		t.Fatal(err)
	}
	if want := []string{"user 1", "user 3", "user 4"}; !slices.Equal(s.sought, want) {
		t.Errorf("a fan-out seeks %q, want %q", s.sought, want)
	}
	facets := map[activity.Facet][]string{"domain": {"x", "y"}}
	req := feed.Request{Viewer: "1", Kinds: kinds, Posts: []feed.Post{
		{ID: "p", Author: "2", Actors: []string{"3", "4"}, Related: []string{"q", "r"}, Facets: facets}, {ID: "s", Author: "5"},
	}}
	if _, err := feed.Filter(t.Context(), s, req); err != nil {
		t.Fatal(err)
	}
	want := []string{"domain x", "domain y", "post p", "post q", "post r", "post s", "user 2", "user 3", "user 4", "user 5"}
	if !slices.Equal(s.sought, want) {
		t.Errorf("a feed seeks %q, want %q", s.sought, want)
	}
}
