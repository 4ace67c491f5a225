package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// watched is a registry that watches a client of a real server.
func watched(t *testing.T, o *redis.Options) (*metrics.Registry, *redis.Client) {
	t.Helper()
	r := metrics.New(metrics.Settings{})
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	d := r.Redis()
	d.Watch("pages", client)
	d.Breakers("pages", redisstore.Guard(client, nil))
	return r, client
}

// label returns the labels of the client and the node, followed by others.
func label(server *redistest.Server, more ...string) string {
	return fmt.Sprintf(`{client="pages",node=%q%s}`, server.Addr(), strings.Join(append([]string{""}, more...), ","))
}

// TestRedisOfFeeds checks that a feed counts as one round trip and one MGET. A rebuild counts by
// its reason, and a failing server by its errors.
func TestRedisOfFeeds(t *testing.T) {
	server := redistest.Start(t)
	r, client := watched(t, &redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	store, err := redisstore.New(client, "feed")
	must(t, err)
	const pages = 64
	recorder, err := activity.Open(t.Context(), activity.Config{
		Ledger: openLedger(t, pages).Around(r.Ledger()), Store: store, ScrubRate: pages, OnRebuild: r.Rebuilds(),
	})
	must(t, err)
	t.Cleanup(recorder.Close)
	r.Activities(true, recorder.Stats)
	restScrub(t, r, recorder) // otherwise the scrub may also find the missing page
	if _, err := recorder.Record(t.Context(), []activity.Activity{{User: "1", Kind: "hide", Target: "p"}}); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		a, err := feed.Filter(t.Context(), recorder, feed.Request{Viewer: "1", Posts: []feed.Post{{ID: "p", Author: "2"}, {ID: "q", Author: "2"}}})
		if err != nil || len(a.Kept) != 1 || len(a.Dropped) != 1 {
			t.Fatalf("%v, %v", a, err)
		}
	}
	check()
	before := values(t, r)
	const feeds = 7
	for range feeds {
		check()
	}
	after := values(t, r)
	page, err := client.StrLen(t.Context(), pageKey(t, client)).Result()
	must(t, err)
	for series, want := range map[string]float64{
		`feedfilter_redis_commands_total{client="pages",command="mget"}`:  feeds,
		"feedfilter_redis_round_trip_seconds_count" + label(server):       feeds,
		"feedfilter_page_read_bytes_total":                                feeds * float64(page),
		`feedfilter_views_total{source="store"}`:                          feeds,
		"feedfilter_redis_errors_total" + label(server, `reason="reply"`): 0,
	} {
		if got := after[series] - before[series]; got != want {
			t.Errorf("%s grew by %v, want %v", series, got, want)
		}
	}
	if got := after[`feedfilter_redis_received_bytes_total{client="pages"}`] - before[`feedfilter_redis_received_bytes_total{client="pages"}`]; got < feeds*float64(page) {
		t.Errorf("%v bytes received for %d pages of %d", got, feeds, page)
	}
	window, err := recorder.Window(t.Context(), recorder.Kinds().All()[3], "1")
	must(t, err)
	windowKey := fmt.Sprintf("fav:{feed/%d}:%s:bits", window.ID().Number, window.ID().Part)
	sent := len("*3\r\n$4\r\nmget\r\n")
	for _, key := range []string{pageKey(t, client), windowKey} {
		sent += len(fmt.Sprintf("$%d\r\n%s\r\n", len(key), key))
	}
	const sentBytes = `feedfilter_redis_sent_bytes_total{client="pages"}`
	if got := after[sentBytes] - before[sentBytes]; got < float64(feeds*sent) {
		t.Errorf("%v bytes sent for %d feeds, each an MGET of %d bytes", got, feeds, sent)
	}
	if n := after[`feedfilter_page_rebuild_seconds_count{reason="missing"}`]; n != 1 {
		t.Errorf("%v missing pages rebuilt, want 1", n)
	}

	server.Kill()
	for range 8 {
		check() // answered from the ledger
	}
	got := values(t, r)
	if open := got["feedfilter_redis_breaker_open"+label(server)]; open != 1 {
		t.Errorf("breaker %v, want 1", open)
	}
	if open := got["feedfilter_redis_writes_breaker_open"+label(server)]; open != 1 {
		t.Errorf("breaker for writes %v, want 1", open)
	}
	if n := got["feedfilter_redis_errors_total"+label(server, `reason="network"`)]; n < 5 {
		t.Errorf("%v failures of the network, want 5 at least", n)
	}
	if n := got["feedfilter_redis_errors_total"+label(server, `reason="breaker"`)]; n < 1 {
		t.Errorf("%v refused by the breaker", n)
	}
	if got[`feedfilter_dependency_up{dependency="pages"}`] != 0 || got[`feedfilter_dependency_up{dependency="ledger"}`] != 1 || got["feedfilter_ready"] != 1 {
		t.Errorf("up: %v pages, %v ledger, ready %v", got[`feedfilter_dependency_up{dependency="pages"}`],
			got[`feedfilter_dependency_up{dependency="ledger"}`], got["feedfilter_ready"])
	}
	if n := got[`feedfilter_page_rebuild_failures_total{reason="missing"}`]; n < 1 {
		t.Errorf("%v failed writes of pages", n)
	}
}

// restScrub waits until the scrub has finished a round, and makes it rest for a minute. The scrub
// adds nothing to the counts in that minute.
func restScrub(t *testing.T, r *metrics.Registry, recorder *activity.Recorder) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for values(t, r)["feedfilter_scrub_rounds_total"] < 1 {
		select {
		case <-look.C:
		case <-t.Context().Done():
			t.Fatal("the scrub does not end")
		}
	}
	if err := recorder.Scrubber().SetScrubRate(1); err != nil { // from now on a minute between rounds, not a second
		t.Fatal(err)
	}
}

// pageKey returns the key of the only page that has activities.
func pageKey(t *testing.T, client *redis.Client) string {
	t.Helper()
	keys, err := client.Keys(t.Context(), "fav:*:bits").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("pages %v, %v", keys, err)
	}
	return keys[0]
}

// TestRedisErrors checks the reasons of failures. Normal errors do not count.
func TestRedisErrors(t *testing.T) {
	server := redistest.Start(t)
	r, client := watched(t, &redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	want := func(reasons map[string]float64) {
		t.Helper()
		got := values(t, r)
		for _, reason := range []string{"network", "timeout", "pool", "breaker", "reply"} {
			if n := got["feedfilter_redis_errors_total"+label(server, fmt.Sprintf("reason=%q", reason))]; n != reasons[reason] {
				t.Errorf("%v failures of %s, want %v", n, reason, reasons[reason])
			}
		}
	}
	ctx := t.Context()
	if err := client.Get(ctx, "none").Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	client.EvalSha(ctx, strings.Repeat("0", 40), nil) // the script is missing; clients then send its source
	ended, cancel := context.WithCancel(ctx)
	cancel()
	client.Get(ended, "none")
	want(nil)
	client.Set(ctx, "text", "x", 0)
	client.Incr(ctx, "text")
	want(map[string]float64{"reply": 1})
	pipe := client.Pipeline() // one failed round trip for any number of failed commands
	pipe.Get(ctx, "text")
	pipe.Incr(ctx, "text")
	pipe.Incr(ctx, "text")
	_, _ = pipe.Exec(ctx)
	want(map[string]float64{"reply": 2})
	slow, cancel := context.WithTimeout(ctx, 1)
	defer cancel()
	client.BLPop(slow, 0, "list")
	want(map[string]float64{"reply": 2, "timeout": 1})
}

// TestRedisSignIn counts a refused sign-in, which is not the error of any command.
func TestRedisSignIn(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "right")
	r, client := watched(t, &redis.Options{Addr: server.Addr(), Password: "wrong", MaxRetries: -1})
	pipe := client.Pipeline()
	pipe.Get(t.Context(), "x")
	if _, err := pipe.Exec(t.Context()); err == nil {
		t.Fatal("signed in")
	}
	if n := values(t, r)["feedfilter_redis_errors_total"+label(server, `reason="reply"`)]; n < 1 {
		t.Errorf("%v errors", n)
	}
}

// TestRedisCluster checks that commands are counted for the node that received them.
func TestRedisCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	r := metrics.New(metrics.Settings{})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	d := r.Redis()
	d.Watch("pages", client)
	d.Breakers("pages", redisstore.Guard(client, nil))
	store, err := redisstore.New(client, "feed")
	must(t, err)
	load := func(number uint32) {
		t.Helper()
		if _, _, err := store.Load(t.Context(), []favfilter.PageID{{Number: number}}); err != nil {
			t.Fatal(err)
		}
	}
	load(0)
	before := values(t, r)
	load(0)
	grown := make(map[string]float64)
	for series, v := range values(t, r) {
		if strings.HasPrefix(series, "feedfilter_redis_round_trip_seconds_count") && v > before[series] {
			grown[series] = v - before[series]
		}
	}
	if len(grown) != 1 || slices.Collect(maps.Values(grown))[0] != 1 {
		t.Errorf("round trips for one page: %v, want one of one node", grown)
	}
	closed := 0
	for series, v := range values(t, r) {
		if strings.HasPrefix(series, "feedfilter_redis_breaker_open") && v == 0 {
			closed++
		}
	}
	if closed < 1 {
		t.Error("no breaker is told of")
	}
}
