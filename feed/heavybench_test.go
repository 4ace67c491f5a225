package feed_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const (
	botPosts = 2_000_000 // that one user has hidden
	starFans = 300_000   // who have blocked one user
	perPage  = 20        // users of some hundred activities
)

// BenchmarkHeavyUsers checks feeds of 500 posts among 1,024 pages. One page had a bot with two
// million activities, and one had a star whom 300,000 users have blocked. The benchmark measures
// feeds of ordinary users, of users who share a page with the two, and of the two, in turns. p99-x
// and p50-x are ratios to the ordinary users' feeds.
func BenchmarkHeavyUsers(b *testing.B) {
	server := redistest.Start(b)
	store, err := redisstore.New(server.Client(), "feed")
	must(b, err)
	l, err := ledger.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "ledger.db"), ledger.Options{Pages: 1024})
	must(b, err)
	b.Cleanup(func() { _ = l.Close() })
	r, err := activity.Open(b.Context(), activity.Config{Ledger: l, Store: store, ScrubRate: 1})
	must(b, err)
	b.Cleanup(r.Close)
	groups := populate(b, r)
	if n := r.Stats().DedicatedPages; n != 2 {
		b.Fatalf("%d users have dedicated pages, want the bot and the star", n)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	requests := candidates(500)
	took := make([][]time.Duration, len(groups))
	once := func(g int) time.Duration {
		q := requests[rng.IntN(len(requests))]
		q.Viewer = groups[g].users[rng.IntN(len(groups[g].users))]
		start := time.Now()
		_, err := feed.Filter(b.Context(), r, q)
		must(b, err)
		return time.Since(start)
	}
	for g := range groups { // pages are met
		for range 200 {
			once(g)
		}
	}
	for b.Loop() {
		for g := range groups {
			took[g] = append(took[g], once(g))
		}
	}
	for g := range groups {
		slices.Sort(took[g])
	}
	all := took[0]
	for g, d := range took {
		b.ReportMetric(float64(d[len(d)/2])/float64(all[len(all)/2]), groups[g].name+"-p50-x")
		b.ReportMetric(float64(d[len(d)*99/100])/float64(all[len(all)*99/100]), groups[g].name+"-p99-x")
		b.ReportMetric(float64(d[len(d)*99/100].Microseconds()), groups[g].name+"-p99-us")
	}
	b.ReportMetric(float64(r.Stats().FromHeld), "held")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// viewers are users whose feeds are measured.
type viewers struct {
	name  string
	users []string
}

// populate records what the benchmark says, and returns the groups: anybody first.
func populate(b *testing.B, r *activity.Recorder) []viewers {
	b.Helper()
	groups := []viewers{{name: "anybody"}, {name: "mates"}, {name: "bot", users: []string{"bot"}}, {name: "star", users: []string{"star"}}}
	bulk := r.NewBulk()
	var batch []activity.Activity
	flush := func() {
		recordBulk(b, r, bulk, batch)
		batch = batch[:0]
	}
	add := func(user, kind, target string) {
		batch = append(batch, activity.Activity{User: user, Kind: kind, Target: target})
		if len(batch) == 200_000 {
			flush()
		}
	}
	for u := range 1024 * perPage {
		user := fmt.Sprint("u", u)
		groups[0].users = append(groups[0].users, user)
		for i := range 100 {
			add(user, "hide", fmt.Sprint("old", u, "/", i))
		}
	}
	for i := range botPosts {
		add("bot", "hide", fmt.Sprint("b", i))
	}
	for i := range starFans {
		add(fmt.Sprint("fan", i), "block", "star")
	}
	flush()
	must(b, bulk.Finish(b.Context()))
	pages := make(map[uint32]bool)
	for _, heavy := range []string{"bot", "star"} {
		pages[pageOf(b, r, heavy)] = true
	}
	for _, user := range groups[0].users {
		if pages[pageOf(b, r, user)] {
			groups[1].users = append(groups[1].users, user)
		}
	}
	return groups
}

func pageOf(b *testing.B, r *activity.Recorder, user string) uint32 {
	b.Helper()
	v, err := r.View(b.Context(), user, r.Kinds().All())
	must(b, err)
	return v.Page().Number
}
