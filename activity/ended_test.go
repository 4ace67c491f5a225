package activity

import (
	"errors"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

func (a Activity) until(t time.Time) Activity {
	a.Until = t
	return a
}

func TestUntilRefused(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	now := time.Unix(0, g.now.Load())
	for name, c := range map[string]struct {
		a    Activity
		code string
	}{
		"past":      {add("1", "hide", "p").until(now.Add(-time.Second)), CodeOutOfRange},
		"far":       {add("1", "hide", "p").until(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)), CodeOutOfRange},
		"a removal": {undo("1", "hide", "p").until(now.Add(time.Hour)), CodeUnsupportedOp},
		"a window":  {add("1", "seen", "p").until(now.Add(time.Hour)), CodeUnsupportedOp},
	} {
		_, err := g.Record(t.Context(), []Activity{add("1", "hide", "q"), c.a})
		invalid, ok := errors.AsType[*InvalidError](err)
		if !ok || invalid.Code != c.code || invalid.Field != "activities[1].until" {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.want(t, "1", "hide", "q", None)
}
