package feed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// BenchmarkFeedSeen checks feeds of 500 posts of viewers who have seen so many posts in the last 30
// days, and with record it also records 50 posts as seen. On Redis each check takes turns with a
// PING; x-ping is the ratio of the medians.
func BenchmarkFeedSeen(b *testing.B) {
	for _, keys := range []int{650, 5000} {
		for _, recorded := range []int{0, 50} {
			name := fmt.Sprintf("%d/record%d", keys, recorded)
			b.Run("memory/"+name, func(b *testing.B) {
				now := time.Now().Add(-29 * 24 * time.Hour)
				store := &favfilter.Memory{Now: func() time.Time { return now }}
				r := openSeen(b, store, &now, keys)
				requests := seenRequests(recorded)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					checkSeen(b, r, requests[i%len(requests)], recorded)
				}
			})
			b.Run("redis/"+name, func(b *testing.B) {
				server := redistest.Start(b)
				store := redisStore(b, server)
				now := time.Now().Add(-29 * 24 * time.Hour)
				r := openSeen(b, store, &now, keys)
				requests := seenRequests(recorded)
				besidePings(b, server, func(i int) { checkSeen(b, r, requests[i%len(requests)], recorded) })
			})
		}
	}
}

// openSeen returns a Recorder of user 1, who has seen so many posts, as many each day.
func openSeen(b *testing.B, store favfilter.Store, now *time.Time, keys int) *activity.Recorder {
	b.Helper()
	r := openWith(b, activity.Config{Store: store, Now: func() time.Time { return *now }})
	for day := range 30 {
		var lines []string
		for i := day * keys / 30; i < (day+1)*keys/30; i++ {
			lines = append(lines, fmt.Sprint("1 seen old", i))
		}
		record(b, r, lines...)
		*now = now.Add(24 * time.Hour)
	}
	record(b, r, "1 hide p", "1 block 2", "1 like q")
	return r
}

// seenRequests returns feeds; if posts are recorded, no more than 12 feeds, so that those seen stay
// few.
func seenRequests(recorded int) []feed.Request {
	requests := candidates(500)
	if recorded > 0 {
		requests = requests[:12]
	}
	for i := range requests {
		requests[i].RecordSeen, requests[i].Limit = recorded > 0, recorded
	}
	return requests
}

func checkSeen(b *testing.B, r *activity.Recorder, q feed.Request, recorded int) {
	b.Helper()
	a, err := feed.Filter(b.Context(), r, q)
	if err != nil || recorded == 0 && len(a.Kept) < 490 {
		b.Fatalf("%d of %d kept, %v", len(a.Kept), len(q.Posts), err)
	}
}
