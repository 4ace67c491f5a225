package main

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

func serviceScenarios() []scenario {
	return []scenario{
		{
			alert: "FeedfilterDown", how: "The service killed.", recovered: "The service restarted.",
			provoke: func(d *drill) { d.stop() }, most: 5 * time.Minute, ends: time.Minute,
		},
		{
			alert: "FeedfilterNotReady", how: "Redis and PostgreSQL killed.", recovered: "Both restarted.",
			provoke: func(d *drill) {
				d.redis.Kill()
				d.postgres.Kill()
				d.await("feedfilter_ready", is(0))
			},
			most: 5 * time.Minute, mended: func(d *drill) { d.await("feedfilter_ready", is(1)) }, ends: time.Minute,
		},
		{
			alert: "FeedfilterLedgerDown", how: "PostgreSQL killed.", recovered: "PostgreSQL restarted.",
			provoke: func(d *drill) {
				d.postgres.Kill()
				d.await(`feedfilter_dependency_up{dependency="ledger"}`, is(0))
			},
			most:   5 * time.Minute,
			mended: func(d *drill) { d.await(`feedfilter_dependency_up{dependency="ledger"}`, is(1)) }, ends: time.Minute,
		},
		{
			alert: "FeedfilterDegraded", how: "Redis killed during feeds.", recovered: "Redis restarted.",
			busy: func(d *drill) { d.each = func() { d.feed("u1", 3, "") } },
			provoke: func(d *drill) {
				d.redis.Kill()
				d.await("feedfilter_redis_breaker_open", above(0))
			},
			most:   15 * time.Minute,
			mended: func(d *drill) { d.await("feedfilter_redis_breaker_open", is(0)) }, ends: 15 * time.Minute,
		},
		{
			alert: "FeedfilterErrors", how: "PostgreSQL killed during 50 blocks.", recovered: "PostgreSQL restarted.",
			busy: func(d *drill) { d.each = func() { d.feed("u1", 3, "") } },
			provoke: func(d *drill) {
				d.postgres.Kill()
				d.await(`feedfilter_dependency_up{dependency="ledger"}`, is(0))
				d.eachNth(12, func() {
					d.moves(`feedfilter_http_requests_total{code="503"`, func() {
						d.many(50, func(i int) { d.ask(http.MethodPut, "/v1/users/u1/blocks/b"+strconv.Itoa(i), nil) })
					})
				})
			},
			most:   2 * time.Hour,
			mended: func(d *drill) { d.each = func() { d.feed("u1", 3, "") } }, ends: 8 * time.Hour,
		},
		{
			alert: "FeedfilterSlow", how: "A neighbour keeps Redis busy for 200 ms at a time.", recovered: "The neighbour's connection killed.",
			busy: func(d *drill) { d.batch("add", "like", 20, 5) },
			provoke: func(d *drill) {
				d.hog()
				d.each = func() { d.many(20, func(i int) { d.feed("u"+strconv.Itoa(i), 3, "") }) }
			},
			most: 30 * time.Minute, ends: time.Hour,
		},
		{
			alert: "FeedfilterOverloaded", how: "60 requests at a time; the limit is 2.", recovered: "A higher `--max-requests`, reload.",
			prepare: func(d *drill) { d.settings["max-requests"] = 2 },
			busy:    func(d *drill) { d.feed("u1", 3, "") },
			provoke: func(d *drill) {
				d.each = func() { d.many(60, func(int) { d.feed("u1", 500, "") }) }
			},
			most:   15 * time.Minute,
			mended: func(d *drill) { d.await("feedfilter_http_requests_limit", is(1024)) }, ends: 15 * time.Minute,
		},
		{
			alert: "FeedfilterWritesWaiting", how: "PostgreSQL paused (SIGSTOP) during 2,500 likes.", recovered: "PostgreSQL restarted.",
			prepare: func(d *drill) { d.settings["max-requests"] = 4000 },
			provoke: func(d *drill) {
				d.postgres.Pause()
				var writes sync.WaitGroup
				d.t.Cleanup(writes.Wait)
				for i := range 2500 {
					writes.Go(func() { d.ask(http.MethodPut, "/v1/users/u"+strconv.Itoa(i)+"/likes/p1", nil) })
				}
				d.await("feedfilter_writes_waiting", above(2048))
			},
			most:   3 * time.Minute,
			mended: func(d *drill) { d.await("feedfilter_writes_waiting", is(0)) }, ends: time.Minute,
		},
	}
}

// hog runs slow scripts in Redis, one after another, until Redis or the end of the test closes the
// connection.
func (d *drill) hog() {
	d.t.Helper()
	const slow = `local t = redis.call('TIME') local e = t[1] * 1000 + t[2] / 1000 + 200
repeat t = redis.call('TIME') until t[1] * 1000 + t[2] / 1000 > e return 1`
	ctx, cancel := context.WithCancel(context.Background())
	conn := d.redis.Client().Conn()
	var hog sync.WaitGroup
	d.t.Cleanup(func() { cancel(); hog.Wait(); _ = conn.Close() })
	must(d.t, conn.ClientSetName(ctx, "neighbour").Err())
	hog.Go(func() {
		var err error
		for err == nil && ctx.Err() == nil { // Conn.Eval does not check ctx
			err = conn.Eval(ctx, slow, nil).Err()
		}
		d.t.Logf("the neighbour ends: %v", err)
	})
}
