package ledger

import "time"

// Pool reports how the ledger uses a pool of connections to a database server. Counts begin when
// the ledger is opened.
type Pool struct {
	Name string // purpose: "calls" or "polls"

	Most, Open, InUse int           // connections: maximum, open, in use by calls
	Acquired          uint64        // calls that got a connection
	Waited            uint64        // calls among Acquired that waited for a free or a new connection
	GivenUp           uint64        // calls that ended before they got a connection
	Waiting           time.Duration // total time that calls waited for a connection
}

// Pools returns the pools of connections of the ledger: none for SQLite. It may be called at any
// time, also after Close.
func (l *Ledger) Pools() []Pool { return l.db.pools() }
