package activity

import (
	"context"
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// TestOneCommandAFeed: a view of all kinds is one command to Redis, and a write one
// script per page.
func TestOneCommandAFeed(t *testing.T) {
	server := redistest.Start(t)
	g := newRig(t, redisStore(t, server), 64)
	g.record(t, true, add("1", "block", "2"))
	g.record(t, true, add("1", "seen", "p"))
	v, err := g.View(t.Context(), "1", g.Kinds().All())
	must(t, err)
	g.open(t, g.ledger.Around(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		if c.Operation == "sequence" || c.Operation == "place" {
			t.Errorf("the ledger was asked for the %s of a page", c.Operation)
		}
		return next(ctx)
	}), g.store)
	before := server.CommandStats()
	const n = 50
	for range n {
		if v, err = g.View(t.Context(), "1", g.Kinds().All()); err != nil {
			t.Fatal(err)
		}
	}
	if v.Check(0, "2") != Direct || v.Check(3, "p") != Direct {
		t.Error("an activity is missed")
	}
	wantCommands(t, server, before, map[string]int64{"mget": n})

	other := "other"
	for i := 0; g.pageOf(t, other) == g.pageOf(t, "1"); i++ {
		other = fmt.Sprint("other", i)
	}
	g.want(t, "2", "block", "1", Reverse) // both pages are met now
	g.record(t, true, add("1", "block", other))
	g.record(t, true, undo("1", "block", other))
	before = server.CommandStats()
	for range n { // a page on each side
		g.record(t, true, add("1", "block", other))
		g.record(t, true, undo("1", "block", other))
	}
	wantCommands(t, server, before, map[string]int64{"evalsha": 4 * n})
	before = server.CommandStats()
	for i := range n {
		g.record(t, true, add("1", "hide", fmt.Sprint("p", i)))
	}
	wantCommands(t, server, before, map[string]int64{"evalsha": n})
	before = server.CommandStats()
	for i := range n { // a feed that records what it shows: one more for the whole screen
		v, err := g.View(t.Context(), "1", g.Kinds().All())
		must(t, err)
		must(t, v.Record(t.Context(), Seen, []string{fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i)}))
	}
	wantCommands(t, server, before, map[string]int64{"mget": n, "evalsha": n, "set": n, "del": n}) // the last two by the script
	before = server.CommandStats()
	for i := range n { // posts recorded as seen: a read and a write, whatever their number
		_, err := g.Record(t.Context(), sightings("1", posts(fmt.Sprint("d", i, "/")), 50))
		must(t, err)
	}
	wantCommands(t, server, before, map[string]int64{"mget": n, "evalsha": n, "set": n, "del": n})
}

// sightings returns n activities of a user who sees posts.
func sightings(user string, ids func(i int) string, n int) (batch []Activity) {
	for i := range n {
		batch = append(batch, add(user, "seen", ids(i)))
	}
	return batch
}

func wantCommands(t *testing.T, server *redistest.Server, before, want map[string]int64) {
	t.Helper()
	inside := map[string]bool{"getrange": true, "bitcount": true, "setrange": true, "bitfield": true, "persist": true, "strlen": true, "info": true}
	for name, calls := range server.CommandStats() {
		if sent := calls - before[name]; sent != want[name] && !inside[name] {
			t.Errorf("%d calls of %s, want %d", sent, name, want[name])
		}
	}
}
