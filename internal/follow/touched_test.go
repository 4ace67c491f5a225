package follow

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

// ofPart is an activity of a part, for touchedOf.
func ofPart(part, n int) item { return item{"hide", strconv.Itoa(part), strconv.Itoa(n)} }

func touchedOf(most int) *touched {
	t := newTouched(parts{
		hash:     func(user string) uint64 { part, _ := strconv.Atoi(user); return uint64(part) << spillShift },
		mirrored: func(kind string) bool { return kind == "block" },
	})
	t.most = most
	return t
}

// What is touched is left out: what was added, parts that were compared, and those without room.
// Before an audit begins, nothing is remembered.
func TestTouched(t *testing.T) {
	touched := touchedOf(3)
	touched.add(ofPart(7, 1), 10)
	touched.begin(5)
	if touched.has(side{ofPart(7, 1), false}) || touched.n != 0 {
		t.Error("what was added before the audit is remembered")
	}
	want := func(part, n int, want bool) {
		t.Helper()
		if got := touched.has(side{ofPart(part, n), false}); got != want {
			t.Errorf("activity %d of part %d: %v, want %v", n, part, got, want)
		}
	}
	touched.add(ofPart(4, 1), 10) // before the slice
	touched.add(ofPart(5, 1), 10)
	touched.add(ofPart(5, 1), 12)
	touched.add(ofPart(6, 1), 10)
	touched.add(ofPart(200, 1), 13)
	want(4, 2, true)
	want(5, 1, true)
	want(5, 2, false)
	want(6, 1, true)
	want(200, 1, true)
	touched.since(12) // the snapshot has what was committed before
	want(5, 1, true)
	want(6, 1, false)
	want(200, 1, true)
	touched.add(ofPart(100, 1), 14)
	if got := touched.limit(); got != spillParts {
		t.Errorf("the limit is %d, with room for all", got)
	}
	touched.add(ofPart(100, 2), 14)
	if got := touched.limit(); got != 200 || touched.n != 3 {
		t.Errorf("the limit is %d, %d are kept", got, touched.n)
	}
	want(199, 1, false)
	want(200, 2, true)
	if !touched.compared(6) || touched.n != 2 {
		t.Errorf("%d are kept after two parts were compared", touched.n)
	}
	want(6, 2, true)
	touched.add(ofPart(6, 3), 15) // nobody asks any more
	if touched.n != 2 {
		t.Errorf("%d are kept, one of a part that was compared", touched.n)
	}
	if touched.compared(200) {
		t.Error("a part without room counts as compared")
	}
	touched.end()
	touched.add(ofPart(100, 3), 16)
	touched.begin(0)
	want(100, 1, false)
	want(100, 3, false)
}

// An activity with a mirror is touched in the parts of both users, also when that of one was
// compared.
func TestTouchedMirror(t *testing.T) {
	touched := touchedOf(10)
	touched.begin(0)
	touched.add(item{"block", "3", "200"}, 5)
	touched.add(item{"hide", "3", "201"}, 5)
	if touched.n != 3 || touched.has(side{item{"block", "3", "4"}, false}) || touched.has(side{item{"block", "1", "200"}, true}) {
		t.Errorf("%d are kept", touched.n)
	}
	if of := (item{"block", "3", "200"}); !touched.has(side{of, false}) || !touched.compared(3) || !touched.has(side{of, true}) {
		t.Error("a side is not touched")
	}
	touched.add(item{"block", "3", "100"}, 6)
	if touched.has(side{item{"block", "2", "100"}, true}) || !touched.has(side{item{"block", "3", "100"}, true}) {
		t.Error("the mirror of a user that was compared is not touched")
	}
}

// A full read has no stream beside it: nothing is touched, and all parts are compared.
func TestTouchedOfFullRead(t *testing.T) {
	var none *touched
	none.add(ofPart(1, 1), 1)
	none.since(1)
	if none.has(side{ofPart(1, 1), false}) || !none.compared(3) || none.limit() != spillParts || none.await(t.Context(), nil, pglogrepl.LSN(1)) != nil {
		t.Error("nil is not that of a full read")
	}
}

// Rows come no faster than the rate, and not at all once the context has ended.
func TestPace(t *testing.T) {
	start, p := time.Now(), pace{rate: 50 * paceRows}
	for range 10 * paceRows {
		must(t, p.row(t.Context()))
	}
	if took := time.Since(start); took < 10*time.Second/50-time.Millisecond {
		t.Errorf("%d rows took %v", 10*paceRows, took)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	slow := pace{rate: 1, rows: paceRows - 1, began: time.Now()}
	if slow.row(ended) == nil {
		t.Error("a pause does not end with its context")
	}
	for range 10 * paceRows {
		must(t, new(pace).row(ended)) // nothing bounds it
	}
}
