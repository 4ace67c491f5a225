package feed_test

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func open(t testing.TB) *activity.Recorder {
	t.Helper()
	return openWith(t, activity.Config{})
}

// openWith opens a Recorder as c says, by default on a ledger and a store of its own.
func openWith(t testing.TB, c activity.Config) *activity.Recorder {
	t.Helper()
	if c.Ledger == nil {
		c.Ledger = openLedger(t, 16)
	}
	if c.Store == nil {
		c.Store = &favfilter.Memory{}
	}
	r, err := activity.Open(t.Context(), c)
	must(t, err)
	t.Cleanup(r.Close)
	return r
}

func openLedger(t testing.TB, pages uint32) *ledger.Ledger {
	t.Helper()
	return openLedgerAt(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), pages)
}

func openLedgerAt(t testing.TB, url string, pages uint32) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: pages})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// openPage opens a Recorder with a ledger of one page, which tamper replaces. around, unless it is
// nil, is called in place of the ledger's calls.
func openPage(
	t *testing.T, c activity.Config, around ledger.Around,
) (r *activity.Recorder, tamper func(lost, madeUp []string)) {
	t.Helper()
	l := openLedger(t, 1)
	if c.Ledger = l; around != nil {
		c.Ledger = l.Around(around)
	}
	c.Store, c.Passive, c.FalsePositiveRate = &favfilter.Memory{}, true, cmp.Or(c.FalsePositiveRate, 1e-8)
	return openWith(t, c), func(lost, madeUp []string) {
		t.Helper()
		faulttest.Tamper(t, l, c.Store, lost, madeUp)
	}
}

func redisStore(t testing.TB, server *redistest.Server) favfilter.Store {
	t.Helper()
	store, err := redisstore.New(server.Client(), "feed")
	must(t, err)
	return store
}

func newKinds(t testing.TB, kinds ...activity.Kind) *activity.Kinds {
	t.Helper()
	all, err := activity.NewKinds(kinds...)
	must(t, err)
	return all
}

// moreKinds returns the built-in kinds and others.
func moreKinds(t testing.TB, kinds ...activity.Kind) *activity.Kinds {
	t.Helper()
	return newKinds(t, append(activity.BuiltinKinds().All(), kinds...)...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// record takes lines such as "1 block 2".
func record(t testing.TB, r *activity.Recorder, lines ...string) {
	t.Helper()
	var batch []activity.Activity
	for _, line := range lines {
		f := strings.Fields(line)
		batch = append(batch, activity.Activity{User: f[0], Kind: f[1], Target: f[2]})
	}
	_, err := r.Record(t.Context(), batch)
	must(t, err)
}

// answer is an answer to a request, which knows the ids of the posts.
type answer struct {
	feed.Answer

	req feed.Request
}

func filter(t testing.TB, r *activity.Recorder, req feed.Request) answer {
	t.Helper()
	a, err := feed.Filter(t.Context(), r, req)
	must(t, err)
	return answer{a, req}
}

// annotated reports whether post number at is annotated by the i-th kind of the request.
func (a answer) annotated(i, at int) bool { return slices.Contains(a.Annotated[i], at) }

func kept(a answer) (ids []string) {
	for _, at := range a.Kept {
		ids = append(ids, a.req.Posts[at].ID)
	}
	return ids
}

func TestReasons(t *testing.T) {
	r := open(t)
	record(t, r, "1 block 2", "3 block 1", "1 hide h", "1 like l", "1 seen s", "1 like h", "9 block 8")
	posts := []feed.Post{
		{ID: "a", Author: "4"},
		{ID: "b", Author: "2"},
		{ID: "c", Author: "3"},
		{ID: "h", Author: "4"},
		{ID: "l", Author: "4"},
		{ID: "s", Author: "4"},
		{ID: "d", Author: "4", Actors: []string{"5", "2"}},
		{ID: "e", Author: "4", Actors: []string{"5", "6"}},
		{ID: "f", Author: "1", Actors: []string{"1"}},
		{ID: "h", Author: "3"},
		{ID: "a", Author: "4"},
	}
	all := feed.Request{Viewer: "1", Posts: posts}
	for _, c := range []struct {
		name    string
		change  func(q *feed.Request)
		kept    string
		dropped []feed.Dropped
	}{
		{"every kind", func(*feed.Request) {}, "a l e f a", []feed.Dropped{
			{1, "block", "2", "", "", false}, {2, "block", "3", "", "", false}, {3, "hide", "", "", "", false}, {5, "seen", "", "", "", false},
			{6, "block", "2", "", "", false}, {9, "block", "3", "", "", false},
		}},
		{"hide first", func(q *feed.Request) { q.Kinds = []string{"hide", "block"} }, "a l s e f a", []feed.Dropped{
			{1, "block", "2", "", "", false}, {2, "block", "3", "", "", false}, {3, "hide", "", "", "", false},
			{6, "block", "2", "", "", false}, {9, "hide", "", "", "", false},
		}},
		{"seen alone", func(q *feed.Request) { q.Kinds = []string{"seen"} }, "a b c h l d e f h a", []feed.Dropped{{5, "seen", "", "", "", false}}},
		{"nothing", func(q *feed.Request) { q.Kinds = []string{} }, "a b c h l s d e f h a", nil},
		{"another viewer", func(q *feed.Request) { q.Viewer = "4" }, "a b c h l s d e f h a", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := all
			c.change(&q)
			a := filter(t, r, q)
			if got := strings.Join(kept(a), " "); got != c.kept {
				t.Errorf("kept %s, want %s", got, c.kept)
			}
			if !reflect.DeepEqual(a.Dropped, c.dropped) {
				t.Errorf("dropped %v, want %v", a.Dropped, c.dropped)
			}
		})
	}
}

func TestAnnotate(t *testing.T) {
	r := open(t)
	record(t, r, "1 like a", "1 like b", "1 hide b")
	a := filter(t, r, feed.Request{Viewer: "1", Annotate: []string{"like"}, Posts: []feed.Post{{ID: "a", Author: "2"}, {ID: "b", Author: "2"}, {ID: "c", Author: "2"}}})
	if !slices.Equal(a.Kept, []int{0, 2}) || len(a.Annotated) != 1 || !slices.Equal(a.Annotated[0], []int{0}) {
		t.Errorf("kept %v, annotated %v", a.Kept, a.Annotated)
	}
}

// TestRoles: a kind with roles looks at users who have one of them, and at those whose role is not
// known.
func TestRoles(t *testing.T) {
	kinds := newKinds(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Roles: []string{"author", "repost"}},
		activity.Kind{Name: "no-repost", Plural: "no-reposts", Target: activity.User, Effect: activity.Drop, Roles: []string{"repost"}},
		activity.Kind{Name: "friend", Plural: "friends", Target: activity.User, Effect: activity.Annotate, Roles: []string{"quote"}},
	)
	r := openWith(t, activity.Config{Kinds: kinds})
	record(t, r, "1 mute 2", "1 no-repost 3", "1 friend 4")
	post := func(author string, actors, roles string) feed.Post {
		return feed.Post{ID: "p", Author: author, Actors: strings.Fields(actors), Roles: strings.Split(roles, " ")[:len(strings.Fields(roles))]}
	}
	posts := []feed.Post{
		post("9", "2", "repost"), post("9", "2", "mention"), post("9", "2 2", "mention repost"), post("2", "", ""), post("2", "2", "mention"),
		post("3", "", ""), post("9", "3", "repost"), post("9", "8 3", "repost"), post("9", "3", "author"),
		post("4", "", ""), post("9", "4", "quote"), post("9", "4", "repost"), post("9", "4", ""), post("1", "1", "repost"),
	}
	posts = append(posts, feed.Post{ID: "p", Author: "9", Actors: []string{"3", "2"}, Roles: []string{"mention", ""}})
	a := filter(t, r, feed.Request{Viewer: "1", Annotate: []string{"friend"}, Posts: posts})
	want := []feed.Dropped{
		{At: 0, Kind: "mute", Actor: "2"}, {At: 2, Kind: "mute", Actor: "2"}, {At: 3, Kind: "mute", Actor: "2"}, {At: 4, Kind: "mute", Actor: "2"},
		{At: 6, Kind: "no-repost", Actor: "3"}, {At: 7, Kind: "no-repost", Actor: "3"}, {At: 14, Kind: "mute", Actor: "2"},
	}
	if !reflect.DeepEqual(a.Dropped, want) {
		t.Errorf("dropped %v, want %v", a.Dropped, want)
	}
	if want := []int{10, 12}; !slices.Equal(a.Annotated[0], want) {
		t.Errorf("annotated %v, want %v", a.Annotated[0], want)
	}
	for i, p := range posts {
		e, err := feed.Explain(t.Context(), r, "1", p)
		must(t, err)
		reasons := make(map[string]bool)
		for _, reason := range e.Reasons {
			reasons[reason.Kind.Name] = true
		}
		if dropped := slices.ContainsFunc(want, func(d feed.Dropped) bool { return d.At == i && reasons[d.Kind] }); e.Dropped != dropped || reasons["friend"] != a.annotated(0, i) {
			t.Errorf("post %d is explained by %+v", i, e.Reasons)
		}
	}
}

// TestRelated: what a viewer hid or saw under any id of a post counts for all posts that have the
// id. What is shown is recorded under an id that they have in common.
func TestRelated(t *testing.T) {
	r := open(t)
	record(t, r, "1 hide o", "1 like l")
	ask := func(p ...feed.Post) (answer, []feed.Dropped) {
		a := filter(t, r, feed.Request{Viewer: "1", Posts: p, RecordSeen: true, Annotate: []string{"like"}})
		return a, a.Dropped
	}
	post := func(id string, related ...string) feed.Post { return feed.Post{ID: id, Author: "9", Related: related} }
	a, dropped := ask(post("a", "o"), post("b", "x", "y", "o"), post("o", "z"), post("c"), post("d", "l"), post("e", "m", "n"), post("f", "n"), post("g", "e"), post("n"))
	want := []feed.Dropped{
		{At: 0, Kind: "hide", Target: "o"}, {At: 1, Kind: "hide", Target: "o"}, {At: 2, Kind: "hide"},
		{At: 6, Kind: "seen", Target: "n"}, {At: 7, Kind: "seen", Target: "e"}, {At: 8, Kind: "seen"},
	}
	if !reflect.DeepEqual(dropped, want) || !slices.Equal(a.Annotated[0], []int{4}) {
		t.Errorf("dropped %v, want %v; annotated %v", dropped, want, a.Annotated)
	}
	_, dropped = ask(post("m"), post("h", "n", "m"), post("l"), post("d"), post("c", "q"), post("r", "c"))
	want = []feed.Dropped{
		{At: 0, Kind: "seen"}, {At: 1, Kind: "seen", Target: "m"}, {At: 2, Kind: "seen"}, {At: 4, Kind: "seen"}, {At: 5, Kind: "seen", Target: "c"},
	}
	if !reflect.DeepEqual(dropped, want) { // d was recorded as l
		t.Errorf("then dropped %v, want %v", dropped, want)
	}
	exact := filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{post("a", "o"), post("s")}, Exact: true, Kinds: []string{"hide"}})
	if want := []feed.Dropped{{At: 0, Kind: "hide", Target: "o"}}; !reflect.DeepEqual(exact.Dropped, want) {
		t.Errorf("an exact feed dropped %v", exact.Dropped)
	}
	e, err := feed.Explain(t.Context(), r, "1", post("a", "o"))
	if err != nil || !e.Dropped || len(e.Reasons) != 1 || e.Reasons[0].Target != "o" || e.Reasons[0].Certainty != feed.Certain {
		t.Errorf("explained as %+v, %v", e, err)
	}
}

// TestOwnPosts: viewers never lose posts for being their author or actor, not even by a false
// positive.
func TestOwnPosts(t *testing.T) {
	r, tamper := openPage(t, activity.Config{}, nil)
	const viewers = 20
	record(t, r, "u0 block v0") // makes the page
	var madeUp []string
	for i := range viewers {
		madeUp = append(madeUp, fmt.Sprintf("u%d block u%d", i, i), fmt.Sprintf("u%d block w%d", i, i))
	}
	tamper(nil, madeUp)
	for i := range viewers {
		viewer, other := fmt.Sprint("u", i), fmt.Sprint("w", i)
		own := []feed.Post{{ID: "a", Author: viewer}, {ID: "b", Author: viewer, Actors: []string{viewer}}}
		request := feed.Request{Viewer: viewer, Posts: own, Kinds: []string{"block"}}
		if a := filter(t, r, request); len(a.Kept) != len(own) {
			t.Errorf("%s loses posts of their own: %+v", viewer, a.Dropped)
		}
		request.Posts = []feed.Post{{ID: "a", Author: other}}
		if a := filter(t, r, request); len(a.Dropped) != 1 {
			t.Errorf("%s keeps a post by %s, which the page drops", viewer, other)
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	r := open(t)
	post := feed.Post{ID: "a", Author: "2"}
	for _, c := range []struct {
		req         feed.Request
		code, field string
	}{
		{feed.Request{}, "invalid_id", "viewer"},
		{feed.Request{Viewer: "1", Posts: []feed.Post{post, {Author: "2"}}}, "invalid_id", "posts[1].id"},
		{feed.Request{Viewer: "1", Posts: []feed.Post{post, {ID: "a"}}}, "invalid_id", "posts[1].author"},
		{feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "a", Author: "\n"}}, Kinds: []string{"hide"}}, "invalid_id", "posts[0].author"},
		{feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "a", Author: "2", Actors: []string{"3", ""}}}}, "invalid_id", "posts[0].actors[1]"},
		{feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "a", Author: "2", Roles: []string{"repost"}}}}, "out_of_range", "posts[0].actors"},
		{feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "a", Author: "2", Actors: []string{"3"}, Roles: []string{"Repost"}}}}, "out_of_range", "posts[0].actors[0].role"},
		{feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "a", Author: "2", Related: []string{"b", ""}}}}, "invalid_id", "posts[0].related[1]"},
		{feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "a", Author: "2", Related: slices.Repeat([]string{"b"}, 17)}}}, "too_many_ids", "posts[0].related"},
		{feed.Request{Viewer: "1", Kinds: []string{"block", "mute"}}, "unknown_kind", "kinds[1]"},
		{feed.Request{Viewer: "1", Kinds: []string{"like"}}, "wrong_effect", "kinds[0]"},
		{feed.Request{Viewer: "1", Annotate: []string{"hide"}}, "wrong_effect", "annotate[0]"},
		{feed.Request{Viewer: "1", Kinds: []string{"hide", "hide"}}, "out_of_range", "kinds[1]"},
		{feed.Request{Viewer: "1", Posts: slices.Repeat([]feed.Post{post}, feed.MaxPosts+1)}, "out_of_range", "posts"},
		{feed.Request{Viewer: "1", Limit: -1}, "out_of_range", "limit"},
		{feed.Request{Viewer: "1", Limit: feed.MaxPosts + 1}, "out_of_range", "limit"},
	} {
		_, err := feed.Filter(t.Context(), r, c.req)
		var invalid *activity.InvalidError
		if !errors.As(err, &invalid) || invalid.Code != c.code || invalid.Field != c.field {
			t.Errorf("%v, want %s of %s", err, c.code, c.field)
		}
	}
	if a := filter(t, r, feed.Request{Viewer: "1", Limit: feed.MaxPosts, Posts: []feed.Post{post}}); len(a.Kept) != 1 {
		t.Errorf("the highest limit: %+v", a)
	}
	if a := filter(t, r, feed.Request{Viewer: "1", Kinds: []string{"hide"}, Posts: []feed.Post{{ID: "a"}}}); len(a.Kept) != 1 {
		t.Errorf("no author needed to check hides: %+v", a)
	}
}

// A request has so many ids at most, and a post so many actors. Whatever a contract allows is
// answered.
func TestLimitsOfIDs(t *testing.T) {
	r := open(t)
	request := func(posts, actors int) feed.Request {
		q := feed.Request{Viewer: "1"}
		for i := range posts {
			p := feed.Post{ID: fmt.Sprint("p", i), Author: fmt.Sprint("a", i)}
			for n := range actors {
				p.Actors = append(p.Actors, fmt.Sprint("x", n))
			}
			q.Posts = append(q.Posts, p)
		}
		return q
	}
	withoutAuthors := request(feed.MaxPosts, 1)
	for i := range withoutAuthors.Posts {
		withoutAuthors.Posts[i].Author = ""
	}
	withoutAuthors.Kinds = []string{"hide"}
	oneMore := request(feed.MaxPosts, 0)
	oneMore.Posts[77].Actors = append(oneMore.Posts[77].Actors, "y")
	for name, c := range map[string]struct {
		request        feed.Request
		field, message string // "": it is answered
	}{
		"most posts with their authors":    {request(feed.MaxPosts, 0), "", ""},
		"most ids on half of the posts":    {request(feed.MaxPosts/2, 2), "", ""},
		"most ids, authors left out":       {withoutAuthors, "", ""},
		"one id more":                      {oneMore, "posts", "20001 ids of posts, related posts, authors, actors and facets, at most 20000"},
		"most actors":                      {request(3, feed.MaxActors), "", ""},
		"one actor more":                   {request(3, feed.MaxActors+1), "posts[0].actors", "101 actors, at most 100"},
		"most actors, on too many posts":   {request(200, feed.MaxActors), "posts", "20400 ids of posts, related posts, authors, actors and facets, at most 20000"},
		"more posts than there may be":     {request(feed.MaxPosts+1, 0), "posts", "10001 posts, at most 10000"},
		"an id that is wrong is too many ": {feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "p", Actors: make([]string, 101)}}}, "posts[0].actors", "101 actors, at most 100"},
	} {
		_, err := feed.Filter(t.Context(), r, c.request)
		wantRefused(t, name, err, c.field, c.message)
	}
	_, err := feed.Explain(t.Context(), r, "1", request(1, feed.MaxActors).Posts[0])
	wantRefused(t, "explained, most actors", err, "", "")
	_, err = feed.Explain(t.Context(), r, "1", request(1, feed.MaxActors+1).Posts[0])
	wantRefused(t, "explained, one actor more", err, "post.actors", "101 actors, at most 100")
}

// wantRefused checks that a request was refused for a field, or answered where that is empty.
func wantRefused(t *testing.T, name string, err error, field, message string) {
	t.Helper()
	invalid, refused := errors.AsType[*activity.InvalidError](err)
	code := activity.CodeTooManyIDs
	if strings.Contains(message, "posts, at most") {
		code = activity.CodeOutOfRange
	}
	switch {
	case field == "" && err != nil, field != "" && !refused:
		t.Errorf("%s: error %v, want field %q", name, err, field)
	case refused && (invalid.Field != field || invalid.Message != message || invalid.Code != code):
		t.Errorf("%s: refused %+v, want %q, %q", name, invalid, field, message)
	}
}
