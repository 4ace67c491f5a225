package pages

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/ratetest"
)

// crowded opens a rig in which users with more than 16 keys get a dedicated page, and pages of more
// than 256 bytes are large and held.
func crowded(t testing.TB, store favfilter.Store, pages uint32) *rig {
	t.Helper()
	g := newRig(t, store, pages)
	g.rebuilder.maxSharedKeys, g.rebuilder.large.least, g.rebuilder.held.least = 16, 256, 256
	return g
}

// settleMoves waits for the users who are moving to a dedicated page.
func (g *rig) settleMoves() { g.applier.leaving.Wait() }

// recordMany records n activities of a user in one call.
func (g *rig) recordMany(t testing.TB, user, kind string, n int, target func(i int) string) {
	t.Helper()
	var batch []act
	for i := range n {
		batch = append(batch, add(user, kind, target(i)))
	}
	_, err := g.Record(t.Context(), batch)
	must(t, err)
}

// A user who fills a page moves to a dedicated one. The other users' feeds read no more than
// before. All activities are found, can be undone, and survive losses, a restart and a rebuild.
func TestLongHeavyUserLeaves(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := crowded(t, store, 1)
		g.recordMany(t, "mate", "hide", 10, posts("m"))
		bytes := func(user string) int {
			t.Helper()
			v, err := g.view(t.Context(), user)
			must(t, err)
			return favfilter.HeaderBytes + int(v.Page.Header().Shape.Bits/8)
		}
		before := bytes("mate")
		g.recordMany(t, "bot", "hide", 3000, posts("b"))
		g.recordMany(t, "star", "hide", 2, posts("s"))
		for i := range 300 {
			g.record(t, true, add(fmt.Sprint("fan", i), "block", "star"))
		}
		g.settleMoves()
		check := func(when string) {
			t.Helper()
			if after := bytes("mate"); after > 4*before+2000 { // each of the 300 fans has a block on the page
				t.Errorf("%s: a page-mate reads %d bytes, %d before", when, after, before)
			}
			if own := bytes("bot"); own < 3000 {
				t.Errorf("%s: the bot reads %d bytes", when, own)
			}
			for i := range 3000 {
				g.want(t, "bot", "hide", posts("b")(i), true)
			}
			for i := range 300 {
				if !g.check(t, "star", "blocked-by", fmt.Sprint("fan", i)) {
					t.Errorf("%s: the star misses that fan%d has blocked them", when, i)
				}
				g.want(t, fmt.Sprint("fan", i), "block", "star", true)
			}
			g.want(t, "star", "hide", "s1", true)
			for i := range 10 {
				g.want(t, "mate", "hide", posts("m")(i), true)
			}
			if s := g.Stats(); s.DedicatedPages != 2 {
				t.Errorf("%s: %d users have a dedicated page, want the bot and the star", when, s.DedicatedPages)
			}
			g.checkRate(t, g.countFound(t, "bot", "hide", posts("never"), 20_000), 20_000)
		}
		check("moved")
		g.scrubAll()
		check("scrubbed")
		g.losePages(t, slices.Collect(maps.Values(g.allOwners(t)))...)
		check("dedicated pages lost")
		g.open(t, g.ledger, g.store)
		g.rebuilder.maxSharedKeys = 16
		check("restarted")
		for i := range 3000 {
			if i%10 == 0 {
				g.record(t, true, undo("bot", "hide", posts("b")(i)))
			}
		}
		found := 0
		for i := range 3000 {
			if match := g.check(t, "bot", "hide", posts("b")(i)); i%10 != 0 && !match {
				t.Errorf("b%d is missed", i)
			} else if i%10 == 0 && match {
				found++
			}
		}
		g.checkRate(t, found, 300)
	})
}

// TestMovesUnderLoad gives users dedicated pages and releases them at random. Two processes write,
// undo and look at the same time, and the store loses pages. No write and no undo may be missed. In
// a bubble no call times out.
func TestMovesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 2), &favfilter.Memory{}
		a, b := &rig{ledger: l, store: store}, &rig{ledger: l, store: store}
		for _, g := range []*rig{a, b} {
			g.open(t, l, store)
			g.rebuilder.maxSharedKeys, g.rebuilder.large.least, g.rebuilder.held.least = 16, 256, 256
		}
		users := []string{"bot", "star", "mate", "other", "fifth"}
		var wg sync.WaitGroup
		for w, user := range users {
			wg.Go(func() { moveAndStep(t, []*rig{a, b}, user, rand.New(rand.NewPCG(7, uint64(w)))) })
		}
		stop := make(chan struct{})
		var mover sync.WaitGroup
		mover.Go(func() { moveAround(t, []*rig{a, b}, users, stop) })
		wg.Wait()
		close(stop)
		mover.Wait()
		for _, g := range []*rig{a, b} {
			g.settleMoves()
			g.Close()
		}
	})
}

// moveAndStep writes and looks for one user, through either process.
func moveAndStep(t *testing.T, rigs []*rig, user string, rng *rand.Rand) {
	t.Helper()
	live, wrong := make(map[act]bool), make(map[act]bool)
	for range 400 {
		a := add(user, "hide", fmt.Sprint("p", rng.IntN(60)))
		if found, ok := rigs[rng.IntN(len(rigs))].step(t, rng, live, a); found && ok {
			wrong[a] = true
		}
	}
	// About thirty keys are absent at a time, and each rebuild or move changes the false positives.
	if most := ratetest.Most(rigs[0].storage.keyRate * 400); len(wrong) > most {
		t.Errorf("%s: %d undone activities are found", user, len(wrong))
	}
}

func moveAround(t *testing.T, rigs []*rig, users []string, stop <-chan struct{}) {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond): // advances the bubble's clock
		}
		g, user := rigs[rng.IntN(2)], users[rng.IntN(len(users))]
		hash := g.hashOf(user)
		var err error
		switch rng.IntN(4) {
		case 0:
			// The other process may learn of a release only after the bound. That is 0 here: each
			// View asks.
			err = g.applier.release(t.Context(), hash)
		case 1:
			id := g.layout.PageID(g.layout.PageOf(hash))
			_, err = g.store.Replace(t.Context(), favfilter.Replacement{ID: id, Seen: versionAt(t, g.store, id)})
		default:
			err = g.applier.dedicate(t.Context(), hash)
		}
		if err != nil {
			t.Errorf("move %s: %v", user, err)
		}
	}
}

// DeleteUser leaves nothing of a user with a dedicated page, not even bits on that page.
func TestHeavyUserDeleted(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := crowded(t, store, 2)
		g.recordMany(t, "bot", "hide", 9000, posts("b"))
		g.recordMany(t, "mate", "hide", 5, posts("m"))
		for i := range 30 {
			g.record(t, true, add("bot", "block", fmt.Sprint("fan", i)))
		}
		g.settleMoves()
		page := g.pageOf("bot")
		if page < ledger.DedicatedPages {
			t.Fatal("the bot has no dedicated page")
		}
		deleted, _, err := g.DeleteUser(t.Context(), "bot")
		if err != nil || deleted != 9030 {
			t.Fatalf("deleted %d, %v", deleted, err)
		}
		g.checkRate(t, g.countFound(t, "bot", "hide", posts("b"), 9000), 9000)
		found := 0
		for i := range 30 {
			if g.check(t, fmt.Sprint("fan", i), "block", "bot") {
				found++
			}
		}
		g.checkRate(t, found, 2*30)
		g.want(t, "mate", "hide", "m1", true)
		if owners := g.allOwners(t); len(owners) != 0 {
			t.Errorf("owners left: %v", owners)
		}
		st, err := g.store.Peek(t.Context(), []favfilter.PageID{g.layout.PageID(page)})
		must(t, err)
		if !st[0].Missing && st[0].Header.Set != 0 {
			t.Errorf("the dedicated page still has bits: %+v", st[0].Header)
		}
		g.record(t, true, add("bot", "hide", "again"))
		g.want(t, "bot", "hide", "again", true)
	})
}

// DeleteUser dies after it has released a heavy user's dedicated page. The page has no bits left:
// DeleteUser empties it first.
func TestHeavyUserHalfDeleted(t *testing.T) {
	g := crowded(t, &favfilter.Memory{}, 2)
	g.recordMany(t, "bot", "hide", 3000, posts("b"))
	g.settleMoves()
	page := g.pageOf("bot")
	died := false
	g.useAround(after(func(context.Context) error {
		if died {
			return nil
		}
		died = true
		return faulttest.ErrInjected
	}, "release"))
	if _, _, err := g.DeleteUser(t.Context(), "bot"); dependency(err) != "ledger" {
		t.Fatalf("page %d is released: %v", page, err)
	}
	_, _, err := g.DeleteUser(t.Context(), "bot")
	must(t, err)
	st, err := g.store.Peek(t.Context(), []favfilter.PageID{g.layout.PageID(page)})
	must(t, err)
	if page < ledger.DedicatedPages || !st[0].Missing && st[0].Header.Set != 0 {
		t.Errorf("page %d still has bits: %+v", page, st[0].Header)
	}
}

// While a heavy user is deleted, nothing is removed from the dedicated page. It is rebuilt at the
// end, and stale until then.
func TestHeavyUserIsDeletedAtOnce(t *testing.T) {
	store := &removals{Store: &favfilter.Memory{}}
	g := crowded(t, store, 2)
	g.recordMany(t, "bot", "hide", 3000, posts("b"))
	g.settleMoves()
	page := g.pageOf("bot")
	store.of = g.layout.PageID(page)
	_, _, err := g.DeleteUser(t.Context(), "bot")
	must(t, err)
	if n := store.removed.Load(); page < ledger.DedicatedPages || n != 0 {
		t.Errorf("%d keys were removed from page %d", n, page)
	}
	g.want(t, "bot", "hide", "b1", false)
}

// removals counts the keys that are removed from a page.
type removals struct {
	favfilter.Store
	of      favfilter.PageID
	removed atomic.Int64
}

func (s *removals) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	for _, b := range batches {
		if b.ID == s.of {
			s.removed.Add(int64(len(b.Remove)))
		}
	}
	return s.Store.Apply(ctx, batches)
}

// A user whom an import makes heavy moves, although the bulk made the page in memory.
func TestHeavyUserOfBulk(t *testing.T) {
	g := crowded(t, &favfilter.Memory{}, 1)
	var batch []act
	for i := range 400 {
		batch = append(batch, add("bot", "hide", posts("b")(i)), add(fmt.Sprint("u", i), "block", "star"), add("mate"+fmt.Sprint(i%30), "hide", "p"))
	}
	g.recordInBulk(t, batch...)
	g.settleMoves()
	if n := g.Stats().DedicatedPages; n != 2 {
		t.Errorf("%d users have a dedicated page, want the bot and the star", n)
	}
	for _, a := range batch {
		g.want(t, a.User, a.Kind, a.Target, true)
	}
	for i := range 400 {
		if !g.check(t, "star", "blocked-by", fmt.Sprint("u", i)) {
			t.Errorf("the star misses that u%d has blocked them", i)
		}
	}
}

// TestReleasedPagesAreForgotten: pages that their users have left long ago take no memory. A reader
// that still looks for a user there finds the user where the user is.
func TestReleasedPagesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		p := startProcess(t, l, &favfilter.Memory{}, Config{ScrubRate: 100, MaxSharedKeys: 16})
		p.rebuilder.large.least, p.rebuilder.held.least = 256, 256
		p.recordMany(t, "bot", "hide", 400, posts("b"))
		p.settleMoves()
		p.want(t, "bot", "hide", "b1", true)
		hash := p.hashOf("bot")
		page := p.layout.PageOf(hash)
		if !p.rebuilder.large.has(page) || p.rebuilder.held.get(page).page == nil {
			t.Fatalf("page %d is not a large dedicated page", page)
		}
		_, _, err := p.DeleteUser(t.Context(), "bot")
		must(t, err)
		p.record(t, true, add("bot", "hide", "later"))
		time.Sleep(2*largeTimeout + time.Minute)
		kept := p.sequences.ForgetReleased(func(uint32) bool { return false })
		if len(kept) > 0 || p.layout.Knows(page) || p.rebuilder.large.has(page) || p.rebuilder.held.get(page).page != nil {
			t.Errorf("of page %d something is kept, and sequences of %d", page, kept)
		}
		late := []reading{{at: known.Position{User: hash, Page: page, Known: true}, pending: true}}
		_, _ = p.reader.loadAll(t.Context(), late, nil)
		must(t, p.reader.finish(t.Context(), &late[0], p.life.Elapsed()))
		v := view{Answer: Answer{Page: late[0].page}, of: p.Pages, user: "bot"}
		if !v.has("hide", "later") || v.has("hide", "b1") {
			t.Error("a late reader does not find the user")
		}
	})
}
