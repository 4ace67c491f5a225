package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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
