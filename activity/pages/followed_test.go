package pages

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// followRig is a process that counts its transactions, and whose polls can fail.
type followRig struct {
	*rig

	records  atomic.Int64
	pollless atomic.Bool
}

func newFollowRig(t *testing.T) *followRig {
	t.Helper()
	g := &followRig{}
	g.rig = newRig(t, &favfilter.Memory{}, 2)
	g.open(t, g.ledger.Around(before(func(context.Context) error {
		g.records.Add(1)
		return nil
	}, "record")).Around(before(failing(&g.pollless), "changed")), g.store)
	return g
}

// follow lets a source have the kind block. Only polls tell the process.
func (g *followRig) follow(t *testing.T) {
	t.Helper()
	_, err := g.ledger.Lease(t.Context(), "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
}

// poll waits for a poll from after the call. The first wait may share one that began while polls
// failed.
func (g *followRig) poll(t *testing.T) {
	t.Helper()
	_ = g.known.PollSince(t.Context(), g.life.Elapsed())
	must(t, g.known.PollSince(t.Context(), g.life.Elapsed()))
}

func isFollowed(err error) bool {
	refused, ok := errors.AsType[*InvalidError](err)
	return ok && refused.Code == CodeFollowed
}

// wantRefused tries to write a followed kind, with so many transactions.
func (g *followRig) wantRefused(t *testing.T, when string, records int64) {
	t.Helper()
	before := g.records.Load()
	for _, a := range []act{add("1", "block", "2"), undo("1", "block", "3")} {
		if _, err := g.Write(t.Context(), changesOf(g.Pages, []act{a})); !isFollowed(err) {
			t.Errorf("%s: %v of %+v, want it refused", when, err, a)
		}
	}
	if n := g.records.Load() - before; n != records {
		t.Errorf("%s: %d transactions, want %d", when, n, records)
	}
	g.want(t, "1", "block", "2", false)
	g.want(t, "1", "block", "3", true)
}

// A write of a kind that is known to be followed costs no transaction. The ledger has the last
// word: of a kind that is followed or released since the last poll, and while polls fail.
func TestFollowedRefused(t *testing.T) { synctest.Test(t, testFollowedRefused) }

func testFollowedRefused(t *testing.T) {
	g := newFollowRig(t)
	g.record(t, true, add("1", "block", "3"))
	g.follow(t)
	g.pollless.Store(true)
	g.wantRefused(t, "not known yet", 2)
	g.pollless.Store(false)
	g.poll(t)
	g.wantRefused(t, "known", 0)
	g.pollless.Store(true)
	g.wantRefused(t, "known, but polls fail", 2)
	must(t, g.ledger.Unfollow(t.Context(), "block"))
	g.record(t, true, add("1", "block", "4")) // released, and polls fail
	g.pollless.Store(false)
	g.follow(t)
	g.poll(t)
	must(t, g.ledger.Unfollow(t.Context(), "block"))
	g.record(t, true, undo("1", "block", "4")) // released since the last poll
}

// Writes of a followed kind are refused, and the rest of their group has one transaction more.
func TestFollowedInAGroup(t *testing.T) {
	g := newFollowRig(t)
	g.record(t, true, add("1", "block", "3"))
	g.follow(t)
	refused := func(i int) bool { return i%3 == 1 }
	group := make([]*write, 30)
	for i := range group {
		a := add("1", "hide", string(rune('a'+i)))
		if refused(i) {
			a = []act{add("1", "block", "2"), undo("1", "block", "3")}[i%2]
		}
		group[i] = newWrite(t.Context(), changesOf(g.Pages, []act{a}))
	}
	before := g.records.Load()
	g.committer.commit(group)
	for i, w := range group {
		<-w.done
		if isFollowed(w.err) != refused(i) || !refused(i) && w.err != nil {
			t.Errorf("write %d: %v", i, w.err)
		}
	}
	if n := g.records.Load() - before; n != 2 {
		t.Errorf("%d transactions, want one that is refused and one of the others", n)
	}
	g.want(t, "1", "block", "2", false)
	g.want(t, "1", "block", "3", true)
	g.want(t, "1", "hide", "a", true)
}

// A refusal that names none of the group's kinds ends all its writes.
func TestFollowedByNone(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 2)
	odd := before(func(context.Context) error { return &ledger.FollowedError{Source: "app", Kind: "other"} }, "record")
	g.open(t, g.ledger.Around(odd), g.store)
	if _, err := g.Write(t.Context(), changesOf(g.Pages, []act{add("1", "hide", "p")})); !isFollowed(err) {
		t.Errorf("error %v", err)
	}
}

// An import of a followed kind is refused, too.
func TestFollowedInBulk(t *testing.T) {
	g := newFollowRig(t)
	g.follow(t)
	bulk := g.NewBulk()
	if _, err := bulk.Record(t.Context(), changesOf(g.Pages, []act{add("1", "block", "2")})); !isFollowed(err) {
		t.Errorf("error %v", err)
	}
	must(t, bulk.Finish(t.Context()))
}
