package integration

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/internal/elasticachetest"
)

// trace holds the test data as activities and as an exact model.
type trace struct {
	activities []traced
	posts      []post
	people     []string
	related    map[string][]string // by person: who has blocked them, or was blocked by them
	byAuthor   map[string][]int    // indexes of posts
	blocked    map[[2]string]bool  // blocker, blocked
	liked      map[[2]string]bool  // who, post
}

type traced struct {
	User   string `json:"user"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Op     string `json:"op"`
}

func loadTrace(t testing.TB) *trace {
	t.Helper()
	f, err := os.Open("testdata/bitcoin-otc.csv.gz")
	must(t, err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	must(t, err)
	rows, err := csv.NewReader(z).ReadAll()
	must(t, err)
	tr := &trace{related: map[string][]string{}, byAuthor: map[string][]int{}, blocked: map[[2]string]bool{}, liked: map[[2]string]bool{}}
	known := map[string]bool{}
	for i, row := range rows {
		source, target := row[0], row[1]
		rating, err := strconv.Atoi(row[2])
		must(t, err)
		for _, p := range row[:2] {
			if !known[p] {
				known[p] = true
				tr.people = append(tr.people, p)
			}
		}
		if rating < 0 {
			tr.activities = append(tr.activities, traced{source, "block", target, "add"})
			tr.blocked[[2]string{source, target}] = true
			tr.related[source] = append(tr.related[source], target)
			tr.related[target] = append(tr.related[target], source)
			continue
		}
		p := fmt.Sprint("p", i)
		tr.activities = append(tr.activities, traced{source, "like", p, "add"})
		tr.liked[[2]string{source, p}] = true
		tr.byAuthor[target] = append(tr.byAuthor[target], len(tr.posts))
		tr.posts = append(tr.posts, post{ID: p, Author: target})
	}
	if blocks := len(tr.blocked); len(rows) != 35592 || len(tr.people) != 5881 || blocks != 3563 {
		t.Fatalf("%d rows, %d people, %d blocks", len(rows), len(tr.people), blocks)
	}
	return tr
}

// TestTrace sends the whole trace to a service on Redis. It compares a feed of 500 candidates of
// some people with the model, chosen at random, TestLongTrace of all.
func TestTrace(t *testing.T) {
	t.Parallel()
	loadTrace(t).onRedis(t, startRedis(t), 100)
}

func TestLongTrace(t *testing.T) {
	t.Parallel()
	tr := loadTrace(t)
	people := len(tr.people)
	if testing.Short() {
		people /= 8
	}
	tr.onRedis(t, startRedis(t), people)
}

// onRedis sends the trace in batches, compares the feeds of that many people, and counts the Redis
// commands of 100 feeds.
func (tr *trace) onRedis(t *testing.T, server *cache, people int) {
	t.Helper()
	// At this rate a scrub round takes a minute.
	s := serve(t, "--data-dir", t.TempDir(), "--redis", server.URL(), "--scrub-rate", "1")
	tr.sendBatches(t, s)
	first := rand.IntN(len(tr.people))
	tr.compare(t, s, first, people)
	others := []string{"info"}
	if server.kind == elasticachetest.Serverless {
		others = append(others, "replconf", "cluster|slots") // sent by the replica, and by clients that look for the primary
	}
	// Now and then the service looks at a few pages by itself. What belongs to feeds is there each
	// time.
	var unexpected string
	for range 5 {
		before := server.CommandStats()
		tr.compare(t, s, first, 100)
		unexpected = ""
		for name, n := range server.CommandStats() {
			if sent := n - before[name]; sent > 0 && !slices.Contains(others, name) && (name != "mget" || sent != 100) {
				unexpected += fmt.Sprintf(", %d of %s", sent, name)
			}
		}
		if unexpected == "" {
			return
		}
	}
	t.Errorf("100 feeds of 500 candidates, five times, beside other commands than 100 of mget; the last time%s", unexpected)
}

func (tr *trace) sendBatches(t *testing.T, s *service) {
	t.Helper()
	batches := slices.Collect(slices.Chunk(tr.activities, 1000))
	each(t, len(batches), 4, func(i int) error {
		var answer struct{ Results []struct{ Changed bool } }
		var err error
		for range 10 { // on a busy machine a batch may not be answered in time: a client sends it again
			err = s.call(http.MethodPost, "/v1/activities", map[string]any{"activities": batches[i]}, &answer)
			if refused, _ := errors.AsType[statusError](err); refused.status != http.StatusServiceUnavailable {
				break
			}
		}
		if err == nil && len(answer.Results) != len(batches[i]) {
			err = fmt.Errorf("%d results of %d", len(answer.Results), len(batches[i]))
		}
		return err
	})
}

// each calls do for 0 to n-1 with that many workers, and fails the test at the first error.
func each(t *testing.T, n, workers int, do func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && !t.Failed(); i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// compare compares the feeds of n people, from the first of them on, with the model. No feed may
// miss an activity. The service may drop at most 0.1 % of the candidates without activities.
func (tr *trace) compare(t *testing.T, s *service, first, n int) {
	t.Helper()
	var dropped, clean, wrong atomic.Int64
	each(t, n, 4, func(i int) error {
		i = (first + i) % len(tr.people)
		viewer := tr.people[i]
		q := feedRequest{Viewer: viewer, Posts: tr.candidates(viewer, uint64(i)), Annotate: []string{"like"}}
		a, err := s.feed(q)
		if err != nil {
			return fmt.Errorf("viewer %s: %w", viewer, err)
		}
		if len(a.Degraded) > 0 {
			return fmt.Errorf("viewer %s: degraded %v", viewer, a.Degraded)
		}
		next := 0
		for _, p := range q.Posts {
			hidden := tr.blocked[[2]string{viewer, p.Author}] || tr.blocked[[2]string{p.Author, viewer}]
			kept := next < len(a.Posts) && a.Posts[next].ID == p.ID
			if kept {
				if l := a.Posts[next].Like; l == nil || tr.liked[[2]string{viewer, p.ID}] && !*l {
					return fmt.Errorf("viewer %s: the like of %s is missed", viewer, p.ID)
				}
				next++
			}
			switch {
			case hidden && kept:
				return fmt.Errorf("viewer %s sees %+v", viewer, p)
			case hidden:
				dropped.Add(1)
			default:
				clean.Add(1)
				if !kept {
					wrong.Add(1)
				}
			}
		}
		if next != len(a.Posts) {
			return fmt.Errorf("viewer %s: the kept posts are not the requested ones in order", viewer)
		}
		return nil
	})
	t.Logf("%d feeds from person %d: %d posts dropped rightly, %d of %d clean ones wrongly", n, first, dropped.Load(), wrong.Load(), clean.Load())
	if wrong.Load()*1000 > clean.Load() {
		t.Errorf("%d of %d clean posts dropped, more than 0.1 %%", wrong.Load(), clean.Load())
	}
	if dropped.Load() == 0 {
		t.Error("no feed had a post to drop")
	}
}

// candidates picks 500 posts for a viewer. Up to 250 are by people who have blocked the viewer or
// whom the viewer has blocked.
func (tr *trace) candidates(viewer string, seed uint64) []post {
	rng := rand.New(rand.NewPCG(seed, 500))
	picked := map[int]bool{}
	for _, other := range tr.related[viewer] {
		for _, p := range tr.byAuthor[other] {
			if len(picked) < 250 {
				picked[p] = true
			}
		}
	}
	for len(picked) < 500 {
		picked[rng.IntN(len(tr.posts))] = true
	}
	indices := make([]int, 0, len(picked))
	for p := range picked {
		indices = append(indices, p)
	}
	slices.Sort(indices)
	posts := make([]post, 0, len(picked))
	for _, p := range indices {
		posts = append(posts, tr.posts[p])
	}
	return posts
}
