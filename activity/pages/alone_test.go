package pages

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func openAlone(t *testing.T, store favfilter.Store, pages uint32) *Alone {
	t.Helper()
	p, err := OpenAlone(t.Context(), AloneConfig{Store: store, Pages: pages, KeyRate: testKeyRate, Kinds: map[string]RowKind{"hide": {Weight: Weight(ledger.Post, false)}}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(p.life.Close)
	return p
}

// hasAlone reports whether a user has hidden a post.
func hasAlone(t *testing.T, p *Alone, user, post string) bool {
	t.Helper()
	seed := p.storage.identity.Seed
	a, err := p.Read(t.Context(), Query{User: UserHash(seed, user), Page: true})
	must(t, err)
	return a.Page != nil && a.Page.Contains(KeyStart(seed, "hide", user, ledger.Post).With(favfilter.HashKey(seed, post)))
}

func TestAlone(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		p := openAlone(t, store, 4)
		if hasAlone(t, p, "1", "p") {
			t.Error("a key is found before any was added")
		}
		added, err := p.Add(t.Context(), Key("hide", "1", ledger.Post, "p"), Key("hide", "a_b", ledger.Post, "c%"))
		must(t, err)
		if added[0] != favfilter.Added || !hasAlone(t, p, "1", "p") || !hasAlone(t, p, "a_b", "c%") || hasAlone(t, p, "2", "p") {
			t.Errorf("added %v", added)
		}
		removed, err := p.Remove(t.Context(), Key("hide", "1", ledger.Post, "p"))
		must(t, err)
		if removed[0] != favfilter.Removed || hasAlone(t, p, "1", "p") {
			t.Errorf("removed %v", removed)
		}
		if p := openAlone(t, store, 0); p.storage.identity.Pages != 4 || !hasAlone(t, p, "a_b", "c%") {
			t.Errorf("opened again: %+v", p.storage.identity)
		}
	})
}

// The record of how the filter was made survives the loss of page 0, and the loss of all other
// pages while a process has the filter open.
func TestAloneWithoutPageZero(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		remove := func(number uint32) {
			t.Helper()
			id := favfilter.PageID{Number: number}
			loaded, _, err := store.Load(t.Context(), []favfilter.PageID{id})
			must(t, err)
			_, err = store.Replace(t.Context(), favfilter.Replacement{ID: id, Seen: loaded[0].Version})
			must(t, err)
		}
		a := openAlone(t, store, 4)
		for user := range 64 { // enough users for every page
			_, err := a.Add(t.Context(), Key("hide", fmt.Sprint(user), ledger.Post, "p"))
			must(t, err)
		}
		remove(0)
		if b := openAlone(t, store, 0); b.storage.identity != a.storage.identity {
			t.Errorf("without page 0: %+v, want %+v", b.storage.identity, a.storage.identity)
		}
		for number := range uint32(4) {
			remove(number)
		}
		a.keepFilter()
		b := openAlone(t, store, 0)
		_, err := b.Add(t.Context(), Key("hide", "1", ledger.Post, "q"))
		must(t, err)
		if !hasAlone(t, a, "1", "q") {
			t.Error("the second process made another filter")
		}
	})
}

// Without a ledger, a page that is damaged or of another filter is shown as such.
func TestInspectFaultsAlone(t *testing.T) {
	server := redistest.Start(t)
	store := redisStore(t, server)
	g := openAlone(t, store, 2)
	_, err := g.Add(t.Context(), Key("hide", "1", ledger.Post, "p"))
	must(t, err)
	number := g.storage.slot(UserHash(g.storage.identity.Seed, "1"))
	h := inspectAlone(t, g, number).Status.Header
	must(t, server.Client().Del(t.Context(), fmt.Sprintf("fav:{feed/%d}:regions", number)).Err())
	if got := inspectAlone(t, g, number); got.State != PageDamaged || got.Damage == nil {
		t.Errorf("a page without its collision bitmap is %v, %v", got.State, got.Damage)
	}
	h.Incarnation, h.Number = 1, number^1
	foreign, err := favfilter.NewPage(h)
	must(t, err)
	put(t, store, foreign)
	if got := inspectAlone(t, g, number^1).State; got != PageForeign {
		t.Errorf("a page of another filter is %v", got)
	}
	g.storage.store = faulttest.Down()
	if _, err := g.InspectPage(t.Context(), 0); !errors.As(err, new(*UnavailableError)) {
		t.Errorf("of a store that is down: %v", err)
	}
}

func inspectAlone(t *testing.T, p *Alone, number uint32) *PageInside {
	t.Helper()
	inside, err := p.InspectPage(t.Context(), number)
	must(t, err)
	return inside
}
