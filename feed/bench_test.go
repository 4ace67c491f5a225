package feed_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// BenchmarkFeedCheck checks feeds of a viewer with 1,000 activities: every candidate
// against block in both directions, hide and seen. On Redis each check takes turns with a
// PING; x-ping is the ratio of the medians, and what to compare.
func BenchmarkFeedCheck(b *testing.B) {
	sizes := []int{50, 200, 500, 1000}
	b.Run("memory", func(b *testing.B) {
		r := open(b)
		fill(b, r)
		for _, n := range sizes {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				requests := candidates(n)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					check(b, r, requests[i%len(requests)])
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(4*n), "ns/key")
			})
		}
	})
	b.Run("redis", func(b *testing.B) {
		server := redistest.Start(b)
		store := redisStore(b, server)
		r := openWith(b, activity.Config{Store: store})
		fill(b, r)
		for _, n := range sizes {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				requests := candidates(n)
				besidePings(b, server, func(i int) { check(b, r, requests[i%len(requests)]) })
			})
		}
	})
}

// BenchmarkFanout checks 10,000 viewers of a new post, in turns with feeds of 1,000 posts, in
// memory. x-feed is the ratio of the medians.
func BenchmarkFanout(b *testing.B) {
	r := open(b)
	fill(b, r)
	requests := candidates(1000)
	var viewers [][]string
	for i := range 10 {
		var all []string
		for j := range feed.MaxViewers {
			all = append(all, fmt.Sprint("viewer", i, "/", j))
		}
		viewers = append(viewers, all)
	}
	var fanouts, feeds []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		check(b, r, requests[i%len(requests)])
		between := time.Now()
		a, err := feed.Fanout(b.Context(), r, feed.FanoutRequest{Post: feed.Post{Author: "1"}, Viewers: viewers[i%len(viewers)]})
		if err != nil || len(a.Dropped) > feed.MaxViewers/100 {
			b.Fatalf("%d dropped, %v", len(a.Dropped), err)
		}
		feeds, fanouts = append(feeds, between.Sub(start)), append(fanouts, time.Since(between))
	}
	b.ReportMetric(float64(median(fanouts))/float64(median(feeds)), "x-feed")
	b.ReportMetric(float64(median(fanouts).Nanoseconds()), "fanout-ns")
}

// besidePings runs a check in turns with a PING, and reports the medians and their ratio.
func besidePings(b *testing.B, server *redistest.Server, check func(i int)) {
	b.Helper()
	client := server.Client()
	var pings, checks []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		must(b, client.Ping(b.Context()).Err())
		between := time.Now()
		check(i)
		pings = append(pings, between.Sub(start))
		checks = append(checks, time.Since(between))
	}
	b.ReportMetric(float64(median(checks))/float64(median(pings)), "x-ping")
	b.ReportMetric(float64(median(pings).Nanoseconds()), "ping-ns")
	b.ReportMetric(float64(median(checks).Nanoseconds()), "check-ns")
}

func fill(b *testing.B, r *activity.Recorder) {
	b.Helper()
	var lines []string
	for i := range 1000 {
		kind := []string{"hide", "block", "like", "seen"}[i%4]
		lines = append(lines, fmt.Sprintf("1 %s old%d", kind, i))
	}
	record(b, r, lines...)
}

// candidates makes many feeds of n posts: few repeated keys would flatter, since the
// branch predictor learns them.
func candidates(n int) []feed.Request {
	requests := make([]feed.Request, max(1, 32000/n))
	for i := range requests {
		requests[i].Viewer = "1"
		for j := range n {
			requests[i].Posts = append(requests[i].Posts, feed.Post{ID: fmt.Sprint("post", i*n+j), Author: fmt.Sprint("author", i*n+j)})
		}
	}
	return requests
}

func check(b *testing.B, r *activity.Recorder, q feed.Request) {
	b.Helper()
	a, err := feed.Filter(b.Context(), r, q)
	if err != nil || len(a.Kept) < len(q.Posts)*9/10 {
		b.Fatalf("%d of %d kept, %v", len(a.Kept), len(q.Posts), err)
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
