package feed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// recordAll has each user do something of each kind with each target.
func recordAll(t *testing.T, r *activity.Recorder, users, kinds, targets []string) {
	t.Helper()
	bulk := r.NewBulk()
	var batch []activity.Activity
	for _, user := range users {
		for _, kind := range kinds {
			for _, target := range targets {
				batch = append(batch, activity.Activity{User: user, Kind: kind, Target: target})
			}
		}
	}
	recordBulk(t, r, bulk, batch)
	must(t, bulk.Finish(t.Context()))
}

// recordBulk records activities as part of a bulk.
func recordBulk(t testing.TB, r *activity.Recorder, bulk *activity.Bulk, activities []activity.Activity) {
	t.Helper()
	batch := r.NewBatch()
	must(t, batch.AddAll(activities))
	_, err := bulk.Record(t.Context(), batch)
	must(t, err)
}

// TestExactStopsAtTheFirstReason: an exact answer asks the ledger about one reason to drop a post,
// however many there are.
func TestExactStopsAtTheFirstReason(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: fanoutKinds(t), FalsePositiveRate: 1e-8, Passive: true})
	users, lists := named("u", 0, 20, 20), named("L", 0, feed.MaxLists, feed.MaxLists)
	recordAll(t, r, append([]string{"1"}, lists...), []string{"block", "mute"}, users)
	asked := func(want uint64, ask func()) {
		t.Helper()
		before := r.Stats().Confirmed
		ask()
		if got := r.Stats().Confirmed - before; got != want {
			t.Errorf("the ledger was asked about %d activities, want %d", got, want)
		}
	}
	req := feed.Request{Viewer: "1", Lists: lists, Exact: true}
	for i := range users {
		req.Posts = append(req.Posts, feed.Post{ID: fmt.Sprint("p", i), Author: users[i], Actors: users})
	}
	wantDropped := func(list string) {
		t.Helper()
		for i, d := range filter(t, r, req).Dropped {
			if want := (feed.Dropped{At: i, Kind: "block", Actor: users[i], List: list}); d != want {
				t.Errorf("dropped %+v, want %+v", d, want)
			}
		}
	}
	asked(20, func() { wantDropped("") })
	req.Viewer = "2"
	asked(20, func() { wantDropped("L0") })
	fanout := feed.FanoutRequest{Post: feed.Post{Author: "u3", Actors: users}, Viewers: append([]string{"3"}, lists...), Exact: true}
	asked(feed.MaxLists, func() {
		a := fanOut(t, r, fanout)
		for i, d := range a.Dropped {
			if want := (feed.FanoutDropped{At: 1 + i, Kind: "block", Actor: "u3"}); d != want {
				t.Errorf("dropped %+v, want %+v", d, want)
			}
		}
		if len(a.Dropped) != feed.MaxLists {
			t.Errorf("%d dropped", len(a.Dropped))
		}
	})
}

// TestExactAfterFalsePositives: after false positives, a true reason still drops the post. It may
// be the viewer's or a list's, and holds in fan-outs, too.
func TestExactAfterFalsePositives(t *testing.T) {
	r, tamper := openPage(t, activity.Config{Kinds: fanoutKinds(t)}, nil)
	record(t, r, "1 block 7", "L mute 8", "1 hide p", "3 mute 7")
	tamper(nil, []string{"1 block 5", "1 block 6", "1 mute 5", "L block 5", "5 mute-of 3", "6 mute-of 3"})
	post := func(actors ...string) feed.Post { return feed.Post{ID: "q", Author: "5", Actors: actors} }
	req := feed.Request{Viewer: "1", Lists: []string{"L"}, Exact: true, Posts: []feed.Post{
		post("6", "7"), post("6", "8"), post("6"), {ID: "p", Author: "5", Actors: []string{"6"}}, post("7"),
	}}
	want := []feed.Dropped{
		{At: 0, Kind: "block", Actor: "7"}, {At: 1, Kind: "mute", Actor: "8", List: "L"}, {At: 3, Kind: "hide"}, {At: 4, Kind: "block", Actor: "7"},
	}
	if a := filter(t, r, req); !slices.Equal(a.Dropped, want) {
		t.Errorf("dropped %+v, want %+v", a.Dropped, want)
	}
	if s := r.Stats(); s.FalsePositives == 0 || s.Confirmed != s.FalsePositives+3 { // block 7, mute 8 and hide p are true
		t.Errorf("the ledger was asked about %d activities, %d of them false", s.Confirmed, s.FalsePositives)
	}
	for _, actors := range [][]string{{"7"}, {"6", "7"}} {
		a := fanOut(t, r, feed.FanoutRequest{Post: post(actors...), Viewers: []string{"2", "3"}, Exact: true})
		if want := []feed.FanoutDropped{{At: 1, Kind: "mute", Actor: "7"}}; !slices.Equal(a.Dropped, want) {
			t.Errorf("a fan-out drops %+v, want %+v", a.Dropped, want)
		}
	}
	if a := fanOut(t, r, feed.FanoutRequest{Post: post("6"), Viewers: []string{"2", "3"}, Exact: true}); len(a.Dropped) > 0 {
		t.Errorf("a fan-out drops %+v", a.Dropped)
	}
}

// TestExplainBound: a post with more reasons than the ledger confirms is not explained.
func TestExplainBound(t *testing.T) {
	var all []activity.Kind
	var names []string
	for i := range 10 {
		name := fmt.Sprint("mute-", string(rune('a'+i)))
		names = append(names, name)
		all = append(all, activity.Kind{Name: name, Plural: name + "s", Target: activity.User, Effect: activity.Drop})
	}
	kinds := newKinds(t, all...)
	r := openWith(t, activity.Config{Kinds: kinds, FalsePositiveRate: 1e-8, Passive: true})
	users, lists := named("u", 0, 101, 101), named("L", 0, feed.MaxLists, feed.MaxLists)
	recordAll(t, r, lists, names, users)
	post := feed.Post{ID: "p", Author: users[0], Actors: users[1:]}
	_, err := feed.Explain(t.Context(), r, "1", post, lists...)
	if invalid, ok := errors.AsType[*activity.InvalidError](err); !ok || invalid.Code != activity.CodeTooManyIDs || invalid.Field != "post" {
		t.Errorf("%v, want too many ids", err)
	}
	post.Actors = users[2:]
	if e, err := feed.Explain(t.Context(), r, "1", post, lists...); err != nil || len(e.Reasons) != feed.MaxConfirmed {
		t.Errorf("%d reasons, %v", len(e.Reasons), err)
	}
}

// TestExactBound: an answer that needs the ledger to confirm more than MaxConfirmed activities is
// refused.
func TestExactBound(t *testing.T) {
	kind := func(name string, target activity.Facet, effect activity.Effect) activity.Kind {
		return activity.Kind{Name: name, Plural: name + "s", Target: target, Effect: effect, Fanout: true}
	}
	all := []activity.Kind{kind("mute", activity.User, activity.Drop)}
	var marks, keeps []string
	for i := range 4 {
		mark, keep := kind(fmt.Sprint("mark-", string(rune('a'+i))), activity.Post, activity.Annotate), kind(fmt.Sprint("keep-", string(rune('a'+i))), activity.User, activity.Keep)
		mark.Fanout, keep.Over = false, []string{"mute"}
		marks, keeps, all = append(marks, mark.Name), append(keeps, keep.Name), append(all, mark, keep)
	}
	kinds := newKinds(t, all...)
	r := openWith(t, activity.Config{Kinds: kinds, FalsePositiveRate: 1e-8, Passive: true})
	const n = feed.MaxConfirmed / 4
	tooMany := func(field string, err error) {
		t.Helper()
		invalid, ok := errors.AsType[*activity.InvalidError](err)
		if !ok || invalid.Code != activity.CodeTooManyIDs || invalid.Field != field {
			t.Errorf("%v, want too many of %s", err, field)
		}
	}

	posts := numbered("p", n)
	ids := make([]string, n)
	for i := range posts {
		ids[i], posts[i].Author = posts[i].ID, "9"
	}
	recordAll(t, r, []string{"1"}, marks, ids)
	req := feed.Request{Viewer: "1", Posts: posts, Annotate: marks, Exact: true}
	if a := filter(t, r, req); len(a.Kept) != n || len(a.Annotated[3]) != n {
		t.Errorf("%d kept, %d annotated", len(a.Kept), len(a.Annotated[3]))
	}
	record(t, r, "1 mute 9")
	posts[0].Actors = []string{"8"}
	record(t, r, "1 keep-a 9") // which has the feed go on to annotations
	_, err := feed.Filter(t.Context(), r, req)
	tooMany("posts", err)
	req.Exact = false
	if a := filter(t, r, req); len(a.Kept) != n {
		t.Errorf("%d kept if not exact", len(a.Kept))
	}

	viewers := named("v", 0, n, n)
	recordAll(t, r, viewers, append(keeps[:3:3], "mute"), []string{"2"})
	fanout := feed.FanoutRequest{Post: feed.Post{Author: "2"}, Viewers: viewers, Exact: true}
	if a := fanOut(t, r, fanout); len(a.Dropped) > 0 {
		t.Errorf("%d dropped", len(a.Dropped))
	}
	record(t, r, "v0 keep-d 2")
	_, err = feed.Fanout(t.Context(), r, fanout)
	tooMany("viewers", err)
	fanout.Exact = false
	if a := fanOut(t, patient{r, t.Context()}, fanout); len(a.Dropped) > 0 {
		t.Errorf("%d dropped if not exact", len(a.Dropped))
	}
}

// patient gives the ledger any time to confirm claims, where answers that are not exact would go on
// without it.
type patient struct {
	*activity.Recorder
	ctx context.Context // of the test
}

func (p patient) Confirm(_ context.Context, user string, claims []activity.Claim) ([]activity.Evidence, error) {
	return p.Recorder.Confirm(p.ctx, user, claims) //nolint:contextcheck // not the caller's, which ends early
}
