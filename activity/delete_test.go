package activity

import (
	"errors"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// A deleted user leaves nothing: neither activities, nor any part of a window. What others have
// seen stays.
func TestDeleteUser(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		kinds, err := NewKinds(append(builtinKinds(),
			Kind{Name: "glimpse", Plural: "glimpses", Target: Post, Effect: Drop, Window: 7 * 24 * time.Hour, Parts: 7})...)
		must(t, err)
		g := openKinds(t, openLedger(t, t.TempDir()+"/ledger.db", 4), store, kinds)
		_, err = g.Record(t.Context(), []Activity{
			add("1", "hide", "p"), add("1", "block", "2"), add("3", "block", "1"), add("1", "seen", "s"), add("1", "glimpse", "g"), add("2", "seen", "s"),
		})
		must(t, err)
		g.now.Add(int64(5 * 24 * time.Hour))
		g.record(t, true, add("1", "seen", "later"))
		if deleted, _, err := g.DeleteUser(t.Context(), "1"); deleted != 3 || err != nil {
			t.Errorf("%d deleted, %v, want 3", deleted, err)
		}
		for _, k := range kinds.All() {
			if k.InLedger() {
				continue
			}
			loaded, _, err := store.Load(t.Context(), []favfilter.PageID{g.windows[k.Name].ID(g.userHash("1"))})
			must(t, err)
			if loaded[0].Version != "" {
				t.Errorf("the window of %s is there", k.Name)
			}
		}
		g.want(t, "1", "hide", "p", None)
		g.want(t, "2", "block", "1", None)
		g.want(t, "1", "block", "3", None)
		g.want(t, "2", "seen", "s", Direct)
		if deleted, _, err := g.DeleteUser(t.Context(), "1"); deleted != 0 || err != nil {
			t.Errorf("again: %d, %v", deleted, err)
		}
		if _, _, err := g.DeleteUser(t.Context(), ""); !errors.As(err, new(*InvalidError)) {
			t.Errorf("nobody: %v", err)
		}
	})
}

// A deletion fails while windows cannot be removed, and is done when it is repeated.
func TestDeleteUserFails(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	g.record(t, true, add("1", "hide", "p"))
	g.record(t, true, add("1", "seen", "s"))
	g.useStore(faulttest.Down())
	if _, _, err := g.DeleteUser(t.Context(), "1"); dependency(err) != "pages" {
		t.Errorf("without the store: %v", err)
	}
	g.useStore(g.store)
	_, _, err := g.DeleteUser(t.Context(), "1")
	must(t, err)
	g.want(t, "1", "hide", "p", None)
	g.want(t, "1", "seen", "s", None)
}
