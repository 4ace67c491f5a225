package feed_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// keepKinds are some kinds that drop, and some that overrule them.
func keepKinds(t *testing.T) *activity.Kinds {
	t.Helper()
	return moreKinds(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"mute", "domain-mute"}},
		activity.Kind{Name: "pin", Plural: "pins", Target: activity.Post, Effect: activity.Keep, Over: []string{"hide", "seen"}},
	)
}

// TestKeep: a kind that keeps overrules a drop for the same user, or for another facet of the post.
func TestKeep(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: keepKinds(t)})
	record(t, r, "1 mute 2", "1 mute 3", "1 follow 3", "1 domain-mute x", "1 hide h", "1 hide g", "1 pin g", "1 seen s", "1 pin s", "1 block 4", "1 follow 4", "5 block 1", "1 follow 5")
	post := func(id, author, actor, domain string, related ...string) feed.Post {
		return feed.Post{ID: id, Author: author, Actors: []string{actor}, Related: related, Facets: map[activity.Facet][]string{"domain": {domain}}}
	}
	posts := []feed.Post{
		post("a", "2", "9", "y"), post("b", "3", "9", "y"), post("c", "3", "2", "y"), post("d", "2", "3", "y"), post("e", "3", "9", "x"), post("f", "9", "9", "x"),
		post("g", "9", "9", "y"), post("h", "9", "9", "y"), post("i", "9", "9", "y", "h", "g"), post("s", "9", "9", "y"), post("k", "4", "9", "y"), post("l", "5", "9", "x"),
		post("g", "2", "9", "y"),
	}
	want := []feed.Dropped{
		{At: 0, Kind: "mute", Actor: "2"}, {At: 2, Kind: "mute", Actor: "2"}, {At: 3, Kind: "mute", Actor: "2"}, {At: 5, Kind: "domain-mute", Target: "x"},
		{At: 7, Kind: "hide"}, {At: 10, Kind: "block", Actor: "4"}, {At: 11, Kind: "block", Actor: "5"}, {At: 12, Kind: "mute", Actor: "2"},
	}
	for _, exact := range []bool{false, true} {
		if a := filter(t, r, feed.Request{Viewer: "1", Posts: posts, Exact: exact}); !reflect.DeepEqual(a.Dropped, want) || len(a.Degraded) > 0 {
			t.Errorf("exact %v: dropped %v, want %v", exact, a.Dropped, want)
		}
	}
	for i, p := range posts {
		e, err := feed.Explain(t.Context(), r, "1", p)
		if dropped := slices.ContainsFunc(want, func(d feed.Dropped) bool { return d.At == i }); err != nil || e.Dropped != dropped {
			t.Errorf("post %d is explained by %+v, %v", i, e, err)
		}
		overruled := 0
		for _, reason := range e.Reasons {
			if reason.OverruledBy != "" {
				overruled++
			}
		}
		if want := map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 6: 1, 8: 2, 9: 1, 11: 1, 12: 1}[i]; overruled != want {
			t.Errorf("post %d: %d reasons are overruled, want %d: %+v", i, overruled, want, e.Reasons)
		}
	}
	named := filter(t, r, feed.Request{Viewer: "1", Posts: posts[:5], Kinds: []string{"mute", "domain-mute"}})
	if len(named.Dropped) != 5 {
		t.Errorf("without the kind that keeps, dropped %v", named.Dropped)
	}
	named = filter(t, r, feed.Request{Viewer: "1", Posts: posts[:5], Kinds: []string{"follow", "mute", "pin", "domain-mute"}})
	if !slices.Equal(named.Kept, []int{1, 4}) {
		t.Errorf("with the kinds named, kept %v", named.Kept)
	}
	asked := r.Stats().Confirmed
	filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{post("x", "3", "9", "y"), post("y", "9", "3", "z")}, Kinds: []string{"domain-mute", "follow"}})
	if r.Stats().Confirmed != asked {
		t.Error("the ledger was asked although nothing is dropped")
	}
}

// deafLedger is a ledger that does not answer lookups while it is deaf.
type deafLedger struct{ deaf bool }

func (l *deafLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	if l.deaf && c.Operation == "lookup" {
		return faulttest.ErrInjected
	}
	return next(ctx)
}

// TestKeepWithoutLedger: while the ledger is down, drops stand and the answer says so.
func TestKeepWithoutLedger(t *testing.T) {
	var down deafLedger
	r, _ := openPage(t, activity.Config{Kinds: keepKinds(t)}, down.around)
	record(t, r, "1 mute 3", "1 follow 3", "1 hide h", "1 pin p")
	down.deaf = true
	posts := []feed.Post{{ID: "a", Author: "3"}, {ID: "b", Author: "2"}, {ID: "h", Author: "2"}}
	a := filter(t, r, feed.Request{Viewer: "1", Posts: posts})
	want := []activity.Degraded{{Kind: "follow", Reason: "the ledger is unavailable"}} // nothing pinned would be kept
	if !slices.Equal(a.Kept, []int{1}) || !slices.Equal(a.Degraded, want) {
		t.Errorf("kept %v, degraded %v", a.Kept, a.Degraded)
	}
	if a := filter(t, r, feed.Request{Viewer: "1", Posts: posts[1:2]}); len(a.Degraded) > 0 {
		t.Errorf("nothing to confirm, but %v", a.Degraded)
	}
	if _, err := feed.Filter(t.Context(), r, feed.Request{Viewer: "1", Posts: posts, Exact: true}); err == nil {
		t.Error("an exact feed is answered without the ledger")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := feed.Filter(ctx, r, feed.Request{Viewer: "1", Posts: posts}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled feed: %v", err)
	}
	down.deaf = false
	if a := filter(t, r, feed.Request{Viewer: "1", Posts: posts}); !slices.Equal(a.Kept, []int{0, 1}) || len(a.Degraded) > 0 {
		t.Errorf("then kept %v, degraded %v", a.Kept, a.Degraded)
	}
}

// TestDegradedNamesEachKindOnce: while the ledger is down, an answer names all kinds that could
// have kept something. It names each of them once, however many posts it could have been for.
func TestDegradedNamesEachKindOnce(t *testing.T) {
	var down deafLedger
	r, _ := openPage(t, activity.Config{Kinds: keepKinds(t)}, down.around)
	record(t, r, "1 mute 3", "1 follow 3", "1 mute 4", "1 follow 4", "1 hide h", "1 pin h")
	down.deaf = true
	posts := []feed.Post{{ID: "a", Author: "3"}, {ID: "b", Author: "4"}, {ID: "h", Author: "2"}}
	var names []string
	for _, d := range filter(t, r, feed.Request{Viewer: "1", Posts: posts}).Degraded {
		names = append(names, d.Kind)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"follow", "pin"}) {
		t.Errorf("a feed is degraded by %v, want follow and pin", names)
	}
}

// askKeepers calls before ahead of each question about activities of kinds that keep. Its error
// fails the question.
type askKeepers struct {
	*activity.Recorder
	before func() error
}

func (a askKeepers) Confirm(
	ctx context.Context, user string, claims []activity.Claim,
) ([]activity.Evidence, error) {
	keeps := func(c activity.Claim) bool { return c.Kind.Effect == activity.Keep }
	if slices.ContainsFunc(claims, keeps) {
		if err := a.before(); err != nil {
			return nil, err
		}
	}
	return a.Recorder.Confirm(ctx, user, claims)
}

// TestExactNeedsKeepers: an exact feed is refused if the ledger confirms the reasons to drop, but
// not what could overrule them. It waits for a slow ledger for as long as its caller does.
func TestExactNeedsKeepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := openPage(t, activity.Config{Kinds: keepKinds(t)}, nil)
		record(t, r, "1 mute 3", "1 follow 3", "1 mute 4")
		posts := []feed.Post{{ID: "a", Author: "3"}, {ID: "b", Author: "4"}}
		req := feed.Request{Viewer: "1", Posts: posts, Exact: true}
		failing := askKeepers{r, func() error { return faulttest.ErrInjected }}
		if a, err := feed.Filter(t.Context(), failing, req); !errors.Is(err, faulttest.ErrInjected) {
			t.Errorf("kept %v, degraded %v, error %v, want that of the ledger", a.Kept, a.Degraded, err)
		}
		slow := askKeepers{r, func() error { time.Sleep(time.Minute); return nil }}
		a, err := feed.Filter(t.Context(), slow, req)
		must(t, err)
		if !slices.Equal(a.Kept, []int{0}) || len(a.Degraded) > 0 {
			t.Errorf("with a slow ledger kept %v, degraded %v, want the followed author's post", a.Kept, a.Degraded)
		}
	})
}

// TestKeepWhileLedgerHangs: a feed does not wait long for a ledger that does not answer.
func TestKeepWhileLedgerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := openPage(t, activity.Config{Kinds: keepKinds(t)}, func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
			if c.Operation == "lookup" {
				<-ctx.Done()
				return ctx.Err()
			}
			return next(ctx)
		})
		record(t, r, "1 mute 3", "1 follow 3")
		start := time.Now()
		a := filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "a", Author: "3"}}})
		if len(a.Kept) > 0 || len(a.Degraded) != 1 {
			t.Errorf("kept %v, degraded %v", a.Kept, a.Degraded)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the feed took %v, want 2s", took)
		}
	})
}

// TestCancelledWhileLedgerIsAsked: the caller of a feed leaves while the ledger is asked. The feed
// gets an error. It does not count as one that the ledger could not confirm.
func TestCancelledWhileLedgerIsAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := openPage(t, activity.Config{Kinds: keepKinds(t)}, func(of context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		if c.Operation == "lookup" {
			cancel()
			return of.Err()
		}
		return next(of)
	})
	record(t, r, "1 mute 3", "1 follow 3")
	if a, err := feed.Filter(ctx, r, feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "a", Author: "3"}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("degraded %v, error %v, want context.Canceled", a.Degraded, err)
	}
}
