package follow

import (
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

func newTestApplier(g *rig) *applier {
	from := position{tables: "x"}
	w := &watcher{begin: make(chan struct{}, 3), ended: make(chan lookedAt)}
	return newApplier(g.r.f, g.src, from, newReplay(from, 0), nil, w)
}

// commit has the source commit a block, from a place in its log to the one 8 bytes after it.
func commit(t *testing.T, a *applier, lsn pglogrepl.LSN) {
	t.Helper()
	change := activity.SourceChange{User: "1", Kind: "block", Target: "2", At: time.Now(), Added: []ledger.Span{{}}}
	for _, e := range []event{
		{begin: transaction{commit: lsn}, at: time.Now()}, {changes: []activity.SourceChange{change}}, {end: lsn + 8},
	} {
		must(t, a.take(e, true))
	}
	a.begin(t.Context())
}

// A source commits during each look, so that each could be followed by one that proves more. What
// is proved does not wait for these.
func TestRecordsBetweenLooks(t *testing.T) {
	t.Parallel()
	g := newRig(t, appTables)
	a := newTestApplier(g)
	commit(t, a, 0x10) // a look begins
	commit(t, a, 0x20)
	if a.recording != nil || !a.looks.busy {
		t.Fatal("recorded without a look")
	}
	must(t, a.prove(lookedAt{began: time.Now()}))
	a.begin(t.Context())
	if a.recording == nil || a.recording.changes != 1 || !a.looks.busy {
		t.Fatalf("recording %+v, looking %v, want the first commit, and a look for the second", a.recording, a.looks.busy)
	}
	must(t, a.recorded(t.Context(), <-a.recording.ended))
	a.begin(t.Context())
	if a.recording != nil {
		t.Error("what no look has proved is recorded")
	}
}

// That the ledger lacks nothing until a look began is told with the group that was committed before
// it, and not sooner.
func TestFreshOnceRecorded(t *testing.T) {
	t.Parallel()
	g := newRig(t, appTables)
	a := newTestApplier(g)
	began := time.Now()
	commit(t, a, 0x10)
	commit(t, a, 0x20)
	must(t, a.prove(lookedAt{began: began, end: 0x18}))
	a.begin(t.Context())
	must(t, a.prove(lookedAt{began: began.Add(time.Second), end: 0x28})) // the group is still being recorded
	if until := a.f.progress.lacksAfter.Load(); until != nil {
		t.Errorf("followed until %v before the group is recorded", until)
	}
	must(t, a.recorded(t.Context(), <-a.recording.ended))
	if until := a.f.progress.lacksAfter.Load(); until == nil || !until.Equal(began) {
		t.Errorf("followed until %v, want %v", until, began)
	}
}

// A look beside a recording begins so late that it ends with it, and there is one.
func TestLookBesideRecording(t *testing.T) {
	t.Parallel()
	g := newRig(t, appTables)
	a := newTestApplier(g)
	commit(t, a, 0x10)
	must(t, a.prove(lookedAt{began: time.Now()}))
	a.begin(t.Context())
	r := a.recording
	a.looks.recorded, a.looks.took = 4*time.Hour, time.Hour
	commit(t, a, 0x20)
	for _, c := range []struct {
		ago   time.Duration
		looks bool
	}{{0, false}, {2 * time.Hour, false}, {3*time.Hour + time.Minute, true}} {
		r.began = time.Now().Add(-c.ago)
		a.begin(t.Context())
		if a.looks.busy != c.looks {
			t.Fatalf("%v after a recording began: looking %v", c.ago, a.looks.busy)
		}
	}
	must(t, a.prove(lookedAt{began: time.Now()}))
	a.looks.took = time.Hour
	commit(t, a, 0x30)
	if a.looks.busy {
		t.Error("a second look beside a recording")
	}
	must(t, a.recorded(t.Context(), <-r.ended))
	a.looks.recorded = 2 * time.Hour
	a.begin(t.Context())
	if a.recording == nil || a.recording.changes != 1 || a.looks.busy {
		t.Errorf("recording %+v, looking %v, want what the look proved", a.recording, a.looks.busy)
	}
}
