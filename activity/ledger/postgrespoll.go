package ledger

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// generation numbers the connections of polls. A server that crashes forgets
// the transactions that it counted without logging anything of them, and counts
// on from before them: a change still to come may have a number that an earlier snapshot counts as
// seen. No connection outlives a crash, so a snapshot holds for its
// connection alone, and the first poll of another one reports every page.
type generation uint32

// generationKey is where a connection of polls has its generation.
const generationKey = "generation"

// snapshot is what a poll saw, as text of PostgreSQL's type pg_snapshot: xmin:xmax:xip,... Of the transactions that were given
// a number by then, it saw all but those that were running, which are listed behind xmax.
type snapshot string

// cursor is the Progress.Next of a poll that saw s: the generation is before the snapshot.
func (g generation) cursor(s snapshot) Cursor { return Cursor(fmt.Sprintf("%d/%s", g, s)) }

// since says from which transaction on, and which of those before it, the cursor has not seen: all of them, where it is
// of another generation, or none.
func (g generation) since(c Cursor) (from int64, running []int64) {
	of, text, _ := strings.Cut(string(c), "/")
	if of != strconv.FormatUint(uint64(g), 10) {
		return 0, []int64{}
	}
	from, running, err := snapshot(text).unseen()
	if err != nil {
		return 0, []int64{}
	}
	return from, running
}

// unseen takes a snapshot apart.
func (s snapshot) unseen() (from int64, running []int64, err error) {
	parts := strings.Split(string(s), ":")
	if len(parts) != 3 { //nolint:mnd // see snapshot
		return 0, nil, fmt.Errorf("snapshot %q: not of three parts", s)
	}
	if from, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return 0, nil, fmt.Errorf("snapshot %q: %w", s, err)
	}
	running = []int64{}
	for number := range strings.SplitSeq(parts[2], ",") {
		if number == "" {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, nil, fmt.Errorf("snapshot %q: %w", s, err)
		}
		running = append(running, n)
	}
	return from, running, nil
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
		if err := check(ctx, conn); err != nil {
			return err
		}
		return d.lockSettings(ctx, conn)
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func (d *postgresDatabase) changed(ctx context.Context, since Cursor, after *changedPage) (some []changedPage, p Progress, err error) {
	last := int64(-1)
	if after != nil {
		last = int64(after.page)
	}
	var saw string
	var clock int64
	var incarnation *string
	var page, sequence, moves, changed *int64
	into := []any{&saw, &clock, &incarnation, &page, &sequence, &moves, &changed}
	err = d.attempt(ctx, d.polls, func(ctx context.Context, conn *pgx.Conn) error {
		some, p = nil, Progress{}
		g, _ := conn.PgConn().CustomData()[generationKey].(generation) // newPolls sets it
		from, running := g.since(since)
		began, first := time.Now(), true
		// In one round trip, on a new connection too, and planned for the values
		// at hand: a few pages changed lately, or all of them.
		query, args := changedPagesSQL, []any{pgx.QueryExecModeExec, last, changedAtOnce, from, running}
		if from == 0 {
			query, args = everyPageSQL, args[:3]
		}
		rows, err := conn.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, into, func() error {
			if first {
				midway := began.Add(time.Since(began) / 2)
				p = Progress{Next: g.cursor(snapshot(saw)), Clock: time.UnixMicro(clock), At: midway}
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
