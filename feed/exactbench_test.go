package feed_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// BenchmarkExact checks the largest exact feed, in which 20 lists mute everybody, and an exact
// fan-out to 10,000 viewers who mute everybody on the post. cpu-ms is the processor time of each.
func BenchmarkExact(b *testing.B) {
	kinds, err := activity.NewKinds(append(activity.BuiltinKinds().All(),
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Fanout: true})...)
	must(b, err)
	r := openWith(b, activity.Config{Kinds: kinds, Passive: true})
	user := func(n int) string { return fmt.Sprint("u", n) }
	req := feed.Request{Viewer: "1", Exact: true, Lists: named("list", 0, feed.MaxLists, feed.MaxLists)}
	for n := range feed.MaxPosts {
		req.Posts = append(req.Posts, feed.Post{ID: fmt.Sprint("p", n), Author: user(3 * n), Actors: []string{user(3*n + 1), user(3*n + 2)}})
	}
	fanout := feed.FanoutRequest{Exact: true, Post: feed.Post{ID: "p", Author: user(0)}, Viewers: named("viewer", 0, feed.MaxViewers, feed.MaxViewers)}
	const actors = 15
	for n := range actors {
		fanout.Post.Actors = append(fanout.Post.Actors, user(n+1))
	}
	bulk := r.NewBulk()
	muteAll := func(owners []string, users int) {
		for from := 0; from < len(owners); from += 200_000 / users {
			var batch []activity.Activity
			for _, owner := range owners[from:min(len(owners), from+200_000/users)] {
				for n := range users {
					batch = append(batch, activity.Activity{User: owner, Kind: "mute", Target: user(n)})
				}
			}
			recordBulk(b, r, bulk, batch)
		}
	}
	muteAll(req.Lists, 3*feed.MaxPosts)
	muteAll(fanout.Viewers, 1+actors)
	must(b, bulk.Finish(b.Context()))
	b.Run("feed", func(b *testing.B) {
		cpu(b, func() {
			if a, err := feed.Filter(b.Context(), r, req); err != nil || len(a.Dropped) != feed.MaxPosts {
				b.Fatalf("%d posts dropped, %v", len(a.Dropped), err)
			}
		})
	})
	b.Run("fan-out", func(b *testing.B) {
		cpu(b, func() {
			if a, err := feed.Fanout(b.Context(), r, fanout); err != nil || len(a.Dropped) != feed.MaxViewers {
				b.Fatalf("%d viewers dropped, %v", len(a.Dropped), err)
			}
		})
	})
}

// cpu runs do for a benchmark, and reports the processor time that each run takes.
func cpu(b *testing.B, do func()) {
	b.Helper()
	b.ReportAllocs()
	used := func() time.Duration {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	for b.Loop() {
		do()
	}
	b.ReportMetric(float64((used()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
