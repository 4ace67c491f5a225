package rest_test

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

func TestRecordAndUndo(t *testing.T) {
	s := httpapitest.Open(t)
	for _, path := range []string{"/v1/users/1/blocks/2", "/v1/users/1/hides/2", "/v1/users/1/likes/2"} {
		s.Want(t, "DELETE", path, "", 200, httpapitest.No)
		s.Want(t, "PUT", path, "", 200, httpapitest.Yes)
		s.Want(t, "PUT", path, "", 200, httpapitest.No)
		s.Want(t, "DELETE", path, "", 200, httpapitest.Yes)
		s.Want(t, "DELETE", path, "", 200, httpapitest.No)
		s.Want(t, "PUT", path, "", 200, httpapitest.Yes)
	}
	a := s.Do(t, "PUT", "/v1/users/1/blocks/3", "")
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Length": "16",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestList(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "GET", "/v1/users/1/hides", "", 200, `{"items":[]}`)
	var want []string
	for i := range 105 {
		post := fmt.Sprintf("p%d", i)
		s.Want(t, "PUT", "/v1/users/1/hides/"+post, "", 200, httpapitest.Yes)
		want = append(want, post)
	}
	slices.Reverse(want)

	first, next, since := s.Items(t, "/v1/users/1/hides")
	if len(first) != 100 || next == "" {
		t.Fatalf("%d items and cursor %q, want 100 and one", len(first), next)
	}
	rest, end, _ := s.Items(t, "/v1/users/1/hides?cursor="+url.QueryEscape(next))
	if end != "" {
		t.Errorf("cursor %q on the last part", end)
	}
	// All items are within microseconds: newest first, except those of the same microsecond.
	if got := slices.Sorted(slices.Values(append(first, rest...))); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("got %v", got)
	}
	if !slices.IsSortedFunc(since, func(a, b string) int { return -instant(t, a).Compare(instant(t, b)) }) {
		t.Errorf("not newest first: %v", since)
	}
	for _, limit := range []int{1, 7, 104, 105, 1000} {
		var got []string
		for cursor := ""; ; {
			part, next, _ := s.Items(t, fmt.Sprintf("/v1/users/1/hides?limit=%d&cursor=%s", limit, cursor))
			if len(part) > limit || len(part) < limit && next != "" {
				t.Fatalf("limit %d: %d items and cursor %q", limit, len(part), next)
			}
			got = append(got, part...)
			if cursor = next; next == "" {
				break
			}
		}
		if len(got) != 105 || !slices.Equal(got, append(slices.Clone(first), rest...)) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
}

var sinceForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$`)

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || !sinceForm.MatchString(text) {
		t.Fatalf("since %q, error %v", text, err)
	}
	return at
}

func TestSeen(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "POST", "/v1/users/1/seen", `{"posts":["a"]}`, 200, `{"recorded":1}`)
	s.Want(t, "POST", "/v1/users/1/seen", `{"posts":["a","b","a","b","c"]}`, 200, `{"recorded":3}`)
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"a"},{"id":"c"},{"id":"d"}],"kinds":["seen"]}`, 200,
		`{"posts":[{"id":"d"}],"dropped":[{"id":"a","kind":"seen"},{"id":"c","kind":"seen"}],"degraded":[]}`)
	var posts []string
	for i := range 1000 {
		posts = append(posts, fmt.Sprintf(`"p%d"`, i))
	}
	s.Want(t, "POST", "/v1/users/2/seen", `{"posts":[`+strings.Join(posts, ",")+`]}`, 200, `{"recorded":1000}`)
}

// TestFacets: configured kinds have the same routes, and look at the facets of posts.
func TestFacets(t *testing.T) {
	kinds, err := activity.NewKinds(
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop},
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "follow", Plural: "follows", Target: "tag", Effect: activity.Annotate},
		activity.Kind{Name: "read", Plural: "read", Target: "thread", Effect: activity.Drop, Window: time.Hour},
	)
	httpapitest.Must(t, err)
	s := httpapitest.NewService(t, httpapi.Config{}, kinds)
	s.Want(t, "PUT", "/v1/users/1/domain-mutes/x.example", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/domain-mutes/1", "", 200, httpapitest.Yes) // nobody mutes themselves here
	s.Want(t, "POST", "/v1/activities", `{"activities":[{"user":"1","kind":"follow","target":"go","op":"add"}]}`, 200, `{"results":[{"changed":true}]}`)
	s.Want(t, "POST", "/v1/users/1/read", `{"posts":["t9"]}`, 200, `{"recorded":1}`)
	if a := s.Do(t, "PUT", "/v1/users/1/mutes/1", ""); a.Status != 422 || a.Code != "self_block" || a.Field != "target" {
		t.Errorf("muting oneself: %d %s", a.Status, a.Body)
	}
	if a := s.Do(t, "PUT", "/v1/users/1/blocks/2", ""); a.Status != 404 || a.Code != "not_found" {
		t.Errorf("an unknown kind: %d %s", a.Status, a.Body)
	}
	post := func(id, facets string) string { return `{"id":"` + id + `","author":"2","facets":` + facets + `}` }
	posts := `"posts":[` + strings.Join([]string{
		post("a", `{"domain":["y.example","x.example"]}`), post("b", `{"tag":["redis","go"],"domain":["y.example"]}`),
		post("c", `{"tag":["x.example"],"domain":["go"]}`), post("x.example", `{}`), post("e", `{"thread":["t9"],"tag":["go"]}`),
	}, ",") + `],"annotate":["follow"]`
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1",`+posts+`}`, 200,
		`{"posts":[{"id":"b","follow":true},{"id":"c","follow":false},{"id":"x.example","follow":false}],`+
			`"dropped":[{"id":"a","kind":"domain-mute","target":"x.example"},{"id":"e","kind":"read","target":"t9"}],"degraded":[]}`)
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1",`+posts+`,"exact":true,"answer":"dropped"}`, 200,
		`{"dropped":[{"index":0,"kind":"domain-mute","target":"x.example"},{"index":4,"kind":"read","target":"t9","unconfirmed":true}],`+
			`"annotated":{"follow":[1]},"degraded":[]}`)
	explained(t, s, `{"viewer":"1","post":`+post("a", `{"domain":["y.example","x.example"],"tag":["go"]}`)+`}`,
		`{"kind":"domain-mute","effect":"drop","target":"x.example","direction":"by_viewer","certainty":"certain"`,
		`{"kind":"follow","effect":"annotate","target":"go","direction":"by_viewer","certainty":"certain"`)
	if a := s.Do(t, "GET", "/v1/users/1/domain-mutes", ""); a.Status != 200 || !strings.Contains(a.Body, `"target":"x.example"`) {
		t.Errorf("listed: %d %s", a.Status, a.Body)
	}
	s.Want(t, "DELETE", "/v1/users/1/domain-mutes/x.example", "", 200, httpapitest.Yes)
	for _, bad := range []struct{ facets, code, field string }{
		{`{"domain":["a",""]}`, "invalid_id", "posts[0].facets.domain[1]"},
		{`{"domain":["a"],"community":[]}`, "unknown_facet", "posts[0].facets.community"},
	} {
		if a := s.Do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[`+post("a", bad.facets)+`]}`); a.Code != bad.code || a.Field != bad.field {
			t.Errorf("%s: %d %s", bad.facets, a.Status, a.Body)
		}
	}
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[`+post("a", `{"domain":[`+httpapitest.Repeated(65, `"a"`)+`]}`)+`]}`, 200,
		`{"posts":[{"id":"a"}],"dropped":[],"degraded":[{"kind":"domain-mute",`+
			`"reason":"a post has more than 64 ids of the facet \"domain\", and the rest were not checked"}]}`)
}

// TestRollup: one form of an id is recorded by all calls, and covers what is below it.
func TestRollup(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{}, httpapitest.KindsWith(t, activity.Kind{
		Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop, Fanout: true,
		Fold: activity.FoldDomain, Rollup: activity.RollupDomain,
	}))
	const folded = `"name":"domain-mute","plural":"domain-mutes","target":"domain","effect":"drop","fold":"domain","rollup":"domain",`
	if a := s.Do(t, "GET", "/v1/kinds", ""); !strings.Contains(a.Body, folded) || strings.Count(a.Body, `"fold"`) != 1 {
		t.Errorf("kinds: %s", a.Body)
	}
	s.Want(t, "PUT", "/v1/users/1/domain-mutes/X.Example.", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/domain-mutes/x.example", "", 200, httpapitest.No)
	s.Want(t, "POST", "/v1/activities", `{"activities":[{"user":"2","kind":"domain-mute","target":"Bücher.example","op":"add"}]}`, 200,
		`{"results":[{"changed":true}]}`)
	if a := s.Do(t, "GET", "/v1/users/2/domain-mutes", ""); a.Status != 200 || !strings.Contains(a.Body, `"target":"xn--bcher-kva.example"`) {
		t.Errorf("listed: %d %s", a.Status, a.Body)
	}
	const domains = `"facets":{"domain":["www.XN--Bcher-kva.example","a.X.example"]}`
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"3",`+domains+`}]}`, 200,
		`{"posts":[],"dropped":[{"id":"p","kind":"domain-mute","target":"x.example"}],"degraded":[]}`)
	s.Want(t, "POST", "/v1/fanout/filter", `{"author":"3","viewers":["3","2","1"],`+domains+`}`, 200,
		`{"dropped":[{"viewer":"2","kind":"domain-mute","target":"xn--bcher-kva.example"},{"viewer":"1","kind":"domain-mute","target":"x.example"}],"degraded":[]}`)
	explained(t, s, `{"viewer":"1","post":{"id":"p","author":"3",`+domains+`}}`,
		`{"kind":"domain-mute","effect":"drop","target":"x.example","direction":"by_viewer","certainty":"certain"`)
	if a := s.Do(t, "GET", "/v1/ops/users/1/keys/domain-mute/X.EXAMPLE", ""); a.Status != 200 || !strings.Contains(a.Body, `"target":"x.example"`) {
		t.Errorf("inspected: %d %s", a.Status, a.Body)
	}
	s.Want(t, "DELETE", "/v1/users/1/domain-mutes/X.EXAMPLE", "", 200, httpapitest.Yes)
}

// explained asserts that an explanation has exactly the reasons with these beginnings.
func explained(t *testing.T, s *httpapitest.Service, body string, reasons ...string) {
	t.Helper()
	a := s.Do(t, "POST", "/v1/feed/explain", body)
	for _, want := range reasons {
		if !strings.Contains(a.Body, want) || strings.Count(a.Body, `"effect"`) != len(reasons) {
			t.Errorf("explained: %s\nwant %s", a.Body, want)
		}
	}
}

// TestRoles: an actor may have a role, and a kind may look at some roles.
func TestRoles(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{}, httpapitest.KindsWith(t,
		activity.Kind{Name: "repost-mute", Plural: "repost-mutes", Target: activity.User, Effect: activity.Drop, Roles: []string{"repost"}}))
	s.Want(t, "PUT", "/v1/users/1/repost-mutes/2", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/hides/o", "", 200, httpapitest.Yes)
	s.Want(t, "POST", "/v1/feed/filter",
		`{"viewer":"1","posts":[{"id":"a","author":"2","actors":["3",{"id":"2","role":"mention"}]},{"id":"b","author":"3","actors":["4",{"role":"repost","id":"2"}]},`+
			`{"id":"c","author":"3","related":["x","o"]},{"id":"d","author":"3","related":["y"]},{"id":"y","author":"3"}],"record_seen":true}`, 200,
		`{"posts":[{"id":"a"},{"id":"d"}],"dropped":[{"id":"b","kind":"repost-mute","actor":"2"},{"id":"c","kind":"hide","target":"o"},{"id":"y","kind":"seen"}],"degraded":[]}`)
	if a := s.Do(t, "GET", "/v1/kinds", ""); !strings.Contains(a.Body, `"effect":"drop","roles":["repost"]`) || strings.Count(a.Body, `"roles"`) != 1 {
		t.Errorf("kinds: %s", a.Body)
	}
	explained(t, s, `{"viewer":"1","post":{"id":"c","author":"3","actors":[{"id":"2","role":"repost"}],"related":["o"]}}`,
		`{"kind":"repost-mute","effect":"drop","actor":"2"`, `{"kind":"hide","effect":"drop","target":"o"`)
}

// TestKeep: a kind may overrule others.
func TestKeep(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{}, httpapitest.KindsWith(t,
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"domain-mute"}}))
	s.Want(t, "PUT", "/v1/users/1/domain-mutes/x.example", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/follows/2", "", 200, httpapitest.Yes)
	post := func(author string) string {
		return `{"id":"a` + author + `","author":"` + author + `","facets":{"domain":["x.example"]}}`
	}
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[`+post("2")+","+post("3")+`]}`, 200,
		`{"posts":[{"id":"a2"}],"dropped":[{"id":"a3","kind":"domain-mute","target":"x.example"}],"degraded":[]}`)
	if a := s.Do(t, "GET", "/v1/kinds", ""); !strings.Contains(a.Body, `"effect":"keep","over":["domain-mute"]`) {
		t.Errorf("kinds: %s", a.Body)
	}
	a := s.Do(t, "POST", "/v1/feed/explain", `{"viewer":"1","post":`+post("2")+`}`)
	if !strings.HasPrefix(a.Body, `{"dropped":false,"reasons":[{"kind":"domain-mute"`) || !strings.Contains(a.Body, `"overruled_by":"follow"},{"kind":"follow","effect":"keep","actor":"2"`) {
		t.Errorf("explained: %s", a.Body)
	}
}

// TestLists: what a list did drops posts from feeds that name it.
func TestLists(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "PUT", "/v1/users/L/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "POST", "/v1/activities", `{"activities":[{"user":"M","kind":"hide","target":"h","op":"add"}]}`, 200, `{"results":[{"changed":true}]}`)
	const posts = `"posts":[{"id":"a","author":"2"},{"id":"h","author":"3"},{"id":"c","author":"3"}]`
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1",`+posts+`,"lists":["M","L"]}`, 200,
		`{"posts":[{"id":"c"}],"dropped":[{"id":"a","kind":"block","actor":"2","list":"L"},{"id":"h","kind":"hide","list":"M"}],"degraded":[]}`)
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1",`+posts+`,"lists":["L"],"answer":"dropped","exact":true}`, 200,
		`{"dropped":[{"index":0,"kind":"block","actor":"2","list":"L"}],"degraded":[]}`)
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1",`+posts+`,"answer":"dropped"}`, 200, `{"dropped":[],"degraded":[]}`)
	a := s.Do(t, "POST", "/v1/feed/explain", `{"viewer":"1","post":{"id":"a","author":"2"},"lists":["M","L"]}`)
	if !strings.HasPrefix(a.Body, `{"dropped":true,"reasons":[{"kind":"block","effect":"drop","actor":"2"`) || !strings.Contains(a.Body, `"list":"L"}]`) {
		t.Errorf("explained: %s", a.Body)
	}
	s.Want(t, "DELETE", "/v1/users/L/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1",`+posts+`,"lists":["L"],"answer":"dropped"}`, 200, `{"dropped":[],"degraded":[]}`)
}

// TestUsers: what is between two users is told one by one, from the other side, and explained.
func TestUsers(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{}, httpapitest.KindsWith(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Roles: []string{"repost"}},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"mute"}, Fanout: true}))
	const end = `"until":"2100-01-01T00:00:00Z"}`
	for _, path := range []string{"1/blocks/2", "3/blocks/2", "1/mutes/2", "1/follows/2"} {
		s.Want(t, "PUT", "/v1/users/"+path+"?until=2100-01-01T00:00:00Z", "", 200, httpapitest.Yes)
	}
	for path, want := range map[string]string{
		"users/1/block/2": `^{"target":"2","since":"[^"]*",` + end + `$`, "users/2/block/1": "no_activity", "users/1/mutes/2": `^{"target":"2",`,
		"targets/2/blocks": `^{"items":\[{"user":"3","since":"[^"]*",` + end + `,{"user":"1","since":"[^"]*",` + end + `]}$`,
		"targets/2/mute":   `^{"items":\[{"user":"1","since":"[^"]*",` + end + `]}$`, "targets/2/follows": `^{"items":\[{"user":"1",`, "targets/1/blocks": `^{"items":\[]}$`,
	} {
		if a := s.Do(t, "GET", "/v1/"+path, ""); !regexp.MustCompile(want).MatchString(a.Body) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if there, none := s.Do(t, "HEAD", "/v1/users/1/blocks/2", ""), s.Do(t, "HEAD", "/v1/users/2/blocks/1", ""); there.Status != 200 || none.Status != 404 {
		t.Errorf("HEAD: %d, %d", there.Status, none.Status)
	}
	explained(t, s, `{"viewer":"1","post":{"author":"2"}}`, `"reasons":[{"kind":"block","effect":"drop","actor":"2"`,
		`{"kind":"mute","effect":"drop","actor":"2","direction":"by_viewer","certainty":"certain"`, `{"kind":"follow","effect":"keep"`)
	explained(t, s, `{"viewer":"2","lists":["3"],"post":{"author":"1"}}`, `{"dropped":true,"reasons":[{"kind":"block","effect":"drop","actor":"1","direction":"by_actor"`)

	invoke := httpapitest.Invokers(t, httpapitest.ServeBoth(t, s))["Connect"]
	for _, c := range []struct {
		request *feedfilterv1.ListRequest
		want    string // target and user, or the code of an error
	}{
		{&feedfilterv1.ListRequest{User: "1", Plural: "blocks", Target: new("2")}, "2 "}, {&feedfilterv1.ListRequest{User: "2", Plural: "blocks", Target: new("1")}, ""},
		{&feedfilterv1.ListRequest{User: "2", Plural: "mute", Incoming: true}, " 1"}, {&feedfilterv1.ListRequest{User: "2", Plural: "block", Incoming: true, Limit: 1}, " 3"},
		{&feedfilterv1.ListRequest{User: "1", Plural: "block", Target: new("")}, "invalid_id"},
		{&feedfilterv1.ListRequest{User: "1", Plural: "block", Target: new("2"), Incoming: true}, "unsupported_op"},
		{&feedfilterv1.ListRequest{User: "1", Plural: "hide", Incoming: true}, "unsupported_op"},
	} {
		var list feedfilterv1.ListResponse
		got := ""
		if err := invoke(t.Context(), feedfilterv1connect.ActivityServiceListProcedure, c.request, &list); err != nil {
			_, detail := httpapitest.DetailOf(t, err)
			got = detail.GetCode()
		}
		for _, item := range list.GetItems() {
			got += item.GetTarget() + " " + item.GetUser()
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.request, got, c.want)
		}
	}
	var why feedfilterv1.ExplainResponse
	httpapitest.Must(t, invoke(t.Context(), feedfilterv1connect.FeedServiceExplainProcedure, &feedfilterv1.ExplainRequest{Viewer: "1", Post: &feedfilterv1.Post{Author: "2"}}, &why))
	if !why.GetDropped() || len(why.GetReasons()) != 3 {
		t.Errorf("explained by gRPC: %v", &why)
	}
}

// TestFanout: a post's viewers are filtered from the side of the post's ids.
func TestFanout(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{}, httpapitest.KindsWith(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Fanout: true, Roles: []string{"author"}},
		activity.Kind{Name: "tag-mute", Plural: "tag-mutes", Target: "tag", Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "trash", Plural: "trashes", Target: activity.Post, Effect: activity.Drop, Fanout: true}))
	s.Want(t, "PUT", "/v1/users/8/tag-mutes/2", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/9/trashes/2", "", 200, httpapitest.Yes)
	s.Want(t, "POST", "/v1/fanout/filter", `{"author":"1","post":"2","facets":{"tag":["1","2"]},"viewers":["1","8","9"]}`, 200,
		`{"dropped":[{"viewer":"8","kind":"tag-mute","target":"2"},{"viewer":"9","kind":"trash"}],"degraded":[]}`)
	s.Want(t, "POST", "/v1/fanout/filter", `{"author":"1","related":["2"],"viewers":["9"],"exact":true}`, 200,
		`{"dropped":[{"viewer":"9","kind":"trash","target":"2"}],"degraded":[]}`)
	s.Want(t, "PUT", "/v1/users/1/mutes/2", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/3/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/2/blocks/4", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/6/blocks/5", "", 200, httpapitest.Yes)
	for _, exact := range []string{"", `,"exact":true`} {
		s.Want(t, "POST", "/v1/fanout/filter", `{"author":"2","actors":[{"id":"5","role":"repost"}],"viewers":["7","6","4","3","2","1"]`+exact+`}`, 200,
			`{"dropped":[{"viewer":"6","kind":"block","actor":"5"},{"viewer":"4","kind":"block","actor":"2"},`+
				`{"viewer":"3","kind":"block","actor":"2"},{"viewer":"1","kind":"mute","actor":"2"}],"degraded":[]}`)
	}
	s.Want(t, "POST", "/v1/fanout/filter", `{"author":"2","viewers":["1","3"],"kinds":["block"]}`, 200,
		`{"dropped":[{"viewer":"3","kind":"block","actor":"2"}],"degraded":[]}`)
	s.Want(t, "POST", "/v1/fanout/filter", `{"author":"2","viewers":[],"kinds":[]}`, 200, `{"dropped":[],"degraded":[]}`)
	if a := s.Do(t, "GET", "/v1/kinds", ""); !strings.Contains(a.Body, `"fanout":true,"two_way":false`) || strings.Count(a.Body, `"fanout"`) != 3 {
		t.Errorf("kinds: %s", a.Body)
	}
}
