package follow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// rig is a ledger that follows a stream of the test's own making.
type rig struct {
	*app

	src *activity.Source
	r   *receiver
}

// rigPart is the size of a part of a rig: the largest one would make its tests slow.
const rigPart = 1000

// newRig returns a rig that follows the tables of a file.
func newRig(t *testing.T, file string) *rig {
	t.Helper()
	g := &rig{app: openLedger(t, file, activity.BuiltinKinds())}
	g.lease()
	return g
}

// lease follows again, as a process does that has just started.
func (g *rig) lease() (at position) {
	g.t.Helper()
	var err error
	g.src, err = g.recorder.Follow(g.t.Context(), "app", "one", g.tables.Kinds(), time.Minute, false)
	must(g.t, err)
	f := New(g.recorder, Options{Name: "app", Tables: g.tables, Log: slog.New(slog.DiscardHandler)})
	f.group.below = maxGroup - 2*rigPart
	roots := make(map[uint32]string) // the tables of a model
	for n := range uint32(2) {
		roots[n] = fmt.Sprint("app.T", n)
	}
	g.r = &receiver{f: f, decoder: newDecoder(f.mapper, f.figures.changes, roots), events: make(chan event, maxGroup)}
	at, _ = parsePosition(g.src.Position)
	return at
}

// events decodes messages. An LSN is a keepalive.
func (g *rig) decode(messages ...any) (all []event) {
	g.t.Helper()
	for _, m := range messages {
		switch m := m.(type) {
		case pglogrepl.LSN:
			all = append(all, event{end: m})
		case pglogrepl.Message:
			e, is, err := g.r.decode(g.t.Context(), m)
			must(g.t, err)
			if is {
				all = append(all, e)
			}
		}
	}
	return all
}

// apply records events from a position on, until they end. The catalog does not change.
func (g *rig) apply(from position, all []event) {
	g.t.Helper()
	events := make(chan event, len(all))
	w := &watcher{begin: make(chan struct{}, 1), ended: make(chan lookedAt, 1)}
	a := newApplier(g.r.f, g.src, from, newReplay(from, from.lsn), events, w)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer close(w.begin)
	looking.Go(func() {
		for range w.begin {
			w.ended <- lookedAt{}
		}
	})
	for _, e := range all {
		events <- e
	}
	close(events)
	if err := a.run(g.t.Context()); err == nil || !strings.Contains(err.Error(), "the stream ended") {
		g.t.Fatal(err)
	}
}

// A part of a large transaction is in the ledger, and the stream begins again. The source says how
// far it has read before it sends the transaction again. No change is recorded twice.
func TestFollowPartAfterKeepalive(t *testing.T) {
	t.Parallel()
	g := newRig(t, appTables)
	span := []ledger.Span{{}}
	change := func(target string) activity.SourceChange {
		return activity.SourceChange{User: "1", Kind: "block", Target: target, At: time.Now(), Added: span}
	}
	must(t, g.src.Record(t.Context(), position{lsn: 10, tables: "x", done: 2, within: 0x64}.text(), []activity.SourceChange{change("2"), change("3")}))
	from := g.lease()
	g.apply(from, []event{{end: 50}, {begin: transaction{commit: 0x64}, at: time.Now()}, {changes: []activity.SourceChange{change("2"), change("3"), change("4")}}, {end: 0x6e}})
	if at := g.position(); at != (position{lsn: 0x6e, tables: "x", last: transaction{commit: 0x64}}) {
		t.Errorf("position %v", at)
	}
	removed := change("2")
	removed.Added, removed.Removed = nil, span
	must(t, g.src.Record(t.Context(), g.position().text(), nil))
	g.apply(g.lease(), []event{{begin: transaction{commit: 0x70}, at: time.Now()}, {changes: []activity.SourceChange{removed}}, {end: 0x80}})
	var left []string
	must(t, g.recorder.Export(t.Context(), "", func(a activity.Activity) error { left = append(left, a.Target); return nil }))
	if len(left) != 2 {
		t.Errorf("blocks of %v, want 3 and 4", left)
	}
}

// A large transaction is recorded in parts between small ones. The stream begins again within each
// part, and the source sends again what is not recorded as a whole.
func TestFollowParts(t *testing.T) {
	t.Parallel()
	g := newRig(t, appTables)
	const large = rigPart + rigPart/2
	at := time.Now()
	change := func(n int, remove bool) activity.SourceChange { // two rows for each activity
		c := activity.SourceChange{User: "1", Kind: "block", Target: fmt.Sprint("t", n/2), At: at, Added: []ledger.Span{{}}}
		if remove {
			c.Added, c.Removed = nil, c.Added
		}
		return c
	}
	var all []event
	ends := make(map[pglogrepl.LSN]int) // of transactions, and the event after it
	lsn := pglogrepl.LSN(0)
	commit := func(from, to int, remove bool) {
		all = append(all, event{begin: transaction{commit: lsn + 0x8}, at: at})
		for ; from < to; from++ {
			all = append(all, event{changes: []activity.SourceChange{change(from, remove)}})
		}
		lsn += 0x10
		all = append(all, event{end: lsn})
		ends[lsn] = len(all)
	}
	commit(0, 3, false)
	commit(3, 3+large, false)
	commit(3+large, 6+large, false)
	for _, c := range []struct {
		events int
		want   position
	}{
		{3, position{}}, // nothing
		{rigPart + 10, position{lsn: 0x10, done: rigPart + 1, within: 0x18, last: transaction{commit: 0x8}}},
		{rigPart + 20, position{lsn: 0x10, done: rigPart + 1, within: 0x18, last: transaction{commit: 0x8}}},
		{large + 6, position{lsn: 0x10, done: rigPart + 1, within: 0x18, last: transaction{commit: 0x8}}},
		{len(all), position{lsn: 0x30, last: transaction{commit: 0x28}}},
	} {
		from := g.lease()
		if from.tables == "" {
			from.tables = "x"
		}
		g.apply(from, slices.Clone(all[ends[from.lsn]:c.events]))
		if c.want.tables = "x"; c.want.lsn == 0 {
			continue
		}
		if at := g.lease(); at != c.want {
			t.Errorf("after %d events: position %v, want %v", c.events, at, c.want)
		}
	}
	commit(1, 2, true)
	for n := 2; n < 6+large; n += 100 {
		commit(n, n+1, true)
		commit(n+1, n+2, true)
	}
	g.apply(g.lease(), all[ends[0x30]:])
	left := make(map[string]bool)
	must(t, g.recorder.Export(t.Context(), "", func(a activity.Activity) error { left[a.Target] = true; return nil }))
	for n := range (6 + large) / 2 {
		if want := n == 0 || (2*n-2)%100 != 0; left[fmt.Sprint("t", n)] != want {
			t.Errorf("activity %d: %v, want %v", n, !want, want)
		}
	}
}

// The source keeps its log until the ledger has the changes, and no longer.
func TestFollowConfirms(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	var held atomic.Bool
	free := make(chan struct{})
	var err error
	a.recorder, err = activity.Open(t.Context(), activity.Config{
		Store: &favfilter.Memory{}, Ledger: a.ledger.Around(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
			if c.Operation == "follow" && held.Load() {
				select {
				case <-free:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return next(ctx)
		}),
	})
	must(t, err)
	t.Cleanup(a.recorder.Close)
	a.start(a.follower("one"))
	a.reached()
	held.Store(true)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	ask := func(sql string) (text string) {
		must(t, a.conn.QueryRow(t.Context(), `SELECT coalesce(max(`+sql+`::text), '') FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid`).Scan(&text))
		return text
	}
	for range 2 { // once it is said that all was received
		before := ask("reply_time")
		soon(t, "what the follower says", func() bool { return ask("reply_time") != before })
	}
	confirmed := func() pglogrepl.LSN {
		lsn, err := pglogrepl.ParseLSN(ask("confirmed_flush_lsn"))
		must(t, err)
		return lsn
	}
	if at, lsn := a.position().lsn, confirmed(); lsn > at {
		t.Errorf("confirmed %v, and the ledger has %v", lsn, at)
	}
	held.Store(false)
	close(free)
	a.reached()
	at := a.position().lsn
	soon(t, "the confirmation", func() bool { return confirmed() >= at })
	a.wantMapped()
}

// Within a transaction, the source's word of how far it has read is no position.
func TestKeepaliveWithinTransaction(t *testing.T) {
	r := &receiver{f: &Follower{}}
	keepalive := append([]byte{pglogrepl.PrimaryKeepaliveMessageByteID}, make([]byte, 17)...)
	keepalive[8] = 5 // of the position
	for _, open := range []bool{true, false} {
		r.open = open
		e, is, err := r.read(t.Context(), keepalive)
		must(t, err)
		if is == open || e.end != 5 {
			t.Errorf("open %v: event %v, %+v", open, is, e)
		}
	}
}

// A source that never pauses, and does not ask, hears what the ledger has, and so need not keep it.
func TestConfirmsUnderTraffic(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`ALTER ROLE CURRENT_USER SET wal_sender_timeout = 0`)
	a.start(a.follower("one"))
	a.reached()
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	var confirmed bool
	var at pglogrepl.LSN
	must(t, a.conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn()`).Scan(&at))
	for i := 0; i < 50_000 && !confirmed; i++ {
		a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, $1)`, 10+i)
		must(t, a.conn.QueryRow(t.Context(), `SELECT confirmed_flush_lsn >= $1::text::pg_lsn FROM pg_replication_slots`, at.String()).Scan(&confirmed))
	}
	if !confirmed {
		t.Errorf("%v is not confirmed", at)
	}
}
