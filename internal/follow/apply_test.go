package follow

import (
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// A source commits during each look, so that each could be followed by one that proves more. What
// is proved does not wait for these.
func TestRecordsBetweenLooks(t *testing.T) {
	t.Parallel()
	g := newRig(t, appTables)
	from := position{tables: "x"}
	w := &watcher{begin: make(chan struct{}, 3), ended: make(chan lookedAt)}
	a := newApplier(g.r.f, g.src, from, newReplay(from, 0), nil, w)
	commits := func(lsn pglogrepl.LSN) {
		change := activity.SourceChange{User: "1", Kind: "block", Target: "2", At: time.Now(), Added: []ledger.Span{{}}}
		for _, e := range []event{{begin: transaction{commit: lsn}, at: time.Now()}, {changes: []activity.SourceChange{change}}, {end: lsn + 8}} {
			must(t, a.take(e, true))
		}
		a.begin(t.Context())
	}
	commits(0x10) // a look begins
	commits(0x20)
	if a.recording != nil || !a.looks.busy {
		t.Fatal("recorded without a look")
	}
	must(t, a.prove(lookedAt{}))
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
