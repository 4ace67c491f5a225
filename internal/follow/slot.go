package follow

import (
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// A slot of PostgreSQL 17 and later is a failover slot: standbys with sync_replication_slots keep a
// copy of it. After a failover the stream goes on from the copy, if the history is the ledger's
// ([server.leftOf], [replay]). Without a copy the tables are read whole. The slots of audits are
// temporary, and have none.

// exported is a snapshot that a connection has exported, and the position that it is of.
type exported struct {
	name string
	lsn  pglogrepl.LSN
}

// createSlot creates the slot of a read. It waits for open transactions of the source.
func (f *Follower) createSlot(ctx context.Context, exporter *pgx.Conn, r *reading) (exported, error) {
	f.Log.InfoContext(ctx, "creating a replication slot: this waits for open transactions of the source")
	limited, cancel := ctx, context.CancelFunc(func() {})
	if r.patience > 0 {
		limited, cancel = context.WithTimeout(ctx, r.patience)
	}
	defer cancel()
	options := pglogrepl.CreateReplicationSlotOptions{
		Mode: pglogrepl.LogicalReplication, SnapshotAction: "EXPORT_SNAPSHOT", Temporary: r.slot != f.name,
	}
	copied, err := copiesSlots(ctx, exporter)
	if err != nil {
		return exported{}, err
	}
	if copied && !options.Temporary {
		options.SnapshotAction = "(SNAPSHOT 'export', FAILOVER)"
	}
	made, err := pglogrepl.CreateReplicationSlot(limited, exporter.PgConn(), r.slot, "pgoutput", options)
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		return exported{}, fmt.Errorf("create replication slot %s: %w", r.slot, errOpen)
	case err != nil:
		return exported{}, fmt.Errorf("create replication slot %s: %w", r.slot, err)
	}
	at, err := pglogrepl.ParseLSN(made.ConsistentPoint)
	return exported{made.SnapshotName, at}, err
}

// copiesSlots reports whether standbys of the source's version can keep copies of its slots.
func copiesSlots(ctx context.Context, conn *pgx.Conn) (can bool, err error) {
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int >= 170000`).Scan(&can)
	if err != nil {
		return false, fmt.Errorf("read the version of the source: %w", err)
	}
	return can, nil
}

// copySlot lets standbys keep copies of a slot that was made without: by an earlier version of
// follow or of PostgreSQL, or by hand. The slot must not be in use.
func (s *source) copySlot(ctx context.Context, look, replicating *pgx.Conn) error {
	var lacks bool // earlier versions have no such column
	err := look.QueryRow(ctx, `SELECT coalesce(bool_or(to_jsonb(r) ->> 'failover' = 'false'), false)
		FROM pg_replication_slots r WHERE slot_name = $1`, s.name).Scan(&lacks)
	if err == nil && lacks {
		_, err = replicating.PgConn().Exec(ctx, "ALTER_REPLICATION_SLOT "+s.name+" (FAILOVER)").ReadAll()
	}
	if err != nil {
		return fmt.Errorf("let standbys keep copies of replication slot %s: %w", s.name, err)
	}
	return nil
}
