package pages

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Activities with an end are reported until then, on both sides. They leave pages and ledger within
// seconds after it.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 4)
		p := startProcess(t, l, &favfilter.Memory{}, Config{})
		end := time.Now().Add(time.Minute)
		p.record(t, true, add("1", "block", "2").until(end))
		p.record(t, false, add("1", "block", "2").until(end))
		p.record(t, true, add("1", "hide", "short").until(end))
		p.record(t, true, add("1", "hide", "longer").until(end))
		p.record(t, true, add("1", "hide", "longer").until(end.Add(time.Minute)))
		p.record(t, true, add("1", "hide", "for good").until(end))
		p.record(t, true, add("1", "hide", "for good"))
		p.record(t, true, add("1", "hide", "shortened"))
		p.record(t, true, add("1", "hide", "shortened").until(end))
		if rows := p.rows(t, l, "1", "block"); len(rows) != 1 || !rows[0].Until.Equal(end) {
			t.Errorf("the ledger has %+v, want one until %v", rows, end)
		}
		want := func(kind, id string, m bool) {
			t.Helper()
			p.want(t, "1", kind, id, m)
		}
		time.Sleep(time.Minute - time.Millisecond)
		want("block", "2", true)
		p.want(t, "2", "blocked-by", "1", true)
		want("hide", "short", true)
		time.Sleep(3 * time.Second)
		want("block", "2", false)
		p.want(t, "2", "blocked-by", "1", false)
		want("hide", "short", false)
		want("hide", "shortened", false)
		want("hide", "longer", true)
		want("hide", "for good", true)
		p.record(t, true, add("1", "block", "2"))
		time.Sleep(time.Minute)
		want("block", "2", true)
		want("hide", "longer", false)
		want("hide", "for good", true)
	})
}

// Between its end and its removal, an activity is absent for writers and lists.
func TestUntilBeforeRemoval(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	at := func() time.Time { return time.Unix(0, g.now.Load()) }
	g.record(t, true, add("1", "hide", "p").until(at().Add(time.Minute)))
	g.record(t, true, add("1", "hide", "q").until(at().Add(time.Minute)))
	g.record(t, true, add("1", "hide", "r").until(at().Add(time.Minute)))
	g.now.Add(int64(time.Hour))
	if rows := g.rows(t, g.ledger, "1", "hide"); len(rows) != 0 {
		t.Errorf("the ledger lists %+v", rows)
	}
	g.record(t, true, add("1", "hide", "p"))
	g.record(t, false, undo("1", "hide", "q"))
	g.want(t, "1", "hide", "q", false)
	if more := g.committer.removeEnded(); more {
		t.Error("removeEnded reports more to remove")
	}
	g.want(t, "1", "hide", "p", true)
	g.want(t, "1", "hide", "r", false)
	if h := g.header(t, 0); h.Count != 1 {
		t.Errorf("%d keys, want 1", h.Count)
	}
}

// An ended activity stays if it is recorded again between the search for ended ones and its
// removal.
func TestRecordedAgainWhileRemoved(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	again := sync.OnceFunc(func() {
		g.record(t, true, add("1", "hide", "p"))
		g.record(t, true, add("1", "hide", "q").until(time.Unix(0, g.now.Load()).Add(time.Hour)))
	})
	g.open(t, g.ledger.Around(after(func(context.Context) error {
		again()
		return nil
	}, "ended")), g.store)
	end := time.Unix(0, g.now.Load()).Add(time.Minute)
	for _, target := range []string{"p", "q", "r"} {
		g.record(t, true, add("1", "hide", target).until(end))
	}
	g.now.Store(end.UnixNano())
	g.committer.removeEnded()
	g.want(t, "1", "hide", "p", true)
	g.want(t, "1", "hide", "q", true)
	g.want(t, "1", "hide", "r", false)
	g.wantWhole(t)
}

// More activities end at once than one step removes.
func TestManyEnd(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 16)
	end := time.Unix(0, g.now.Load()).Add(time.Hour)
	var batch []act
	for i := range 2*maxEnded + 10 {
		batch = append(batch, add(fmt.Sprint(i%100), "hide", fmt.Sprint(i)).until(end))
	}
	_, err := g.Record(t.Context(), batch)
	must(t, err)
	g.now.Store(end.UnixNano())
	for _, want := range []bool{true, true, false} {
		if more := g.committer.removeEnded(); more != want {
			t.Errorf("more: %v, want %v", more, want)
		}
	}
	g.wantWhole(t)
	if n := g.Stats().Ended; n != uint64(len(batch)) {
		t.Errorf("%d ended, want %d", n, len(batch))
	}
}

// rows returns what the ledger lists of a user and kind.
func (g *rig) rows(t *testing.T, l *ledger.Ledger, user, kind string) []ledger.Row {
	t.Helper()
	rows, err := l.List(t.Context(), ledger.ListQuery{
		Hash: g.hashOf(user), Owner: user, Kind: kind, Limit: 10, Now: g.storage.now(),
	})
	must(t, err)
	return rows
}
