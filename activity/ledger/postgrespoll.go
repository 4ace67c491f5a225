package ledger

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// generation numbers the connections of polls. A server that crashes forgets
// the transactions that it counted without logging anything of them, and counts
// on from before them: a change still to come may be below a Next given out
// before. No connection outlives a crash, so what a poll says holds for its
// connection alone, and the first poll of another one reports every page.
//
// That numbers come again after 65,536 connections does no harm unless so many
// are made between two polls.
type generation uint16

// A Progress.Next is a generation, and below it a transaction of the server's
// count: the first that may not have been seen.
const transactionBits = 48

// generationKey is where a connection of polls has its generation.
const generationKey = "generation"

// next is a Progress.Next. A count too great for it gives 0: all pages, always.
func (g generation) next(transaction int64) uint64 {
	if transaction>>transactionBits != 0 {
		return 0
	}
	return uint64(g)<<transactionBits | uint64(transaction)
}

// since is the transaction from which to go on, for a Next: 0 for that of another
// generation.
func (g generation) since(next uint64) int64 {
	if generation(next>>transactionBits) != g {
		return 0
	}
	return int64(next & (1<<transactionBits - 1))
}

// newPolls makes the pool of the one connection that polls have to themselves,
// whatever the other calls are up to. It is kept for as long as it works.
func (d *postgresDatabase) newPolls(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	config = config.Copy()
	config.MaxConns, config.MinConns, config.MinIdleConns = 1, 0, 0
	config.MaxConnLifetime, config.MaxConnIdleTime = math.MaxInt64, math.MaxInt64
	check := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		conn.PgConn().CustomData()[generationKey] = generation(d.generations.Add(1))
		return check(ctx, conn)
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func (d *postgresDatabase) changed(ctx context.Context, since uint64, after *changedPage) (some []changedPage, p Progress, err error) {
	from := int64(-1)
	if after != nil {
		from = int64(after.page)
	}
	var transaction, clock int64
	var incarnation *string
	var page, sequence, moves, changed *int64
	into := []any{&transaction, &clock, &incarnation, &page, &sequence, &moves, &changed}
	err = d.attempt(ctx, d.polls, func(ctx context.Context, conn *pgx.Conn) error {
		some, p = nil, Progress{}
		g, _ := conn.PgConn().CustomData()[generationKey].(generation) // newPolls sets it
		began, first := time.Now(), true
		// In one round trip, on a new connection too, and planned for the values
		// at hand: a few pages changed lately, or all of them.
		rows, err := conn.Query(ctx, changedPagesSQL, pgx.QueryExecModeExec, g.since(since), from, changedAtOnce)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, into, func() error {
			if first {
				midway := began.Add(time.Since(began) / 2)
				p = Progress{Next: g.next(transaction), Ahead: time.UnixMicro(clock).Sub(midway)}
				first = false
			}
			if page != nil {
				some = append(some, changedPage{uint32(*page), Standing{uint64(*sequence), uint32(*moves)}, uint64(*changed)})
			}
			return nil
		})
		if err != nil {
			return err
		}
		return d.checkRead(incarnation)
	})
	if err != nil {
		return nil, Progress{}, err
	}
	return some, p, nil
}
