package sampler

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// kinds are those of a sample: a two-way one of users, and one of posts.
func kinds(t *testing.T) []activity.Kind {
	t.Helper()
	var some []activity.Kind
	for _, name := range []string{"block", "hide"} {
		k, ok := activity.BuiltinKinds().Named(name)
		if !ok {
			t.Fatalf("there is no kind %s", name)
		}
		some = append(some, k)
	}
	return some
}

// TestJudge checks how a disagreement with the ledger is judged. If the page has not changed, it is
// decided. It stays open if the page has changed, or if the ledger's entry may have been recorded
// after the look.
func TestJudge(t *testing.T) {
	at := observation{start: time.Unix(100, 0), end: time.Unix(101, 0)}
	before, after := &activity.Item{Since: time.Unix(100, 0)}, &activity.Item{Since: time.Unix(100, 1)}
	for _, c := range []struct {
		reported bool
		found    finding
		same     bool
		want     verdict
	}{
		{true, finding{any: true, item: before}, false, agrees},
		{true, finding{any: true}, true, agrees}, // it has ended
		{false, finding{}, true, agrees},
		{false, finding{any: true}, true, agrees},
		{true, finding{}, true, falsePositive},
		{true, finding{}, false, unsure},
		{false, finding{any: true, item: before}, true, miss},
		{false, finding{any: true, item: before}, false, unsure},
		{false, finding{any: true, item: after}, true, unsure},
	} {
		if got := judge(c.reported, c.found, at, c.same); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestStale checks that a page is stale if it still lacks an entry that the ledger has had since
// the first look.
func TestStale(t *testing.T) {
	item, other := activity.Item{Target: "2", Since: time.Unix(100, 0)}, activity.Item{Target: "2", Since: time.Unix(101, 0)}
	same := item // by value: each look reads the ledger again
	first := opened{found: finding{any: true, item: &item}, ledger: 7}
	at := func(sequence uint64) observation { return observation{at: pages.PageAt{Sequence: sequence}} }
	for _, c := range []struct {
		what     string
		first    opened
		reported bool
		item     *activity.Item
		sequence uint64
		want     bool
	}{
		{"behind all the time", first, false, &same, 6, true},
		{"not behind any more", first, false, &same, 7, false},
		{"reported by now", first, true, &same, 6, false},
		{"undone since", first, false, nil, 6, false},
		{"undone, and recorded again", first, false, &other, 6, false},
		{"not in the ledger at first", opened{ledger: 7}, false, &same, 6, false},
	} {
		if got := c.first.stale(&question{reported: c.reported}, finding{any: c.item != nil, item: c.item}, at(c.sequence)); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestFind checks that an entry of the ledger counts from either side, unless it may have ended
// before the feed did.
func TestFind(t *testing.T) {
	end := time.Unix(100, 0)
	c := comparison{sample: &sample{viewer: "1", kinds: kinds(t), denied: map[row]bool{{0, "4"}: true, {1, "2"}: true}}}
	post := &feed.Post{ID: "p", Author: "2", Actors: []string{"3", "4"}}
	lasting, long := &activity.Item{}, &activity.Item{Until: end.Add(2 * clockSlack)}
	short := &activity.Item{Until: end.Add(clockSlack)}
	for what, test := range map[string]struct {
		rows   map[row]activity.Evidence
		actor  string
		any    bool
		target string // of what has not ended
	}{
		"nothing":                   {nil, "", false, ""},
		"one without an end":        {map[row]activity.Evidence{{0, "2"}: {Direct: lasting}}, "", true, "2"},
		"one that ends later":       {map[row]activity.Evidence{{0, "2"}: {Direct: long}}, "", true, "2"},
		"one that ends":             {map[row]activity.Evidence{{0, "2"}: {Direct: short}}, "", true, ""},
		"one that ends, and one of": {map[row]activity.Evidence{{0, "2"}: {Direct: short}, {0, "3"}: {Reverse: lasting}}, "", true, "3"},
		"of another kind":           {map[row]activity.Evidence{{1, "2"}: {Direct: lasting}}, "", false, ""},
		"asked about already":       {map[row]activity.Evidence{{0, "4"}: {Direct: lasting}}, "", false, ""},
		"of another actor":          {map[row]activity.Evidence{{0, "2"}: {Direct: lasting}}, "3", false, ""},
		"of the actor":              {map[row]activity.Evidence{{0, "3"}: {Reverse: long}}, "3", true, "3"},
	} {
		f := c.find(test.rows, &question{kind: 0, post: post, target: test.actor}, end)
		if f.any != test.any || f.target != test.target || (f.item != nil) != (test.target != "") {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

// TestSampleOfExactFeed checks that the sample repeats no question that the feed has asked the
// ledger. For a dropped post it asks about the user because of whom the post was dropped.
func TestSampleOfExactFeed(t *testing.T) {
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	store := &favfilter.Memory{}
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: store, FalsePositiveRate: 1e-8, Passive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Record(t.Context(), []activity.Activity{{User: "1", Kind: "block", Target: "3"}}); err != nil {
		t.Fatal(err)
	}
	faulttest.Tamper(t, l, store, nil, []string{"1 block 2", "1 hide q"})
	checked, err := feed.Check(t.Context(), r, feed.Request{
		Viewer: "1", Exact: true, Posts: []feed.Post{{ID: "p", Author: "2", Actors: []string{"3"}}, {ID: "q", Author: "4"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := (&Sampled{feed: checked}).sample(t.Context(), nil)
	if len(s.denied) != 2 || !s.denied[row{0, "2"}] || !s.denied[row{1, "q"}] {
		t.Errorf("denied: %v", s.denied)
	}
	if len(s.answers) != 3 || s.answers[0].target != "3" || !s.answers[0].reported || s.answers[1].reported || s.answers[2].kind != 1 {
		t.Errorf("answers: %+v", s.answers)
	}
}

// TestClonePosts: what is copied is bounded by the number of ids and by what they take.
func TestClonePosts(t *testing.T) {
	long := strings.Repeat("x", maxSampledBytes/4)
	whole := feed.Post{ID: long, Author: long, Actors: []string{long}}
	for what, c := range map[string]struct {
		posts  []feed.Post
		viewer string
		taken  bool
	}{
		"as long as may be":         {[]feed.Post{whole}, long, true},
		"a longer id":               {[]feed.Post{{ID: long + "x", Author: long, Actors: whole.Actors}}, long, false},
		"a longer author":           {[]feed.Post{{ID: long, Author: long + "x", Actors: whole.Actors}}, long, false},
		"one more actor":            {[]feed.Post{{ID: long, Author: long, Actors: []string{long, "x"}}}, long, false},
		"a longer viewer":           {[]feed.Post{whole}, long + "x", false},
		"as many as may be":         {make([]feed.Post, maxSampledIDs/2), "1", true},
		"one more":                  {make([]feed.Post, maxSampledIDs/2+1), "1", false},
		"as many, most of them one": {[]feed.Post{{Actors: make([]string, maxSampledIDs-1)}}, "1", false},
	} {
		posts, viewer := clonePosts(c.posts, c.viewer)
		if (posts != nil) != c.taken || c.taken && (viewer != c.viewer || len(posts) != len(c.posts) || posts[0].ID != c.posts[0].ID) {
			t.Errorf("%s: %d posts of %d", what, len(posts), len(c.posts))
		}
	}
}
