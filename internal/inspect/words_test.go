package inspect

import (
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
)

// traced is a key of two bits, of which so many are set.
func traced(set, clearable int) favfilter.Traced {
	t := favfilter.Traced{Positions: make([]favfilter.TracedBit, 2), Clearable: clearable, Reported: set == 2}
	for i := range set {
		t.Positions[i].Set = true
	}
	return t
}

// TestWordsOfSides checks that each verdict, and each way to undo it, has its sentence.
func TestWordsOfSides(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	row := &activity.Item{Target: "2", Since: since}
	ends := &activity.Item{Target: "2", Since: since, Until: since.Add(time.Hour)}
	for _, c := range []struct {
		side KeySide
		want string
	}{
		{
			KeySide{Verdict: Held, Removal: RemovedByClearing, Row: row, Traced: traced(2, 1)},
			"page 0 reports it: all of its 2 bits are set. The ledger has it since 2026-01-01 00:00:00 UTC. " +
				"An undo clears 1 of its bits, in regions without a collision bit.",
		},
		{
			KeySide{Verdict: Held, Removal: RemovedByRebuild, Row: ends, Traced: traced(2, 0)},
			"page 0 reports it: all of its 2 bits are set. The ledger has it since 2026-01-01 00:00:00 UTC, " +
				"until 2026-01-01 01:00:00 UTC. An undo rebuilds the page, because only 0 of its bits are in regions " +
				"without a collision bit.",
		},
		{
			KeySide{Verdict: Over, Removal: RemovedByClearing, Row: ends, Traced: traced(2, 2)},
			"page 0 reports it: all of its 2 bits are set. It ended at 2026-01-01 01:00:00 UTC, and will be removed soon. " +
				"An undo clears 2 of its bits, in regions without a collision bit.",
		},
		{
			KeySide{Verdict: Lost, Removal: NothingToRemove, Row: row, Traced: traced(1, 0)},
			"page 0 does not report it: 1 of its 2 bits are set. The ledger has it, so the page has lost it and must be rebuilt.",
		},
		{
			KeySide{Verdict: FalsePositive, Removal: RemovedByClearing, Traced: traced(2, 1)},
			"page 0 reports it: all of its 2 bits are set. The ledger does not have it: a false positive, which an exact feed keeps.",
		},
		{
			KeySide{Verdict: Gone, Removal: NothingToRemove, State: pages.PageUnused},
			"there is no page 0, because its users have no activities. It is absent from both.",
		},
		{
			KeySide{Verdict: Gone, Removal: NothingToRemove, State: pages.PageMissing},
			"page 0 is missing. It is absent from both.",
		},
		{
			KeySide{Verdict: Reported, Removal: NotRemovable, Traced: traced(2, 0)},
			"page 0 reports it: all of its 2 bits are set. There is no ledger to confirm it. " +
				"It cannot be undone, because each of its bits is in a region with a collision bit.",
		},
	} {
		c.side.Kind, c.side.Owner, c.side.Target, c.side.Page = "block", "1", "2", "0"
		in := &KeyInside{Kind: activity.Kind{Name: "block", Target: activity.User}, Sides: []KeySide{c.side}}
		if got, want := wordsOf(in), "block:U1_U2: "+c.want; len(got) != 1 || got[0] != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// A window has one side. Its sentences do not speak of a page, of bits or of a ledger.
func TestWordsOfWindows(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		side KeySide
		want string
	}{
		{
			KeySide{
				Verdict: Reported, Removal: RemovedByTime, State: pages.PageSound, Traced: favfilter.Traced{Reported: true},
				From: since, Forgotten: since.Add(time.Hour),
			},
			"window 0:seen.z reports it. It was recorded at 2026-01-01 00:00:00 UTC or later, and is forgotten at " +
				"2026-01-01 01:00:00 UTC. Nothing can confirm it.",
		},
		{
			KeySide{Verdict: Gone, Removal: NothingToRemove, State: pages.PageSound},
			"window 0:seen.z does not report it. It was never recorded, or is forgotten.",
		},
		{
			KeySide{Verdict: Gone, Removal: NothingToRemove, State: pages.PageDamaged},
			"window 0:seen.z is damaged and counts as empty. It was never recorded, or is forgotten.",
		},
	} {
		c.side.Kind, c.side.Owner, c.side.Target, c.side.Page = "seen", "1", "p", "0:seen.z"
		in := &KeyInside{Kind: activity.Kind{Name: "seen", Target: activity.Post, Window: time.Hour}, Sides: []KeySide{c.side}}
		if got, want := wordsOf(in), "seen:U1_Pp: "+c.want; len(got) != 1 || got[0] != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	empty := &KeyInside{Kind: activity.Kind{Name: "seen"}, User: "1"}
	if got := wordsOf(empty); len(got) != 1 || got[0] != "The window is empty: everything of kind seen that 1 did is forgotten." {
		t.Errorf("an empty window: %q", got)
	}
}
