package pages

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// wantHeld checks that pages in the store lack no key that a Recorder with all kinds would put
// there. It returns the number of pages in the store.
func (g *rig) wantHeld(t *testing.T, l *ledger.Ledger) (stored int) {
	t.Helper()
	for page := range g.storage.identity.Pages {
		rows, s, err := l.Keys(t.Context(), page)
		must(t, err)
		loaded, _, err := g.store.Load(t.Context(), []favfilter.PageID{{Number: page}})
		must(t, err)
		p := loaded[0].Page
		if p == nil || p.Header().Sequence < s.Sequence {
			continue // missing or stale, and so not used
		}
		stored++
		keys, err := g.rebuilder.keysOf(t.Context(), rows)
		must(t, err)
		if lacking(p, keys) > 0 {
			t.Errorf("page %d lacks a key", page)
		}
		if len(keys.hashes) != len(rows) || int(p.Header().Count) != len(rows) {
			t.Errorf("page %d has %d keys, the ledger %d rows", page, p.Header().Count, len(rows))
		}
	}
	return stored
}

// TestRebuildWithKindsOfAnother makes a Recorder rebuild pages with rows of kinds that only another
// Recorder has.
func TestRebuildWithKindsOfAnother(t *testing.T) {
	l, store := newLedger(t, 2), &favfilter.Memory{}
	plain := openKinds(t, l, store, nil)
	rich := openKinds(t, l, store, manyKinds())
	_, err := rich.Record(t.Context(), rich.busyLife("1"))
	must(t, err)
	rich.losePages(t)
	made := rich.reasons()["missing"]
	for _, user := range []string{"1", "2", plain.onAnotherPage("1")} {
		plain.want(t, user, "hide", "nothing", false)
	}
	if n := rich.wantHeld(t, l); n != 2 {
		t.Errorf("the store has %d pages, want 2", n)
	}
	rich.want(t, "1", "mute", "c0", true)
	rich.want(t, "1", "mute", "c2", false)
	rich.want(t, "c2", "mute", "1", true)
	rich.want(t, "1", "follow", "c0", true)
	rich.want(t, "c0", "followed-by", "1", true)
	rich.want(t, "1", "pin", "lp0", true)
	if n := rich.reasons()["missing"]; n != made {
		t.Errorf("the Recorder with all kinds rebuilt %d pages, want 0", n-made)
	}
	rich.record(t, true, undo("1", "mute", "c0"))
	rich.want(t, "1", "mute", "c0", false)
	plain.want(t, "1", "block", "c0", true)
}

// TestKindsUnknownAndUnreadable has rows of an unknown kind, and a ledger that does not tell the
// kinds. Neither readers nor writers then make a page.
func TestKindsUnknownAndUnreadable(t *testing.T) {
	l, store := newLedger(t, 1), &favfilter.Memory{}
	var broken atomic.Bool
	plain := openKinds(t, l.Around(before(failing(&broken), "kinds")), store, nil)
	rich := openKinds(t, l, store, manyKinds())
	_, err := rich.Record(t.Context(), rich.busyLife("1"))
	must(t, err)
	rich.losePages(t)
	broken.Store(true)

	if _, err := plain.view(t.Context(), "1"); dependency(err) != "ledger" {
		t.Errorf("view: %v", err)
	}
	if n := rich.wantHeld(t, l); n != 0 {
		t.Error("a page was made")
	}
	plain.record(t, true, add("2", "hide", "p")) // the ledger has the write, and readers know that the page is stale
	if n := rich.wantHeld(t, l); n != 0 {
		t.Error("a page was made")
	}
	if _, _, err := plain.DeleteUser(t.Context(), "1"); dependency(err) != "ledger" {
		t.Errorf("delete: %v", err)
	}
	if _, err := plain.RowKinds(t.Context(), []ledger.Row{{Kind: "mute"}}); err == nil {
		t.Error("the kind of a row is known without the ledger")
	}

	rich.want(t, "1", "mute", "c0", true) // makes the page
	rich.wantHeld(t, l)
	plain.want(t, "2", "hide", "p", true)
	plain.record(t, true, add("2", "hide", "q")) // changes the page
	// Ended rows of unknown kinds cannot be removed from the page, so the page becomes stale.
	plain.now.Add(int64(1e9) * 7200)
	plain.committer.removeEnded()
	rich.wantHeld(t, l)
	if _, err := plain.view(t.Context(), "1"); dependency(err) != "ledger" {
		t.Errorf("view: %v", err)
	}
	rich.wantHeld(t, l)

	broken.Store(false)
	plain.rebuilder.rebuilds.endPauses() // like a poll that reaches the ledger again
	plain.want(t, "1", "block", "c0", true)
	if n := rich.wantHeld(t, l); n != 1 {
		t.Error("the page was not made")
	}
	rich.want(t, "1", "mute", "c0", true)
	rich.want(t, "1", "hide", "over0", false)
}

// TestOwnKindsStayKnown checks that a Recorder still knows its own kinds after a Recorder with
// other kinds was opened.
func TestOwnKindsStayKnown(t *testing.T) {
	l, store := newLedger(t, 1), &favfilter.Memory{}
	rich := openKinds(t, l, store, manyKinds())
	other := openKinds(t, l, store, append(testKinds(), ledger.Kind{Name: "zap", Target: ledger.Post}))
	rich.record(t, true, add("1", "mute", "2"))
	other.record(t, true, add("1", "zap", "p")) // a kind for which the first Recorder asks the ledger again
	rich.losePages(t)
	rich.want(t, "1", "mute", "2", true)
	other.want(t, "1", "zap", "p", true)
}

// A process whose kind another process has declared in another way since records no more of it:
// its activities would lack the rows of one side. Other writes of the same group succeed.
func TestWritesOfAChangedKind(t *testing.T) {
	l, store := newLedger(t, 2), &favfilter.Memory{}
	oneWay := []ledger.Kind{{Name: "block", Target: ledger.User}, {Name: "hide", Target: ledger.Post}}
	old := openKinds(t, l, store, oneWay)
	now := openKinds(t, l, store, testKinds())
	group := []*write{
		newWrite(t.Context(), changesOf(old.Pages, []act{add("1", "block", "2")})),
		newWrite(t.Context(), changesOf(old.Pages, []act{add("1", "hide", "p")})),
		newWrite(t.Context(), changesOf(old.Pages, []act{undo("1", "block", "2")})),
	}
	old.committer.commit(group)
	for i, w := range group {
		<-w.done
		if refused := errors.Is(w.err, ledger.ErrKindsDiffer); refused != (i != 1) || !refused && w.err != nil {
			t.Errorf("write %d: %v", i, w.err)
		}
	}
	now.want(t, "1", "hide", "p", true)
	now.want(t, "1", "block", "2", false)
	now.record(t, true, add("1", "block", "2"))
	now.want(t, "2", "blocked-by", "1", true)
	if _, _, err := old.DeleteUser(t.Context(), "1"); !errors.Is(err, ledger.ErrKindsDiffer) {
		t.Errorf("delete a user: %v, want ErrKindsDiffer", err)
	}
	now.want(t, "2", "blocked-by", "1", true)
}
