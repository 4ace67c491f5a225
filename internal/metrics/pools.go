package metrics

import "github.com/feedfilter/feedfilter/activity/ledger"

// Pools adds the connection pools of a database server.
func (r *Registry) Pools(pools func() []ledger.Pool) {
	c := &source{}
	connections := c.gauge("feedfilter_ledger_pool_connections", "Connections to PostgreSQL, used or idle.", "pool", "state")
	most := c.gauge("feedfilter_ledger_pool_connections_limit", "Limit of connections to PostgreSQL.", "pool")
	acquired := c.counter("feedfilter_ledger_pool_acquired_total", "Calls that got a connection.", "pool")
	waited := c.counter("feedfilter_ledger_pool_waited_total", "Calls that waited for a connection.", "pool")
	seconds := c.counter("feedfilter_ledger_pool_wait_seconds_total", "Time calls waited for a connection.", "pool")
	given := c.counter("feedfilter_ledger_pool_given_up_total", "Calls that ended before they got a connection.", "pool")
	c.collect = func(to sink) {
		for _, p := range pools() {
			to.send(connections, float64(p.InUse), p.Name, "used")
			to.send(connections, float64(p.Open-min(p.Open, p.InUse)), p.Name, "idle")
			to.send(most, float64(p.Most), p.Name)
			to.send(acquired, float64(p.Acquired), p.Name)
			to.send(waited, float64(p.Waited), p.Name)
			to.send(seconds, p.Waiting.Seconds(), p.Name)
			to.send(given, float64(p.GivenUp), p.Name)
		}
	}
	r.registry.MustRegister(c)
}
