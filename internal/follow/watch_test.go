package follow

import (
	"testing"
	"testing/synctest"
	"time"
)

// What a look in progress will prove soon joins the group that is recorded next. A look that takes
// long holds up nothing.
func TestLookProvesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := looks{begin: make(chan struct{}, 2)}
		want := func(when string, want bool) {
			t.Helper()
			if got := l.provesSoon(); got != want {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		want("no look", false)
		l.look(mark{changes: 3}, true)
		want("a look", true)
		time.Sleep(shortLook)
		want("a long look", false)
		if err := l.take(lookedAt{}); err != nil || l.proved.changes != 3 {
			t.Errorf("proved %d changes, %v", l.proved.changes, err)
		}
		want("the look has ended", false)
		l.look(mark{changes: 3}, true)
		want("a look at a position alone", false)
	})
}
