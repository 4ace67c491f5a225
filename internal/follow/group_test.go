package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// The size of a group halves while the ledger is too slow for it, and grows while it is fast.
func TestGroupSize(t *testing.T) {
	slow := fmt.Errorf("record: %w", context.DeadlineExceeded)
	var g groupSize
	if g.most() != maxGroup || g.part() != maxPart {
		t.Errorf("first %d and %d", g.most(), g.part())
	}
	for _, step := range []struct {
		changes int
		err     error
		smaller bool
		most    int
	}{
		{20_000, slow, true, 10_000},
		{10_001, slow, true, 5000},                                                  // a part is larger by one than it has to be
		{1200, &pgconn.PgError{Code: "57014"}, true, 600},                           // all that waited
		{600, fmt.Errorf("record: %w", &pgconn.PgError{Code: "40001"}), false, 600}, // not slow
		{600, errors.New("connection refused"), false, 600},
		{30, slow, true, 20},
		{20, slow, false, 20}, // as good as down
	} {
		if smaller := g.failed(step.changes, step.err); smaller != step.smaller || g.most() != step.most {
			t.Errorf("%d changes, %v: smaller %v, now %d; want %+v", step.changes, step.err, smaller, g.most(), step)
		}
	}
	g.worked(2 * time.Second)
	if g.most() != 20 {
		t.Errorf("%d after a slow group", g.most())
	}
	for range 100 {
		g.worked(time.Second / 2)
	}
	if g.most() != maxGroup {
		t.Errorf("%d after 100 fast groups", g.most())
	}
}

// A group has whole transactions, and parts of large ones. It leaves out what the ledger has.
func TestGroup(t *testing.T) {
	changes := func(n int) event { return event{changes: make([]activity.SourceChange, n)} }
	begin := func(commit pglogrepl.LSN, xid uint32) event { return event{begin: transaction{commit, xid, 0}} }
	end := func(lsn pglogrepl.LSN) event { return event{end: lsn} }
	const snapshot = "0/50@750:754:750" // has 753, not 750
	for name, c := range map[string]struct {
		from   position
		known  pglogrepl.LSN // up to there, the source knows that the ledger has all
		events []event
		want   position // of what may be recorded
		has    int      // changes of it
		left   int      // changes after it
		err    string
	}{
		"nothing":                         {position{lsn: 10}, 10, nil, position{lsn: 10}, 0, 0, ""},
		"open":                            {position{lsn: 10}, 10, []event{begin(12, 1), changes(3)}, position{lsn: 10}, 0, 3, ""},
		"whole":                           {position{lsn: 10}, 10, []event{begin(12, 1), changes(2), changes(1), end(14)}, position{lsn: 14, last: transaction{12, 1, 0}}, 3, 0, ""},
		"two":                             {position{lsn: 10}, 10, []event{begin(12, 1), changes(1), end(14), begin(16, 2), changes(4), end(18), begin(20, 3), changes(1)}, position{lsn: 18, last: transaction{16, 2, 0}}, 5, 1, ""},
		"without changes":                 {position{lsn: 10}, 10, []event{begin(12, 1), end(14), end(20)}, position{lsn: 20, last: transaction{12, 1, 0}}, 0, 0, ""},
		"a position that is not larger":   {position{lsn: 10, last: transaction{8, 1, 0}}, 10, []event{end(10), end(9)}, position{lsn: 10, last: transaction{8, 1, 0}}, 0, 0, ""},
		"part of a large one":             {position{lsn: 10}, 10, []event{begin(12, 1), changes(12), changes(3)}, position{lsn: 10, done: 11, within: 12}, 11, 4, ""},
		"parts of a large one":            {position{lsn: 10}, 10, []event{begin(12, 1), changes(25)}, position{lsn: 10, done: 22, within: 12}, 22, 3, ""},
		"the end of a large one":          {position{lsn: 10}, 10, []event{begin(12, 1), changes(25), end(14)}, position{lsn: 14, last: transaction{12, 1, 0}}, 25, 0, ""},
		"the rest of a large one":         {position{lsn: 10, done: 22, within: 12}, 10, []event{begin(12, 1), changes(25), end(14)}, position{lsn: 14, last: transaction{12, 1, 0}}, 3, 0, ""},
		"a position before a large one":   {position{lsn: 10, done: 22, within: 12}, 10, []event{end(11)}, position{lsn: 11, done: 22, within: 12}, 0, 0, ""},
		"one before the rest":             {position{lsn: 10, done: 2, within: 16}, 10, []event{begin(12, 1), changes(5), end(14)}, position{lsn: 14, done: 2, within: 16, last: transaction{12, 1, 0}}, 5, 0, ""},
		"sent again":                      {position{lsn: 14, last: transaction{12, 1, 0}}, 10, []event{begin(12, 1), changes(9), end(14), begin(16, 2), changes(1), end(18)}, position{lsn: 18, last: transaction{16, 2, 0}}, 1, 0, ""},
		"another transaction":             {position{lsn: 14, last: transaction{12, 1, 0}}, 10, []event{begin(12, 7)}, position{lsn: 14, last: transaction{12, 1, 0}}, 0, 0, "does not know"},
		"one between":                     {position{lsn: 14, last: transaction{11, 1, 0}}, 10, []event{begin(11, 1), end(12), begin(12, 2)}, position{lsn: 14, last: transaction{11, 1, 0}}, 0, 0, "does not know"},
		"the last one is missing":         {position{lsn: 14, last: transaction{12, 1, 0}}, 10, []event{begin(16, 2)}, position{lsn: 14, last: transaction{12, 1, 0}}, 0, 0, "lacks the transaction"},
		"passed without it":               {position{lsn: 14, last: transaction{12, 1, 0}}, 10, []event{end(20)}, position{lsn: 14, last: transaction{12, 1, 0}}, 0, 0, "lacks the transaction"},
		"known":                           {position{lsn: 14, last: transaction{12, 1, 0}}, 14, []event{begin(16, 2), changes(1), end(18)}, position{lsn: 18, last: transaction{16, 2, 0}}, 1, 0, ""},
		"what a read has seen, and after": {position{lsn: 10, seen: snapshot}, 10, []event{begin(12, 750), changes(1), end(14)}, position{lsn: 14, seen: snapshot, last: transaction{12, 750, 0}}, 1, 0, ""},
		"the end of what a read has seen": {position{lsn: 10, seen: snapshot}, 10, []event{end(0x50)}, position{lsn: 0x50}, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			size := groupSize{below: maxGroup - 20} // parts of more than 10
			g := newGroup(c.from, newReplay(c.from, c.known), &size)
			var err error
			for _, e := range c.events {
				if err == nil {
					err = g.take(e)
				}
			}
			if fmt.Sprint(err) != "<nil>" && c.err == "" || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			cut := g.cut(g.whole)
			if g.whole.to != c.want || len(cut) != c.has || len(g.changes) != c.left {
				t.Errorf("%d changes up to %+v, %d left; want %d up to %+v, %d left", len(cut), g.whole.to, len(g.changes), c.has, c.want, c.left)
			}
		})
	}
}

// What was cut out of a group stays out, whatever comes after it.
func TestGroupCut(t *testing.T) {
	var size groupSize
	g := newGroup(position{lsn: 10}, newReplay(position{lsn: 10}, 10), &size)
	targets := func(all []activity.SourceChange) (text string) {
		for _, c := range all {
			text += c.Target
		}
		return text
	}
	one := func(commit pglogrepl.LSN, target string) mark {
		for _, e := range []event{{begin: transaction{commit: commit}}, {changes: []activity.SourceChange{{Target: target}}}, {end: commit + 2}} {
			must(t, g.take(e))
		}
		return g.whole
	}
	first, second := one(12, "a"), one(16, "b")
	for _, want := range []string{"a", ""} {
		if got := targets(g.cut(first)); got != want {
			t.Errorf("cut %q, want %q", got, want)
		}
	}
	third := one(20, "c")
	if n := g.left(third); n != 2 {
		t.Errorf("%d changes left, want 2", n)
	}
	if got := targets(g.cut(second)) + " " + targets(g.cut(third)); got != "b c" {
		t.Errorf("cut %q, want b and c", got)
	}
}

// A ledger that takes a millisecond for a row gets a transaction of the source, and then the tables
// as a whole, in groups that it can record.
func TestFollowSlowLedger(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	url := a.server.Schema() + "&statement_timeout=1s"
	l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: 4})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	r, err := activity.Open(t.Context(), activity.Config{Store: &favfilter.Memory{}, Ledger: l})
	must(t, err)
	t.Cleanup(r.Close)
	a.ledger, a.recorder = l, r
	_, schema, _ := strings.Cut(url, "search_path=")
	schema, _, _ = strings.Cut(schema, "&")
	a.exec(strings.ReplaceAll(`CREATE FUNCTION s.slow() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$ LANGUAGE plpgsql;
		CREATE TRIGGER slow BEFORE INSERT ON s.entries FOR EACH ROW EXECUTE FUNCTION s.slow()`, "s.", schema+"."))
	f := a.follower("one")
	stop := a.start(f)
	a.reached()
	const insert = `INSERT INTO blocks (blocker_id, blocked_id) SELECT %d, 100 + n FROM generate_series(1, 600) n`
	a.exec(fmt.Sprintf(insert, 1))
	a.reached()
	a.wantMapped()
	stop()
	must(t, f.source.dropSlot(t.Context(), a.conn))
	a.exec(fmt.Sprintf(insert, 2))
	f = a.follower("two")
	stop = a.start(f)
	a.reached()
	a.wantMapped()
	stop()
	if f.Stats().Snapshots != 1 {
		t.Errorf("%d full reads, want one", f.Stats().Snapshots)
	}
}
