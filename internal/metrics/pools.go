package metrics

import "github.com/feedfilter/feedfilter/activity/ledger"

// Pools adds the pools of connections to a database server.
func (r *Registry) Pools(pools func() []ledger.Pool) {
	c := &source{}
	connections := c.gauge("feedfilter_ledger_pool_connections", "Connections to PostgreSQL: in use, and idle.", "pool", "state")
	most := c.gauge("feedfilter_ledger_pool_connections_limit", "Connections to PostgreSQL that there may be.", "pool")
	acquired := c.counter("feedfilter_ledger_pool_acquired_total", "Times that a call got a connection.", "pool")
	waited := c.counter("feedfilter_ledger_pool_waited_total", "Times that a call had to wait for a connection.", "pool")
	seconds := c.counter("feedfilter_ledger_pool_wait_seconds_total", "Time that calls waited for connections.", "pool")
	given := c.counter("feedfilter_ledger_pool_given_up_total", "Times that a call ended before it got a connection.", "pool")
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
