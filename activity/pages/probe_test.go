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

// probeWatch is a store that notes its probes and the pages read.
type probeWatch struct {
	favfilter.Store

	keys   []favfilter.Hash
	probes []int // number of keys of each probe
	loads  atomic.Int64
	after  func() // called after each probe; the store ignores the context
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
	page := g.layout.pageOf(UserHash(g.identity.Seed, "bot"))
	for range 100 { // until the process has met the page; on a slow machine a rebuild may come first
		g.want(t, "bot", "hide", "b1", Direct)
		if g.isLarge(page) {
			return g
		}
	}
	t.Fatalf("page %d is not known to be large", page)
	return nil
}

// An id that occurs several times among the candidates is probed once for each kind.
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
	for i, k := range kinds { // Check reports ids that were not probed as found
		if v.Check(i, fmt.Sprint("other", k.Name)) == None {
			t.Errorf("%s: an id that was not hashed is missed", k.Name)
		}
	}
}

// If the caller of a View cancels during probes of a large page, no further probe starts, even if
// the store ignores the context.
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
		t.Errorf("probes of %v keys, and %d reads, after the caller had canceled", watch.probes, watch.loads.Load())
	}
}
