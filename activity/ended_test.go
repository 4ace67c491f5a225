package activity

import (
	"errors"
	"slices"
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

// An activity whose time has passed, or has not come, is refused alone.
func TestUntimely(t *testing.T) {
	early := func(kind string, now time.Time) Activity {
		a := add("1", kind, "x")
		a.Since = now.Add(2 * time.Hour)
		return a
	}
	t.Run("with a ledger", func(t *testing.T) {
		g := newRig(t, &favfilter.Memory{}, 1)
		now := time.Unix(0, g.now.Load())
		batch := []Activity{
			add("1", "hide", "p").until(now), add("1", "hide", "q"), early("hide", now), early("seen", now), add("1", "hide", "r").until(now.Add(time.Second)),
		}
		want := []Outcome{Ended, Changed, Early, Early, Changed}
		if got, err := g.Record(t.Context(), batch); err != nil || !slices.Equal(got, want) {
			t.Errorf("Record: %v, %v; want %v", got, err, want)
		}
		bulk := g.NewBulk()
		checked := g.NewBatch()
		must(t, checked.AddAll(batch))
		want = []Outcome{Ended, Unchanged, Early, Early, Unchanged}
		if got, err := bulk.Record(t.Context(), checked); err != nil || !slices.Equal(got, want) {
			t.Errorf("Bulk: %v, %v; want %v", got, err, want)
		}
		must(t, bulk.Finish(t.Context()))
		for target, reported := range map[string]Match{"p": None, "q": Direct, "x": None, "r": Direct} {
			g.want(t, "1", "hide", target, reported)
		}
		g.want(t, "1", "seen", "x", None)
	})
	t.Run("without a ledger", func(t *testing.T) {
		g := openWithout(t, PlainConfig{Store: &favfilter.Memory{}, Pages: 1})
		want := []Outcome{Early, Changed}
		if got, err := g.Record(t.Context(), []Activity{early("seen", time.Now()), add("1", "hide", "q")}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
		g.want(t, "1", "seen", "x", None)
		g.want(t, "1", "hide", "q", Direct)
	})
}
