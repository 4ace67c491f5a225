package main

import (
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

// Clients of Redis, as metrics name them.
const (
	meteredPages    = "pages"
	meteredReplicas = "replicas"
)

// newMeters returns what the service is measured by, behind a gate.
func (f *dataFlags) newMeters(behind *gate) *metrics.Registry {
	s := metrics.Settings{FalsePositiveRate: f.FalsePositiveRate, StalenessBound: f.StalenessBound}
	this := thisVersion()
	s.Version, s.Commit = this.Version, this.Commit
	r := metrics.New(s)
	if behind.certificates != nil {
		r.Certificate(behind.certificates.Expires)
	}
	return r
}

// useLedger has c use l. What comes of it is counted, if that is wanted.
func (f *dataFlags) useLedger(c *activity.Config, l *ledger.Ledger) {
	c.Ledger = l
	if f.meters != nil {
		f.meters.Pools(l.Pools)
		c.Ledger, c.OnRebuild = f.meters.Ledger(l), f.meters.Rebuilds()
	}
}

// guardClient gives a client its breakers. What the client does is counted under name, unless there is nothing to count with.
func guardClient(to *metrics.Redis, name string, client redis.UniversalClient, log *slog.Logger) {
	if to == nil {
		redisstore.Guard(client, log)
		return
	}
	to.Watch(name, client) // before the breakers: what they refuse is counted, too
	to.Breakers(name, redisstore.Guard(client, log))
}
