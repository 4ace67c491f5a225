package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/examples/dualwrite"
	"github.com/feedfilter/feedfilter/internal/migrate"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const (
	writers    = 4
	raceUsers  = 20
	raceOthers = 12
)

// writer is the part of an app that writes the activities of some users to both places.
type writer struct {
	blocks  *dualwrite.Blocks
	random  *rand.Rand
	number  int
	blocked map[migrate.Pair]bool // acknowledged in both places, and not undone since
	due     map[migrate.Pair]bool
	feeds   *client.Client
}

// step blocks or unblocks, and checks that a feed shows it.
func (w *writer) step(ctx context.Context) error {
	p := migrate.Pair{
		User:   fmt.Sprint("u", w.number+writers*w.random.IntN(raceUsers/writers)),
		Target: fmt.Sprint("o", w.random.IntN(raceOthers)),
	}
	do, block := w.blocks.Block, w.random.IntN(2) == 0
	if !block {
		do = w.blocks.Unblock
		delete(w.blocked, p) // its state is unknown until the write is acknowledged
	}
	err := do(ctx, p.User, p.Target)
	switch {
	case errors.Is(err, dualwrite.ErrDue):
		w.due[p] = true
		return nil
	case err != nil:
		return err
	case block:
		w.blocked[p] = true
	}
	for p := range w.blocked { // any pair
		feed, err := w.feeds.Filter(ctx, client.FilterRequest{
			Viewer: p.User, Posts: []client.Post{{ID: "p", Author: p.Target}}, Kinds: []string{"block"},
		})
		if err == nil && len(feed.Dropped) == 0 {
			err = fmt.Errorf("%v is acknowledged, but a feed shows it", p)
		}
		return err
	}
	return nil
}

// TestRace takes a part of the steps of TestLongRace.
func TestRace(t *testing.T) { race(t, 120) }

func TestLongRace(t *testing.T) {
	if testing.Short() {
		t.Skip("TestRace takes a part of the steps")
	}
	race(t, 1000)
}

// race runs an app whose writers take so many steps each: they write to both places over a faulty
// network. Imports, some of them killed, and comparisons run at the same time. Feeds must always
// drop acknowledged blocks. At the end, no block may be missing or extra.
func race(t *testing.T, stepsEach int) {
	t.Helper()
	server := redistest.Start(t)
	w := newWorld(t, 0)
	for u := range raceUsers {
		for o := range raceOthers / 2 {
			sadd(t, server.Client(), fmt.Sprint("u", u), fmt.Sprint("o", 2*o))
		}
	}
	var calls atomic.Int64
	bad := flaky{http.DefaultTransport, func() (before, after bool) {
		n := calls.Add(1)
		return n%17 == 0, n%23 == 0
	}}
	blocks := &dualwrite.Blocks{Sets: server.Client(), Keys: "blocks:", URL: w.url, Client: &http.Client{Transport: bad}}
	var stopped atomic.Bool
	var writing, moving sync.WaitGroup
	all := make([]*writer, writers)
	for i := range writers {
		all[i] = &writer{
			blocks: blocks, random: rand.New(rand.NewPCG(1, uint64(i))), number: i, feeds: w.client,
			blocked: make(map[migrate.Pair]bool), due: make(map[migrate.Pair]bool),
		}
		writing.Go(func() {
			for range stepsEach {
				if err := all[i].step(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	moving.Go(func() { // repeated imports; every second one is interrupted
		for n := 0; !stopped.Load(); n++ {
			ctx, cancel := context.WithCancel(t.Context())
			im := w.newImport(t, "block", sets(t, server.Client()))
			if n%2 == 1 {
				im.Sets = hooked(t, server.Client(), func(int) { cancel() })
			}
			_, err := im.Run(ctx)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			cancel()
		}
	})
	moving.Go(func() { // repeated comparisons
		for !stopped.Load() {
			if _, _, err := w.comparison(t, "block", sets(t, server.Client())).Run(t.Context()); err != nil {
				t.Error(err)
			}
			_ = blocks.Drain(t.Context(), 0) // the network may make it fail
		}
	})
	writing.Wait()
	stopped.Store(true)
	moving.Wait()
	blocks.Client.Transport = http.DefaultTransport
	if err := blocks.Drain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if len(one.blocked) == 0 || len(one.due) == 0 {
			t.Errorf("a writer has %d blocks and %d failures, want some of both", len(one.blocked), len(one.due))
		}
	}
	// Interrupted imports may have left activities that the app undid during an import. No activity
	// may be missing.
	sum, found := w.compare(t, "block", sets(t, server.Client()))
	if sum.Missing > 0 {
		t.Errorf("after the last write: %+v %q", sum, found)
	}
	for _, line := range found { // like an import of the differences
		words := strings.Fields(line)
		w.record(t, "-"+words[1]+" block "+words[2])
	}
	sum, found = w.compare(t, "block", sets(t, server.Client()))
	if found != nil || sum.Activities == 0 {
		t.Errorf("at the end: %+v %q", sum, found)
	}
	t.Logf("%+v", sum)
}
