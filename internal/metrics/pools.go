package metrics

import "github.com/feedfilter/feedfilter/activity/ledger"

// Pools adds the connection pools of a database server.
func (r *Registry) Pools(pools func() []ledger.Pool) {
	r.add(func(to sink) {
		const connections = "feedfilter_ledger_pool_connections"
		const help = "Connections to PostgreSQL, used or idle."
		for _, p := range pools() {
			gauge(to, connections, help, p.InUse, "pool", p.Name, "state", "used")
			gauge(to, connections, help, p.Open-min(p.Open, p.InUse), "pool", p.Name, "state", "idle")
			gauge(to, "feedfilter_ledger_pool_connections_limit",
				"Limit of connections to PostgreSQL.", p.Most, "pool", p.Name)
			counter(to, "feedfilter_ledger_pool_acquired_total",
				"Calls that got a connection.", p.Acquired, "pool", p.Name)
			counter(to, "feedfilter_ledger_pool_waited_total",
				"Calls that waited for a connection.", p.Waited, "pool", p.Name)
			counter(to, "feedfilter_ledger_pool_wait_seconds_total",
				"Time calls waited for a connection.",
				p.Waiting.Seconds(), "pool", p.Name)
			counter(to, "feedfilter_ledger_pool_given_up_total",
				"Calls that ended before they got a connection.",
				p.GivenUp, "pool", p.Name)
		}
	})
}
