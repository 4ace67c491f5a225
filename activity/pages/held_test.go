package pages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// listStore is a store that counts the pages read and compared, and whose reads may fail.
type listStore struct {
	favfilter.Store

	down                  atomic.Bool
	calls, read, compared atomic.Int64
}

func (s *listStore) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	if s.down.Load() {
		return nil, nil, faulttest.ErrInjected
	}
	s.calls.Add(1)
	s.read.Add(int64(len(ids)))
	s.compared.Add(int64(len(held)))
	return s.Store.Load(ctx, ids, held...)
}

// reads returns the numbers of pages that were read and compared since the last call.
func (s *listStore) reads() (read, compared int64) { return s.read.Swap(0), s.compared.Swap(0) }

// views returns the Views of some users' hides, and their users.
func (g *rig) views(t *testing.T, users []string) (views []*view, hashes []uint64) {
	t.Helper()
	for _, user := range users {
		views = append(views, &view{of: g.Pages, user: user})
		hashes = append(hashes, g.hashOf(user))
	}
	return views, hashes
}

// readLists reads the pages of some users' hides as those of lists.
func (g *rig) readLists(t *testing.T, users []string) []*view {
	t.Helper()
	views, hashes := g.views(t, users)
	a, err := g.Read(t.Context(), Query{Lists: hashes})
	must(t, err)
	for i, v := range views {
		v.Answer = a.Lists[i]
	}
	return views
}

// onEach returns n users on different pages.
func (g *rig) onEach(n int) (users []string) {
	for i := range n {
		users = append(users, g.userOn(uint32(i)))
	}
	return users
}

// wantHidden checks that each user has hidden exactly the posts of its own, of so many for each.
func wantHidden(t *testing.T, views []*view, posts int) {
	t.Helper()
	for i, v := range views {
		for of := range views {
			for n := range posts {
				if got := v.has("hide", fmt.Sprint("p", of, "-", n)); got != (of == i) {
					t.Errorf("user %d has hidden post %d of user %d: %t", i, n, of, got)
				}
			}
		}
	}
}

// TestLists: pages are read once, and then compared with the store in one round trip. Only what
// another process has changed since is read again.
func TestLists(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		watch := &listStore{Store: store}
		g := newRig(t, watch, 16)
		users := g.onEach(5)
		other := newRigWith(t, store, g.ledger)
		for i, user := range users {
			other.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
		}
		want := func(posts int, read, compared int64, held uint64) {
			t.Helper()
			before := g.Stats().FromHeld
			watch.reads()
			wantHidden(t, g.readLists(t, users), posts)
			if gotRead, gotCompared := watch.reads(); gotRead != read || gotCompared != compared {
				t.Errorf("%d pages were read and %d compared, want %d and %d", gotRead, gotCompared, read, compared)
			}
			if got := g.Stats().FromHeld - before; got != held {
				t.Errorf("%d views by held pages, want %d", got, held)
			}
		}
		want(1, 5, 0, 0)
		want(1, 0, 5, 5)
		for i, user := range users {
			other.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-1")))
		}
		want(2, 5, 0, 0) // polls tell of the changes
		other.record(t, true, add(users[3], "hide", "more"))
		want(2, 1, 4, 4)
		if v := g.readLists(t, users); !v[3].has("hide", "more") || v[2].has("hide", "more") {
			t.Error("what another process recorded is missed, or found with another user")
		}
	})
}

// TestListsWithoutStore: while the store is down, every page comes from the ledger, and no held
// page is used.
func TestListsWithoutStore(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	g := newRig(t, watch, 16)
	users := g.onEach(3)
	for i, user := range users {
		g.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
	}
	wantHidden(t, g.readLists(t, users), 1)
	other := newRigWith(t, watch.Store, g.ledger)
	for i, user := range users {
		other.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-1")))
	}
	watch.down.Store(true)
	wantHidden(t, g.readLists(t, users), 2)
	if n := g.Stats().FromHeld; n != 0 {
		t.Errorf("%d views by held pages", n)
	}
}

// TestListsFails: if one page of several is unavailable, there is no answer, whether it is a
// list's or the user's. No reader may take the page for empty.
func TestListsFails(t *testing.T) {
	bad := &badLedger{bad: map[uint32]bool{1: true}}
	g := newRigWith(t, &favfilter.Memory{}, newLedger(t, 16).Around(bad.around))
	users := g.onEach(3)
	for i, user := range users {
		g.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
	}
	wantHidden(t, g.readLists(t, users[:1]), 1)
	g.losePages(t, 1)
	bad.on.Store(true)
	_, hashes := g.views(t, users)
	unavailable := func(what string, err error) {
		t.Helper()
		if _, ok := errors.AsType[*UnavailableError](err); !ok {
			t.Errorf("%s: error %v, want that the ledger is unavailable", what, err)
		}
	}
	_, err := g.Read(t.Context(), Query{Lists: hashes})
	unavailable("pages of several users", err)
	_, err = g.Read(t.Context(), Query{User: hashes[0], Page: true, Lists: hashes[1:]})
	unavailable("a user whose list fails", err)
	_, err = g.Read(t.Context(), Query{User: hashes[1], Page: true, Lists: hashes[:1]})
	unavailable("a user who fails", err)
	if a, err := g.Read(t.Context(), Query{User: hashes[0], Page: true, Lists: hashes[2:]}); err != nil || a.Page == nil || len(a.Lists) != 1 || a.Lists[0].Page == nil {
		t.Errorf("others: %+v, %v", a, err)
	}
}

// TestListsWithUser: the pages of lists are compared in the round trip that reads the user's.
func TestListsWithUser(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	g := newRig(t, watch, 16)
	users := g.onEach(3)
	for i, user := range users {
		g.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
	}
	views, hashes := g.views(t, users)
	feed := Query{User: hashes[0], Page: true, Lists: hashes[1:]}
	for n := range 2 {
		calls := watch.calls.Load()
		a, err := g.Read(t.Context(), feed)
		must(t, err)
		views[0].Answer, views[1].Answer, views[2].Answer = a, a.Lists[0], a.Lists[1]
		wantHidden(t, views, 1)
		if calls := watch.calls.Load() - calls; n == 1 && calls != 1 {
			t.Errorf("the store was called %d times, want once", calls)
		}
	}
}

// TestListsCanceled: a caller who has gone gets no answer.
func TestListsCanceled(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 16)
	users := g.onEach(2)
	g.readLists(t, users)
	_, hashes := g.views(t, users)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Read(ctx, Query{Lists: hashes}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// heavyRig returns a rig whose user "bot" has a dedicated page, which is held.
func heavyRig(t *testing.T, store favfilter.Store) (g *rig, page uint32) {
	t.Helper()
	g = crowded(t, store, 4)
	g.rebuilder.held.least = 256
	g.recordMany(t, "bot", "hide", 3000, posts("b"))
	g.settleMoves()
	page = g.pageOf("bot")
	return g, page
}

// TestLargePageIsHeld: the page of a heavy user is read once. Later feeds compare its version, and
// read it again only after a change, also one by another process.
func TestLargePageIsHeld(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		watch := &listStore{Store: store}
		g, _ := heavyRig(t, watch)
		g.want(t, "bot", "hide", "b1", true)
		want := func(read, compared int64) {
			t.Helper()
			if gotRead, gotCompared := watch.reads(); gotRead != read || gotCompared != compared {
				t.Errorf("%d pages were read and %d compared, want %d and %d", gotRead, gotCompared, read, compared)
			}
		}
		watch.reads()
		g.want(t, "bot", "hide", "b2", true)
		g.want(t, "bot", "hide", "never", false)
		want(0, 2)
		other := newRigWith(t, store, g.ledger)
		other.record(t, true, add("bot", "hide", "late"))
		other.record(t, true, undo("bot", "hide", "b1"))
		g.want(t, "bot", "hide", "late", true)
		g.want(t, "bot", "hide", "b1", false)
		want(1, 1) // a poll tells of the change
		g.want(t, "mate", "hide", "late", false)
	})
}

// TestHeldPageIsTooLarge: a page that takes more than its share is read each time.
func TestHeldPageIsTooLarge(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	g, page := heavyRig(t, watch)
	g.want(t, "bot", "hide", "b1", true)
	g.rebuilder.held = newHeldPages(heldShare * pageBytes(g.rebuilder.held.get(page).page))
	g.rebuilder.held.least = 256
	watch.reads()
	for range 2 {
		g.want(t, "bot", "hide", "b1", true)
	}
	if read, compared := watch.reads(); read != 2 || compared != 0 {
		t.Errorf("%d pages were read and %d compared, want 2 and 0", read, compared)
	}
}

// TestHeldPageIsRepaired: a held page that lacks keys although its sequence is current is not used
// once the page is repaired. While the store does not answer, nothing else tells that.
func TestHeldPageIsRepaired(t *testing.T) {
	for name, mend := range map[string]func(t *testing.T, g *rig, page uint32){
		"by this process": func(t *testing.T, g *rig, page uint32) {
			must(t, g.Repair(t.Context(), PageAt{Page: page, Sequence: 1}))
		},
		"by a comparison": func(_ *testing.T, g *rig, page uint32) { g.scrubber.verify(page) },
		"by another process": func(t *testing.T, g *rig, page uint32) {
			other := newRigWith(t, g.store, g.ledger)
			must(t, other.Repair(t.Context(), PageAt{Page: page, Sequence: 1}))
			g.scrubber.compare([]uint32{page}, newSurvey())
		},
	} {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", store down ", down), func(t *testing.T) {
				watch := &listStore{Store: &favfilter.Memory{}}
				g := newRig(t, watch, 16)
				list := []string{g.userOn(1)}
				g.record(t, true, add(list[0], "hide", "p"))
				g.emptyPage(t, 1)
				for range 2 {
					if g.readLists(t, list)[0].has("hide", "p") {
						t.Fatal("the page is not damaged")
					}
				}
				mend(t, g, 1)
				watch.down.Store(down)
				if !g.readLists(t, list)[0].has("hide", "p") {
					t.Error("the repaired page is not read")
				}
			})
		}
	}
}

// TestHeldWhileWritten: a reader that reads a held page during writes of another process does not
// see less at its next read than was acknowledged.
func TestHeldWhileWritten(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 16)
	other := newRigWith(t, g.store, g.ledger)
	list := []string{g.userOn(1)}
	_, hashes := g.views(t, list)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := g.Read(context.WithoutCancel(ctx), Query{Lists: hashes}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 100 {
		id := fmt.Sprint("p", i)
		other.record(t, true, add(list[0], "hide", id))
		if !g.readLists(t, list)[0].has("hide", id) {
			t.Errorf("%s is missed", id)
		}
	}
	stop()
	readers.Wait()
	if g.Stats().FromHeld == 0 {
		t.Error("the page was not held")
	}
}

// TestHeldPageIsLost: a store that answers, but has lost a held page, gets the page again.
func TestHeldPageIsLost(t *testing.T) {
	g, page := heavyRig(t, &favfilter.Memory{})
	g.want(t, "bot", "hide", "b1", true)
	before := g.Stats().Rebuilds["missing"]
	g.losePages(t, page)
	g.want(t, "bot", "hide", "b1", true)
	if n := g.Stats().Rebuilds["missing"] - before; n != 1 {
		t.Errorf("the page was rebuilt %d times, want once", n)
	}
}

// TestHeldPageAndReplica: a replica that is behind has the version of a held page. Neither is used,
// and the page comes from the primary, without a rebuild.
func TestHeldPageAndReplica(t *testing.T) {
	g, replica := withReplica(t, 1)
	g.record(t, true, add("1", "hide", "p"))
	replica.catchUp(t, 0)
	list := []string{"1"}
	for range 2 {
		if !g.readLists(t, list)[0].has("hide", "p") {
			t.Error("an activity is missed")
		}
	}
	if s := g.Stats(); s.FromReplica != 1 || s.FromHeld != 1 {
		t.Fatalf("%d views from replicas and %d of held pages, want one of each", s.FromReplica, s.FromHeld)
	}
	g.record(t, true, add("1", "hide", "q"))
	if !g.readLists(t, list)[0].has("hide", "q") {
		t.Error("a write is missed")
	}
	g.wantReads(t, 1, 1, 1) // the first write makes the page
}

// TestHeldPageChangesUnknown: another process changes a held page. This process learns of it only
// by the version, and reads the page with a second command.
func TestHeldPageChangesUnknown(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	l := newLedger(t, 1)
	g, other := newProcess(t, l, watch), newRigWith(t, watch.Store, l)
	other.record(t, true, add("1", "hide", "p"))
	if !g.readLists(t, []string{"1"})[0].has("hide", "p") {
		t.Fatal("an activity is missed")
	}
	other.record(t, true, add("1", "hide", "q"))
	watch.reads()
	if !g.readLists(t, []string{"1"})[0].has("hide", "q") {
		t.Error("a write of another process is missed")
	}
	if read, compared := watch.reads(); read != 1 || compared != 1 {
		t.Errorf("%d pages were read and %d compared, want 1 and 1", read, compared)
	}
	if n := sum(g.Stats().Rebuilds); n != 0 {
		t.Errorf("%d rebuilds of a page that is in the store", n)
	}
}
