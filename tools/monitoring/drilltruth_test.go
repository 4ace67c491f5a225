package main

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/internal/proxytest"
)

// page is the text that Redis holds of the filter's only page.
type page struct{ bits, regions string }

func (d *drill) page() page {
	d.t.Helper()
	ctx, client := context.Background(), d.redis.Client()
	bits, err := client.Get(ctx, "fav:{feed/0}:bits").Result()
	must(d.t, err)
	regions, err := client.Get(ctx, "fav:{feed/0}:regions").Result()
	must(d.t, err)
	return page{bits, regions}
}

// forge replaces the current page by an older one that has the sequence of the current page. The
// header of the forged page is valid, and the ledger has the same sequence.
func (d *drill) forge(older page) {
	d.t.Helper()
	const from, to = 32, 40 // see favfilter.Header
	now := d.page()
	bits := older.bits[:from] + now.bits[from:to] + older.bits[to:]
	if bits == now.bits {
		d.t.Fatal("the older page is the same as the current one")
	}
	if err := d.redis.Client().MSet(context.Background(), "fav:{feed/0}:bits", bits, "fav:{feed/0}:regions", older.regions).Err(); err != nil {
		d.t.Fatal(err)
	}
}

// onePage sets one page, the comparison of every feed, and a scrub rate of 1 page a second.
func onePage(d *drill) {
	d.settings["pages"], d.settings["sample-rate"], d.settings["scrub-rate"] = 1, 1, 1
}

// crossed forges an older page and calls ask, which makes a feed read it, until the series moves.
// It repeats this because the scrub may find the forged page before the feed does.
func (d *drill) crossed(series string, older page, ask func()) {
	d.t.Helper()
	before := d.sum(series)
	for end := time.Now().Add(time.Minute); d.sum(series) == before; {
		if time.Now().After(end) {
			d.t.Fatalf("%s does not move", series)
		}
		done := d.sum("feedfilter_sampled_feeds_total")
		d.forge(older)
		ask()
		d.await("feedfilter_sampled_feeds_total", above(done))
	}
}

func truthScenarios() []scenario {
	return []scenario{
		{
			alert: "FeedfilterMissedDrop", how: "An older page in Redis claims the current sequence.",
			recovered: "All pages rebuilt; an hour passed.", prepare: onePage,
			busy: func(d *drill) { d.batch("add", "hide", 1, 1) },
			provoke: func(d *drill) {
				older := d.page()
				d.must(http.MethodPut, "/v1/users/u1/hides/xp1", nil)
				d.crossed("feedfilter_sampled_misses_total", older, func() { d.feed("u1", 3, "x") })
			},
			most: time.Minute, ends: 70 * time.Minute,
		},
		{
			alert: "FeedfilterFalsePositivesHigh", how: "A page keeps the bits of 40 undone hides.",
			recovered: "All pages rebuilt; correct feeds followed.", prepare: onePage,
			busy: func(d *drill) { d.batch("add", "hide", 2, 40); d.feed("u3", 10, "") },
			provoke: func(d *drill) {
				older := d.page()
				d.batch("remove", "hide", 1, 40)
				d.crossed("feedfilter_sampled_false_positives_total", older, func() { d.feed("u1", 40, "") })
			},
			most: 45 * time.Minute,
			mended: func(d *drill) {
				d.each = func() { d.moves("feedfilter_sampled_feeds_total", func() { d.feed("u1", 1000, "clean") }) }
			},
			ends: 2 * time.Hour,
		},
		samplingBlind(),
		{
			alert: "FeedfilterStale", how: "PostgreSQL killed.", recovered: "PostgreSQL restarted.",
			provoke: func(d *drill) {
				d.postgres.Kill()
				d.await("feedfilter_poll_age_seconds", above(4))
			},
			most:   5 * time.Minute,
			mended: func(d *drill) { d.await("feedfilter_poll_age_seconds", func(v float64) bool { return v < 2 }) },
			ends:   5 * time.Minute,
		},
		{
			alert: "FeedfilterScrubBehind", how: "Redis killed. The rule's 15 minutes were shortened to 15 s.",
			recovered: "Redis restarted, scrub.", change: strings.NewReplacer("> 900 +", "> 15 +"),
			provoke: func(d *drill) {
				d.redis.Kill()
				d.await("feedfilter_scrub_age_seconds", above(18))
			},
			most:   15 * time.Minute,
			mended: func(d *drill) { d.await("feedfilter_scrub_age_seconds", func(v float64) bool { return v < 5 }) },
			ends:   5 * time.Minute,
		},
		{
			alert: "FeedfilterScrubFindings", how: "Redis is full and evicts pages (`allkeys-random`) while a neighbour writes.",
			recovered: "`noeviction` and more memory; the neighbour still writes.",
			busy:      func(d *drill) { d.batch("add", "like", 100, 20) },
			provoke: func(d *drill) {
				d.fill()
				d.eachNth(8, func() { d.moves(`feedfilter_scrub_findings_total{reason="missing"}`, d.neighbour) })
			},
			most: time.Hour, mended: func(d *drill) { d.each = d.neighbour }, ends: time.Hour,
		},
		{
			alert: "FeedfilterPagesDamaged", how: "The header of a page is overwritten in Redis.", recovered: "Scrub; an hour passed.",
			busy: func(d *drill) { d.batch("add", "like", 10, 5) },
			provoke: func(d *drill) {
				ctx := context.Background()
				keys, err := d.redis.Client().Keys(ctx, "fav:*:bits").Result()
				if err != nil || len(keys) == 0 {
					d.t.Fatal(keys, err)
				}
				d.moves("feedfilter_scrub_findings_total", func() {
					must(d.t, d.redis.Client().SetRange(ctx, keys[0], 4, "broken").Err())
				})
			},
			most: time.Minute, ends: 70 * time.Minute,
		},
	}
}

func samplingBlind() scenario {
	return scenario{
		alert: "FeedfilterSamplingBlind", how: "Sample rate 1, 400 feeds at a time, PostgreSQL 300 ms away.",
		recovered: "A lower `--sample-rate`, reload; an hour passed.",
		prepare: func(d *drill) {
			proxy := proxytest.Start(d.t, d.postgres.Addr())
			proxy.Delay(300*time.Millisecond, 0)
			d.settings["ledger"] = through(d.settings["ledger"].(string), proxy.Addr())
			d.settings["sample-rate"], d.settings["staleness-bound"] = 1, "10s"
		},
		busy: func(d *drill) { d.moves("feedfilter_sampled_feeds_total", func() { d.feed("u1", 3, "") }) },
		provoke: func(d *drill) {
			d.eachNth(80, func() { d.many(400, func(int) { d.feed("u1", 3, "") }) })
		},
		most: 3 * time.Hour, mended: func(d *drill) { d.each = func() { d.feed("u1", 3, "") } }, ends: 2 * time.Hour,
	}
}

// eachNth sets do to run before the next scrape, and then before every n-th one.
func (d *drill) eachNth(n int, do func()) {
	count := 0
	d.each = func() {
		if count%n == 0 {
			do()
		}
		count++
	}
}

// fill limits Redis to 1 MB more than it uses. For more, Redis evicts keys at random.
func (d *drill) fill() {
	d.t.Helper()
	ctx, client := context.Background(), d.redis.Client()
	info, err := client.InfoMap(ctx, "memory").Result()
	must(d.t, err)
	used, err := strconv.Atoi(info["Memory"]["used_memory"])
	must(d.t, err)
	for _, s := range [][2]string{{"maxmemory-policy", "allkeys-random"}, {"maxmemory", strconv.Itoa(used + 1<<20)}} {
		must(d.t, client.ConfigSet(ctx, s[0], s[1]).Err())
	}
}

// neighbour writes 2 MB to the same Redis, as another application does.
func (d *drill) neighbour() {
	value := strings.Repeat("x", 50<<10)
	for i := range 40 {
		if err := d.redis.Client().Set(context.Background(), "neighbour:"+strconv.Itoa(i), value, 0).Err(); err != nil && !slices.Contains([]string{"OOM"}, err.Error()[:3]) {
			d.t.Fatal(err)
		}
	}
}
