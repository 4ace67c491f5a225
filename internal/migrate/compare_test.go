package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/migrate"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// until records a block with an end.
func (w *world) until(t *testing.T, user, target string, end time.Duration) {
	t.Helper()
	_, err := w.service.Record(t.Context(), []client.Activity{{User: user, Kind: "block", Target: target, Until: time.Now().Add(end)}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCompare(t *testing.T) {
	app := redistest.Start(t).Client()
	w := newWorld(t, 0)
	sadd(t, app, "1", "2", "3", "1")                   // 3 is missed; the second 1 is invalid
	sadd(t, app, "4", "5")                             // not in the ledger, but dropped because 5 blocks 4
	sadd(t, app, "6", "7", "8")                        // they end in the ledger, early or at the app's time
	w.record(t, "1 block 2", "5 block 4", "1 block 9") // 9 is extra
	sadd(t, app, "5", "4")
	w.until(t, "6", "7", 30*time.Second)
	w.until(t, "6", "8", time.Hour)
	w.until(t, "6", "9", 30*time.Second) // extra, but it ends soon

	sum, found := w.compare(t, "block", sets(t, app))
	wantLines(t, "found", found, []string{"missed 1 3", "extra 1 9", "unlisted 4 5", "ending 6 7"})
	sum.Clean, sum.RateHigh = 0, 0 // the tried candidates are random
	want := migrate.Compared{Groups: 4, Activities: 6, Invalid: 1, Missed: 1, Unlisted: 1, Ending: 1, Extra: 1, Leaving: 1}
	if sum != want {
		t.Errorf("compared %+v, want %+v", sum, want)
	}

	w.record(t, "1 block 3", "4 block 5", "6 block 7", "-1 block 9") // like an import of the differences
	sum, found = w.compare(t, "block", sets(t, app))
	if sum.Differences() != 0 || sum.Leaving != 1 {
		t.Errorf("after the import: %+v %q, want only one that leaves", sum, found)
	}
}

// TestCompareKinds compares kinds of posts, and kinds that annotate.
func TestCompareKinds(t *testing.T) {
	app := redistest.Start(t).Client()
	for _, kind := range []string{"hide", "like"} {
		w := newWorld(t, 0)
		s := sets(t, app)
		s.Keys = pattern(t, kind+":{user}")
		app.SAdd(t.Context(), kind+":1", "p1", "p2", "1")
		app.SAdd(t.Context(), kind+":2", "p1", "p3")
		w.record(t, "1 "+kind+" p1", "1 "+kind+" 1", "2 "+kind+" p1", "2 "+kind+" p9", "3 "+kind+" p9")
		sum, found := w.compare(t, kind, s)
		wantLines(t, kind, found, []string{"missed 1 p2", "missed 2 p3", "extra 2 p9"})
		if sum.Activities != 5 {
			t.Errorf("%s: %+v", kind, sum)
		}
	}
}

// TestCompareReversed compares sets by target, of a two-way kind and of another kind.
func TestCompareReversed(t *testing.T) {
	app := redistest.Start(t).Client()
	w := newWorld(t, 0)
	for kind, target := range map[string]string{"block": "u9", "hide": "p9"} {
		s := sets(t, app)
		s.Keys, s.Reverse = pattern(t, kind+":{user}"), true
		app.SAdd(t.Context(), kind+":"+target, "1", "2", "3")
		w.record(t, "1 "+kind+" "+target, "3 "+kind+" "+target)
		sum, found := w.compare(t, kind, s)
		wantLines(t, kind, found, []string{"missed 2 " + target})
		if sum.Activities != 3 {
			t.Errorf("%s: %+v", kind, sum)
		}
		w.record(t, "2 "+kind+" "+target)
		if sum, found := w.compare(t, kind, s); sum.Differences() > 0 {
			t.Errorf("%s, recorded: %+v %q", kind, sum, found)
		}
	}
}

// TestCompareAll compares users of the ledger who have no set.
func TestCompareAll(t *testing.T) {
	app := redistest.Start(t).Client()
	sadd(t, app, "1", "2")
	w := newWorld(t, 0)
	w.record(t, "1 block 2", "3 block 4", "3 block 5", "6 block 7", "3 hide p")
	if sum, found := w.compare(t, "block", sets(t, app)); sum.Differences() > 0 {
		t.Errorf("by the sets %+v %q", sum, found)
	}
	c, found := w.comparison(w.kind(t, "block"), sets(t, app))
	c.All = func(ctx context.Context, each func(activity.Activity) error) error {
		return w.recorder.Export(ctx, "", each)
	}
	if _, err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLines(t, "by the ledger", *found, []string{"extra 3 4", "extra 3 5", "extra 6 7"})
}

// TestCompareOnItsWay checks that a write which has reached only one side is not a difference.
func TestCompareOnItsWay(t *testing.T) {
	app := redistest.Start(t).Client()
	sadd(t, app, "1", "2", "3", "4")
	w := newWorld(t, 0)
	w.record(t, "1 block 4", "1 block 5")
	source := &hooked{Sets: sets(t, app), before: func(call int) {
		switch call {
		case 1:
			w.record(t, "1 block 2") // the write arrives
			app.SRem(t.Context(), "blocks:1", "3")
		case 2:
			w.record(t, "-1 block 5") // this removal, too
		}
	}}
	c, found := w.comparison(w.kind(t, "block"), source)
	c.Settle = time.Minute
	sum, err := c.Run(t.Context())
	if err != nil || sum.Differences() > 0 {
		t.Errorf("%+v %q, %v", sum, *found, err)
	}
}

// records returns a source that can be read once, with a pair for each line, such as "1 2".
func records(lines ...string) *migrate.Records {
	return &migrate.Records{Next: func() (m migrate.Member, ok bool, err error) {
		if len(lines) == 0 {
			return m, false, nil
		}
		user, target, _ := strings.Cut(lines[0], " ")
		lines = lines[1:]
		return migrate.Member{Pair: migrate.Pair{User: user, Target: target}}, true, nil
	}}
}

func TestCompareRecords(t *testing.T) {
	w := newWorld(t, 0)
	w.record(t, "1 block 2", "1 block 4", "7 block 8")
	sum, found := w.compare(t, "block", records("1 2", "1 3", "7 8"))
	wantLines(t, "found", found, []string{"missed 1 3", "extra 1 4"})
	if sum.Groups != 2 || sum.Activities != 3 {
		t.Errorf("%+v", sum)
	}
	if sum, found := w.compare(t, "block", records()); sum != (migrate.Compared{RateHigh: 1}) || found != nil {
		t.Errorf("empty source: %+v %q", sum, found)
	}
	c, _ := w.comparison(w.kind(t, "block"), records("1 2", "7 8", "1 3"))
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `user "1" appears in two places`) {
		t.Errorf("unsorted: %v", err)
	}
}

// chance wrongly drops all posts of one author, unless the request asks the ledger. It chooses the
// author of the first kept post.
type chance struct {
	next http.RoundTripper

	mu     sync.Mutex
	author string
}

func (c *chance) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := c.next.RoundTrip(req)
	if err != nil || req.URL.Path != "/v1/feed/filter" || bytes.Contains(body, []byte(`"exact":true`)) {
		return resp, err
	}
	var asked struct {
		Posts []struct {
			ID     string `json:"id"`
			Author string `json:"author"`
		} `json:"posts"`
	}
	type dropped struct {
		Index int    `json:"index"`
		Kind  string `json:"kind"`
		Actor string `json:"actor,omitempty"`
	}
	var answer struct {
		Dropped  []dropped `json:"dropped"`
		Degraded []any     `json:"degraded"`
	}
	if err := errors.Join(json.Unmarshal(body, &asked), json.NewDecoder(resp.Body).Decode(&answer), resp.Body.Close()); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range asked.Posts {
		at, isDropped := slices.BinarySearchFunc(answer.Dropped, i, func(d dropped, i int) int { return d.Index - i })
		if isDropped {
			continue
		}
		if c.author == "" {
			c.author = p.Author
		}
		if p.Author == c.author {
			answer.Dropped = slices.Insert(answer.Dropped, at, dropped{Index: i, Kind: "block", Actor: p.Author})
		}
	}
	changed, err := json.Marshal(answer)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
	return resp, err
}

// TestCompareFalsePositives checks that false positives are counted, but are not differences.
func TestCompareFalsePositives(t *testing.T) {
	app := redistest.Start(t).Client()
	for u := range 40 {
		sadd(t, app, fmt.Sprint(u), fmt.Sprint("a", u), fmt.Sprint("b", u))
	}
	w := newWorld(t, 0)
	w.importAll(t, "block", sets(t, app))
	w.service = newService(t, w.url, &chance{next: http.DefaultTransport})
	c, found := w.comparison(w.kind(t, "block"), sets(t, app))
	c.Sample = 100
	sum, err := c.Run(t.Context())
	if err != nil || sum.Differences() > 0 {
		t.Fatalf("%+v %q, %v", sum, *found, err)
	}
	if sum.FalsePositives == 0 || sum.FalsePositives >= 40 || sum.Clean < 500 ||
		sum.Rate != float64(sum.FalsePositives)/float64(sum.Clean) || sum.RateLow >= sum.Rate || sum.RateHigh <= sum.Rate {
		t.Errorf("%+v: want one author dropped wherever it was tried, and nothing else", sum)
	}
}

// blind drops no post for one viewer.
type blind struct{ viewer string }

func (b blind) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && bytes.Contains(body, []byte(`"viewer":"`+b.viewer+`"`)) {
		err = resp.Body.Close()
		resp.Body = io.NopCloser(strings.NewReader(`{"dropped":[],"degraded":[]}`))
		resp.ContentLength = -1
	}
	return resp, err
}

// TestCompareOtherSide checks that a two-way activity is missed if the other user's feed shows it.
func TestCompareOtherSide(t *testing.T) {
	app := redistest.Start(t).Client()
	sadd(t, app, "1", "2")
	w := newWorld(t, 0)
	w.record(t, "1 block 2")
	w.service = newService(t, w.url, blind{"2"})
	_, found := w.compare(t, "block", sets(t, app))
	wantLines(t, "found", found, []string{"missed 1 2"})
}
