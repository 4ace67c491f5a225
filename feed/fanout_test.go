package feed_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

// fanoutKinds are kinds that can be checked when a post is fanned out, and some that cannot.
func fanoutKinds(t *testing.T) *activity.Kinds {
	t.Helper()
	return moreKinds(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "no-repost", Plural: "no-reposts", Target: activity.User, Effect: activity.Drop, Fanout: true, Roles: []string{"repost"}},
		activity.Kind{Name: "snub", Plural: "snubs", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"mute", "domain-mute"}, Fanout: true},
		activity.Kind{Name: "trash", Plural: "trashes", Target: activity.Post, Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "join", Plural: "joins", Target: "thread", Effect: activity.Keep, Over: []string{"trash"}, Fanout: true},
	)
}

func fanOut(t *testing.T, a activity.Activities, req feed.FanoutRequest) feed.FanoutAnswer {
	t.Helper()
	answer, err := feed.Fanout(t.Context(), a, req)
	must(t, err)
	return answer
}

// TestFanoutIsFilter: for each viewer a fan-out says what a feed with the same kinds says, whatever
// users did and undid. Users, posts, domains and threads have the same ids.
func TestFanoutIsFilter(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: fanoutKinds(t), FalsePositiveRate: 1e-8, MaxSharedKeys: 16})
	rng := rand.New(rand.NewPCG(1, 2))
	id := func() string { return fmt.Sprint("u", rng.IntN(40)) }
	ids := func(most int) (all []string) {
		for range rng.IntN(most + 1) {
			all = append(all, id())
		}
		return all
	}
	kinds := []string{"block", "mute", "no-repost", "trash", "domain-mute", "follow", "join"}
	var viewers []string
	for i := range 40 {
		viewers = append(viewers, fmt.Sprint("u", i))
	}
	dropped := make(map[string]int)
	for range 60 {
		var batch []activity.Activity
		for range 40 {
			a := activity.Activity{User: id(), Kind: append(kinds, "snub", "hide")[rng.IntN(9)], Target: id(), Remove: rng.IntN(4) == 0}
			if a.User != a.Target {
				batch = append(batch, a)
			}
		}
		_, err := r.Record(t.Context(), batch)
		must(t, err)
		if rng.IntN(8) == 0 {
			_, _, err := r.DeleteUser(t.Context(), id())
			must(t, err)
		}
		post := feed.Post{ID: id(), Author: id(), Related: ids(2)}
		post.Facets = map[activity.Facet][]string{"domain": ids(2), "thread": ids(2)}
		for range rng.IntN(4) {
			post.Actors = append(post.Actors, id())
			post.Roles = append(post.Roles, []string{"repost", "mention", "", "author"}[rng.IntN(4)])
		}
		exact := rng.IntN(2) == 0
		var want []feed.FanoutDropped
		for at, viewer := range viewers {
			for _, d := range filter(t, r, feed.Request{Viewer: viewer, Posts: []feed.Post{post}, Kinds: kinds, Exact: exact}).Dropped {
				want = append(want, feed.FanoutDropped{At: at, Kind: d.Kind, Actor: d.Actor, Target: d.Target})
				dropped[d.Kind]++
			}
		}
		for _, names := range [][]string{kinds, nil} { // nil: all with mirrored rows, the same
			got := fanOut(t, r, feed.FanoutRequest{Post: post, Viewers: viewers, Kinds: names, Exact: exact})
			if !reflect.DeepEqual(got.Dropped, want) || len(got.Degraded) > 0 {
				t.Fatalf("%+v, exact %t, kinds %v:\ndropped %v\nwant    %v", post, exact, names, got.Dropped, want)
			}
		}
	}
	for _, k := range kinds[:5] {
		if dropped[k] < 20 {
			t.Errorf("dropped %v, want more of %s", dropped, k)
		}
	}
}

// TestFanoutPlain: without a ledger a fan-out works, too.
func TestFanoutPlain(t *testing.T) {
	kinds := newKinds(t, activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Fanout: true})
	p, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: &favfilter.Memory{}, Kinds: kinds})
	must(t, err)
	t.Cleanup(p.Close)
	_, err = p.Record(t.Context(), []activity.Activity{{User: "1", Kind: "mute", Target: "2"}, {User: "2", Kind: "mute", Target: "3"}})
	must(t, err)
	req := feed.FanoutRequest{Post: feed.Post{Author: "2"}, Viewers: []string{"3", "1", "4"}}
	want := []feed.FanoutDropped{{At: 1, Kind: "mute", Actor: "2"}}
	if got := fanOut(t, p, req); !reflect.DeepEqual(got.Dropped, want) {
		t.Errorf("dropped %v", got.Dropped)
	}
	_, err = p.Record(t.Context(), []activity.Activity{{User: "1", Kind: "mute", Target: "2", Remove: true}})
	must(t, err)
	if got := fanOut(t, p, req); len(got.Dropped) > 0 {
		t.Errorf("then dropped %v", got.Dropped)
	}
	req.Exact = true
	var noLedger *activity.NoLedgerError
	if _, err := feed.Fanout(t.Context(), p, req); !errors.As(err, &noLedger) {
		t.Errorf("exact: %v", err)
	}
}

// TestFanoutConfirms: an exact fan-out drops nobody by a false positive, and a kind that keeps by a
// false positive keeps nothing.
func TestFanoutConfirms(t *testing.T) {
	var down deafLedger
	r, tamper := openPage(t, activity.Config{Kinds: fanoutKinds(t)}, down.around)
	record(t, r, "1 mute 2", "3 mute 2", "3 follow 2", "2 block 5", "6 block 2", "2 mute 4") // the last is no reason
	tamper(nil, []string{"2 mute-of 4", "2 follow-of 1"})
	viewers := []string{"1", "2", "3", "4", "5", "6", "7"}
	ats := func(a feed.FanoutAnswer) (all []int) {
		for _, d := range a.Dropped {
			all = append(all, d.At)
		}
		return all
	}
	req := feed.FanoutRequest{Post: feed.Post{Author: "2"}, Viewers: viewers}
	if got := ats(fanOut(t, r, req)); !slices.Equal(got, []int{0, 3, 4, 5}) {
		t.Errorf("dropped %v", got)
	}
	req.Exact = true
	if got := ats(fanOut(t, r, req)); !slices.Equal(got, []int{0, 4, 5}) {
		t.Errorf("exact: dropped %v", got)
	}
	if got := fanOut(t, r, feed.FanoutRequest{Post: req.Post, Viewers: viewers, Kinds: []string{}}); len(got.Dropped) > 0 {
		t.Errorf("without kinds: dropped %v", got.Dropped)
	}
	down.deaf = true
	if _, err := feed.Fanout(t.Context(), r, req); err == nil {
		t.Error("an exact fan-out is answered without the ledger")
	}
	req.Exact = false
	got := fanOut(t, r, req)
	if !slices.Equal(ats(got), []int{0, 2, 3, 4, 5}) || len(got.Degraded) != 1 || got.Degraded[0].Kind != "follow" {
		t.Errorf("without the ledger: %+v", got)
	}
	req.Post.Actors, req.Viewers = []string{"9"}, []string{"3"}
	record(t, r, "3 mute 9", "3 follow 9")
	if got := fanOut(t, r, req); len(got.Degraded) != 1 || got.Degraded[0].Kind != "follow" {
		t.Errorf("without the ledger, a kind of two users on the post: degraded %+v, want it once", got.Degraded)
	}
}

// TestFanoutOfSharedID: a user and a domain of the same id are different. What users did with the
// domain stays when the user is deleted.
func TestFanoutOfSharedID(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: fanoutKinds(t)})
	record(t, r, "1 domain-mute x", "2 mute x", "3 trash x", "x domain-mute y")
	viewers := []string{"1", "2", "3", "x"}
	want := func(post feed.Post, dropped ...feed.FanoutDropped) {
		t.Helper()
		post.Author = cmp.Or(post.Author, "9")
		for _, exact := range []bool{false, true} {
			if got := fanOut(t, r, feed.FanoutRequest{Post: post, Viewers: viewers, Exact: exact}).Dropped; !slices.Equal(got, dropped) {
				t.Errorf("%+v, exact %t: dropped %+v, want %+v", post, exact, got, dropped)
			}
		}
	}
	domain := feed.Post{ID: "p", Facets: map[activity.Facet][]string{"domain": {"x"}}}
	for range 2 {
		want(domain, feed.FanoutDropped{At: 0, Kind: "domain-mute", Target: "x"})
		want(feed.Post{ID: "x"}, feed.FanoutDropped{At: 2, Kind: "trash"})
		want(feed.Post{ID: "p", Related: []string{"x"}}, feed.FanoutDropped{At: 2, Kind: "trash", Target: "x"})
		want(feed.Post{ID: "p", Facets: map[activity.Facet][]string{"thread": {"x"}}})
		if deleted, _, err := r.DeleteUser(t.Context(), "x"); err != nil || deleted > 2 {
			t.Fatalf("deleted %d, %v", deleted, err)
		}
		want(feed.Post{Author: "x"})
		want(feed.Post{Facets: map[activity.Facet][]string{"domain": {"y"}}})
	}
	_, _, err := r.DeleteUser(t.Context(), "1")
	must(t, err)
	want(domain)
}

func TestInvalidFanout(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: fanoutKinds(t)})
	for _, c := range []struct {
		req         feed.FanoutRequest
		code, field string
	}{
		{feed.FanoutRequest{Viewers: []string{"1"}}, "invalid_id", "author"},
		{feed.FanoutRequest{Post: feed.Post{ID: "\n", Author: "2"}}, "invalid_id", "post"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2", Related: []string{""}}}, "invalid_id", "related[0]"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2", Facets: map[activity.Facet][]string{"tag": {"x"}}}}, "unknown_facet", "facets.tag"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2"}, Kinds: []string{"hide"}}, "unsupported_op", "kinds[0]"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2"}, Viewers: []string{"1", ""}}, "invalid_id", "viewers[1]"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2", Actors: []string{"\n"}}}, "invalid_id", "actors[0]"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2", Actors: []string{"3"}, Roles: []string{"X"}}}, "out_of_range", "actors[0].role"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2", Actors: slices.Repeat([]string{"3"}, 101)}}, "too_many_ids", "actors"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2"}, Viewers: slices.Repeat([]string{"3"}, feed.MaxViewers+1)}, "out_of_range", "viewers"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2"}, Kinds: []string{"block", "snub"}}, "unsupported_op", "kinds[1]"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2"}, Kinds: []string{"like"}}, "wrong_effect", "kinds[0]"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2"}, Kinds: []string{"x"}}, "unknown_kind", "kinds[0]"},
		{feed.FanoutRequest{Post: feed.Post{Author: "2"}, Kinds: []string{"mute", "mute"}}, "out_of_range", "kinds[1]"},
	} {
		_, err := feed.Fanout(t.Context(), r, c.req)
		if invalid, ok := errors.AsType[*activity.InvalidError](err); !ok || invalid.Code != c.code || invalid.Field != c.field {
			t.Errorf("%v, want %s of %s", err, c.code, c.field)
		}
	}
	if a := fanOut(t, r, feed.FanoutRequest{Post: feed.Post{Author: "2"}, Viewers: slices.Repeat([]string{"3"}, feed.MaxViewers)}); len(a.Dropped) > 0 {
		t.Errorf("dropped %v", a.Dropped)
	}
}
