package follow

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// figures are what became of a source in this process, since it began. They may be used by several
// goroutines.
type figures struct {
	active      atomic.Bool
	trouble     atomic.Pointer[string]
	snapshots   atomic.Uint64
	log         atomic.Pointer[KeptLog]
	changes     map[string]*counts               // by table
	differences map[string]*[sorts]atomic.Uint64 // that audits found, by kind
}

func newFigures(tables Tables) *figures {
	f := &figures{
		changes:     make(map[string]*counts),
		differences: make(map[string]*[sorts]atomic.Uint64),
	}
	for i := range tables {
		f.changes[tables[i].Table] = newCounts()
	}
	for _, kind := range tables.Kinds() {
		f.differences[kind] = new([sorts]atomic.Uint64)
	}
	f.say("")
	f.log.Store(&KeptLog{})
	return f
}

// counts are changes of the rows of a table, by what became of them.
type counts struct {
	recorded, ignored atomic.Uint64             // an ignored one does not change what the table says
	skipped           map[reason]*atomic.Uint64 // with an id or a time that is not valid
}

func newCounts() *counts {
	c := &counts{skipped: make(map[reason]*atomic.Uint64)}
	for _, why := range invalidReasons() {
		c.skipped[why] = new(atomic.Uint64)
	}
	return c
}

// add counts a change of a row, by what it gave and an error that refuses the new row or is nil.
func (c *counts) add(changes []activity.SourceChange, refused error) {
	switch {
	case len(changes) > 0:
		c.recorded.Add(1)
	case refused == nil:
		c.ignored.Add(1)
	}
}

// say sets [Stats.Trouble].
func (f *figures) say(trouble string) { f.trouble.Store(&trouble) }

// count adds what an audit has found to [Stats.Differences].
func (f *figures) count(found *findings) {
	for kind, d := range found.kinds {
		for how, n := range d.counts {
			f.differences[kind][how].Add(uint64(n))
		}
	}
}

// stats returns the figures without [Stats.Behind] and [Stats.Lag].
func (f *figures) stats() Stats {
	s := Stats{
		Active:      f.active.Load(),
		Trouble:     *f.trouble.Load(),
		Log:         *f.log.Load(),
		Snapshots:   f.snapshots.Load(),
		Changes:     make(map[string]map[string]uint64),
		Differences: make(map[string]map[string]uint64),
	}
	for kind, counts := range f.differences {
		s.Differences[kind] = make(map[string]uint64)
		for how := range sorts {
			s.Differences[kind][how.String()] = counts[how].Load()
		}
	}
	for table, counts := range f.changes {
		s.Changes[table] = map[string]uint64{
			"recorded": counts.recorded.Load(), "ignored": counts.ignored.Load(),
			"skipped": s.skip(counts),
		}
	}
	return s
}

// Stats are what a follower does, since it was made.
type Stats struct {
	Active    bool    `json:"-"`                // by this process; otherwise another may follow it
	Trouble   string  `json:"trouble,omitzero"` // what keeps it from it, for people; "": nothing
	Behind    uint64  `json:"behind_bytes"`     // of the source's log, that the ledger lacks
	Lag       float64 `json:"behind_seconds"`   // since the ledger lacked nothing
	Log       KeptLog `json:"-"`
	Snapshots uint64  `json:"-"` // how often the tables were read whole
	// Changes are rows of the stream by table and result; skipped ones of snapshots count too.
	Changes map[string]map[string]uint64 `json:"-"`
	// Skipped are the skipped rows of all tables by reason, such as "self"; nil: there are none.
	Skipped map[string]uint64 `json:"skipped,omitzero"`
	// Differences are activities that comparisons beside the stream have found, by kind and by how
	// the ledger differed: missing, stray or changed.
	Differences map[string]map[string]uint64 `json:"-"`
}

// skip adds the skipped rows of a table to [Stats.Skipped], and returns how many there are.
func (s *Stats) skip(of *counts) (all uint64) {
	for why, count := range of.skipped {
		n := count.Load()
		if n > 0 && s.Skipped == nil {
			s.Skipped = make(map[string]uint64)
		}
		if n > 0 {
			s.Skipped[string(why)] += n
		}
		all += n
	}
	return all
}

// Stats returns the current figures.
func (f *Follower) Stats() Stats {
	s := f.figures.stats()
	if !s.Active && s.Trouble == "" {
		return s
	}
	if end, at := f.progress.walEnd.Load(), f.progress.recorded.Load(); end > at {
		s.Behind = end - at
		s.Lag = time.Since(time.Unix(0, f.progress.committed.Load())).Seconds()
	}
	return s
}

// Stats returns the current figures.
func (r *Receiver) Stats() Stats { return r.figures.stats() }

// Local is what follows a source in this process: a [Follower] or a [Receiver].
type Local interface {
	// Name returns the name of the source.
	Name() string
	// Stats returns the current figures.
	Stats() Stats
	// holds reports whether it holds a lease, as far as the holder tells.
	holds(lease ledger.Source) bool
}

func (f *Follower) holds(lease ledger.Source) bool { return lease.Holder == f.options.Holder }

// holds reports false: the processes that receive events hold one lease in turn.
func (r *Receiver) holds(ledger.Source) bool { return false }

// Status is what a service knows of a source.
type Status struct {
	Name     string `json:"name"`
	Followed bool   `json:"followed"` // by a process, as far as this one knows
	Position uint64 `json:"-"`        // up to where the ledger has the source's log, in bytes
	// Age is how many seconds ago the ledger lacked nothing of the source, as far as this process
	// knows; nil: not known. See [activity.Config.FollowedWithin].
	Age *float64 `json:"age_seconds,omitzero"`
	// Proved is when a comparison of all rows last made source and ledger the same; zero: not known.
	Proved time.Time `json:"proved_at,omitzero"`
	*Stats           // of this process's follower of the source; nil: it has none
}

// Statuses returns what this process knows of the ledger's sources and that of local. local may be
// nil.
func Statuses(r *activity.Recorder, local Local) []Status {
	sources := r.Sources()
	isLocal := func(s ledger.Source) bool { return s.Name == local.Name() }
	if local != nil && !slices.ContainsFunc(sources, isLocal) { // it is not leased yet
		sources = append(sources, ledger.Source{Name: local.Name()})
	}
	all := make([]Status, 0, len(sources))
	for _, source := range sources {
		at, _ := parsePosition(source.Position)
		s := Status{Name: source.Name, Followed: source.Holder != "", Position: uint64(at.lsn)}
		if !source.Followed.IsZero() {
			s.Age = new(max(0, r.Now().Sub(source.Followed).Seconds()))
		}
		if at.audited != 0 {
			s.Proved = time.Unix(at.audited, 0).UTC()
		}
		if local != nil && local.Name() == s.Name {
			s.Stats = new(local.Stats())
			s.Followed = s.Followed && (s.Active || !local.holds(source))
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
	conn, err := f.source.connect(ctx, false)
	if err != nil {
		return
	}
	defer conn.Close(ctx) //nolint:errcheck // it only read
	if log, err := f.source.keptLog(ctx, conn); err == nil {
		f.figures.log.Store(&log)
	}
}

// keptLog reads what the server keeps for the slot: nothing, if there is none.
func (s *source) keptLog(ctx context.Context, conn *pgx.Conn) (log KeptLog, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(max(CASE WHEN NOT pg_is_in_recovery()
				THEN pg_current_wal_lsn() - restart_lsn END), 0)::bigint,
			max(safe_wal_size)
		FROM pg_replication_slots WHERE slot_name = $1`, s.name).Scan(&log.Kept, &log.Left)
	return log, err
}
