package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// waitsEvery is how often a slot that is created is asked for whom it waits.
const waitsEvery = time.Second

// endPatience bounds the question to the source that ends what it was asked before, also when the
// follower ends.
const endPatience = time.Second

// A slot of PostgreSQL 17 and later is a failover slot: standbys with sync_replication_slots keep a
// copy of it. After a failover the stream goes on from the copy, if the history is the ledger's
// ([server.leftOf], [replay]). Without a copy the tables are read whole. The slots of audits are
// temporary, and have none.

// exported is a snapshot that a connection has exported, and the position that it is of.
type exported struct {
	name string
	lsn  pglogrepl.LSN
}

// createSlot creates the slot of a read. It waits for transactions of the source that are open, in
// any of its databases, and says for which. look is another connection.
func (f *Follower) createSlot(
	ctx context.Context, exporter, look *pgx.Conn, r *reading,
) (exported, error) {
	f.log.InfoContext(
		ctx, "creating a replication slot: this waits for open transactions of the source",
	)
	options := pglogrepl.CreateReplicationSlotOptions{
		Mode:           pglogrepl.LogicalReplication,
		SnapshotAction: "EXPORT_SNAPSHOT",
		Temporary:      r.slot != f.source.name,
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if r.patience > 0 {
		limited, cancel = context.WithTimeout(ctx, r.patience)
	}
	defer cancel()
	told := f.tellWaits(ctx, exporter.PgConn().PID(), look, options.Temporary)
	process := exporter.PgConn()
	made, err := pglogrepl.CreateReplicationSlot(limited, process, r.slot, "pgoutput", options)
	told()
	if err != nil && limited.Err() != nil {
		endProcess(ctx, exporter, look)
	}
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		return exported{}, fmt.Errorf("create replication slot %s: %w", r.slot, errOpen)
	case err != nil:
		err = f.source.mayReplicate(exporter, err)
		return exported{}, fmt.Errorf("create replication slot %s: %w", r.slot, err)
	}
	at, err := pglogrepl.ParseLSN(made.ConsistentPoint)
	return exported{made.SnapshotName, at}, err
}

// endProcess ends the process of the source that serves exporter, whose command was cancelled. The
// one request to cancel may have been lost, or have come before the command began. The process
// would then keep the source's log for as long as the transaction that it waits for is open.
func endProcess(ctx context.Context, exporter, look *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	const endSQL = `SELECT pg_terminate_backend(pid) FROM pg_stat_replication WHERE pid = $1`
	_, _ = look.Exec(ctx, endSQL, int32(exporter.PgConn().PID()))
}

// tellWaits says, from a second on, for which transaction the connection with a process of the
// source waits, until the function that it returns is called. Following goes on beside the slot of
// an audit, so then only the log tells. look is used until that function returns.
func (f *Follower) tellWaits(
	ctx context.Context, process uint32, look *pgx.Conn, audit bool,
) (end func()) {
	quit := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(waitsEvery)
		defer tick.Stop()
		before, known := *f.figures.trouble.Load(), openTransaction{}
		for {
			select {
			case <-quit:
				if !audit {
					f.figures.say(before)
				}
				return
			case <-tick.C:
			}
			waits, found, err := waitsFor(ctx, look, process) // not ended by quit, which would close look
			if err != nil || !found {
				continue // what comes after the slot meets the same error
			}
			if !audit {
				f.figures.say(before + "; creating the replication slot waits for " + waits.String())
			}
			if !waits.same(&known) {
				f.log.WarnContext(
					ctx, "creating the replication slot waits for a transaction",
					"for", waits.String(), "do", waits.remedy(),
				)
			}
			known = waits
		}
	})
	return func() { close(quit); telling.Wait() }
}

// openTransaction is a transaction of the source that has not ended.
type openTransaction struct {
	database    string
	gid         string // of a prepared transaction, which has no process
	process     int
	application string
	began       time.Time // or was prepared; zero: the role may not see it
	age         time.Duration
}

// same reports whether the two are one transaction.
func (o *openTransaction) same(other *openTransaction) bool {
	return o.began.Equal(other.began) && o.gid == other.gid && o.process == other.process
}

func (o *openTransaction) String() string {
	what := fmt.Sprintf("the transaction of process %d (application %q)", o.process, o.application)
	if o.process == 0 {
		what = fmt.Sprintf("the prepared transaction %q", o.gid)
	}
	what += fmt.Sprintf(" of database %q", o.database)
	if !o.began.IsZero() {
		what += ", " + o.age.Round(time.Second).String() + " old"
	}
	return what
}

// remedy returns the SQL that ends the transaction.
func (o *openTransaction) remedy() string {
	if o.process == 0 {
		gid := strings.ReplaceAll(o.gid, "'", "''")
		return fmt.Sprintf("if it was forgotten, run in that database: ROLLBACK PREPARED '%s'", gid)
	}
	return fmt.Sprintf("if it hangs, run: SELECT pg_terminate_backend(%d)", o.process)
}

// waitsForSQL reads the transaction whose end process $1 waits for.
const waitsForSQL = `SELECT coalesce(p.database, a.datname, ''), coalesce(p.gid, ''),
		coalesce(a.pid, 0), coalesce(a.application_name, ''), began,
		coalesce(extract(epoch FROM clock_timestamp() - began), 0)::float8
	FROM pg_locks w
		JOIN pg_locks h ON h.locktype = 'transactionid' AND h.transactionid = w.transactionid
			AND h.granted AND h.mode = 'ExclusiveLock'
		LEFT JOIN pg_prepared_xacts p ON p.transaction = h.transactionid
		LEFT JOIN pg_stat_activity a ON a.pid = h.pid
		CROSS JOIN LATERAL (SELECT coalesce(p.prepared, a.xact_start) AS began) b
	WHERE w.pid = $1 AND w.locktype = 'transactionid' AND NOT w.granted LIMIT 1`

// waitsFor returns the transaction whose end a process of the source waits for.
func waitsFor(
	ctx context.Context, look *pgx.Conn, process uint32,
) (o openTransaction, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout) // the source may hang
	defer cancel()
	var began *time.Time
	var age float64
	err = look.QueryRow(ctx, waitsForSQL, int(process)).
		Scan(&o.database, &o.gid, &o.process, &o.application, &began, &age)
	if began != nil {
		o.began, o.age = *began, time.Duration(age*float64(time.Second))
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return o, false, nil
	}
	return o, err == nil, err
}

// preparedTransactions returns those of all databases of the server, the oldest first: a new slot
// waits for each.
func preparedTransactions(ctx context.Context, conn *pgx.Conn) ([]openTransaction, error) {
	rows, err := conn.Query(ctx, `SELECT gid, database, prepared,
			extract(epoch FROM clock_timestamp() - prepared)::float8
		FROM pg_prepared_xacts ORDER BY prepared`)
	if err != nil {
		return nil, fmt.Errorf("look at the prepared transactions of the source: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o openTransaction, err error) {
		var age float64
		err = row.Scan(&o.gid, &o.database, &o.began, &age)
		o.age = time.Duration(age * float64(time.Second))
		return o, err
	})
}

// copySlot lets standbys keep copies of the slot: also of one that an earlier version of follow
// or of PostgreSQL made, or somebody by hand. The slot must not be in use.
func (s *source) copySlot(ctx context.Context, look, replicating *pgx.Conn) error {
	var lacks bool // earlier versions have no such column
	err := look.QueryRow(ctx, `SELECT coalesce(bool_or(to_jsonb(r) ->> 'failover' = 'false'), false)
		FROM pg_replication_slots r WHERE slot_name = $1`, s.name).Scan(&lacks)
	if err == nil && lacks {
		alter := "ALTER_REPLICATION_SLOT " + s.name + " (FAILOVER)"
		_, err = replicating.PgConn().Exec(ctx, alter).ReadAll()
	}
	if err != nil {
		err = s.mayReplicate(replicating, err)
		return fmt.Errorf("let standbys keep copies of replication slot %s: %w", s.name, err)
	}
	return nil
}
