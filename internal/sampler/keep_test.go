package sampler_test

import (
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// keepKinds are some kinds that drop, and some that overrule them.
func keepKinds(t *testing.T) *activity.Kinds {
	t.Helper()
	kinds, err := activity.NewKinds(append(activity.BuiltinKinds().All(),
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"mute", "domain-mute"}},
		activity.Kind{Name: "pin", Plural: "pins", Target: activity.Post, Effect: activity.Keep, Over: []string{"hide", "seen"}},
	)...)
	must(t, err)
	return kinds
}

// listKinds are some kinds that drop, and two that overrule lists or the viewer.
func listKinds(t *testing.T) *activity.Kinds {
	t.Helper()
	kinds, err := activity.NewKinds(append(activity.BuiltinKinds().All(),
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{activity.Lists}},
		activity.Kind{Name: "pal", Plural: "pals", Target: activity.User, Effect: activity.Keep, Over: []string{"mute"}},
	)...)
	must(t, err)
	return kinds
}

// TestKeepFalsePositive: what a page reports by mistake does not keep a post.
func TestKeepFalsePositive(t *testing.T) {
	s := newSampled(t, activity.Config{Kinds: keepKinds(t)}, nil)
	record(t, s.Recorder, "1 mute 2", "1 mute 3", "1 follow 3", "1 hide h")
	s.tamper(t, nil, []string{"1 follow 2", "1 pin h", "1 mute 4"})
	record(t, s.Recorder, "1 follow 4")
	req := feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "a", Author: "2"}, {ID: "b", Author: "3"}, {ID: "h", Author: "9"}, {ID: "c", Author: "4"}, {ID: "d", Author: "5"}}}
	for _, req.Exact = range []bool{false, true} {
		if a := s.feed(t, req); !slices.Equal(a.Kept, []int{1, 3, 4}) {
			t.Errorf("exact %v: kept %v, dropped %v", req.Exact, a.Kept, a.Dropped)
		}
	}
	if e, err := feed.Explain(t.Context(), s.Recorder, "1", req.Posts[0]); err != nil || !e.Dropped || len(e.Reasons) != 2 || e.Reasons[0].OverruledBy != "" {
		t.Errorf("explained by %+v, %v", e, err)
	}
	s.want(t, sampler.Stats{FalsePositives: 1}) // the mute of 4, in the feed that is not exact
}

// TestListsSampled: the sampler compares what the viewer has, whatever the lists drop.
func TestListsSampled(t *testing.T) {
	s := newSampled(t, activity.Config{Kinds: listKinds(t)}, nil)
	record(t, s.Recorder, "L mute 2", "L mute 3", "1 follow 3", "1 mute 4", "1 mute 5", "L mute 5", "L mute 7", "1 follow 7")
	req := feed.Request{Viewer: "1", Lists: []string{"L"}, Posts: []feed.Post{
		{ID: "a", Author: "2"}, {ID: "b", Author: "3"}, {ID: "c", Author: "4"}, {ID: "d", Author: "5"}, {ID: "e", Author: "6"}, {ID: "f", Author: "7"},
	}}
	s.tamper(t, []string{"1 mute 4", "1 mute 5"}, nil)
	for n, kept := range [][]int{{1, 2, 4, 5}, {1, 4, 5}, {1, 4, 5}} { // the first finds the page damaged
		req.Exact = n == 2
		if a := s.feed(t, req); !slices.Equal(a.Kept, kept) {
			t.Errorf("feed %d kept %v, want %v", n, a.Kept, kept)
		}
		s.want(t, sampler.Stats{Misses: 1, Repaired: 1})
	}
}

// TestKeepSampled: the sampler takes no post that is kept in spite of a drop for a miss, and finds
// the drops and keys that a page lacks.
func TestKeepSampled(t *testing.T) {
	s := newSampled(t, activity.Config{Kinds: keepKinds(t)}, nil)
	record(t, s.Recorder, "1 mute 2", "1 mute 3", "1 follow 3", "1 hide h", "1 pin h", "1 hide g", "1 mute 6", "1 follow 6")
	req := feed.Request{Viewer: "1", Posts: []feed.Post{
		{ID: "a", Author: "3"}, {ID: "b", Author: "3", Actors: []string{"2"}}, {ID: "h", Author: "9"}, {ID: "h", Author: "3"}, {ID: "c", Author: "6"}, {ID: "d", Author: "8"},
	}}
	if a := s.feed(t, req); !slices.Equal(a.Kept, []int{0, 2, 3, 4, 5}) {
		t.Fatalf("kept %v", a.Kept)
	}
	s.want(t, sampler.Stats{})
	s.tamper(t, []string{"1 mute 2", "1 mute 6"}, []string{"1 mute 8"})
	record(t, s.Recorder, "1 follow 8")
	if a := s.feed(t, req); !slices.Equal(a.Kept, []int{0, 1, 2, 3, 4, 5}) {
		t.Fatalf("then kept %v", a.Kept)
	}
	if got, want := s.compared(t), (sampler.Stats{Feeds: 2, Candidates: 12, Misses: 2, FalsePositives: 1, Repaired: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
