package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// probeWatch is a store that tells of its probes, and of the pages that are read.
type probeWatch struct {
	favfilter.Store

	keys   []favfilter.Hash
	probes []int // how many keys each looked for
	loads  atomic.Int64
	after  func() // of each probe; the store takes no notice of the context
}

func (s *probeWatch) Probe(
	ctx context.Context, id favfilter.PageID, known favfilter.Header, hashes []favfilter.Hash, found []bool,
) (uint64, bool, error) {
	s.keys = append(s.keys, hashes...)
	s.probes = append(s.probes, len(hashes))
	sequence, ok, err := s.Store.Probe(context.WithoutCancel(ctx), id, known, hashes, found)
	if s.after != nil {
		s.after()
	}
	return sequence, ok, err
}

func (s *probeWatch) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	s.loads.Add(1)
	return s.Store.Load(context.WithoutCancel(ctx), ids)
}

// probedRig is a rig with a user, "bot", whose page is probed.
func probedRig(t *testing.T, store favfilter.Store) *rig {
	t.Helper()
	g := crowded(t, store, 1)
	g.recordMany(t, "bot", "hide", 3000, posts("b"))
	g.recordMany(t, "bot", "block", 100, posts("u"))
	g.settleMoves()
	g.want(t, "bot", "hide", "b1", Direct) // the page is met
	return g
}

// An id that is there often is probed once by each kind.
func TestProbeLooksForEachKeyOnce(t *testing.T) {
	watch := &probeWatch{Store: &favfilter.Memory{}}
	g := probedRig(t, watch)
	watch.keys = nil
	kinds := g.kinds
	users := slices.Repeat(targets("u", 90, 20), 50)
	posts := slices.Repeat(targets("b", 2990, 20), 50)
	v, err := g.View(t.Context(), "bot", kinds, seek(users, posts))
	must(t, err)
	if v.Found == nil {
		t.Fatal("the page was not probed")
	}
	seen := make(map[favfilter.Hash]bool)
	for _, key := range watch.keys {
		if seen[key] {
			t.Fatal("a key was probed twice")
		}
		seen[key] = true
	}
	if want := 20*2 + 20*2; len(seen) != want { // both sides of a block; hide and like
		t.Errorf("%d keys were probed, want %d", len(seen), want)
	}
	for i, k := range kinds { // what was not looked for counts as there
		if v.Check(i, fmt.Sprint("other", k.Name)) == None {
			t.Errorf("%s: an id that was not hashed is missed", k.Name)
		}
	}
}

// A caller who goes while a large page is probed is noticed before the next keys, also by a store
// that takes no notice.
func TestProbeEndsWithItsCaller(t *testing.T) {
	watch := &probeWatch{Store: &favfilter.Memory{}}
	g := probedRig(t, watch)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch.probes, watch.after = nil, cancel
	watch.loads.Store(0)
	_, err := g.View(ctx, "bot", g.kinds, seek(targets("u", 0, 15_000), targets("b", 0, 5000)))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if len(watch.probes) != 1 || watch.probes[0] > 4096 || watch.loads.Load() > 0 {
		t.Errorf("probes of %v keys, and %d reads, after the caller had gone", watch.probes, watch.loads.Load())
	}
}
