package pages

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// A held page that lost a write, and was not rebuilt in between, is not trusted.
func TestHeldPageSetBack(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g, page := heavyRig(t, store)
		for how, read := range map[string]func() *view{
			"the user's": func() *view {
				v, err := g.view(t.Context(), "bot")
				must(t, err)
				return v
			},
			"a list's": func() *view { return g.readLists(t, []string{"bot"})[0] },
		} {
			read()
			back := setBack(t, g.store, g.layout.PageID(page))
			g.record(t, true, add("bot", "hide", how))
			back()
			if v := read(); !v.has("hide", how) || !v.has("hide", "b1") || v.has("hide", "never") {
				t.Errorf("%s page: late %v, b1 %v, never %v", how, v.has("hide", how), v.has("hide", "b1"), v.has("hide", "never"))
			}
		}
	})
}

// TestSharedPageSetBackToBeforeMove sets a shared page back to before a user returned to it. A
// reader that knows only of the return must not trust the page.
func TestSharedPageSetBackToBeforeMove(t *testing.T) {
	a := crowded(t, &favfilter.Memory{}, 1)
	b := newProcess(t, a.ledger, a.store)
	a.recordMany(t, "bot", "hide", 10, posts("b"))
	hash := a.hashOf("bot")
	must(t, a.applier.dedicate(t.Context(), hash))
	back := setBack(t, a.store, favfilter.PageID{})
	must(t, a.applier.release(t.Context(), hash))
	back()
	must(t, b.known.PollSince(t.Context(), b.life.Elapsed()))
	b.want(t, "bot", "hide", "b1", true)
}

// The ledger fails at once after a user has got a dedicated page, so nothing can build that page.
// Feeds find the user's keys where they were.
func TestLedgerFailsAfterMove(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		var moved atomic.Bool
		l := openLedger(t, filepath.Join(t.TempDir(), "ledger.db"), 1)
		g := newRigWith(t, store, l.Around(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
			if moved.Load() {
				return faulttest.ErrInjected
			}
			err := next(ctx)
			moved.Store(c.Operation == "dedicate")
			return err
		}))
		g.recordMany(t, "bot", "hide", 10, posts("b"))
		if err := g.applier.dedicate(t.Context(), g.hashOf("bot")); !errors.Is(err, faulttest.ErrInjected) {
			t.Fatal(err)
		}
		g.want(t, "bot", "hide", "b1", true)
		moved.Store(false)
		g.record(t, true, add("bot", "hide", "late"))
		g.want(t, "bot", "hide", "b1", true)
		g.want(t, "bot", "hide", "late", true)
	})
}

// One question to the ledger took too long, and meanwhile a user got a dedicated page. A feed of
// the page that the user left asks the ledger again, rather than fail.
func TestMoveAfterAFailedQuestion(t *testing.T) {
	a := crowded(t, &favfilter.Memory{}, 1)
	cut := &slowLedger{}
	b := newProcess(t, a.ledger.Around(cut.around), a.store)
	a.recordMany(t, "bot", "hide", 10, posts("b"))
	a.record(t, true, add("mate", "hide", "m1"))
	must(t, b.known.PollSince(t.Context(), b.life.Elapsed()))
	a.record(t, true, add("mate", "hide", "m2"))
	cut.unreadable.Store(true)
	b.want(t, "mate", "hide", "m2", true) // the page is newer than the last poll
	b.wantAccess(t, known.Unreachable)
	cut.unreadable.Store(false)
	must(t, a.applier.dedicate(t.Context(), a.hashOf("bot")))
	b.want(t, "mate", "hide", "m1", true)
	b.want(t, "bot", "hide", "b1", true)
}

// The ledger fails when the page that a user left has been raised. The process that moved the user
// knows who left, so that feeds of the others on that page need no ledger.
func TestLedgerFailsAfterPageIsRaised(t *testing.T) {
	a := crowded(t, &favfilter.Memory{}, 1)
	cut := &slowLedger{}
	b := newProcess(t, a.ledger.Around(cut.around), a.store)
	b.recordMany(t, "bot", "hide", 10, posts("b"))
	b.record(t, true, add("mate", "hide", "m1"))
	must(t, b.applier.dedicate(t.Context(), b.hashOf("bot")))
	cut.fails.Store(true)
	cut.unreadable.Store(true)
	if err := b.known.PollSince(t.Context(), b.life.Elapsed()); dependency(err) != "ledger" {
		t.Fatalf("a poll of a ledger that fails: %v", err)
	}
	b.wantAccess(t, known.Unreachable)
	b.want(t, "mate", "hide", "m1", true)
	b.want(t, "bot", "hide", "b1", true)
}
