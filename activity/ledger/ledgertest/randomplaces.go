package ledgertest

import (
	"context"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// randomPlaces moves users to and fro, one by one and with others, at the ends of all pages that there are on the way, and looks at everything
// every few steps.
func (s suite) randomPlaces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		url := s.fresh(t)
		pages := rapid.SampledFrom([]uint32{1, 2, 4, 8}).Draw(rt, "pages")
		l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: pages})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { l.Close() }()
		m := newModel(l.Identity())
		intn := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") }
		row := func() ledger.Row { // of 96 users: the first two and the last one of each 32nd part
			least, greatest := hashesOf(32, uint32(intn(32)))
			hash := []uint64{least, least + 1, greatest}[intn(3)]
			return ledger.Row{Hash: hash, Owner: "u", Kind: "block", Target: string(rune('a' + intn(2))), Since: at(0)}
		}
		var sequences map[uint32]ledger.Standing
		stale := newStale(m)
		steps := 0
		rt.Repeat(map[string]func(*rapid.T){
			"record": func(rt *rapid.T) {
				changes := make([]ledger.Change, 1+intn(4))
				for i := range changes {
					changes[i] = ledger.Change{Rows: []ledger.Row{row(), row()}, Remove: intn(3) == 0}
				}
				if intn(2) == 0 {
					stale.check(rt, recordAt(rt, l, m, at(0), changes...), changes)
					return
				}
				prepared, err := l.Prepare(changes)
				if err != nil {
					rt.Fatal(err)
				}
				receipt, err := l.RecordPrepared(t.Context(), at(0), prepared)
				if err != nil {
					rt.Fatal(err)
				}
				checkReceipt(rt, receipt, m.record(changes))
				stale.check(rt, receipt, changes)
			},
			"move": func(rt *rapid.T) {
				hash, out := row().Hash, intn(3) > 0
				moved(rt, l, m, hash, out)
				if !out {
					stale.back[hash]++
				}
			},
			"look": func(rt *rapid.T) { stale.look(rt, l) },
			"ask":  func(rt *rapid.T) { setCut(rt, l, m, 1<<intn(6)) },
			"shape": func(rt *rapid.T) {
				for _, home := range s.reshaped(rt, url, l, m, uint32(intn(int(pages)))) {
					stale.reshapes[home]++
				}
			},
			"plan": func(rt *rapid.T) { s.pass(rt, url); planned(rt, l, m, uint32(intn(int(pages)))) },
			"": func(rt *rapid.T) {
				steps++
				if steps%4 > 0 {
					return
				}
				m.check(rt, l)
				now, _ := standings(rt, l, "")
				for page, was := range sequences {
					if is := now[page]; is.Sequence < was.Sequence || is.Moves < was.Moves || is.Sequence == was.Sequence && is.Moves != was.Moves {
						rt.Errorf("page %d went from %v to %v", page, was, is)
					}
				}
				sequences = now
			},
		})
		m.check(rt, l)
	})
}

// stale are processes that looked where users are, and have not looked since.
type stale struct {
	m        *model
	reshapes map[uint32]int // of homes
	back     map[uint64]int // how often users were moved back in
	views    []staleView
}

type staleView struct {
	homes    map[uint32]ledger.Home
	reshapes map[uint32]int
	back     map[uint64]int
}

func newStale(m *model) *stale {
	return &stale{m: m, reshapes: map[uint32]int{}, back: map[uint64]int{}, views: []staleView{{}}}
}

// look has a process look.
func (s *stale) look(t tester, l *ledger.Ledger) {
	t.Helper()
	homes, err := l.Homes(context.Background())
	if err != nil {
		t.Fatalf("Homes: %v", err)
	}
	v := staleView{map[uint32]ledger.Home{}, maps.Clone(s.reshapes), maps.Clone(s.back)}
	for _, h := range homes {
		v.homes[h.Number] = h
	}
	s.views = append(s.views, v)
}

// page is where the process takes a user to be, and how many moves of the page it knows of.
func (v staleView) page(home uint32, hash uint64) (page, moves uint32) {
	h := v.homes[home]
	page = home
	for _, r := range h.Ranges {
		if r.Least <= hash {
			page = r.Page
		}
	}
	moves = h.Moves[page]
	for _, o := range h.Owners {
		if o.Hash == hash {
			page, moves = o.Page, 0
		}
	}
	return page, moves
}

// check makes sure that a write is seen by every process that has heard of all reshapes of the user's home but the last: on the page
// that the user is on; or the page has counted more moves than the process knows of, and the write has not been acknowledged before it stands.
func (s *stale) check(t tester, receipt ledger.Receipt, changes []ledger.Change) {
	t.Helper()
	stands := map[uint32]bool{}
	for _, p := range receipt.Pages {
		stands[p.Page] = true
	}
	for _, c := range changes {
		for _, row := range c.Rows {
			home := s.m.id.Page(row.Hash)
			for _, v := range s.views {
				page, moves := v.page(home, row.Hash)
				if s.reshapes[home] > v.reshapes[home]+1 || s.back[row.Hash] > v.back[row.Hash] || page == s.m.pageOf(row.Hash) {
					continue
				}
				placed := receipt.Placed[row.Hash]
				listed := page == home || page == placed.Page || slices.Contains(placed.Left, page)
				if !stands[page] || !listed || s.m.moves[page] <= moves {
					t.Errorf("%d is on page %d; who takes them to be on page %d with %d moves of %d is not told by %+v",
						row.Hash, s.m.pageOf(row.Hash), page, moves, s.m.moves[page], receipt)
				}
			}
		}
	}
}
