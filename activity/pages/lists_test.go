package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// listStore is a store that counts the pages read and compared, and whose reads may fail.
type listStore struct {
	favfilter.Store

	down                  atomic.Bool
	calls, read, compared atomic.Int64
}

func (s *listStore) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	if s.down.Load() {
		return nil, faulttest.ErrInjected
	}
	s.calls.Add(1)
	s.read.Add(int64(len(ids)))
	return s.Store.Load(ctx, ids)
}

func (s *listStore) LoadAndCompare(
	ctx context.Context, ids, held []favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	if s.down.Load() {
		return nil, nil, faulttest.ErrInjected
	}
	s.calls.Add(1)
	s.read.Add(int64(len(ids)))
	s.compared.Add(int64(len(held)))
	return s.Store.LoadAndCompare(ctx, ids, held)
}

// reads returns the numbers of pages that were read and compared since the last call.
func (s *listStore) reads() (read, compared int64) { return s.read.Swap(0), s.compared.Swap(0) }

// views returns the Views of some users' hides, and their queries. ids are as those of View.
func (g *rig) views(t *testing.T, users, ids []string) ([]*View, []Query) {
	t.Helper()
	views, queries := make([]*View, len(users)), make([]Query, len(users))
	for i, user := range users {
		views[i] = &View{seed: g.identity.Seed, user: user, kinds: []Kind{g.kind(t, "hide")}}
		queries[i] = Query{User: UserHash(g.identity.Seed, user), Page: true}
		if ids != nil {
			views[i].ids, queries[i].Keys = seek(nil, ids), views[i]
		}
	}
	return views, queries
}

// readHeld reads the pages of some users' hides as those of lists.
func (g *rig) readHeld(t *testing.T, users, ids []string) []*View {
	t.Helper()
	views, queries := g.views(t, users, ids)
	answers, err := g.ReadHeld(t.Context(), queries)
	must(t, err)
	for i, v := range views {
		v.Answer = answers[i]
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
func wantHidden(t *testing.T, views []*View, posts int) {
	t.Helper()
	for i, v := range views {
		for of := range views {
			for n := range posts {
				if got := v.Check(0, fmt.Sprint("p", of, "-", n)) != None; got != (of == i) {
					t.Errorf("user %d has hidden post %d of user %d: %t", i, n, of, got)
				}
			}
		}
	}
}

// TestReadHeld: pages are read once, and then compared with the store in one round trip. Only what
// another process has changed since is read again.
func TestReadHeld(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		watch := &listStore{Store: store}
		g := newRig(t, watch, 16)
		users := g.onEach(5)
		other := &rig{ledger: g.ledger, store: store}
		other.open(t, g.ledger, store)
		for i, user := range users {
			other.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
		}
		want := func(posts int, read, compared int64, held uint64) {
			t.Helper()
			before := g.Stats().FromLists
			watch.reads()
			wantHidden(t, g.readHeld(t, users, nil), posts)
			if gotRead, gotCompared := watch.reads(); gotRead != read || gotCompared != compared {
				t.Errorf("%d pages were read and %d compared, want %d and %d", gotRead, gotCompared, read, compared)
			}
			if got := g.Stats().FromLists - before; got != held {
				t.Errorf("%d views by held pages, want %d", got, held)
			}
		}
		want(1, 5, 0, 0)
		want(1, 0, 5, 5)
		for i, user := range users {
			other.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-1")))
		}
		want(2, 5, 5, 0)
		other.record(t, true, add(users[3], "hide", "more"))
		want(2, 1, 5, 4)
		if v := g.readHeld(t, users, nil); v[3].Check(0, "more") != Direct || v[2].Check(0, "more") != None {
			t.Error("what another process recorded is missed, or found with another user")
		}
	})
}

// TestReadHeldAfterLoss: a held page that the store has, too, is not used if both lack a write.
func TestReadHeldAfterLoss(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	g := newRig(t, watch, 16)
	users := g.onEach(2)
	for i, user := range users {
		g.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
	}
	wantHidden(t, g.readHeld(t, users, nil), 1)
	id := favfilter.PageID{Number: 1}
	before, err := watch.LoadWhole(t.Context(), []favfilter.PageID{id})
	must(t, err)
	g.record(t, true, add(users[1], "hide", "p1-1"))
	now, err := watch.LoadWhole(t.Context(), []favfilter.PageID{id})
	must(t, err)
	done, err := watch.Replace(t.Context(), favfilter.Replacement{ID: id, Page: before[0].Page, Seen: now[0].Version})
	if err != nil || !done {
		t.Fatalf("the store is not set back: %v", err)
	}
	views := g.readHeld(t, users, nil)
	if views[1].Check(0, "p1-0") != Direct || views[1].Check(0, "p1-1") != Direct || views[0].Check(0, "p0-0") != Direct {
		t.Error("a write that the store has lost is missed")
	}
	if n := g.Stats().Rebuilds["behind"]; n != 1 {
		t.Errorf("%d pages were rebuilt", n)
	}
}

// TestReadHeldWithoutStore: while the store is down, every page comes from the ledger, and no held
// page is used.
func TestReadHeldWithoutStore(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	g := newRig(t, watch, 16)
	users := g.onEach(3)
	for i, user := range users {
		g.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
	}
	wantHidden(t, g.readHeld(t, users, nil), 1)
	other := &rig{ledger: g.ledger, store: watch.Store}
	other.open(t, g.ledger, watch.Store)
	for i, user := range users {
		other.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-1")))
	}
	watch.down.Store(true)
	wantHidden(t, g.readHeld(t, users, nil), 2)
	if n := g.Stats().FromLists; n != 0 {
		t.Errorf("%d views by held pages", n)
	}
}

// TestReadHeldFails: if one page of several is unavailable, there is no answer, whether it is a
// list's or the user's. No reader may take the page for empty.
func TestReadHeldFails(t *testing.T) {
	bad := &badLedger{bad: map[uint32]bool{1: true}}
	g := &rig{store: &favfilter.Memory{}}
	g.open(t, openLedger(t, t.TempDir()+"/ledger.db", 16).Around(bad.around), g.store)
	users := g.onEach(3)
	for i, user := range users {
		g.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
	}
	wantHidden(t, g.readHeld(t, users[:1], nil), 1)
	losePage(t, g.store, 1)
	bad.on.Store(true)
	_, queries := g.views(t, users, nil)
	unavailable := func(what string, err error) {
		t.Helper()
		if _, ok := errors.AsType[*UnavailableError](err); !ok {
			t.Errorf("%s: error %v, want that the ledger is unavailable", what, err)
		}
	}
	_, err := g.ReadHeld(t.Context(), queries)
	unavailable("pages of several users", err)
	feed := queries[0]
	feed.Lists = queries[1:]
	_, err = g.Read(t.Context(), feed)
	unavailable("a user whose list fails", err)
	feed = queries[1]
	feed.Lists = queries[:1]
	_, err = g.Read(t.Context(), feed)
	unavailable("a user who fails", err)
	feed = queries[0]
	feed.Lists = queries[2:]
	if a, err := g.Read(t.Context(), feed); err != nil || a.Page == nil || len(a.Lists) != 1 || a.Lists[0].Page == nil {
		t.Errorf("others: %+v, %v", a, err)
	}
}

// TestReadHeldLarge: a page that fits among the held ones is read whole. A larger one is probed
// once it is known, and not held.
func TestReadHeldLarge(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	g := probedRig(t, watch)
	sought := append(targets("b", 2990, 10), targets("other", 0, 10)...)
	page := g.layout.pageOf(UserHash(g.identity.Seed, "bot"))
	bytes := int(g.large.of(page).Shape.Bits / 8)
	read := func(largest int, ids []string) *View {
		t.Helper()
		g.lists = newLists(largest * listShare)
		v := g.readHeld(t, []string{"bot"}, ids)[0]
		for i, id := range sought {
			if found := v.Check(0, id) != None; found != (i < 10) {
				t.Errorf("room for %d bytes: %s is found: %t", largest, id, found)
			}
		}
		return v
	}
	if v := read(bytes-1, sought); v.Found == nil || v.Page != nil {
		t.Error("a page that cannot be held is read whole")
	}
	if v := read(bytes-1, nil); v.Found != nil || v.Page == nil {
		t.Error("a page is probed although the keys are not known")
	}
	if v := read(bytes, sought); v.Found != nil || v.Page == nil {
		t.Error("a page is probed although it has room")
	}
	if v := read(1<<20, sought); v.Found != nil || v.Page == nil {
		t.Error("a page is probed although it can be held")
	}
	watch.reads()
	wantHeld := g.readHeld(t, []string{"bot"}, sought)[0]
	if n, compared := watch.reads(); n != 0 || compared != 1 || wantHeld.Page == nil {
		t.Errorf("then %d pages were read and %d compared", n, compared)
	}
	g.large.headers.Clear()
	if v := read(bytes-1, sought); v.Found != nil || v.Page == nil {
		t.Error("a page is probed although it is not known to be large")
	}
}

// TestReadHeldBesideProbed: of several pages, one is held and another is probed.
func TestReadHeldBesideProbed(t *testing.T) {
	g := probedRig(t, &favfilter.Memory{})
	g.record(t, true, add("mate", "hide", "m"))
	page := g.layout.pageOf(UserHash(g.identity.Seed, "bot"))
	g.lists = newLists(listShare * (int(g.large.of(page).Shape.Bits/8) - 1))
	ids := []string{"b1", "m", "other"}
	for range 2 {
		views := g.readHeld(t, []string{"mate", "bot", "mate"}, ids)
		for i, v := range views {
			got := []bool{v.Check(0, "b1") != None, v.Check(0, "m") != None, v.Check(0, "other") != None}
			if want := []bool{i == 1, i != 1, false}; !slices.Equal(got, want) {
				t.Errorf("view %d: found %v, want %v", i, got, want)
			}
			if probed := v.Found != nil; probed != (i == 1) {
				t.Errorf("view %d is probed: %t", i, probed)
			}
		}
	}
	if n := g.Stats().FromLists; n != 2 {
		t.Errorf("%d views by held pages, want 2", n)
	}
	g.record(t, true, add("mate", "hide", "later"))
	views := g.readHeld(t, []string{"bot", "mate"}, []string{"b1", "later"})
	if views[0].Check(0, "b1") != Direct || views[0].Check(0, "later") != None || views[1].Check(0, "later") != Direct {
		t.Error("after a change, an activity is missed, or found with another user")
	}
}

// TestReadHeldAfterRepair: a held page that lacked a key is not used once the store has the
// repaired page, although both have the same sequence.
func TestReadHeldAfterRepair(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 16)
	user := g.userOn(1)
	g.record(t, true, add(user, "hide", "p"))
	id := favfilter.PageID{Number: 1}
	loaded, err := g.store.LoadWhole(t.Context(), []favfilter.PageID{id})
	must(t, err)
	empty, err := favfilter.NewPage(loaded[0].Page.Header())
	must(t, err)
	_, err = g.store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: empty, Seen: loaded[0].Version})
	must(t, err)
	for range 2 {
		if g.readHeld(t, []string{user}, nil)[0].Check(0, "p") != None {
			t.Fatal("the page is not damaged")
		}
	}
	must(t, g.Repair(t.Context(), PageAt{Page: 1, Sequence: 1}))
	if g.readHeld(t, []string{user}, nil)[0].Check(0, "p") != Direct {
		t.Error("the repaired page is not read")
	}
}

// TestReadHeldWithUser: the pages of lists are compared in the round trip that reads the user's.
func TestReadHeldWithUser(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	g := newRig(t, watch, 16)
	users := g.onEach(3)
	for i, user := range users {
		g.record(t, true, add(user, "hide", fmt.Sprint("p", i, "-0")))
	}
	views, queries := g.views(t, users, nil)
	feed := queries[0]
	feed.Lists = queries[1:]
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

// TestReadHeldCanceled: a caller who has gone gets no answer.
func TestReadHeldCanceled(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 16)
	users := g.onEach(2)
	g.readHeld(t, users, nil)
	_, queries := g.views(t, users, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.ReadHeld(ctx, queries); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// TestReadHeldAlone: without a ledger, pages are read in the order of the queries, and fail with
// the store.
func TestReadHeldAlone(t *testing.T) {
	watch := &listStore{Store: &favfilter.Memory{}}
	p := openAlone(t, watch, 16)
	seed := p.Identity().Seed
	var queries []Query
	for i := range 3 {
		user := fmt.Sprint("u", i)
		_, err := p.Add(t.Context(), Key("hide", user, ledger.Post, "p"+user))
		must(t, err)
		queries = append(queries, Query{User: UserHash(seed, user), Page: true})
	}
	answers, err := p.ReadHeld(t.Context(), queries)
	must(t, err)
	for i, a := range answers {
		for of := range 3 {
			user, post := fmt.Sprint("u", i), fmt.Sprint("pu", of)
			if got := a.Page.Contains(KeyStart(seed, "hide", user, ledger.Post).With(favfilter.HashKey(seed, post))); got != (i == of) {
				t.Errorf("%s has hidden %s: %t", user, post, got)
			}
		}
	}
	watch.down.Store(true)
	if _, err := p.ReadHeld(t.Context(), queries); err == nil {
		t.Error("pages are read although the store is down")
	}
}
