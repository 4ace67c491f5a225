package favfilter_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// A page without its collision bits can be read, but not changed.
func TestApplyWithoutCollisionBits(t *testing.T) {
	whole := goldenPage(t)
	raw, _ := whole.Encode()
	page := decodePage(t, slices.Clone(raw), nil)
	h := page.Header()
	b := favfilter.Batch{ID: favfilter.PageID{Number: h.Number}, Identity: h.Identity, Sequence: h.Sequence + 1}
	for _, sequence := range []uint64{0, h.Sequence, h.Sequence + 1, h.Sequence + 2} {
		b.Sequence = sequence
		if res := page.Apply(b); res.State != favfilter.Torn || res.Header != (favfilter.Header{}) || string(res.Version) != string(raw[:favfilter.HeaderBytes]) {
			t.Errorf("at %d: %+v, want torn", sequence, res)
		}
	}
	b.Identity.Seed++
	if res := page.Apply(b); res.State != favfilter.Foreign {
		t.Errorf("%v, want foreign", res.State)
	}
}

func TestStatesAndOutcomesHaveNames(t *testing.T) {
	var outcomes, states []string
	for i := range uint8(8) {
		outcomes = append(outcomes, favfilter.Outcome(i).String())
		states = append(states, favfilter.State(i).String())
	}
	if got := strings.Join(outcomes, " "); got != "unknown added present removed absent stuck full unknown" {
		t.Errorf("outcomes %s", got)
	}
	if got := strings.Join(states, " "); got != "unknown applied current behind missing foreign torn jammed" {
		t.Errorf("states %s", got)
	}
}

// Marks take room like keys. Without keys to add there are none.
func TestRoomForMarks(t *testing.T) {
	shape := shapeFor(t, 100, 0.01)
	keys := []favfilter.Hash{{H1: 1}, {H1: 2, Extra: 5}}
	for _, sequence := range []uint64{0, 1} {
		asKeys := favfilter.Batch{Sequence: sequence, Rate: 0.01, Add: append(keyHashes(1), keys...)}
		asMarks := favfilter.Batch{Sequence: sequence, Rate: 0.01, Add: keyHashes(1), Marks: keys}
		if got, want := asMarks.Room(shape), asKeys.Room(shape); got != want {
			t.Errorf("room %d, want %d as for keys", got, want)
		}
	}
	page := emptyPage(t, shape)
	h := page.Header()
	none := favfilter.Batch{ID: favfilter.PageID{Number: h.Number}, Identity: h.Identity, Sequence: h.Sequence + 1, Marks: keys}
	if res := page.Apply(none); res.State != favfilter.Applied || res.Header.Set != 0 {
		t.Errorf("a batch of marks alone: %v, %d bits set", res.State, res.Header.Set)
	}
}
