package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// openService returns the handler of a complete service with its data in dir, and a function that
// ends it.
func openService(ctx context.Context, dir string, limit uint32) (http.Handler, func(), error) {
	l, err := ledger.Open(ctx, "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{Pages: 16})
	if err != nil {
		return nil, nil, err
	}
	kinds, err := activity.NewKinds(
		activity.Kind{Name: "block", Plural: "blocks", Target: activity.User, Effect: activity.Drop, Reverse: "blocked-by"},
		activity.Kind{Name: "hide", Plural: "hides", Target: activity.Post, Effect: activity.Drop, Limit: limit},
		activity.Kind{Name: "like", Plural: "likes", Target: activity.Post, Effect: activity.Annotate},
		activity.Kind{Name: "seen", Plural: "seen", Target: activity.Post, Effect: activity.Drop, Window: 24 * time.Hour},
		activity.Kind{Name: "repost-mute", Plural: "repost-mutes", Target: activity.User, Effect: activity.Drop, Roles: []string{"repost"}},
		activity.Kind{Name: "snub", Plural: "snubs", Target: activity.User, Effect: activity.Drop, Fanout: true, Roles: []string{"author"}},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"domain-mute"}},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop},
		activity.Kind{Name: "tag-mute", Plural: "tag-mutes", Target: "tag", Effect: activity.Drop, Fanout: true,
			Fold: activity.FoldCase, Rollup: activity.RollupPath},
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Effect: activity.Drop, Fanout: true, Fold: activity.FoldText},
	)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	r, err := activity.Open(ctx, activity.Config{Ledger: l, Store: &favfilter.Memory{}, FalsePositiveRate: 1e-8, Kinds: kinds})
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	handler := httpapi.New(httpapi.Config{Activities: r}) //nolint:contextcheck // handlers have their requests' contexts
	return handler, func() { r.Close(); _ = l.Close() }, nil
}

// newService serves one and returns its address. Each user may hide as many posts as limit.
func newService(t *testing.T, limit uint32) string {
	t.Helper()
	handler, end, err := openService(t.Context(), t.TempDir(), limit)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.Close(); end() })
	return server.URL
}

func newClient(t testing.TB, url string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// bothWays runs a test with messages and with JSON.
func bothWays(t *testing.T, test func(t *testing.T, o client.Options)) {
	t.Helper()
	t.Run("messages", func(t *testing.T) { test(t, client.Options{}) })
	t.Run("JSON", func(t *testing.T) { test(t, client.Options{JSON: true}) })
}

// must returns the result of a call that must not fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestPositions: feeds, fan-outs and explanations have the position that they ask for.
func TestPositions(t *testing.T) {
	bothWays(t, func(t *testing.T, o client.Options) {
		c, post := newClient(t, newService(t, 2), o), client.Post{ID: "p", Author: "2"}
		for after, code := range map[string]string{"": "", "0/16B3748": "not_followed", "16B3748": "invalid_position"} {
			_, filtered := c.Filter(t.Context(), client.FilterRequest{Viewer: "1", Posts: []client.Post{post}, After: after})
			_, sent := c.Fanout(t.Context(), client.FanoutRequest{Post: post, Viewers: []string{"1"}, After: after})
			_, explained := c.Explain(t.Context(), client.ExplainRequest{Viewer: "1", Post: post, After: after})
			for call, err := range map[string]error{"filter": filtered, "fan-out": sent, "explain": explained} {
				refused, answered := errors.AsType[*client.Error](err)
				if answered != (code != "") || answered && (refused.Code != code || refused.Field != "after" || !errors.Is(err, client.ErrInvalid)) {
					t.Errorf("%s after %q: %v", call, after, err)
				}
			}
		}
	})
}

// TestWithin: feeds, fan-outs and explanations are as fresh as they ask for.
func TestWithin(t *testing.T) {
	bothWays(t, func(t *testing.T, o client.Options) {
		c, post := newClient(t, newService(t, 2), o), client.Post{ID: "p", Author: "2"}
		for within, code := range map[time.Duration]string{
			0: "", 2 * time.Second: "not_followed", time.Millisecond: "not_followed", 24 * time.Hour: "not_followed",
			time.Microsecond: "out_of_range", -time.Second: "out_of_range", 25 * time.Hour: "out_of_range",
		} {
			_, filtered := c.Filter(t.Context(), client.FilterRequest{Viewer: "1", Posts: []client.Post{post}, Within: within})
			_, sent := c.Fanout(t.Context(), client.FanoutRequest{Post: post, Viewers: []string{"1"}, Within: within})
			_, explained := c.Explain(t.Context(), client.ExplainRequest{Viewer: "1", Post: post, Within: within})
			for call, err := range map[string]error{"filter": filtered, "fan-out": sent, "explain": explained} {
				refused, answered := errors.AsType[*client.Error](err)
				if answered != (code != "") || answered && (refused.Code != code || refused.Field != "within" || !errors.Is(err, client.ErrInvalid)) {
					t.Errorf("%s within %v: %v", call, within, err)
				}
			}
		}
	})
}

// TestEitherName: every call takes a kind's name or its plural, and answers have the name.
func TestEitherName(t *testing.T) {
	bothWays(t, func(t *testing.T, o client.Options) {
		t.Helper()
		ctx, c := t.Context(), newClient(t, newService(t, 2), o)
		post := []client.Post{{ID: "p", Author: "2"}, {ID: "q", Author: "3"}}
		for i, names := range [][3]string{{client.Block, client.Hide, client.Like}, {client.Blocks, client.Hides, client.Likes}} {
			user := fmt.Sprint("user", i)
			block, hide, like := names[0], names[1], names[2]
			if !must(c.Put(ctx, user, block, "2", time.Time{})) || !must(c.Put(ctx, user, hide, "r", time.Time{})) || !must(c.Delete(ctx, user, hide, "r")) {
				t.Errorf("%s: a call changed nothing", block)
			}
			results := must(c.Batch(ctx, []client.Activity{{User: user, Kind: like, Target: "q", Op: client.Add}, {User: user, Kind: like, Target: "q", Op: client.Add}}))
			if !results[0].Changed || results[1].Changed {
				t.Errorf("%s: results %v", like, results)
			}
			for _, answer := range []string{client.AnswerKept, client.AnswerDropped} {
				feed := must(c.Filter(ctx, client.FilterRequest{Viewer: user, Posts: post, Kinds: []string{block}, Annotate: []string{like}, Answer: answer}))
				if len(feed.Dropped) != 1 || feed.Dropped[0].Kind != client.Block {
					t.Errorf("%s: dropped %v", block, feed.Dropped)
				}
				marked := answer == client.AnswerKept && feed.Posts[0].Marks[client.Like]
				if !marked && !slices.Equal(feed.Annotated[client.Like], []int{1}) {
					t.Errorf("%s: %+v", like, feed)
				}
			}
			fanout := must(c.Fanout(ctx, client.FanoutRequest{Post: client.Post{Author: "2"}, Viewers: []string{user}, Kinds: []string{block}}))
			if len(fanout.Dropped) != 1 || fanout.Dropped[0].Kind != client.Block {
				t.Errorf("%s: fan-out %v", block, fanout)
			}
			if p := must(c.Preview(ctx, user, block, []string{"2", "4"})); p.Present != 1 || p.New != 1 {
				t.Errorf("%s: preview %+v", block, p)
			}
			for item, err := range c.List(ctx, user, block) {
				if err != nil || item.Target != "2" {
					t.Errorf("%s: listed %v, %v", block, item, err)
				}
			}
			for a, err := range c.Export(ctx, user) {
				if err != nil || a.Kind != client.Block && a.Kind != client.Like {
					t.Errorf("exported %v, %v", a, err)
				}
			}
		}
	})
}

// TestCalls makes every call to a real service, and checks the results of the earlier calls.
func TestCalls(t *testing.T) { bothWays(t, testCalls) }

func testCalls(t *testing.T, o client.Options) {
	t.Helper()
	ctx := t.Context()
	c := newClient(t, newService(t, 2), o)
	until := time.Now().Add(time.Hour)
	for _, put := range []struct {
		plural, target string
		until          time.Time
		want           bool
	}{
		{client.Block, "2", time.Time{}, true},
		{client.Block, "2", time.Time{}, false},
		{client.Block, "2", until, true},
		{client.Like, "p9", time.Time{}, true},
	} {
		if got := must(c.Put(ctx, "1", put.plural, put.target, put.until)); got != put.want {
			t.Errorf("put %+v: %v", put, got)
		}
	}
	if item := must(c.Get(ctx, "1", client.Block, "2")); item == nil || item.Target != "2" || !item.Until.Equal(until.Truncate(time.Microsecond)) {
		t.Errorf("got %+v", item)
	}
	if item := must(c.Get(ctx, "2", client.Block, "1")); item != nil {
		t.Errorf("got %+v, want none", item)
	}
	if _, err := c.Get(ctx, "1", client.Block, ""); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("without a target: %v", err)
	}
	var incoming []string
	for item, err := range c.Incoming(ctx, "2", client.Block) {
		if incoming = append(incoming, item.User); err != nil || item.Target != "" || item.Since.IsZero() {
			t.Errorf("incoming %+v, %v", item, err)
		}
	}
	if !slices.Equal(incoming, []string{"1"}) {
		t.Errorf("incoming from %v", incoming)
	}
	if why := must(c.Explain(ctx, client.ExplainRequest{Viewer: "2", Post: client.Post{Author: "1"}})); !why.Dropped || len(why.Reasons) != 1 {
		t.Errorf("between two users: %+v", why)
	}
	if n := must(c.Record(ctx, "1", client.Seen, []string{"p7", "p7", "p6"})); n != 2 {
		t.Errorf("%d recorded", n)
	}
	feed := must(c.Filter(ctx, client.FilterRequest{
		Viewer: "1", Annotate: []string{"like"}, Limit: 1,
		Posts: []client.Post{{ID: "p7", Author: "3"}, {ID: "p8", Author: "3", Actors: []string{"2"}}, {ID: "p9", Author: "3"}, {ID: "p5", Author: "3"}},
	}))
	if len(feed.Posts) != 1 || feed.Posts[0].ID != "p9" || !feed.Posts[0].Marks["like"] || feed.Next != 3 || len(feed.Degraded) != 0 ||
		!slices.Equal(feed.Dropped, []client.Dropped{{ID: "p7", Kind: "seen"}, {ID: "p8", Kind: "block", Actor: "2"}}) {
		t.Errorf("feed %+v", feed)
	}
	all := must(c.Filter(ctx, client.FilterRequest{Viewer: "1", Posts: []client.Post{{ID: "p8", Author: "2"}}, Kinds: []string{}, RecordSeen: true}))
	if len(all.Posts) != 1 {
		t.Errorf("without kinds to check: %+v", all)
	}
	dropped := must(c.Filter(ctx, client.FilterRequest{
		Viewer: "1", Annotate: []string{"like"}, Limit: 1, Answer: client.AnswerDropped,
		Posts: []client.Post{{ID: "p7", Author: "3"}, {ID: "p8", Author: "3", Actors: []string{"2"}}, {ID: "p9", Author: "3"}, {ID: "p5", Author: "3"}},
	}))
	if dropped.Posts != nil || dropped.Next != 3 || !slices.Equal(dropped.Annotated["like"], []int{2}) ||
		!slices.Equal(dropped.Dropped, []client.Dropped{{ID: "p7", Kind: "seen"}, {ID: "p8", Index: 1, Kind: "block", Actor: "2"}}) {
		t.Errorf("only dropped posts: %+v", dropped)
	}
	exact := must(c.Filter(ctx, client.FilterRequest{Viewer: "1", Posts: []client.Post{{ID: "p8", Author: "2"}}, Kinds: []string{"seen"}, Exact: true}))
	if !slices.Equal(exact.Dropped, []client.Dropped{{ID: "p8", Kind: "seen", Unconfirmed: true}}) {
		t.Errorf("posts recorded as seen: %+v", exact)
	}
	history := must(c.Batch(ctx, []client.Activity{
		{User: "7", Kind: "seen", Target: "recent", Op: client.Add, Since: time.Now().Add(-23 * time.Hour)},
		{User: "7", Kind: "seen", Target: "old", Op: client.Add, Since: time.Now().Add(-29 * time.Hour)},
	}))
	if !slices.Equal(history, []client.Result{{Changed: true}, {}}) {
		t.Errorf("history: %+v", history)
	}
	remembered := must(c.Filter(ctx, client.FilterRequest{
		Viewer: "7", Posts: []client.Post{{ID: "recent", Author: "3"}, {ID: "old", Author: "3"}},
	}))
	if !slices.Equal(remembered.Dropped, []client.Dropped{{ID: "recent", Kind: "seen"}}) {
		t.Errorf("after the history: %+v", remembered)
	}
	why := must(c.Explain(ctx, client.ExplainRequest{Viewer: "2", Post: client.Post{ID: "p1", Author: "1"}}))
	if !why.Dropped || len(why.Reasons) != 1 || why.Reasons[0].Direction != "by_actor" || why.Reasons[0].Certainty != "certain" ||
		!why.Reasons[0].Until.Equal(until.Truncate(time.Microsecond)) || why.Page.Keys == 0 {
		t.Errorf("explanation %+v", why)
	}
	if counts := must(c.Counts(ctx, "1")); counts["block"] != 1 || counts["like"] != 1 {
		t.Errorf("counts %v", counts)
	}
	if p := must(c.Preview(ctx, "1", "hide", []string{"a", "b", "c"})); p != (client.Preview{New: 3, Total: 3, Limit: 2, Over: true}) {
		t.Errorf("preview %+v", p)
	}
	var exported []string
	for e, err := range c.Export(ctx, "1") {
		if err != nil {
			t.Fatal(err)
		}
		exported = append(exported, e.Kind+" "+e.Target+" "+e.Op)
		if time.Since(e.Since) > time.Hour || e.Since.IsZero() {
			t.Errorf("exported %+v", e)
		}
	}
	if want := []string{"block 2 add", "like p9 add"}; !slices.Equal(exported, want) {
		t.Errorf("exported %q", exported)
	}
	if !must(c.Delete(ctx, "1", client.Block, "2")) || must(c.Delete(ctx, "1", client.Block, "2")) {
		t.Error("the block was not removed once")
	}
	if n := must(c.DeleteUser(ctx, "1")); n != 1 {
		t.Errorf("%d deleted", n)
	}
}

// TestServiceCalls makes the calls that are about no user.
func TestServiceCalls(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, newService(t, 2)+"/", client.Options{})
	if r := must(c.Ready(ctx)); r.Status != "ready" || !r.Answers() {
		t.Errorf("readiness %+v", r)
	}
	kinds := must(c.Kinds(ctx))
	hide := client.Kind{Name: "hide", Plural: "hides", Target: "post", Effect: "drop", Ledger: true, Limit: 2}
	word := client.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Effect: "drop", Text: true, Fanout: true, Ledger: true}
	if len(kinds) != 10 || !reflect.DeepEqual(kinds[9], word) || !kinds[5].Fanout || !slices.Equal(kinds[6].Over, []string{"domain-mute"}) || kinds[8].Target != "tag" || kinds[8].Fold != "case" || kinds[8].Rollup != "path" || !reflect.DeepEqual(kinds[1], hide) || !slices.Equal(kinds[4].Roles, []string{"repost"}) {
		t.Errorf("kinds %+v", kinds)
	}
	if p := must(c.Pages(ctx)); p.Pages != 16 || p.Homes != 16 || p.Reshaped != 16 {
		t.Errorf("pages %+v", p)
	}
	if p := must(c.Reshape(ctx, 32)); p.Pages != 32 {
		t.Errorf("pages %+v", p)
	}
	if p := must(c.ForceReshape(ctx, 32)); p.Pages != 32 {
		t.Errorf("pages %+v", p)
	}
	if s := must(c.Stats(ctx)); s.Requests.Total != 6 || s.Feeds.Dropped["block"] != 0 || !strings.HasPrefix(string(s.Recorder), "{") {
		t.Errorf("stats %+v", s)
	}
	_, err := c.Reshape(ctx, 8)
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "out_of_range" || refused.Field != "pages" {
		t.Errorf("fewer pages: %v", err)
	}
}

// TestOddIDs: ids arrive unchanged, also ids such as ".." that have a meaning in paths.
func TestOddIDs(t *testing.T) { bothWays(t, testOddIDs) }

func testOddIDs(t *testing.T, o client.Options) {
	t.Helper()
	ctx := t.Context()
	c := newClient(t, newService(t, 100), o)
	for _, id := range []string{".", "..", "a/b", "/", "%2F", "é", " ", "?x=1", "#", "a..b", "+", "日本", "\u2028", strings.Repeat("x", 256)} {
		if !must(c.Put(ctx, id, client.Hide, id, time.Time{})) {
			t.Errorf("%q was already recorded", id)
		}
		var got []string
		for item, err := range c.List(ctx, id, client.Hide) {
			got = append(got, item.Target)
			if err != nil {
				t.Errorf("%q: %v", id, err)
			}
		}
		if !slices.Equal(got, []string{id}) || must(c.Counts(ctx, id))["hide"] != 1 || !must(c.Delete(ctx, id, client.Hide, id)) {
			t.Errorf("%q: %q", id, got)
		}
	}
	for _, id := range []string{"", "\x00", "\xff", strings.Repeat("x", 257)} {
		if _, err := c.Put(ctx, "1", client.Hide, id, time.Time{}); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := c.Batch(ctx, []client.Activity{{User: "1", Kind: "hide", Target: id, Op: client.Add}}); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestErrors: errors have the code, field and message of the service.
func TestErrors(t *testing.T) { bothWays(t, testErrors) }

func testErrors(t *testing.T, o client.Options) {
	t.Helper()
	ctx := client.WithRequestID(t.Context(), "a.b-c_1")
	c := newClient(t, newService(t, 1), o)
	_, err := c.Put(ctx, "1", client.Block, "1", time.Time{})
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != 422 || e.Code != "self_block" || e.Field != "target" || e.RequestID != "a.b-c_1" || !errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrUnavailable) {
		t.Errorf("%v: %+v", err, e)
	}
	where, path := "POST http://127.0.0.1:", "/feedfilter.v1.ActivityService/Record"
	if o.JSON {
		where, path = "PUT http://127.0.0.1:", "/v1/users/1/block/1"
	}
	if !strings.Contains(err.Error(), where) || !strings.HasSuffix(err.Error(), path+": 422 self_block: target: a user cannot block themselves") {
		t.Errorf("%v", err)
	}
	must(c.Put(ctx, "1", client.Hide, "a", time.Time{}))
	_, err = c.Put(ctx, "1", client.Hide, "b", time.Time{})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Limit != 1 || !errors.Is(err, client.ErrLimitReached) || errors.Is(err, client.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if _, err := c.Put(ctx, "1", "pokes", "b", time.Time{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("%v", err)
	}
	for _, odd := range []client.FilterRequest{{Viewer: "1", Posts: []client.Post{}, Answer: "x"}, {Viewer: "1", Posts: []client.Post{}, Limit: -1}} {
		_, err = c.Filter(ctx, odd)
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "out_of_range" || e.Field != "answer" && e.Field != "limit" {
			t.Errorf("%+v: %v", odd, err)
		}
	}
	_, err = c.Filter(ctx, client.FilterRequest{Viewer: "1", Posts: []client.Post{{ID: "p", Author: "2"}, {ID: "q", Author: "\n"}}})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Field != "posts[1].author" {
		t.Errorf("%v", err)
	}
}

// TestBatchAndStream: results have the order of the activities, with errors of single ones among
// them.
func TestBatchAndStream(t *testing.T) { bothWays(t, testBatchAndStream) }

func testBatchAndStream(t *testing.T, o client.Options) {
	t.Helper()
	ctx := t.Context()
	c := newClient(t, newService(t, 1), o)
	activities := []client.Activity{
		{User: "1", Kind: "hide", Target: "a", Op: client.Add},
		{User: "1", Kind: "hide", Target: "b", Op: client.Add}, // over the limit
		{User: "1", Kind: "hide", Target: "a", Op: client.Remove},
		{User: "1", Kind: "hide", Target: "b", Op: client.Add, Until: time.Now().Add(time.Hour)},
		{User: "1", Kind: "hide", Target: "x", Op: client.Remove},
	}
	check := func(how string, results []client.Result) {
		t.Helper()
		if len(results) != 5 || !results[0].Changed || !errors.Is(results[1].Err, client.ErrLimitReached) || results[1].Err.Limit != 1 ||
			!results[2].Changed || !results[3].Changed || results[4].Changed || results[4].Err != nil {
			t.Errorf("%s: %+v", how, results)
		}
	}
	check("batch", must(c.Batch(ctx, activities)))
	must(c.Delete(ctx, "1", client.Hide, "b"))
	var results []client.Result
	for r, err := range c.Stream(ctx, slices.Values(activities)) {
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	check("stream", results)
	n := 0
	for r, err := range c.Stream(ctx, func(yield func(client.Activity) bool) {
		for i := range 2000 {
			kind := "like"
			if i%1000 == 7 {
				kind = "poke"
			}
			if !yield(client.Activity{User: "9", Kind: kind, Target: fmt.Sprint(i), Op: client.Add}) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		if (r.Err != nil) != (n%1000 == 7) || r.Changed == (r.Err != nil) || r.Err != nil && !errors.Is(r.Err, client.ErrInvalid) {
			t.Errorf("result %d: %+v", n, r)
		}
		n++
	}
	if n != 2000 || must(c.Counts(ctx, "9"))["like"] != 1998 {
		t.Errorf("%d results, %v", n, must(c.Counts(ctx, "9")))
	}
	seen := make(map[string]bool)
	for item, err := range c.List(ctx, "9", client.Like) {
		if err != nil || seen[item.Target] {
			t.Fatalf("%+v: %v", item, err)
		}
		seen[item.Target] = true
	}
	if len(seen) != 1998 {
		t.Errorf("%d listed", len(seen))
	}
	for _, err := range c.Stream(ctx, slices.Values(activities)) {
		if err != nil {
			t.Error(err)
		}
		break // leaves the rest of the list
	}
}

// TestTokens: the token is sent, and read again after its file changes.
func TestTokens(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization")+" "+r.Header.Get("User-Agent"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error":{"code":"no","message":"no"}}`))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(" first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile := newClient(t, server.URL, client.Options{Token: client.TokenFile(file), UserAgent: "x/1"})
	_, err := fromFile.Kinds(t.Context())
	if !errors.Is(err, client.ErrDenied) || errors.Is(err, client.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = fromFile.Kinds(t.Context())
	_, _ = newClient(t, server.URL, client.Options{Token: client.StaticToken("third")}).Kinds(t.Context())
	_, _ = newClient(t, server.URL, client.Options{}).Kinds(t.Context())
	if want := []string{"Bearer first x/1", "Bearer second x/1", "Bearer third feedfilter-go", " feedfilter-go"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := fromFile.Kinds(t.Context()); !errors.Is(err, os.ErrNotExist) || len(got) != 4 {
		t.Errorf("without a token: %v", err)
	}
}

// TestNew refuses invalid addresses without repeating them.
func TestNew(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:8080", "ftp://h", "http://", "http://u:secret@h", "http://h?x=1", "http://h#x", "http://u:secret@h:x"} {
		if _, err := client.New(url, client.Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := client.New("http://h", client.Options{MaxAttempts: -1}); err == nil {
		t.Error("a negative option was accepted")
	}
}
