package client_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/client"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// refusal returns a Connect error.
func refusal(code string, status uint32) string {
	text, err := proto.Marshal(&feedfilterv1.ErrorDetail{Code: code, Message: "m", Field: "f", HttpStatus: status})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"code":"any","message":"m","details":[{"type":"another","value":"!"},{"type":"feedfilter.v1.ErrorDetail","value":%q}]}`,
		base64.RawStdEncoding.EncodeToString(text))
}

func messageText(m proto.Message) string {
	text, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// overMessages is like over, with a client that tries messages first.
func overMessages(t *testing.T, o client.Options, n network) (*client.Client, *counted) {
	t.Helper()
	transport := &counted{network: n, start: time.Now()}
	o.HTTPClient = &http.Client{Transport: transport}
	return newClient(t, "http://service", o), transport
}

const typeMessage = "application/proto"

// TestMessagesFirst: the client uses only messages with a service that accepts them, and tries one
// with a service that does not.
func TestMessagesFirst(t *testing.T) {
	for name, old := range map[string]func(r *http.Request) *http.Response{
		"404": func(r *http.Request) *http.Response {
			return answered(r, 404, `{"error":{"code":"not_found","message":"there is nothing at this path"}}`)
		},
		"405":           func(r *http.Request) *http.Response { return answered(r, 405, "", "Content-Type", "text/html") },
		"415":           func(r *http.Request) *http.Response { return answered(r, 415, "{}") },
		"a proxy's 400": func(r *http.Request) *http.Response { return answered(r, 400, "<html>", "Content-Type", "text/html") },
		"any 200":       func(r *http.Request) *http.Response { return answered(r, 200, "{}") },
		"none":          nil,
	} {
		var messages, jsons int
		c, asked := overMessages(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
			if !strings.HasPrefix(r.URL.Path, "/feedfilter.v1.") {
				jsons++
				return answered(r, 200, `{"changed":true}`), nil
			}
			messages++
			if r.Method != http.MethodPost || r.Header.Get("Content-Type") != typeMessage {
				t.Errorf("%s of %s", r.Method, r.Header.Get("Content-Type"))
			}
			if old != nil {
				return old(r), nil
			}
			return answered(r, 200, messageText(&feedfilterv1.RecordResponse{Changed: true}), "Content-Type", typeMessage), nil
		})
		for range 5 {
			if !must(c.Put(t.Context(), "1", client.Block, "2", time.Time{})) {
				t.Errorf("%s: the call changed nothing", name)
			}
		}
		if want := [2]int{1, 5}; old != nil && [2]int{messages, jsons} != want || old == nil && (messages != 5 || jsons != 0) {
			t.Errorf("%s: %d messages, %d calls with JSON", name, messages, jsons)
		}
		if open := asked.open.Load(); open != 0 {
			t.Errorf("%s: %d bodies were left open", name, open)
		}
	}
}

// TestBareBadRequest: a 400 in plain text, as the HTTP server of an overloaded process answers,
// does not keep the client from sending messages. It is no error of the request.
func TestBareBadRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bare := func(r *http.Request) *http.Response {
			return answered(r, 400, "400 Bad Request", "Content-Type", "text/plain; charset=utf-8")
		}
		c, asked := overMessages(t, client.Options{}, func(r *http.Request, n int) (*http.Response, error) {
			if !strings.HasPrefix(r.URL.Path, "/feedfilter.v1.") {
				t.Errorf("%s: the client no longer sends messages", r.URL.Path)
			}
			if n == 1 {
				return bare(r), nil
			}
			return answered(r, 200, messageText(&feedfilterv1.RecordResponse{Changed: true}), "Content-Type", typeMessage), nil
		})
		for range 2 {
			if !must(c.Put(t.Context(), "1", client.Block, "2", time.Time{})) {
				t.Error("the call changed nothing")
			}
		}
		if got := asked.asked.Load(); got != 3 {
			t.Errorf("%d attempts of two calls", got)
		}
		for _, o := range []client.Options{{MaxAttempts: 1}, {MaxAttempts: 1, JSON: true}} {
			c, _ := overMessages(t, o, func(r *http.Request, _ int) (*http.Response, error) { return bare(r), nil })
			_, err := c.Put(t.Context(), "1", client.Block, "2", time.Time{})
			e, ok := errors.AsType[*client.Error](err)
			if !ok || e.Status != 400 || e.Code != "" || errors.Is(err, client.ErrInvalid) || !errors.Is(err, client.ErrUnavailable) {
				t.Errorf("with JSON %v: %v", o.JSON, err)
			}
		}
	})
}

// TestMessageErrors: errors of messages have the same parts and the same retries as errors of JSON.
func TestMessageErrors(t *testing.T) {
	none := messageText(&feedfilterv1.FilterResponse{})
	one := messageText(&feedfilterv1.FilterResponse{Dropped: []*feedfilterv1.Dropped{{Index: 1, Kind: "block"}}})
	for name, c := range map[string]struct {
		status   int
		body     string
		header   []string
		attempts int64
		seen     int64 // attempts of a feed with record_seen
		is       error
	}{
		"overloaded":      {503, refusal("overloaded", 503), nil, 4, 4, client.ErrOverloaded},
		"unavailable":     {503, refusal("unavailable", 503), nil, 4, 1, client.ErrUnavailable},
		"too many":        {429, refusal("rate_limited", 429), nil, 4, 4, client.ErrOverloaded},
		"internal":        {500, refusal("internal", 500), nil, 1, 1, client.ErrUnavailable},
		"denied":          {401, refusal("unauthenticated", 401), nil, 1, 1, client.ErrDenied},
		"invalid":         {400, refusal("unknown_kind", 422), nil, 1, 1, client.ErrInvalid},
		"too large":       {400, refusal("too_large", 413), nil, 1, 1, client.ErrInvalid},
		"no ledger":       {501, refusal("no_ledger", 501), nil, 1, 1, client.ErrNoLedger},
		"limit":           {400, refusal("limit_reached", 409), nil, 1, 1, client.ErrLimitReached},
		"a bare 400":      {400, "400 Bad Request", []string{"Content-Type", "text/plain; charset=utf-8"}, 4, 1, client.ErrUnavailable},
		"a proxy's 502":   {502, "<html>", []string{"Content-Type", "text/html"}, 4, 1, client.ErrUnavailable},
		"a proxy's 403":   {403, "<html>", []string{"Content-Type", "text/html"}, 1, 1, client.ErrDenied},
		"another type":    {200, "{}", nil, 2, 2, client.ErrForeign}, // one as a message, one with JSON
		"no message":      {200, "\xff", []string{"Content-Type", typeMessage}, 1, 1, client.ErrForeign},
		"too long":        {200, strings.Repeat(" ", 2000), []string{"Content-Type", typeMessage}, 1, 1, client.ErrForeign},
		"an odd index":    {200, one, []string{"Content-Type", typeMessage}, 1, 1, client.ErrForeign},
		"an odd next":     {200, messageText(&feedfilterv1.FilterResponse{Next: 1}), []string{"Content-Type", typeMessage}, 1, 1, client.ErrForeign},
		"odd annotations": {200, messageText(&feedfilterv1.FilterResponse{Annotated: []*feedfilterv1.Annotated{{}}}), []string{"Content-Type", typeMessage}, 1, 1, client.ErrForeign},
		"fine":            {200, none, []string{"Content-Type", typeMessage}, 1, 1, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, seen := range []bool{false, true} {
				service, asked := overMessages(t, client.Options{MaxAnswerBytes: 1000}, func(r *http.Request, _ int) (*http.Response, error) {
					return answered(r, c.status, c.body, c.header...), nil
				})
				feed, err := service.Filter(t.Context(), client.FilterRequest{Viewer: "1", Posts: []client.Post{{ID: "p", Author: "2"}}, RecordSeen: seen})
				want := c.attempts
				if seen {
					want = c.seen
				}
				if got := asked.asked.Load(); got != want || !errors.Is(err, c.is) || (c.is == nil) != (err == nil) {
					t.Errorf("%s, seen %v: %d attempts, %v", name, seen, got, err)
				}
				if err == nil && (len(feed.Posts) != 1 || feed.Posts[0].ID != "p") {
					t.Errorf("%s: %+v", name, feed)
				}
				if e, ok := errors.AsType[*client.Error](err); ok && e.Code != "" && (e.Field != "f" || e.Message != "m") {
					t.Errorf("%s: %+v", name, e)
				}
				if open := asked.open.Load(); open != 0 {
					t.Errorf("%s: %d bodies were left open", name, open)
				}
			}
		})
	}
}

// TestMessagesAreFeeds: messages and JSON give the same feed for every form of a request.
func TestMessagesAreFeeds(t *testing.T) {
	address := newService(t, 100)
	messages, jsons := newClient(t, address, client.Options{}), newClient(t, address, client.Options{JSON: true})
	for i := range 20 {
		must(messages.Put(t.Context(), "1", []string{client.Block, client.Hide, client.Like}[i%3], fmt.Sprint(i), time.Time{}))
	}
	must(messages.Put(t.Context(), "1", "domain-mutes", "d17", time.Time{}))
	must(messages.Put(t.Context(), "1", "tag-mutes", "t2", time.Time{}))
	must(messages.Put(t.Context(), "1", "word-mutes", "Climate change", time.Time{}))
	for i := range 20 {
		must(messages.Put(t.Context(), "1", "repost-mutes", fmt.Sprint(31+3*i), time.Time{}))
	}
	must(messages.Put(t.Context(), "1", "follows", "85", time.Time{}))
	must(messages.Put(t.Context(), "L", client.Block, "10", time.Time{}))
	must(messages.Put(t.Context(), "M", client.Hide, "2", time.Time{}))
	byFacets, byRoles, byRelated, byLists, byTexts := 0, 0, 0, 0, 0
	for n := range 60 {
		req := client.FilterRequest{Viewer: "1", Posts: []client.Post{}, Answer: []string{"", client.AnswerKept, client.AnswerDropped}[n%3], Limit: n % 4 * 3, Exact: n%2 == 0}
		for i := range n % 25 {
			p := client.Post{ID: fmt.Sprint((i * 7) % 23), Author: fmt.Sprint((i * 5) % 29)}
			if i%3 == 0 {
				p.Actors = []string{fmt.Sprint(i), fmt.Sprint(i + 20)}
			}
			if i%3 == 1 {
				p.Actors, p.Roles = []string{"99", fmt.Sprint(i + 30)}, [][]string{nil, {"mention"}, {"", "repost"}, {"author", "mention"}}[i%4]
			}
			if i%6 == 5 {
				p.Facets = map[string][]string{"tag": {"t1", "t2"}}
			}
			if i%5 == 3 {
				p.Related = []string{"98", fmt.Sprint(1 + i/5*3)} // hidden
			}
			if i%4 == 1 {
				p.Facets = map[string][]string{"domain": {fmt.Sprint("d", i), fmt.Sprint("d", i+4)}, "tag": {fmt.Sprint("t", i%9)}}
			}
			if n%2 == 1 && i%4 == 2 {
				p.Text = []string{"The climate", "Ü: “CLIMATE change”"}[(n+i)/2%2]
			}
			req.Posts = append(req.Posts, p)
		}
		if n%5 == 0 {
			req.Annotate = []string{"like"}
		}
		if n%7 == 0 {
			req.Kinds = []string{"hide"}
		}
		if n%2 == 1 {
			req.Lists = []string{"N", "L", "M"}[:1+n%3]
		}
		got, want := must(messages.Filter(t.Context(), req)), must(jsons.Filter(t.Context(), req))
		if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%+v:\nby messages %#v\nby JSON     %#v", req, got, want)
		}
		for _, d := range got.Dropped {
			switch {
			case d.List != "":
				byLists++
			case d.Kind == "repost-mute":
				byRoles++
			case d.Kind == "hide" && d.Target != "":
				byRelated++
			case d.Kind == "word-mute":
				byTexts++
			case d.Target != "":
				byFacets++
			}
		}
		if n == 24 {
			explainedAlike(t, messages, jsons, req.Posts)
		}
	}
	if min(byFacets, byRoles, byRelated, byLists, byTexts) < 10 {
		t.Errorf("%d posts dropped for facets, %d for roles, %d for related ids, %d by lists, %d for texts, want some",
			byFacets, byRoles, byRelated, byLists, byTexts)
	}
}

// TestFanout: messages and JSON say alike who must not get a post.
func TestFanout(t *testing.T) {
	address := newService(t, 100)
	messages, jsons := newClient(t, address, client.Options{}), newClient(t, address, client.Options{JSON: true})
	must(messages.Put(t.Context(), "1", "snubs", "2", time.Time{}))
	must(messages.Put(t.Context(), "3", client.Block, "2", time.Time{}))
	must(messages.Put(t.Context(), "5", client.Block, "4", time.Time{}))
	must(messages.Put(t.Context(), "5", "tag-mutes", "y", time.Time{}))
	must(messages.Put(t.Context(), "6", "word-mutes", "#go", time.Time{}))
	viewers := []string{"1", "3", "5", "6"}
	for _, c := range []struct {
		req  client.FanoutRequest
		want []client.DroppedViewer
	}{
		{client.FanoutRequest{Post: client.Post{Author: "2"}, Viewers: viewers}, []client.DroppedViewer{{Viewer: "1", Kind: "snub", Actor: "2"}, {Viewer: "3", Kind: "block", Actor: "2"}}},
		{client.FanoutRequest{Post: client.Post{Author: "4", Actors: []string{"2"}, Roles: []string{"quote"}}, Viewers: viewers, Exact: true}, []client.DroppedViewer{{Viewer: "3", Kind: "block", Actor: "2"}, {Viewer: "5", Kind: "block", Actor: "4"}}},
		{client.FanoutRequest{Post: client.Post{Author: "4", Actors: []string{"2"}}, Viewers: viewers}, []client.DroppedViewer{{Viewer: "1", Kind: "snub", Actor: "2"}, {Viewer: "3", Kind: "block", Actor: "2"}, {Viewer: "5", Kind: "block", Actor: "4"}}},
		{client.FanoutRequest{Post: client.Post{Author: "2"}, Viewers: viewers, Kinds: []string{"block"}}, []client.DroppedViewer{{Viewer: "3", Kind: "block", Actor: "2"}}},
		{client.FanoutRequest{Post: client.Post{Author: "2"}, Viewers: viewers, Kinds: []string{}}, []client.DroppedViewer{}},
		{client.FanoutRequest{Post: client.Post{Author: "2"}}, []client.DroppedViewer{}},
		{client.FanoutRequest{Post: client.Post{ID: "p", Author: "9", Related: []string{"q"}, Facets: map[string][]string{"tag": {"x", "y"}}}, Viewers: viewers},
			[]client.DroppedViewer{{Viewer: "5", Kind: "tag-mute", Target: "y"}}},
		{client.FanoutRequest{Post: client.Post{Author: "9", Text: "I like #Go"}, Viewers: viewers}, []client.DroppedViewer{{Viewer: "6", Kind: "word-mute", Target: "#go"}}},
		{client.FanoutRequest{Post: client.Post{Author: "9", Text: "I go"}, Viewers: viewers}, []client.DroppedViewer{}},
	} {
		for _, by := range []*client.Client{messages, jsons} {
			if got, err := by.Fanout(t.Context(), c.req); err != nil || !slices.Equal(got.Dropped, c.want) || len(got.Degraded) != 0 {
				t.Errorf("%+v: %+v, %v, want %v", c.req, got, err, c.want)
			}
		}
	}
	for _, by := range []*client.Client{messages, jsons} {
		_, err := by.Fanout(t.Context(), client.FanoutRequest{Post: client.Post{Author: "2"}, Viewers: []string{""}})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "invalid_id" || e.Field != "viewers[0]" {
			t.Errorf("an empty viewer: %v", err)
		}
	}
}

// explainedAlike fails t unless two clients explain each of the posts to user 1 in the same way.
func explainedAlike(t *testing.T, one, other *client.Client, posts []client.Post) {
	t.Helper()
	reasons, overruled, inText := 0, 0, 0
	for _, p := range append(posts,
		client.Post{ID: "p", Author: "85", Facets: map[string][]string{"domain": {"d17"}}},
		client.Post{ID: "p", Author: "85", Text: "É Climate—CHANGE now"},
	) {
		req := client.ExplainRequest{Viewer: "1", Post: p, Lists: []string{"L", "M"}}
		got, want := must(one.Explain(t.Context(), req)), must(other.Explain(t.Context(), req))
		for _, p := range []*client.Page{&got.Page, &want.Page} {
			if p.Bytes == 0 || p.FalsePositiveRate == 0 {
				t.Errorf("explained from a page %+v", p)
			}
			// The background work may rebuild the page between two explanations.
			p.Bytes, p.FalsePositiveRate = 0, 0
		}
		if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%+v:\nexplained with %#v\nand with       %#v", p, got, want)
		}
		for _, r := range got.Reasons {
			if r.Target != "" {
				reasons++
			}
			if r.OverruledBy == "follow" {
				overruled++
			}
			if at := r.InText; at != (client.TextRange{}) {
				inText++
				if found := p.Text[at.Start:at.End]; r.Target != "climate change" || found != "Climate—CHANGE" {
					t.Errorf("%q is found as %q in %q", r.Target, found, p.Text)
				}
			}
		}
	}
	if reasons == 0 || overruled == 0 || inText != 1 {
		t.Errorf("%d ids are reasons, %d are overruled, %d are in texts", reasons, overruled, inText)
	}
}

// TestFeedMessages: an answer may have unknown fields, and lists of numbers in either encoding. An
// answer that does not fit its request is refused.
func TestFeedMessages(t *testing.T) {
	const unknown = "\x08\x01\x55abcd\x59abcdefgh\xfb\x01\xfc\x01\xf2\x01\x00" // of each wire type, including a group
	const next2 = "\x20\x02"
	asked := client.FilterRequest{
		Posts:  []client.Post{{ID: "a", Author: "x"}, {ID: "b", Author: "y", Actors: []string{"z", "w"}}, {ID: "c"}},
		Answer: client.AnswerDropped, Annotate: []string{"like"},
	}
	feed := func(answer string) (client.Feed, error) {
		c, _ := overMessages(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
			return answered(r, 200, answer, "Content-Type", typeMessage), nil
		})
		return c.Filter(t.Context(), asked)
	}
	const like = "\x1a\x08\x0a\x04like\x12\x00"
	for answer, want := range map[string]client.Feed{
		like: {},
		unknown + "\x12\x06\x08\x00\x12\x02k1" + unknown + like + "\x12\x0d\x08\x01\x12\x02k1\x1a\x01w\x20\x01" + unknown[:2]: {Dropped: []client.Dropped{
			{ID: "a", Kind: "k1"}, {ID: "b", Index: 1, Kind: "k1", Actor: "w", Unconfirmed: true},
		}},
		"\x12\x0b\x08\x02\x12\x02k2\x1a\x03own" + like: {Dropped: []client.Dropped{{ID: "c", Index: 2, Kind: "k2", Actor: "own"}}},
		next2 + "\x1a\x0a\x0a\x04like\x12\x02\x00\x01": {Next: 2, Annotated: map[string][]int{"like": {0, 1}}},
		"\x1a\x0a\x0a\x04like\x10\x00\x10\x02":         {Annotated: map[string][]int{"like": {0, 2}}},
		"\x2a\x08\x0a\x04seen\x12\x00" + like:          {Degraded: []client.Degraded{{Kind: "seen"}}},
		"\x10\x05\x18\x01\x28\x01\x22\x00" + like:      {}, // known fields with another wire type
		"\x12\x00\x12\x02\x08\x01" + like:              {Dropped: []client.Dropped{{ID: "a"}, {ID: "b", Index: 1}}},
	} {
		if want.Annotated == nil {
			want.Annotated = map[string][]int{"like": {}}
		}
		want.Dropped, want.Degraded = append([]client.Dropped{}, want.Dropped...), append([]client.Degraded{}, want.Degraded...)
		if got, err := feed(answer); err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%q: %#v, %v\nwant %#v", answer, got, err, want)
		}
	}
	for name, answer := range map[string]string{
		"none annotated": "", "annotated twice": like + like, "a post too many": "\x12\x02\x08\x03" + like, "beyond next": next2 + "\x12\x02\x08\x02" + like,
		"out of order": "\x12\x02\x08\x01\x12\x02\x08\x00" + like, "twice": "\x12\x02\x08\x01\x12\x02\x08\x01" + like,
		"next is too great": "\x20\x03" + like, "next is far too great": "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + like,
		"annotates a post too many": "\x1a\x09\x0a\x04like\x12\x01\x03", "annotates beyond next": next2 + "\x1a\x08\x0a\x04like\x10\x02",
		"not UTF-8": "\x12\x03\x12\x01\xff" + like, "cut off": like[:5], "no number": "\x20\xff", "no list": "\x1a\x09\x0a\x04like\x12\x01\xff",
		"an odd reason": "\x2a\x01\x08" + like, "an odd dropped": "\x12\x01\x08" + like, "an odd tag": "\x00" + like,
	} {
		if got, err := feed(answer); !errors.Is(err, client.ErrForeign) {
			t.Errorf("%s: %#v, %v", name, got, err)
		}
	}
}

// TestSockets: a URL may name a Unix socket.
func TestSockets(t *testing.T) {
	handler, end, err := openService(t.Context(), t.TempDir(), 10)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ff.sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(func() { server.Close(); end() })
	for _, address := range []string{"unix:" + path, "unix://" + path} {
		for _, h := range []*http.Client{nil, {}, {Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return nil, errCut }}}} {
			c := newClient(t, address, client.Options{HTTPClient: h})
			must(c.Put(t.Context(), "1", client.Block, "2", time.Time{}))
			if counts := must(c.Counts(t.Context(), "1")); counts["block"] != 1 || !must(c.Ready(t.Context())).Answers() {
				t.Errorf("%s: %v", address, counts)
			}
		}
	}
	for _, bad := range []string{"unix:", "unix://"} {
		if _, err := client.New(bad, client.Options{}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if _, err := client.New("unix:"+path, client.Options{HTTPClient: &http.Client{Transport: &counted{}}}); err == nil {
		t.Error("a transport that cannot use a socket is accepted")
	}
	if _, err := newClient(t, "unix:"+path+"x", client.Options{MaxAttempts: 1}).Counts(t.Context(), "1"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("no socket: %v", err)
	}
}

// FuzzMessageAnswer answers messages with anything. No call panics or reads much more than its
// limit.
func FuzzMessageAnswer(f *testing.F) {
	for _, text := range []string{
		"", "\xff", messageText(&feedfilterv1.FilterResponse{Dropped: []*feedfilterv1.Dropped{{Index: 1, Kind: "k"}}, Next: 2, Annotated: []*feedfilterv1.Annotated{{Kind: "like", Posts: []uint32{0}}}}),
		messageText(&feedfilterv1.RecordBatchResponse{Results: []*feedfilterv1.Result{{Changed: true}, {Error: &feedfilterv1.ErrorDetail{Code: "x"}}}}),
		messageText(&feedfilterv1.ListResponse{Items: []*feedfilterv1.Item{{Target: "2"}}, Next: "a"}), refusal("x", 400), refusal("overloaded", 503),
	} {
		f.Add(200, typeMessage, []byte(text))
		f.Add(503, "application/json", []byte(text))
	}
	f.Fuzz(func(t *testing.T, status int, mediaType string, body []byte) {
		if status < 100 || status > 999 {
			t.Skip("no status")
		}
		const limit = 1 << 10
		taken := 0
		transport := &counted{network: func(r *http.Request, _ int) (*http.Response, error) {
			taken = 0
			res := answered(r, status, "", "Content-Type", mediaType)
			in := strings.NewReader(string(body))
			res.Body = io.NopCloser(readerOf(func(p []byte) (int, error) {
				n, err := in.Read(p)
				taken += n
				return n, err
			}))
			return res, nil
		}}
		c := newClient(t, "http://service", client.Options{
			HTTPClient:  &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
			MaxAttempts: 1, MaxAnswerBytes: limit,
		})
		check := func(call string, err error) {
			if err == nil && status/100 != 2 {
				t.Errorf("%s: no error of status %d and %q", call, status, body)
			}
			if taken > 2*limit {
				t.Errorf("%s: %d bytes were read, of at most %d", call, taken, limit)
			}
		}
		ctx := context.Background()
		posts := []client.Post{{ID: "a"}, {ID: "b"}, {ID: "c"}}
		for _, answer := range []string{client.AnswerKept, client.AnswerDropped} {
			feed, err := c.Filter(ctx, client.FilterRequest{Viewer: "1", Posts: posts, Annotate: []string{"like"}, Answer: answer})
			check("filter", err)
			looked := len(posts)
			if feed.Next > 0 {
				looked = feed.Next
			}
			if err == nil && answer == client.AnswerKept && len(feed.Posts)+len(feed.Dropped) != looked {
				t.Errorf("%d candidates make %+v", looked, feed)
			}
		}
		_, err := c.Explain(ctx, client.ExplainRequest{Viewer: "1"})
		check("explain", err)
		_, err = c.Put(ctx, "1", client.Block, "2", time.Time{})
		check("put", err)
		_, err = c.Record(ctx, "1", client.Seen, []string{"a"})
		check("record", err)
		_, err = c.Counts(ctx, "1")
		check("counts", err)
		_, err = c.Get(ctx, "1", client.Block, "2")
		check("get", err)
		results, err := c.Batch(ctx, make([]client.Activity, 2))
		check("batch", err)
		if err == nil && len(results) != 2 {
			t.Errorf("%d results", len(results))
		}
		n := 0
		for _, err = range c.List(ctx, "1", client.Block) {
			n++
			if n > 100 {
				break
			}
		}
		check("list", err)
	})
}
