package activity

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// everybody records six activities of 600 users.
func (g *rig) everybody(t testing.TB) {
	t.Helper()
	var batch []Activity
	for i := range 600 {
		user := fmt.Sprint("u", i)
		batch = append(batch, add(user, "block", fmt.Sprint("u", (i+1)%600)))
		for n := range 5 {
			batch = append(batch, add(user, "hide", fmt.Sprint("p", n)))
		}
	}
	_, err := g.Record(t.Context(), batch)
	must(t, err)
}

// An export during which users move, to pages of another layout and to dedicated ones, has every
// activity once.
func TestExportDuringGrowth(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 8)
	g.everybody(t)
	want := make(map[Activity]bool)
	must(t, g.Export(t.Context(), "", func(a Activity) error {
		want[add(a.User, a.Kind, a.Target)] = true
		return nil
	}))
	if len(want) != 600*6 {
		t.Fatalf("%d activities", len(want))
	}
	got, n := make(map[Activity]int), 0
	must(t, g.Export(t.Context(), "", func(a Activity) error {
		n++
		switch n {
		case 20:
			grow(t, g.Recorder, 64)
		case 150, 200, 2500:
			_, err := g.ledger.Move(t.Context(), g.userHash(a.User), true)
			must(t, err)
		case 3000:
			grow(t, g.Recorder, 128)
		}
		got[add(a.User, a.Kind, a.Target)]++
		return nil
	}))
	for a := range want {
		if got[a] != 1 {
			t.Errorf("%+v is exported %d times", a, got[a])
		}
	}
}

// grow changes the number of pages that users share.
func grow(t *testing.T, r *Recorder, pages uint32) {
	t.Helper()
	_, err := r.Grower().Grow(t.Context(), pages, false)
	must(t, err)
	for {
		l, err := r.Grower().Layout(t.Context())
		must(t, errors.Join(err, l.Err))
		if !l.Growing {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// countedLoads counts the reads of a store.
type countedLoads struct {
	favfilter.Store

	loads atomic.Int64
}

func (s *countedLoads) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	s.loads.Add(1)
	return s.Store.Load(ctx, ids, held...)
}

// In a cluster, the pages of every layout are in the slot of their users' windows: one Load reads
// both.
func TestGrowInCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	redis, err := redisstore.New(cluster.Client(), "feed")
	must(t, err)
	store := &countedLoads{Store: redis}
	g := newRig(t, store, 4)
	var batch []Activity
	for i := range 100 {
		user := fmt.Sprint("u", i)
		batch = append(batch, add(user, "hide", "p"), add(user, "seen", "s"), add(user, "block", fmt.Sprint("u", (i+1)%100)))
	}
	_, err = g.Record(t.Context(), batch)
	must(t, err)
	for _, number := range []uint32{16, 32} {
		grow(t, g.Recorder, number)
		for _, a := range batch {
			g.want(t, a.User, a.Kind, a.Target, Direct)
		}
		before := store.loads.Load()
		for i := range 100 {
			_, err := g.View(t.Context(), fmt.Sprint("u", i), g.Kinds().All())
			must(t, err)
		}
		if n := store.loads.Load() - before; n != 100 {
			t.Errorf("%d pages: %d loads for 100 views", number, n)
		}
		for i := range 100 {
			user, at := fmt.Sprint("u", i), fmt.Sprint("at ", number)
			_, err := g.Record(t.Context(), []Activity{add(user, "seen", at), add(user, "like", at)})
			must(t, err)
			g.want(t, user, "seen", at, Direct)
			g.want(t, user, "like", at, Direct)
		}
	}
}
