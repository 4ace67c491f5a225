package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/internal/awstest"
	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// viaReplica makes the service read from a replica. In the runbook's commands REPLICA is the URL of
// that replica.
func viaReplica(d *drill) *redistest.Server {
	replica := redistest.Start(d.t)
	host, port := hostPort(d.t, d.redis.Addr())
	must(d.t, replica.Client().SlaveOf(context.Background(), host, port).Err())
	cloud := awstest.Start(d.t)
	cloud.PutGroup("drill", awstest.Group{Addr: d.redis.Addr(), Reader: replica.Addr()})
	d.settings["redis"] = "elasticache://drill?reader=true"
	d.env = append(cloud.Env(), "REPLICA="+replica.URL(), "REDIS_HOST="+host, "REDIS_PORT="+port)
	return replica
}

func storeScenarios() []scenario {
	var replica *redistest.Server
	return []scenario{
		{
			alert: "FeedfilterRedisErrors", how: "Redis is full and evicts nothing (`noeviction`).", recovered: "More memory for Redis.",
			busy: func(d *drill) { d.batch("add", "like", 20, 5) },
			provoke: func(d *drill) {
				must(d.t, d.redis.Client().ConfigSet(context.Background(), "maxmemory", "1").Err())
				n := 0
				d.eachNth(4, func() { d.moves("feedfilter_redis_errors_total", func() { n++; d.likes(n) }) })
			},
			most: 20 * time.Minute,
			mended: func(d *drill) {
				before := d.sum("feedfilter_redis_errors_total")
				d.each = func() { d.likes(1000) }
				d.scrape(step)
				if now := d.sum("feedfilter_redis_errors_total"); now != before {
					d.t.Errorf("Redis still fails: %v errors", now-before)
				}
			},
			ends: 20 * time.Minute,
		},
		{
			alert: "FeedfilterRedisBreakerOpen", how: "Redis killed.", recovered: "Redis restarted.",
			busy: func(d *drill) { d.batch("add", "like", 20, 5) },
			provoke: func(d *drill) {
				d.redis.Kill()
				d.await("feedfilter_redis_breaker_open", above(0))
				d.each = func() { d.feed("u1", 3, "") }
			},
			most:   15 * time.Minute,
			mended: func(d *drill) { d.await("feedfilter_redis_breaker_open", is(0)) }, ends: 15 * time.Minute,
		},
		{
			alert: "FeedfilterLedgerErrors", how: "PostgreSQL killed.", recovered: "PostgreSQL restarted.",
			provoke: func(d *drill) {
				d.postgres.Kill()
				d.eachNth(4, func() { d.moves("feedfilter_ledger_errors_total", nil) })
			},
			most:   20 * time.Minute,
			mended: func(d *drill) { d.each = nil; d.await(`feedfilter_dependency_up{dependency="ledger"}`, is(1)) }, ends: 20 * time.Minute,
		},
		{
			alert: "FeedfilterReplicasBehind", how: "A replica stops following its primary; then pages change.", recovered: "It follows its primary again.",
			prepare: func(d *drill) { replica = viaReplica(d) },
			busy:    func(d *drill) { d.batch("add", "like", 20, 5) },
			provoke: func(d *drill) {
				must(d.t, replica.Client().SlaveOf(context.Background(), "no", "one").Err())
				d.batch("add", "hide", 20, 5)
				d.each = func() { d.many(4, func(i int) { d.feed("u"+strconv.Itoa(i+1), 3, "") }) }
			},
			most: time.Hour,
			mended: func(d *drill) { // takes seconds of real time; the engine's clock may move by hours
				d.within(time.Minute, "the replica follows", func() bool {
					info, err := replica.Client().Info(context.Background(), "replication").Result()
					return err == nil && strings.Contains(info, "master_link_status:up")
				})
			},
			ends: time.Hour,
		},
		{
			alert: "FeedfilterRebuildsHigh", how: "Redis evicts pages, PostgreSQL is 200 ms away. The rule's 5 and 10 minutes were shortened to 20 and 40 s.",
			recovered: "`noeviction` and more memory.",
			change: strings.NewReplacer("page_rebuild_seconds_sum[5m]", "page_rebuild_seconds_sum[20s]",
				"expr: instance:feedfilter_page_rebuilds:utilization_rate5m > 0.5\n        for: 10m", "expr: instance:feedfilter_page_rebuilds:utilization_rate5m > 0.5\n        for: 40s"),
			prepare: func(d *drill) {
				proxy := proxytest.Start(d.t, d.postgres.Addr())
				proxy.Delay(200*time.Millisecond, 0)
				d.settings["ledger"] = through(d.settings["ledger"].(string), proxy.Addr())
				d.settings["staleness-bound"] = "10s"
			},
			busy:    func(d *drill) { d.batch("add", "like", 100, 20); d.scrubbed() },
			provoke: func(d *drill) { d.fill(); d.paced(true) },
			most:    3 * time.Minute, mended: func(d *drill) { d.paced(false) }, ends: 3 * time.Minute,
		},
		{
			alert: "FeedfilterPageFailures", how: "PostgreSQL killed and Redis emptied.", recovered: "PostgreSQL restarted, scrub.",
			busy: func(d *drill) { d.batch("add", "like", 50, 5) },
			provoke: func(d *drill) {
				d.postgres.Kill()
				d.await(`feedfilter_dependency_up{dependency="ledger"}`, is(0))
				must(d.t, d.redis.Client().FlushAll(context.Background()).Err())
				d.eachNth(8, func() {
					d.moves("feedfilter_page_rebuild_failures_total", func() { d.many(10, func(i int) { d.feed("u"+strconv.Itoa(i+1), 3, "") }) })
				})
			},
			most: 30 * time.Minute, mended: func(d *drill) { d.each = nil }, ends: 30 * time.Minute,
		},
		{
			alert: "FeedfilterReshapeDue", how: "One page with 6,000 likes of 12 users.", recovered: "`feedfilter reshape`.",
			prepare: func(d *drill) { d.settings["pages"] = 1 },
			provoke: func(d *drill) {
				d.batch("add", "like", 12, 500)
				d.await("feedfilter_reshape_due_pages", above(1))
			},
			most: 2 * time.Hour, mended: func(d *drill) { d.await("feedfilter_reshape_due_pages", is(0)) }, ends: 5 * time.Minute,
		},
	}
}

// scrubbed waits until two scrub rounds in a row have no findings.
func (d *drill) scrubbed() {
	d.t.Helper()
	for found := -1.0; ; {
		now := d.sum("feedfilter_scrub_findings_total")
		if now == found {
			return
		}
		found = now
		d.moves("feedfilter_scrub_rounds_total", func() { d.moves("feedfilter_scrub_rounds_total", nil) })
	}
}

// likes records likes of a post by twenty users.
func (d *drill) likes(post int) {
	d.many(20, func(i int) { d.ask(http.MethodPut, "/v1/users/u"+strconv.Itoa(i)+"/likes/x"+strconv.Itoa(post), nil) })
}

// paced makes scrapes one second of real time apart, and moves the engine's clock by the real time.
// If neighbour is true, the neighbour writes before each scrape.
func (d *drill) paced(neighbour bool) {
	last := time.Now()
	d.each = func() {
		if neighbour {
			d.neighbour()
		}
		d.many(40, func(i int) { d.feed("u"+strconv.Itoa(i+1), 3, "") })
		time.Sleep(time.Until(last.Add(time.Second)))
		// scrape adds step to the clock. Replace it by the real time that has passed.
		d.now = d.now.Add(time.Since(last) - step)
		last = time.Now()
	}
}
