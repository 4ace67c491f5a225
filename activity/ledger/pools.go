package ledger

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool is how the connections to a database server are used. Counts are since the ledger was opened.
type Pool struct {
	Name string // what it is for: "calls", "polls"

	Most, Open, InUse int           // connections: there may be, there are, calls have
	Acquired          uint64        // times that a call got one
	Waited            uint64        // those of them that waited because all were in use, or for one to be made
	GivenUp           uint64        // times that a call ended before it got one
	Waiting           time.Duration // of all that got one, together
}

// Pools tells of the pools of connections that the ledger has: none on SQLite. It may be called while the ledger is in use, and
// after Close.
func (l *Ledger) Pools() []Pool {
	db, ok := l.db.(*postgresDatabase)
	if !ok {
		return nil
	}
	return []Pool{poolOf("calls", db.pool.Stat()), poolOf("polls", db.polls.Stat())}
}

func poolOf(name string, s *pgxpool.Stat) Pool {
	return Pool{
		Name: name,
		Most: int(s.MaxConns()), Open: int(s.TotalConns()), InUse: int(s.AcquiredConns()),
		Acquired: uint64(s.AcquireCount()), Waited: uint64(s.EmptyAcquireCount()),
		GivenUp: uint64(s.CanceledAcquireCount()), Waiting: s.AcquireDuration(),
	}
}
