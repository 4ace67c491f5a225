package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// generation is the number of a connection of polls. A server that crashes forgets the
// transaction ids that it had assigned but not logged, and assigns them again. So a later change
// may have an id that an earlier snapshot counts as seen. No connection survives a crash. A
// snapshot is therefore only valid for its connection, and the first poll of another connection
// reports every page.
type generation uint32

// generationKey is the key of the generation in a connection's custom data.
const generationKey = "generation"

// snapshot is what a poll saw, as text of PostgreSQL's type pg_snapshot: xmin:xmax:xip,... The poll
// saw every transaction with an id below xmax, except the running ones that xip lists.
type snapshot string

// cursor returns the Progress.Next of a poll that saw s: the generation and the snapshot.
func (g generation) cursor(s snapshot) Cursor { return Cursor(fmt.Sprintf("%d/%s", g, s)) }

// since returns the transactions that the cursor has not seen: all from an id on, and the
// running ones before it. For a cursor of another generation, or an empty one, it returns 0: all
// transactions.
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

// unseen parses a snapshot.
func (s snapshot) unseen() (from int64, running []int64, err error) {
	parts := strings.Split(string(s), ":")
	if len(parts) != 3 { //nolint:mnd // see snapshot
		return 0, nil, fmt.Errorf("snapshot %q: want three parts", s)
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

// newPolls creates a pool of one connection that only polls use, so that no other call delays them.
// The pool keeps the connection while it works.
func (d *postgresDatabase) newPolls(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	config = config.Copy()
	config.MaxConns, config.MinConns, config.MinIdleConns = 1, 0, 0
	config.MaxConnLifetime, config.MaxConnIdleTime = math.MaxInt64, math.MaxInt64
	// Statements are planned for the values at hand: a few pages changed lately, or all of them.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
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

// pagesToGoOn is the number of pages after which a poll gets another callTimeout.
const pagesToGoOn = 4096

var errStalled = fmt.Errorf("no answer within %v", callTimeout)

// changed reads everything in one transaction, whose statements share a snapshot. The first
// round trip begins it and reads all but the pages. The second one reads the pages and ends it.
func (d *postgresDatabase) changed(
	ctx context.Context, since Cursor, each func(page uint32, s PageState) error,
) (p Progress, err error) {
	err = d.retry(ctx, d.polls, func(ctx context.Context, conn *pgx.Conn) (err error) {
		// A first poll may read millions of pages. It may take longer while it makes progress.
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		stalled := time.AfterFunc(callTimeout, func() { end(errStalled) })
		defer stalled.Stop()
		read := 0
		p, err = d.pollPages(ctx, conn, since, func(page uint32, s PageState) error {
			read++
			if read%pagesToGoOn == 0 {
				stalled.Reset(callTimeout)
			}
			return each(page, s)
		})
		if err != nil && errors.Is(context.Cause(ctx), errStalled) {
			err = errStalled
		}
		return err
	})
	if err != nil {
		return Progress{}, err
	}
	return p, nil
}

func (d *postgresDatabase) pollPages(
	ctx context.Context, conn *pgx.Conn, since Cursor, each func(page uint32, s PageState) error,
) (p Progress, err error) {
	g, _ := conn.PgConn().CustomData()[generationKey].(generation) // newPolls sets it
	from, running := g.since(since)
	owners, pages, args := changedOwnersSQL, changedPagesSQL, []any{from, running}
	if from == 0 {
		owners, pages, args = everyOwnerSQL, everyPageSQL, nil
	}
	b := &pgx.Batch{}
	b.Queue(beginSnapshotSQL)
	if from == 0 {
		b.Queue(unlimitedSQL)
	}
	b.Queue(pollSQL).QueryRow(func(row pgx.Row) error {
		var saw string
		var clock int64
		var incarnation *string
		var backend uint32
		if err := row.Scan(&saw, &clock, &incarnation, &backend); err != nil {
			return err
		}
		if backend != conn.PgConn().CustomData()[backendKey] { // another session holds the lock of settings
			return fmt.Errorf("the server process of the session has changed: %s", wantSessions)
		}
		p.Next, p.Clock = g.cursor(snapshot(saw)), time.UnixMicro(clock)
		return d.checkRead(incarnation)
	})
	queueLayouts(b, &p.Layouts)
	b.Queue(owners, args...).Query(func(rows pgx.Rows) error {
		var hash int64
		var page uint32
		_, err := pgx.ForEachRow(rows, []any{&hash, &page}, func() error {
			p.Owners = append(p.Owners, Owner{unstored(hash), page})
			return nil
		})
		return err
	})
	began := time.Now()
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return Progress{}, err
	}
	p.At = began.Add(time.Since(began) / 2)
	now := p.Layouts
	d.assumed.Store(&now)
	b = &pgx.Batch{}
	b.Queue(pages, args...).Query(func(rows pgx.Rows) error {
		var page uint32
		var s PageState
		_, err := pgx.ForEachRow(rows, []any{&page, &s.Sequence, &s.Left}, func() error { return each(page, s) })
		return err
	})
	b.Queue(`ROLLBACK`) // the transaction has changed nothing
	return p, conn.SendBatch(ctx, b).Close()
}
