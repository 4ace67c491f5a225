package sampler_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sampled is a Recorder whose feeds are all compared with the ledger, on one page.
type sampled struct {
	*activity.Recorder
	*sampler.Sampler

	ledger *ledger.Ledger
	store  favfilter.Store
	log    *buffer
	asked  uint64
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// lines are those logged with the message.
func (b *buffer) lines(t *testing.T, message string) (lines []map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for text := range strings.Lines(b.text.String()) {
		var line map[string]any
		must(t, json.Unmarshal([]byte(text), &line))
		if line["msg"] == message {
			lines = append(lines, line)
		}
	}
	return lines
}

// newSampled opens c with a ledger of one page. around, unless it is nil, is called in place of its
// calls.
func newSampled(t *testing.T, c activity.Config, around ledger.Around) *sampled {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 1})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	s := &sampled{ledger: l, log: &buffer{}}
	if c.Ledger = l; around != nil {
		c.Ledger = l.Around(around)
	}
	if c.Store == nil {
		c.Store = &favfilter.Memory{}
	}
	s.store = c.Store
	c.Passive = c.ScrubRate == 0 // otherwise the scrubber may find what the sampler is to find
	if c.FalsePositiveRate == 0 {
		c.FalsePositiveRate = 1e-8
	}
	if s.Recorder, err = activity.Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Recorder.Close)
	s.sample(t, 1)
	return s
}

// sample has the share of feeds compared.
func (s *sampled) sample(t *testing.T, rate float64) {
	t.Helper()
	var err error
	s.Sampler, err = sampler.New(s.Recorder, sampler.Config{
		Rate: rate, Logger: slog.New(slog.NewJSONHandler(s.log, nil)), HashID: func(id string) string { return fmt.Sprintf("#%d", len(id)) },
	})
	must(t, err)
	t.Cleanup(s.Sampler.Close)
}

// Close is the Sampler's: the Recorder is closed when the test ends.
func (s *sampled) Close() { s.Sampler.Close() }

// Stats are the Sampler's.
func (s *sampled) Stats() sampler.Stats { return s.Sampler.Stats() }

// feed answers a feed and has it compared.
func (s *sampled) feed(t *testing.T, req feed.Request) answer {
	t.Helper()
	a, chosen, err := s.Filter(t.Context(), req)
	must(t, err)
	if chosen == nil {
		t.Fatal("the feed was not chosen")
	}
	s.asked++
	chosen.Compare(t.Context(), slog.String("request_id", fmt.Sprint("r", s.asked)))
	return a
}

// compared waits until all feeds are, and returns what was counted.
func (s *sampled) compared(t *testing.T) sampler.Stats {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		now := s.Stats()
		if now.Feeds+now.Skipped+now.Errors == s.asked {
			return now
		}
		if time.Now().After(end) {
			t.Fatalf("%d feeds are not compared: %+v", s.asked, now)
		}
		time.Sleep(time.Millisecond)
	}
}

// want compares what was counted, but for the number of feeds and candidates.
func (s *sampled) want(t *testing.T, want sampler.Stats) {
	t.Helper()
	got := s.compared(t)
	got.Feeds, got.Candidates = want.Feeds, want.Candidates
	if got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// tamper replaces the page, see [faulttest.Tamper].
func (s *sampled) tamper(t *testing.T, lost, madeUp []string) {
	t.Helper()
	faulttest.Tamper(t, s.ledger, s.store, lost, madeUp)
}

// ask answers a feed, as the service does, and chooses whether to compare it.
func ask(ctx context.Context, s *sampler.Sampler, a feed.Activities, req feed.Request) (answer, *sampler.Sampled, error) {
	chosen := s.Choose()
	checked, err := feed.Check(ctx, a, req)
	if err != nil {
		return answer{}, nil, err
	}
	if err := checked.RecordSeen(ctx); err != nil {
		return answer{}, nil, err
	}
	chosen.Answered(checked)
	return answer{checked.Answer, req}, chosen, nil
}

// Filter answers a feed of the Recorder.
func (s *sampled) Filter(ctx context.Context, req feed.Request) (answer, *sampler.Sampled, error) {
	return ask(ctx, s.Sampler, s.Recorder, req)
}

// record takes lines such as "1 block 2".
func record(t testing.TB, r *activity.Recorder, lines ...string) {
	t.Helper()
	var batch []activity.Activity
	for _, line := range lines {
		f := strings.Fields(line)
		batch = append(batch, activity.Activity{User: f[0], Kind: f[1], Target: f[2]})
	}
	if _, err := r.Record(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

// answer is an answer to a request, which knows the ids of the posts.
type answer struct {
	feed.Answer

	req feed.Request
}

// annotated reports whether post number at is annotated by the i-th kind of the request.
func (a answer) annotated(i, at int) bool { return slices.Contains(a.Annotated[i], at) }

func kept(a answer) (ids []string) {
	for _, at := range a.Kept {
		ids = append(ids, a.req.Posts[at].ID)
	}
	return ids
}

func posts(author string, ids ...string) []feed.Post {
	list := make([]feed.Post, len(ids))
	for i, id := range ids {
		list[i] = feed.Post{ID: id, Author: author}
	}
	return list
}

func numbered(n int) []feed.Post {
	list := make([]feed.Post, n)
	for i := range list {
		list[i] = feed.Post{ID: fmt.Sprint("post", i), Author: fmt.Sprint("author", i)}
	}
	return list
}

// each runs test with pages of the process, and in Redis.
func each(t *testing.T, test func(t *testing.T, s *sampled)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, newSampled(t, activity.Config{}, nil)) })
	server := redistest.Start(t)
	t.Run("redis", func(t *testing.T) {
		store, err := redisstore.New(server.Client(), "feed")
		must(t, err)
		test(t, newSampled(t, activity.Config{Store: store}, nil))
	})
}

// A page has lost keys, and its header does not show it. The sampler finds each key that a feed
// missed and no other, and has the page rebuilt.
func TestSamplerFindsMisses(t *testing.T) {
	each(t, func(t *testing.T, s *sampled) {
		record(t, s.Recorder, "1 block 20", "30 block 1", "1 hide p7", "1 like p8", "1 block 4", "1 hide p6", "1 like p5", "9 block 8", "1 hide elsewhere", "1 block 25")
		req := feed.Request{Viewer: "1", Annotate: []string{"like"}, Posts: []feed.Post{
			{ID: "p1", Author: "20"}, {ID: "p2", Author: "30"}, {ID: "p3", Author: "5", Actors: []string{"6", "20"}}, {ID: "p7", Author: "5"},
			{ID: "p8", Author: "5"}, {ID: "p9", Author: "4"}, {ID: "p6", Author: "5"}, {ID: "p5", Author: "5"}, {ID: "p4", Author: "5", Actors: []string{"25"}},
			{ID: "own", Author: "1", Actors: []string{"1"}},
		}}
		s.tamper(t, []string{"1 block 20", "1 blocked-by 30", "1 hide p7", "1 like p8", "9 block 8", "1 hide elsewhere", "1 block 25"}, nil)
		a := s.feed(t, req)
		if got := strings.Join(kept(a), " "); got != "p1 p2 p3 p7 p8 p5 p4 own" {
			t.Fatalf("kept %s", got)
		}
		got := s.compared(t)
		if want := (sampler.Stats{Feeds: 1, Candidates: 10, Misses: 6, Repaired: 1}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		lines := s.log.lines(t, "a feed missed what the ledger has")
		var kinds []string
		for _, line := range lines {
			kinds = append(kinds, fmt.Sprint(line["kind"], line["target_hash"]))
			if line["level"] != "ERROR" || line["request_id"] != "r1" || line["page"] != 0.0 || line["viewer_hash"] != "#1" || line["misses"] != 6.0 {
				t.Errorf("logged %v", line)
			}
		}
		if got := strings.Join(kinds, ","); got != "block#2,block#2,block#2,hide#2,like#2,block#2" {
			t.Errorf("logged misses of %s", got)
		}
		if text := s.log.text.String(); strings.Contains(text, `"p7"`) || strings.Contains(text, `"20"`) {
			t.Errorf("ids in the log: %s", text)
		}
		a = s.feed(t, req)
		if got := strings.Join(kept(a), " "); got != "p8 p5 own" || !a.annotated(0, a.Kept[0]) {
			t.Errorf("then kept %s, %v", got, a.Kept)
		}
		s.want(t, sampler.Stats{Misses: 6, Repaired: 1})
	})
}

// The ids of a post's facets are compared as its others.
func TestSamplerComparesFacets(t *testing.T) {
	kinds, err := activity.NewKinds(append(activity.BuiltinKinds().All(),
		activity.Kind{Name: "shun", Plural: "shuns", Target: "domain", Effect: activity.Drop})...)
	must(t, err)
	s := newSampled(t, activity.Config{Store: &favfilter.Memory{}, Kinds: kinds}, nil)
	record(t, s.Recorder, "1 shun x.example", "1 shun y.example", "1 hide p9")
	s.tamper(t, []string{"1 shun x.example"}, []string{"1 shun z.example"})
	post := func(id string, domains ...string) feed.Post {
		return feed.Post{ID: id, Author: "5", Facets: map[activity.Facet][]string{"domain": domains}}
	}
	req := feed.Request{Viewer: "1", Posts: []feed.Post{
		post("p1", "a.example", "x.example"), post("p2", "x.example", "y.example"), post("p3", "a.example", "z.example"), post("p4"), {ID: "p5", Author: "5"},
	}}
	if got := strings.Join(kept(s.feed(t, req)), " "); got != "p1 p4 p5" {
		t.Fatalf("kept %s", got)
	}
	if got, want := s.compared(t), (sampler.Stats{Feeds: 1, Candidates: 5, Misses: 1, FalsePositives: 1, Repaired: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if got := strings.Join(kept(s.feed(t, req)), " "); got != "p3 p4 p5" {
		t.Errorf("then kept %s", got)
	}
}

// Related ids are compared as a post's own, and users only in the roles that a kind looks at.
func TestSamplerComparesRelatedAndRoles(t *testing.T) {
	kinds, err := activity.NewKinds(append(activity.BuiltinKinds().All(),
		activity.Kind{Name: "no-repost", Plural: "no-reposts", Target: activity.User, Effect: activity.Drop, Roles: []string{"repost"}})...)
	must(t, err)
	s := newSampled(t, activity.Config{Store: &favfilter.Memory{}, Kinds: kinds}, nil)
	record(t, s.Recorder, "1 hide lost", "1 hide o", "1 no-repost 7", "1 no-repost 8")
	s.tamper(t, []string{"1 hide lost", "1 no-repost 7"}, []string{"1 hide made-up"})
	post := func(actor, role string, related ...string) feed.Post {
		return feed.Post{ID: "p", Author: "5", Actors: []string{actor}, Roles: []string{role}, Related: related}
	}
	req := feed.Request{Viewer: "1", Posts: []feed.Post{
		post("6", "", "a", "lost"), post("6", "", "o", "lost"), post("6", "", "made-up"), post("7", "repost"), post("7", "quote"), post("8", "quote"),
		post("8", "repost"), {ID: "o", Author: "5", Related: []string{"made-up"}},
	}}
	a := s.feed(t, req)
	if want := []int{0, 3, 4, 5}; !slices.Equal(a.Kept, want) {
		t.Fatalf("kept %v, want %v", a.Kept, want)
	}
	if got, want := s.compared(t), (sampler.Stats{Feeds: 1, Candidates: 8, Misses: 2, FalsePositives: 1, Repaired: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if a, want := s.feed(t, req), []int{2, 4, 5}; !slices.Equal(a.Kept, want) {
		t.Errorf("then kept %v, want %v", a.Kept, want)
	}
}

// What a page reports and the ledger does not have is counted, each once for a post.
func TestSamplerFindsFalsePositives(t *testing.T) {
	each(t, func(t *testing.T, s *sampled) {
		record(t, s.Recorder, "1 block 2", "1 hide p2", "1 like p3")
		s.tamper(t, nil, []string{"1 block 3", "1 blocked-by 4", "1 hide p5", "1 like p6", "1 hide nowhere"})
		req := feed.Request{Viewer: "1", Annotate: []string{"like"}, Posts: []feed.Post{
			{ID: "p1", Author: "2"}, {ID: "p2", Author: "5"}, {ID: "p3", Author: "5"}, // right
			{ID: "p4", Author: "3"}, {ID: "p0", Author: "5", Actors: []string{"4"}}, {ID: "p5", Author: "5"}, {ID: "p6", Author: "5"},
		}}
		a := s.feed(t, req)
		if got := strings.Join(kept(a), " "); got != "p3 p6" {
			t.Fatalf("kept %s", got)
		}
		s.want(t, sampler.Stats{FalsePositives: 4})
		req.Exact = true
		if got := strings.Join(kept(s.feed(t, req)), " "); got != "p3 p4 p0 p5 p6" {
			t.Fatalf("kept %s", got)
		}
		s.want(t, sampler.Stats{FalsePositives: 4})
		if n := s.Recorder.Stats(); n.Confirmed != 7 || n.FalsePositives != 4 {
			t.Errorf("of the Recorder's own, %d of %d are false", n.FalsePositives, n.Confirmed)
		}
	})
}

// In feeds of all sorts on a sound page the sampler finds no error. It counts the candidates that
// it looked at.
func TestSamplerOfSoundFeeds(t *testing.T) {
	s := newSampled(t, activity.Config{}, nil)
	record(t, s.Recorder, "1 block 2", "3 block 1", "1 hide a", "1 like c", "1 seen d")
	all := posts("4", "a", "b", "c", "d", "e", "a", "b")
	all = append(all, feed.Post{ID: "f", Author: "2"}, feed.Post{ID: "f", Author: "9"}, feed.Post{ID: "f", Author: "3"})
	for _, c := range []struct {
		req  feed.Request
		kept string
		n    uint64
	}{
		{feed.Request{}, "b c e b f", 10},
		{feed.Request{Annotate: []string{"like"}}, "b c e b f", 10},
		{feed.Request{Limit: 1, Kinds: []string{"block"}}, "a", 1},
		{feed.Request{Limit: 2}, "b c", 3},
		{feed.Request{Limit: 5}, "b c e b f", 9},
		{feed.Request{Kinds: []string{"hide"}}, "b c d e b f f f", 10}, //nolint:dupword // they are ids
		{feed.Request{Exact: true, Annotate: []string{"like"}}, "b c e b f", 10},
		{feed.Request{RecordSeen: true, Annotate: []string{"like"}}, "b c e f", 10},
		{feed.Request{RecordSeen: true}, "", 10},
	} {
		before := s.compared(t).Candidates
		c.req.Viewer, c.req.Posts = "1", all
		if got := strings.Join(kept(s.feed(t, c.req)), " "); got != c.kept {
			t.Errorf("kept %s, want %s", got, c.kept)
		}
		if n := s.compared(t).Candidates - before; n != c.n {
			t.Errorf("%d candidates compared, want %d", n, c.n)
		}
		s.want(t, sampler.Stats{})
	}
	for _, kinds := range [][]string{{}, {"seen"}} {
		before := s.compared(t)
		s.feed(t, feed.Request{Viewer: "1", Posts: all, Kinds: kinds})
		s.asked-- // nothing can tell
		if now := s.compared(t); now != before {
			t.Errorf("kinds %q: compared, although nothing can tell: %+v", kinds, now)
		}
	}
	if _, chosen, err := s.Filter(t.Context(), feed.Request{}); chosen != nil || err == nil {
		t.Errorf("a refused feed: %v, %v", chosen, err)
	}
}
