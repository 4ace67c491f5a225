package main

import (
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

// Names of Redis clients in metrics.
const (
	meteredPages    = "pages"
	meteredReplicas = "replicas"
)

// newMeters returns the metrics of the service.
func (f *dataFlags) newMeters(behind *accessControl) *metrics.Registry {
	this := thisVersion()
	r := metrics.New(metrics.Settings{
		Version:           this.Version,
		Commit:            this.Commit,
		FalsePositiveRate: f.FalsePositiveRate,
		StalenessBound:    f.StalenessBound,
	})
	if behind.certificates != nil {
		r.Certificate(behind.certificates.Expires)
	}
	return r
}

// useLedger sets the ledger of c, with metrics if there are any.
func (f *dataFlags) useLedger(c *activity.Config, l *ledger.Ledger) {
	c.Ledger = l
	if f.meters != nil {
		f.meters.Pools(l.Pools)
		c.Ledger, c.OnRebuild = l.Around(f.meters.Ledger()), f.meters.Rebuilds()
	}
}

// guardClient adds circuit breakers to a client, and metrics under name, unless to is nil.
func guardClient(to *metrics.Redis, name string, client redis.UniversalClient, log *slog.Logger) {
	if to == nil {
		redisstore.Guard(client, log)
		return
	}
	to.Watch(name, client) // before the breakers, so that it counts the commands that they refuse
	to.Breakers(name, redisstore.Guard(client, log))
}
