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
	first  firstProbe
}

// firstProbe is what the first of several probes finds: an older page, or another one.
type firstProbe struct {
	older   uint64 // by so many changes
	changed bool
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
	if len(s.probes) == 1 {
		sequence, ok = sequence-s.first.older, ok && !s.first.changed
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

// TestLargePages: a page of more than so many bytes is known to be large until it shrinks, or until
// the header that proved wrong is forgotten.
func TestLargePages(t *testing.T) {
	var l largePages
	header := func(bytes uint32) (h favfilter.Header) {
		h.Shape.Bits = 8 * bytes
		return h
	}
	const most = 1000
	l.note(1, header(most), most)
	if l.of(1) != nil {
		t.Error("a page of as many bytes is large")
	}
	l.note(1, header(most+1), most)
	known := l.of(1)
	if known == nil || *known != header(most+1) || l.of(2) != nil {
		t.Fatalf("known: %+v", known)
	}
	l.note(1, header(most+2), most)
	l.forget(1, known)
	if l.of(1) == nil || *l.of(1) != header(most+2) {
		t.Error("another header than the known one is forgotten")
	}
	l.forget(1, l.of(1))
	if l.of(1) != nil {
		t.Error("the known header is not forgotten")
	}
	l.note(1, header(most+1), most)
	l.note(1, header(most), most)
	if l.of(1) != nil {
		t.Error("a page that shrank is large")
	}
}

// TestSharedPagesAreNotProbed, however large: users who make them large leave them.
func TestSharedPagesAreNotProbed(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.recorder.largePage = 1
	g.record(t, true, add("1", "hide", "p"))
	for range 2 {
		v, err := g.View(t.Context(), "1", []Kind{g.kind(t, "hide")}, seek(nil, []string{"p"}))
		must(t, err)
		if v.Found != nil || v.Check(0, "p") != Direct {
			t.Error("the page was probed, or the activity is missed")
		}
	}
	if g.large.of(0) != nil {
		t.Error("the page is kept as a large one")
	}
}

// TestProbeOfPageAhead: a probed page of a later sequence than the ledger has given out lacks what
// the ledger has now. It is rebuilt.
func TestProbeOfPageAhead(t *testing.T) {
	g := probedRig(t, &favfilter.Memory{})
	id := g.layout.pageID(g.layout.pageOf(UserHash(g.identity.Seed, "bot")))
	loaded, err := g.store.LoadWhole(t.Context(), []favfilter.PageID{id})
	must(t, err)
	header := loaded[0].Page.Header()
	header.Sequence += 5
	empty, err := favfilter.NewPage(header)
	must(t, err)
	_, err = g.store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: empty, Seen: loaded[0].Version})
	must(t, err)
	v, err := g.View(t.Context(), "bot", []Kind{g.kind(t, "hide")}, seek(nil, []string{"b1", "other"}))
	must(t, err)
	if v.Check(0, "b1") != Direct || v.Check(0, "other") != None {
		t.Errorf("b1 %v, other %v", v.Check(0, "b1"), v.Check(0, "other"))
	}
}

// TestProbesOfTwoPages: keys of every probe have their own answer. If a failover between two probes
// changes the page, an older first one counts, and one that is not as known is not used.
func TestProbesOfTwoPages(t *testing.T) {
	watch := &probeWatch{Store: &favfilter.Memory{}}
	g := probedRig(t, watch)
	ids := append(targets("other", 0, probeChunk), targets("b", 2990, 20)...)
	for _, first := range []firstProbe{{}, {older: 1}, {changed: true}} {
		watch.probes, watch.first = nil, first
		v, err := g.View(t.Context(), "bot", []Kind{g.kind(t, "hide")}, seek(nil, ids))
		must(t, err)
		if probed := v.Found != nil; probed != (first == firstProbe{}) {
			t.Errorf("first probe %+v: probed %t", first, probed)
		}
		if v.Check(0, "b2999") != Direct || v.Check(0, "b3000") != None || v.Check(0, "other9") != None {
			t.Errorf("first probe %+v: b2999 %v, b3000 %v, other9 %v", first, v.Check(0, "b2999"), v.Check(0, "b3000"), v.Check(0, "other9"))
		}
	}
}

// TestProbeWithoutKeys: a View that looks for nothing still learns the state of the page.
func TestProbeWithoutKeys(t *testing.T) {
	g := probedRig(t, &favfilter.Memory{})
	whole, err := g.View(t.Context(), "bot", g.kinds, nil)
	must(t, err)
	v, err := g.View(t.Context(), "bot", g.kinds, seek(nil, nil))
	must(t, err)
	if v.Found == nil || v.Header != whole.Header {
		t.Errorf("probed %t: %+v, want %+v", v.Found != nil, v.Header, whole.Header)
	}
}

// TestProbeReadsTheRest: what a reader needs besides a probed page comes with one more call, which
// compares the pages of lists, too.
func TestProbeReadsTheRest(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	g := probedRig(t, watch)
	g.record(t, true, add("list", "hide", "l"))
	views, queries := g.views(t, []string{"bot", "list"}, []string{"b1", "l"})
	q := queries[0]
	q.Lists = queries[1:]
	q.Others = []favfilter.PageID{g.layout.pageID(g.layout.pageOf(q.User)), g.layout.pageID(0)}
	for n := range 2 {
		watch.reads()
		calls := watch.calls.Load()
		a, err := g.Read(t.Context(), q)
		must(t, err)
		views[0].Answer, views[1].Answer = a, a.Lists[0]
		if a.Found == nil || views[0].Check(0, "b1") != Direct || views[1].Check(0, "l") != Direct || views[1].Check(0, "b1") != None {
			t.Error("the page was not probed, or an activity is missed")
		}
		if len(a.Others) != 2 || a.OthersErr != nil || a.Others[0].Page == nil || a.Others[1].Page == nil {
			t.Errorf("%d others, %v", len(a.Others), a.OthersErr)
		}
		if calls := watch.calls.Load() - calls; n == 1 && calls != 1 {
			t.Errorf("the store was called %d times beside the probe, want once", calls)
		}
	}
	watch.down.Store(true) // except for probes
	a, err := g.Read(t.Context(), q)
	must(t, err)
	views[0].Answer, views[1].Answer = a, a.Lists[0]
	if a.OthersErr == nil || len(a.Others) != 2 || views[0].Check(0, "b1") != Direct || views[1].Check(0, "l") != Direct {
		t.Errorf("without the rest: %d others, %v", len(a.Others), a.OthersErr)
	}
}
