package follow

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Status is what a service knows of a source.
type Status struct {
	Name     string `json:"name"`
	Followed bool   `json:"followed"` // by a process, as far as this one knows
	Position uint64 `json:"-"`        // up to where the ledger has the source's log, in bytes
	// Proved is when a comparison of all rows last made source and ledger the same; zero: not known.
	Proved time.Time `json:"proved_at,omitzero"`
	*Stats           // of this process's follower of the source; nil: it has none
}

// Statuses returns what this process knows of the ledger's sources and that of f. f may be nil.
func Statuses(r *activity.Recorder, f *Follower) []Status {
	sources := r.Sources()
	if f != nil && !slices.ContainsFunc(sources, func(s ledger.Source) bool { return s.Name == f.Name }) { // not leased yet
		sources = append(sources, ledger.Source{Name: f.Name})
	}
	all := make([]Status, 0, len(sources))
	for _, source := range sources {
		at, _ := parsePosition(source.Position)
		s := Status{Name: source.Name, Followed: source.Holder != "", Position: uint64(at.lsn)}
		if at.audited != 0 {
			s.Proved = time.Unix(at.audited, 0).UTC()
		}
		if f != nil && f.Name == s.Name {
			s.Stats = new(f.Stats())
			s.Followed = s.Followed && (s.Active || source.Holder != f.Holder)
		}
		all = append(all, s)
	}
	return all
}

// KeptLog is the part of its log that a source keeps for the replication slot, in bytes.
type KeptLog struct {
	Kept int64
	Left *int64 // until the slot is lost; nil: no limit
}

// Watch measures the log that the source keeps, until ctx ends: also while no process follows it.
func (f *Follower) Watch(ctx context.Context) {
	for {
		f.measure(ctx)
		if pause(ctx, watchEvery) != nil {
			return
		}
	}
}

func (f *Follower) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	conn, err := f.connect(ctx, false)
	if err != nil {
		return
	}
	defer conn.Close(ctx) //nolint:errcheck // it only read
	if log, err := f.keptLog(ctx, conn); err == nil {
		f.log.Store(&log)
	}
}

// keptLog reads what the server keeps for the slot: nothing, if there is none.
func (s *source) keptLog(ctx context.Context, conn *pgx.Conn) (log KeptLog, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(max(CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_lsn() - restart_lsn END), 0)::bigint,
			max(safe_wal_size) FROM pg_replication_slots WHERE slot_name = $1`, s.name).Scan(&log.Kept, &log.Left)
	return log, err
}
