package pages

import (
	"errors"
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// everybody records activities of every kind for that many users. The function it returns checks
// that Views find all of them, and none that was undone.
func (g *rig) everybody(t testing.TB, users int) (check func(when string)) {
	t.Helper()
	var batch, undone []act
	for i := range users {
		user := fmt.Sprint("u", i)
		batch = append(batch, add(user, "block", fmt.Sprint("u", (i+1)%users)))
		for n := range 5 {
			batch = append(batch, add(user, "hide", fmt.Sprint("p", n)))
			undone = append(undone, undo(user, "hide", fmt.Sprint("p", n+10)))
			batch = append(batch, add(user, "hide", fmt.Sprint("p", n+10)))
		}
	}
	for _, some := range [][]act{batch, undone} {
		_, err := g.Record(t.Context(), some)
		must(t, err)
	}
	return func(when string) {
		t.Helper()
		found, looked := 0, 0
		for i := range users {
			user := fmt.Sprint("u", i)
			v, err := g.view(t.Context(), user)
			must(t, err)
			for n := range 5 {
				if !v.has("hide", fmt.Sprint("p", n)) {
					t.Errorf("%s: %s misses p%d", when, user, n)
				}
				looked++
				if v.has("hide", fmt.Sprint("p", n+10)) {
					found++
				}
			}
			for kind, other := range map[string]int{"block": i + 1, "blocked-by": i + users - 1} {
				if !v.has(kind, fmt.Sprint("u", other%users)) {
					t.Errorf("%s: %s misses the block of u%d", when, user, other%users)
				}
			}
		}
		g.checkRate(t, found, looked)
	}
}

// The number of pages grows, and Views find everything. So do Views of a Recorder that is opened
// later, and of pages that were lost.
func TestGrow(t *testing.T) { grows(t, 16, 64) }

func TestLongGrow(t *testing.T) { grows(t, 1, 2, 16, 32, 256, 2048) }

func grows(t *testing.T, first uint32, numbers ...uint32) {
	t.Helper()
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, first)
		check := g.everybody(t, 200)
		for _, pages := range numbers {
			when := fmt.Sprint(pages, " pages")
			must(t, g.grower.growTo(t.Context(), pages))
			if l, err := g.grower.Layout(t.Context()); err != nil || (l != Layout{Pages: pages, Current: pages, Built: int(pages)}) {
				t.Errorf("%s: %+v, %v", when, l, err)
			}
			must(t, g.known.PollSince(t.Context(), g.life.Elapsed()))
			if n := g.Stats().SharedPages; n != int(pages) {
				t.Errorf("%s: users share %d", when, n)
			}
			grown := g.Stats()
			if len(grown.Found) > 0 || grown.Rebuilds[reasonLayout] == 0 {
				t.Errorf("%s: pages at fault %v, rebuilt %v", when, grown.Found, grown.Rebuilds)
			}
			check(when)
			g.wantWhole(t)
			g.scrubAll()
			s := g.Stats()
			for _, reason := range []string{"missing", "behind", reasonClosed, reasonLayout} {
				if s.Rebuilds[reason] != grown.Rebuilds[reason] || s.Found[reason] > 0 {
					t.Errorf("%s: the scrub found %v; rebuilt %v, before %v", when, s.Found, s.Rebuilds, grown.Rebuilds)
				}
			}
			g.open(t, g.ledger, g.store)
			check(when + ", opened again")
			g.losePages(t)
			check(when + ", pages lost")
			for i := range 200 { // so that the next round changes pages
				g.record(t, true, add(fmt.Sprint("u", i), "like", "at "+when))
				if !g.check(t, fmt.Sprint("u", i), "like", "at "+when) {
					t.Errorf("%s: a like is missed", when)
				}
			}
			g.storage.stats.faults = nil
		}
	})
}

// Invalid numbers of pages are refused and change nothing.
func TestGrowRefused(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 8192)
	for _, pages := range []uint32{0, 3, 1, 4096, 1 << 25} {
		_, err := g.grower.Grow(t.Context(), pages, true)
		if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Code != CodeOutOfRange || invalid.Field != "pages" {
			t.Errorf("%d pages: %v", pages, err)
		}
	}
	if l, err := g.grower.Layout(t.Context()); err != nil || (l != Layout{Pages: 8192, Current: 8192, Built: 8192}) {
		t.Errorf("%+v, %v", l, err)
	}
}
