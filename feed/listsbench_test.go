package feed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const (
	shortLists, shortMembers = 5000, 1000
	longLists, longMembers   = 10, 200_000
)

// BenchmarkLists checks feeds of 500 posts that name shared lists, on Redis, among 5,000 lists of
// 1,000 members and 10 of 200,000. Feeds with no list, with short ones and with long ones take
// turns with a PING. more-pings is by how many PINGs the median exceeds that of a feed without
// lists.
func BenchmarkLists(b *testing.B) {
	server := redistest.Start(b)
	kinds := moreKinds(b, activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop})
	r := openWith(b, activity.Config{Ledger: openLedger(b, 16384), Store: redisStore(b, server), Kinds: kinds, ScrubRate: 1})
	muteMany(b, r, "short", shortLists, shortMembers)
	muteMany(b, r, "long", longLists, longMembers)
	groups := []struct {
		name  string
		lists func(i int) []string
	}{
		{"none", func(int) []string { return nil }},
		{"1-short", func(i int) []string { return named("short", i, 1, shortLists) }},
		{"20-short", func(i int) []string { return named("short", 20*i, 20, shortLists) }},
		{"1-long", func(i int) []string { return named("long", i, 1, longLists) }},
		{"10-long", func(i int) []string { return named("long", i, 10, longLists) }},
	}
	requests := candidates(500)
	once := func(g, i int) time.Duration {
		q := requests[i%len(requests)]
		q.Lists = groups[g].lists(i)
		start := time.Now()
		check(b, r, q)
		return time.Since(start)
	}
	for g := range groups { // pages are held
		for i := range shortLists / 20 {
			once(g, i)
		}
	}
	client := server.Client()
	took := make([][]time.Duration, len(groups)+1)
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		must(b, client.Ping(b.Context()).Err())
		took[len(groups)] = append(took[len(groups)], time.Since(start))
		for g := range groups {
			took[g] = append(took[g], once(g, i))
		}
	}
	ping, none := median(took[len(groups)]), median(took[0])
	b.ReportMetric(float64(ping.Nanoseconds()), "ping-ns")
	for g, group := range groups {
		b.ReportMetric(float64(median(took[g]).Nanoseconds())/1000, group.name+"-us")
		b.ReportMetric(float64(median(took[g])-none)/float64(ping), group.name+"-more-pings")
	}
	b.ReportMetric(0, "ns/op") // covers all groups: meaningless
}

// named returns n names of lists from number i on, of so many.
func named(name string, i, n, of int) (lists []string) {
	for k := range n {
		lists = append(lists, fmt.Sprint(name, (i+k)%of))
	}
	return lists
}

// muteMany has each of so many lists of a name mute so many users.
func muteMany(b *testing.B, r *activity.Recorder, name string, lists, members int) {
	b.Helper()
	bulk := r.NewBulk()
	var batch []activity.Activity
	for i := range lists * members {
		list := fmt.Sprint(name, i/members)
		batch = append(batch, activity.Activity{User: list, Kind: "mute", Target: fmt.Sprint(list, "/", i)})
		if len(batch) < 200_000 && i < lists*members-1 {
			continue
		}
		recordBulk(b, r, bulk, batch)
		batch = batch[:0]
	}
	must(b, bulk.Finish(b.Context()))
}
