package ledger

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Ping reads one row, to check that the ledger answers. It has a connection of its own, so that it
// waits for no other call but Ping: with a database server, however many calls wait for a
// connection. The first Ping connects. Later ones wait for one round trip, unless the connection
// was lost.
func (l *Ledger) Ping(ctx context.Context) error {
	return run(ctx, l, "ping", "ping ledger "+l.name, func(ctx context.Context) error {
		var value *string
		return l.db.ping(ctx, statement{sql: incarnationSQL, into: []any{&value}, each: func() error {
			_, err := parseIncarnation(value)
			return err
		}})
	})
}

func (d *sqliteDatabase) ping(ctx context.Context, s statement) error {
	return sqliteQueries{on: d.pings}.query(ctx, s)
}

func (d *postgresDatabase) ping(ctx context.Context, s statement) error {
	return d.attempt(ctx, d.pings, callTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		return postgresSession{conn}.query(ctx, s)
	})
}

// newPings creates a pool of one connection that only Ping uses. The pool keeps the connection
// while it works. A server or a pooler that has no connection left cannot take it away. A
// service opens it before the first Ping, which is sent when the ledger is slow.
func newPings(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	config = config.Copy()
	config.MaxConns, config.MinConns, config.MinIdleConns = 1, min(1, config.MinConns), 0
	config.MaxConnLifetime, config.MaxConnIdleTime = math.MaxInt64, math.MaxInt64
	return pgxpool.NewWithConfig(ctx, config)
}
