package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// history names a sequence of transaction ids: those of a server and its timeline. A cursor
// continues on another connection of the same history.
//
// A server that crashes forgets the ids that it had assigned but not logged, and assigns them
// again. So a later change may have an id below those that a poll saw as ended. Ids up to that of a
// committed change are logged, and never assigned again. So a cursor counts no greater id as seen
// than that of the latest change it has read. A server that was promoted may lack commits, and
// assigns their ids again. It has a new timeline.
type history string

// historyKey is the key of the history in a connection's custom data.
const historyKey = "history"

// point is what a cursor says. A poll has seen the transactions with ids up to Seen, except those
// that ran.
type point struct {
	History history `json:"history"`
	Seen    int64   `json:"seen"`
	Ran     []int64 `json:"ran"`
}

// cursor returns the Progress.Next of a poll that saw s. seen is the greatest id of a transaction
// whose change it or an earlier poll has read.
func (h history) cursor(s snapshot, seen int64) Cursor {
	ran := slices.DeleteFunc(slices.Clone(s.running), func(id int64) bool { return id > seen })
	p := point{h, seen, append([]int64{}, ran...)}
	text, _ := json.Marshal(p) //nolint:errchkjson // never fails
	return Cursor(text)
}

// since returns the transactions that the cursor has not seen: those with ids above seen, and the
// running ones before it. For a cursor of another history, or an empty one, it returns false: all
// transactions.
func (h history) since(c Cursor) (seen int64, running []int64, ok bool) {
	var p point
	if err := json.Unmarshal([]byte(c), &p); err != nil || p.History != h {
		return 0, nil, false
	}
	return p.Seen, p.Ran, true
}

// snapshot is what a poll saw: every transaction with an id below xmax, except the running ones.
type snapshot struct {
	xmax    int64
	running []int64
}

// readHistory returns the history of the connection's server. If the server does not tell, the
// history ends with the connection.
func (d *postgresDatabase) readHistory(ctx context.Context, conn *pgx.Conn) (h history, err error) {
	err = conn.QueryRow(ctx, historySQL).Scan(&h)
	if _, refused := errors.AsType[*pgconn.PgError](err); refused || err == nil && h == "" {
		return history(fmt.Sprintf("connection-%d", d.connections.Add(1))), nil
	}
	return h, err
}

// newPolls creates a pool of one connection that only polls use, so that no other call delays them.
// The pool keeps the connection while it works.
func (d *postgresDatabase) newPolls(
	ctx context.Context, config *pgxpool.Config,
) (*pgxpool.Pool, error) {
	config = config.Copy()
	config.MaxConns, config.MinConns, config.MinIdleConns = 1, 0, 0
	config.MaxConnLifetime, config.MaxConnIdleTime = math.MaxInt64, math.MaxInt64
	// Statements are planned for the values at hand: a few pages changed lately, or all of them.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	check := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := check(ctx, conn); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, planForValuesSQL); err != nil {
			return fmt.Errorf("set the session's parameters: %w", err)
		}
		h, err := d.readHistory(ctx, conn)
		if err != nil {
			return fmt.Errorf("read the server's timeline: %w", err)
		}
		conn.PgConn().CustomData()[historyKey] = h
		return d.lockSettings(ctx, conn)
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// changed reads everything in one transaction, whose statements share a snapshot. The first
// round trip begins it and reads all but the pages. The second one reads the pages and ends it.
func (d *postgresDatabase) changed(
	ctx context.Context, since Cursor, each func(page uint32, s PageState) error,
) (p Progress, err error) {
	// A first poll may read millions of pages.
	poll := func(ctx context.Context, conn *pgx.Conn, progress func()) (err error) {
		p, err = d.pollPages(ctx, conn, since, func(page uint32, s PageState) error {
			progress()
			return each(page, s)
		})
		return err
	}
	err = d.stream(ctx, d.polls, poll)
	return p, err
}

func (d *postgresDatabase) pollPages(
	ctx context.Context, conn *pgx.Conn, since Cursor, each func(page uint32, s PageState) error,
) (Progress, error) {
	h, _ := conn.PgConn().CustomData()[historyKey].(history) // newPolls sets it
	seen, running, ok := h.since(since)
	owners, pages, args := changedOwnersSQL, changedPagesSQL, []any{seen, running}
	if !ok {
		owners, pages, args = everyOwnerSQL, everyPageSQL, nil
	}
	p, saw, err := d.pollOwners(ctx, conn, owners, args)
	if err != nil {
		return Progress{}, err
	}
	if seen >= saw.xmax { // the server was set back, and assigns ids again
		rollBack(ctx, conn)
		return d.pollPages(ctx, conn, "", each)
	}
	var page uint32
	var s PageState
	var changed int64
	read := statement{
		sql:  pages,
		args: args,
		into: []any{&page, &s.Sequence, &s.Left, &changed},
		each: func() error {
			if changed < saw.xmax { // otherwise another server assigned it
				seen = max(seen, changed)
			}
			return each(page, s)
		},
	}
	err = send(ctx, conn, read, statement{sql: `ROLLBACK`}) // the transaction has changed nothing
	p.Next = h.cursor(saw, seen)
	return p, err
}

// pollOwners begins the transaction of a poll, and reads everything but the pages.
func (d *postgresDatabase) pollOwners(
	ctx context.Context, conn *pgx.Conn, owners string, args []any,
) (p Progress, saw snapshot, err error) {
	var clock int64
	var incarnation *string
	var backend, page uint32
	var hash int64
	p.Owners = make(map[uint64]uint32)
	poll := statement{
		sql:  pollSQL,
		into: []any{&saw.xmax, &saw.running, &clock, &incarnation, &backend},
		each: func() (err error) {
			if backend != conn.PgConn().CustomData()[backendKey] {
				// Another session holds the lock of settings.
				return fmt.Errorf("the server process of the session has changed: %s", wantSessions)
			}
			p.Clock = time.UnixMicro(clock)
			return d.check(incarnation)
		},
	}
	all := []statement{
		{sql: beginSnapshotSQL},
		poll,
		layoutsQuery(&p.Layouts),
		sourcesQuery(&p.Sources),
		{
			sql:  owners,
			args: args,
			into: []any{&hash, &page},
			each: func() error {
				p.Owners[unstored(hash)] = page
				return nil
			},
		},
	}
	if args == nil {
		all = slices.Insert(all, 1, statement{sql: unlimitedSQL})
	}
	began := time.Now()
	if err := send(ctx, conn, all...); err != nil {
		return Progress{}, snapshot{}, err
	}
	p.Error = time.Since(began) / 2
	p.At = began.Add(p.Error)
	return p, saw, nil
}
