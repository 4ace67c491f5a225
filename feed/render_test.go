package feed_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func posts(author string, ids ...string) []feed.Post {
	list := make([]feed.Post, len(ids))
	for i, id := range ids {
		list[i] = feed.Post{ID: id, Author: author}
	}
	return list
}

func numbered(prefix string, n int) []feed.Post {
	list := make([]feed.Post, n)
	for i := range list {
		list[i] = feed.Post{ID: fmt.Sprint(prefix, i), Author: "author"}
	}
	return list
}

func TestLimit(t *testing.T) {
	r := open(t)
	record(t, r, "1 hide a", "1 hide d", "1 hide e")
	list := posts("2", "a", "b", "c", "d", "e", "f")
	for _, c := range []struct {
		limit         int
		kept, dropped string
		next          int
	}{
		{0, "b c f", "a d e", 0},
		{1, "b", "a", 2},
		{2, "b c", "a", 3},
		{3, "b c f", "a d e", 0}, // the last candidate was looked at
		{4, "b c f", "a d e", 0},
	} {
		a := filter(t, r, feed.Request{Viewer: "1", Posts: list, Limit: c.limit})
		if got := strings.Join(kept(a), " "); got != c.kept || dropped(a) != c.dropped || a.Next != c.next {
			t.Errorf("limit %d: kept %s, dropped %s, next %d; want %+v", c.limit, got, dropped(a), a.Next, c)
		}
	}
}

func dropped(a answer) string {
	var ids []string
	for _, d := range a.Dropped {
		ids = append(ids, a.req.Posts[d.At].ID)
	}
	return strings.Join(ids, " ")
}

// TestScrolling: a viewer who scrolls through everything, page by page, gets nothing twice, and all
// that was not hidden.
func TestScrolling(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			r := openWith(t, activity.Config{Store: store})
			record(t, r, "1 hide p7")
			candidates := numbered("p", 500)
			shown := map[string]int{}
			total := 0
			for range 100 {
				// Each time from the start, as an app without a memory would.
				a := filter(t, r, feed.Request{Viewer: "1", Posts: candidates, Limit: 20, RecordSeen: true})
				for _, id := range kept(a) {
					shown[id]++
					total++
				}
				if len(a.Kept) == 0 {
					break
				}
			}
			if total != len(shown) {
				t.Errorf("%d posts shown %d times", len(shown), total)
			}
			if len(shown) < 497 || shown["p7"] > 0 {
				t.Errorf("%d of 499 shown, the hidden one %d times", len(shown), shown["p7"])
			}
			if a := filter(t, r, feed.Request{Viewer: "2", Posts: candidates}); len(a.Kept) < 498 {
				t.Errorf("another viewer gets %d of 500", len(a.Kept))
			}
		})
	}
}

func stores(t *testing.T) map[string]favfilter.Store {
	t.Helper()
	return map[string]favfilter.Store{"memory": &favfilter.Memory{}, "redis": redisStore(t, redistest.Start(t))}
}

func TestTwiceInOneRequest(t *testing.T) {
	r := open(t)
	list := posts("2", "a", "b", "a")
	if got := kept(filter(t, r, feed.Request{Viewer: "1", Posts: list})); len(got) != 3 {
		t.Errorf("kept %v without record_seen", got)
	}
	// Also where seen is not among the kinds that drop.
	a := filter(t, r, feed.Request{Viewer: "1", Posts: list, Kinds: []string{"hide"}, RecordSeen: true})
	if got := strings.Join(kept(a), " "); got != "a b" || !reflect.DeepEqual(a.Dropped, []feed.Dropped{{At: 2, Kind: "seen"}}) {
		t.Errorf("kept %s, dropped %+v", got, a.Dropped)
	}
	if got := kept(filter(t, r, feed.Request{Viewer: "1", Posts: list})); len(got) != 0 {
		t.Errorf("%v kept after they were shown", got)
	}
}

// readOnly is a store that can be made to refuse changes.
type readOnly struct {
	favfilter.Store
	on atomic.Bool
}

func (s *readOnly) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	if s.on.Load() {
		return false, errors.New("read-only")
	}
	return s.Store.Replace(ctx, r)
}

// TestRecordSeenFails: a feed is answered also when it cannot be recorded, and says so.
func TestRecordSeenFails(t *testing.T) {
	store := &readOnly{Store: &favfilter.Memory{}}
	r := openWith(t, activity.Config{Store: store})
	request := feed.Request{Viewer: "1", Posts: posts("2", "a", "b"), RecordSeen: true}
	filter(t, r, feed.Request{Viewer: "1"}) // the page is there
	store.on.Store(true)
	a := filter(t, r, request)
	if len(a.Kept) != 2 || len(a.Degraded) != 1 || a.Degraded[0].Kind != "seen" {
		t.Errorf("%+v", a)
	}
	store.on.Store(false)
	if a := filter(t, r, request); len(a.Kept) != 2 || len(a.Degraded) != 0 {
		t.Errorf("after it: %+v", a)
	}
}

// TestExactIsOneQuery: whatever the number of candidates and kinds, and one more if false positives
// hide further reasons.
func TestExactIsOneQuery(t *testing.T) {
	var lookups atomic.Int64
	r, tamper := openPage(t, activity.Config{}, func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		if c.Operation == "lookup" {
			lookups.Add(1)
		}
		return next(ctx)
	})
	for i := range 200 {
		record(t, r, fmt.Sprintf("1 hide p%d", i), fmt.Sprintf("1 block u%d", i))
	}
	tamper(nil, []string{"1 block u300", "1 hide p300", "1 block u400"})
	list := numbered("p", 5000)
	for i := range list {
		list[i].Author, list[i].Actors = fmt.Sprint("u", i), []string{fmt.Sprint("v", i)}
	}
	a := filter(t, r, feed.Request{Viewer: "1", Posts: list, Annotate: []string{"like"}, Exact: true})
	if len(a.Kept) != 4800 || lookups.Load() != 2 {
		t.Errorf("%d kept of 5,000, in %d queries", len(a.Kept), lookups.Load())
	}
	lookups.Store(0)
	a = filter(t, r, feed.Request{Viewer: "1", Posts: list[:200], Kinds: []string{"hide"}, Annotate: []string{"like"}, Exact: true})
	if len(a.Dropped) != 200 || lookups.Load() != 1 {
		t.Errorf("%d dropped of 200, in %d queries", len(a.Dropped), lookups.Load())
	}
}

// TestExactNamesWhatItCannotConfirm: what has a window is dropped, and marked.
func TestExactNamesWhatItCannotConfirm(t *testing.T) {
	r := open(t)
	record(t, r, "1 seen a", "1 hide b")
	a := filter(t, r, feed.Request{Viewer: "1", Posts: posts("2", "a", "b", "c"), Exact: true})
	if want := []feed.Dropped{{Kind: "seen", Unconfirmed: true}, {At: 1, Kind: "hide"}}; !reflect.DeepEqual(a.Dropped, want) {
		t.Errorf("dropped %+v", a.Dropped)
	}
}

// TestRecordSeenWithoutStore: what cannot be checked cannot be recorded either, and is named once.
func TestRecordSeenWithoutStore(t *testing.T) {
	r := openWith(t, activity.Config{Store: faulttest.Down()})
	a := filter(t, r, feed.Request{Viewer: "1", Posts: posts("2", "a", "b"), RecordSeen: true})
	if len(a.Kept) != 2 || len(a.Degraded) != 1 || a.Degraded[0].Kind != "seen" {
		t.Errorf("%+v", a)
	}
	if reason := a.Degraded[0].Reason; strings.Count(reason, "could not be recorded") != 1 {
		t.Errorf("degraded because %q, want it to say that nothing is recorded", reason)
	}
}

// TestRecordSeenRefused: who may not record gets the feed all the same, which says so.
func TestRecordSeenRefused(t *testing.T) {
	r := open(t)
	request := feed.Request{Viewer: "1", Posts: posts("2", "a", "b"), RecordSeen: true}
	for range 2 { // nothing is recorded by the first
		a, err := feed.Check(t.Context(), r, request)
		must(t, err)
		a.SkipSeen(errors.New("too many writes"))
		if a := a.Answer; len(a.Kept) != 2 || len(a.Degraded) != 1 || a.Degraded[0].Kind != "seen" ||
			!strings.HasSuffix(a.Degraded[0].Reason, "could not be recorded: too many writes") {
			t.Errorf("%+v", a)
		}
	}
	if a := filter(t, r, request); len(a.Kept) != 2 || len(a.Degraded) != 0 {
		t.Errorf("allowed: %+v", a)
	}
	if a := filter(t, r, request); len(a.Kept) != 0 {
		t.Errorf("after it was recorded: %+v", a)
	}
}

// TestCancelled: a feed whose caller has gone is no feed.
func TestCancelled(t *testing.T) {
	r := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a, err := feed.Filter(ctx, r, feed.Request{Viewer: "1", Posts: posts("2", "a")}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", a, err)
	}
	if e, err := feed.Explain(ctx, r, "1", feed.Post{ID: "a", Author: "2"}); !errors.Is(err, context.Canceled) {
		t.Errorf("explained: %+v, %v", e, err)
	}
}

func TestExactNeedsTheLedger(t *testing.T) {
	r, _ := openPage(t, activity.Config{}, (&deafLedger{deaf: true}).around)
	record(t, r, "1 hide a")
	request := feed.Request{Viewer: "1", Posts: posts("2", "a", "b")}
	if a := filter(t, r, request); len(a.Kept) != 1 {
		t.Errorf("kept %v", kept(a))
	}
	request.Exact = true
	var down *activity.UnavailableError
	if _, err := feed.Filter(t.Context(), r, request); !errors.As(err, &down) || down.Dependency != "ledger" {
		t.Errorf("%v, want the ledger to be unavailable", err)
	}
	if e, err := feed.Explain(t.Context(), r, "1", request.Posts[0]); !errors.As(err, &down) {
		t.Errorf("explained: %+v, %v", e, err)
	}
	request.Posts = posts("2", "b") // nothing to confirm
	if a := filter(t, r, request); len(a.Kept) != 1 {
		t.Errorf("kept %v", kept(a))
	}
}

func TestExplain(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := openWith(t, activity.Config{Now: func() time.Time { return now }})
	until := now.Add(time.Hour)
	if _, err := r.Record(t.Context(), []activity.Activity{
		{User: "1", Kind: "block", Target: "2", Until: until},
		{User: "2", Kind: "block", Target: "1"},
		{User: "3", Kind: "block", Target: "1"},
		{User: "1", Kind: "like", Target: "p"},
		{User: "1", Kind: "seen", Target: "p"},
	}); err != nil {
		t.Fatal(err)
	}
	e, err := feed.Explain(t.Context(), r, "1", feed.Post{ID: "p", Author: "3", Actors: []string{"1", "4", "2"}})
	must(t, err)
	if !e.Dropped || e.Page.Keys == 0 || e.Page.Sequence == 0 || len(e.Degraded) > 0 {
		t.Errorf("%+v", e)
	}
	var got []string
	for _, reason := range e.Reasons {
		got = append(got, fmt.Sprintln(reason.Kind.Name, reason.Actor, reason.Direction, reason.Certainty, reason.Since, reason.Until, len(reason.Parts)))
	}
	never := time.Time{}
	part := time.Unix(now.Unix()/(5*86400)*5*86400, 0).UTC()
	want := []string{
		fmt.Sprintln("block", "3", activity.Reverse, "certain", now, never, 0),
		fmt.Sprintln("block", "2", activity.Direct, "certain", now, until, 0),
		fmt.Sprintln("block", "2", activity.Reverse, "certain", now, never, 0),
		fmt.Sprintln("seen", "", activity.Direct, "unconfirmed", part, part.Add(35*24*time.Hour), 1),
		fmt.Sprintln("like", "", activity.Direct, "certain", now, never, 0),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("reasons\n%s\nwant\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
	if e, err = feed.Explain(t.Context(), r, "5", feed.Post{ID: "p", Author: "3"}); err != nil || e.Dropped || len(e.Reasons) > 0 {
		t.Errorf("another viewer: %+v, %v", e, err)
	}
	record(t, r, "6 like p", "6 block 7")
	if e, err = feed.Explain(t.Context(), r, "6", feed.Post{ID: "p", Author: "3"}); err != nil || e.Dropped || len(e.Reasons) != 1 {
		t.Errorf("a post that is marked alone: %+v, %v", e, err)
	}
	twice := feed.Post{ID: "q", Author: "7", Actors: []string{"7"}}
	if e, err = feed.Explain(t.Context(), r, "6", twice); err != nil || !e.Dropped || len(e.Reasons) != 1 {
		t.Errorf("an author who is among the actors: %+v, %v", e, err)
	}
}

// TestExplainUsers: without the id of a post, everything between two users is explained.
func TestExplainUsers(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: moreKinds(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Roles: []string{"repost"}},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"mute"}},
	)})
	record(t, r, "1 block 2", "2 block 1", "1 mute 2", "L mute 2", "1 follow 2", "3 mute 2", "3 follow 2", "1 hide 2", "1 hide none", "1 seen none", "1 like 2", "4 block 5", "2 mute 6")
	explain := func(viewer, author string, lists ...string) (dropped bool, reasons string) {
		t.Helper()
		e, err := feed.Explain(t.Context(), r, viewer, feed.Post{Author: author}, lists...)
		must(t, err)
		for _, r := range e.Reasons {
			reasons += fmt.Sprintln(r.List+r.OverruledBy, r.Kind.Name, r.Actor+r.Target, side(r.Direction), r.Certainty)
		}
		return e.Dropped, reasons
	}
	for _, c := range []struct {
		viewer, author string
		lists          []string
		dropped        bool
		want           string
	}{
		{"1", "2", []string{"L"}, true, " block 2 mine certain\n block 2 theirs certain\nfollow mute 2 mine certain\nL mute 2 mine certain\n follow 2 mine certain\n"},
		{"2", "1", nil, true, " block 1 mine certain\n block 1 theirs certain\n"},
		{"3", "2", nil, false, "follow mute 2 mine certain\n follow 2 mine certain\n"},
		{"3", "2", []string{"L"}, true, "follow mute 2 mine certain\nL mute 2 mine certain\n follow 2 mine certain\n"},
		{"6", "2", nil, false, ""}, // a one-way kind of the author has no effect on the viewer's feed
		{"1", "1", nil, false, ""}, {"1", "9", nil, false, ""},
	} {
		if dropped, got := explain(c.viewer, c.author, c.lists...); dropped != c.dropped || got != c.want {
			t.Errorf("%s and %s: dropped %v, reasons\n%swant\n%s", c.viewer, c.author, dropped, got, c.want)
		}
	}
	for _, p := range []feed.Post{{}, {Author: "\n"}, {Author: "2", Actors: []string{""}}} {
		if _, err := feed.Explain(t.Context(), r, "1", p); err == nil || !strings.Contains(err.Error(), "id") {
			t.Errorf("%+v: %v", p, err)
		}
	}
	actors := make([]string, 1, 2)
	actors[0] = "5"
	e, err := feed.Explain(t.Context(), r, "4", feed.Post{Author: "2", Actors: actors, Roles: []string{"repost"}, Related: []string{"x"}})
	if err != nil || len(e.Reasons) != 1 || e.Reasons[0].Actor != "5" || actors[0] != "5" {
		t.Errorf("with an actor: %+v, %v", e, err)
	}
}

func side(m activity.Match) string {
	if m == activity.Direct {
		return "mine"
	}
	return "theirs"
}

// TestExplainFalsePositives: what a feed drops wrongly is found out.
func TestExplainFalsePositives(t *testing.T) {
	r, tamper := openPage(t, activity.Config{}, nil)
	record(t, r, "1 hide h")
	tamper(nil, []string{"1 hide q7", "1 hide q8"})
	candidates := numbered("q", 20)
	wrong := filter(t, r, feed.Request{Viewer: "1", Posts: candidates}).Dropped
	if len(wrong) != 2 {
		t.Fatalf("dropped %+v, want what the page has wrongly", wrong)
	}
	for _, d := range wrong {
		e, err := feed.Explain(t.Context(), r, "1", feed.Post{ID: candidates[d.At].ID, Author: "author"})
		must(t, err)
		if !e.Dropped || e.Reasons[0].Certainty != feed.False || !e.Reasons[0].Since.IsZero() {
			t.Errorf("%s: %+v", candidates[d.At].ID, e)
		}
	}
}
