package migrate_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/migrate"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// until records a block with an end.
func (w *world) until(t *testing.T, user, target string, end time.Duration) {
	t.Helper()
	_, err := w.service(t, "block").Record(t.Context(), []client.Activity{{User: user, Target: target, Until: time.Now().Add(end)}})
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
	want := migrate.Compared{Groups: 4, Activities: 6, Invalid: 1, Missed: 1, Unlisted: 1, Ending: 1, Extra: 1, Leaving: 1}
	if sum != want {
		t.Errorf("compared %+v, want %+v", sum, want)
	}

	w.record(t, "1 block 3", "4 block 5", "6 block 7", "-1 block 9") // like an import of the differences
	sum, found = w.compare(t, "block", sets(t, app))
	if found != nil || sum.Leaving != 1 {
		t.Errorf("after the import: %+v %q, want only one that leaves", sum, found)
	}
}

// TestCompareKinds compares kinds of posts and of a facet, and kinds that annotate.
func TestCompareKinds(t *testing.T) {
	app := redistest.Start(t).Client()
	for _, kind := range []string{"hide", "like", "shun"} {
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
		if sum, found := w.compare(t, kind, s); found != nil {
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
	if sum, found := w.compare(t, "block", sets(t, app)); found != nil {
		t.Errorf("by the sets %+v %q", sum, found)
	}
	c := w.comparison(t, "block", sets(t, app))
	c.All = func(ctx context.Context, each func(activity.Activity) error) error {
		return w.recorder.Export(ctx, "", each)
	}
	_, found := run(t, c)
	wantLines(t, "by the ledger", found, []string{"extra 3 4", "extra 3 5", "extra 6 7"})
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
	c := w.comparison(t, "block", source)
	c.Settle = time.Minute
	if sum, found := run(t, c); found != nil {
		t.Errorf("%+v %q", sum, found)
	}
}

// file returns a source that can be read once, with lines such as "1,block,2".
func file(t *testing.T, lines ...string) *migrate.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := activityfile.Open(name, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	r, err := activityfile.NewReader(t.Context(), f, activity.BuiltinKinds().Check, activityfile.Checkpoint{})
	if err != nil {
		t.Fatal(err)
	}
	return &migrate.File{Lines: r, Kind: "block"}
}

func TestCompareFile(t *testing.T) {
	w := newWorld(t, 0)
	w.record(t, "1 block 2", "1 block 4", "7 block 8")
	sum, found := w.compare(t, "block", file(t, "1,block,2", "2,hide,1", "1,block,3", "7,block,8", "1,hide,p"))
	wantLines(t, "found", found, []string{"missed 1 3", "extra 1 4"})
	if sum.Groups != 2 || sum.Activities != 3 {
		t.Errorf("%+v", sum)
	}
	if sum, found := w.compare(t, "block", file(t)); sum != (migrate.Compared{}) || found != nil {
		t.Errorf("empty source: %+v %q", sum, found)
	}
	for want, lines := range map[string][]string{
		`user "1" appears in two places`: {"1,block,2", "7,block,8", "1,block,3"},
		"line 2: op remove":              {"1,block,2", "1,block,3,remove"},
	} {
		_, _, err := w.comparison(t, "block", file(t, lines...)).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", lines, err, want)
		}
	}
}

// TestCompareMany compares a user with more activities than a request has.
func TestCompareMany(t *testing.T) {
	app := redistest.Start(t).Client()
	w := newWorld(t, 0)
	var lines, recorded, want []string
	for i := range 2000 {
		target := fmt.Sprintf("m%04d", i)
		sadd(t, app, "1", target)
		lines = append(lines, "1,block,"+target)
		if i%2 == 0 {
			recorded = append(recorded, "1 block "+target)
		} else {
			want = append(want, "missed 1 "+target)
		}
	}
	w.record(t, recorded...)
	for _, source := range []migrate.Source{sets(t, app), file(t, lines...)} {
		sum, found := w.compare(t, "block", source)
		if !slices.Equal(found, want) || sum.Activities != 2000 {
			t.Errorf("%T: %d differences, want %d: %+v", source, len(found), len(want), sum)
		}
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
	w.client = newClient(t, w.url, blind{"2"})
	_, found := w.compare(t, "block", sets(t, app))
	wantLines(t, "found", found, []string{"missed 1 2"})
}
