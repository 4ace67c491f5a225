package inspect

import (
	"testing"
	"time"
)

// There are words for each verdict, and for each state of a page.
func TestWordsOfSides(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		side Side
		want string
	}{
		{
			Side{Verdict: Held, Reported: true, Since: since},
			"page 0 reports it. The ledger has it since 2026-01-01 00:00:00 UTC.",
		},
		{
			Side{Verdict: Held, Reported: true, Since: since, Until: since.Add(time.Hour)},
			"page 0 reports it. The ledger has it since 2026-01-01 00:00:00 UTC, until 2026-01-01 01:00:00 UTC.",
		},
		{Side{Verdict: Held, Reported: true}, "page 0 reports it. The ledger has it."},
		{
			Side{Verdict: Over, Reported: true, Since: since, Until: since.Add(time.Hour)},
			"page 0 reports it. It ended at 2026-01-01 01:00:00 UTC, and will be removed soon.",
		},
		{Side{Verdict: Lost}, "page 0 does not report it. The ledger has it, so the page has lost it and must be rebuilt."},
		{
			Side{Verdict: Lost, PageState: "behind"},
			"page 0 is behind and does not report it. The ledger has it, so the page has lost it and must be rebuilt.",
		},
		{
			Side{Verdict: FalsePositive, Reported: true},
			"page 0 reports it. The ledger does not have it: a false positive, which an exact feed keeps.",
		},
		{Side{Verdict: Gone, PageState: "unused"}, "there is no page 0, because its users have no activities. It is absent from both."},
		{Side{Verdict: Gone, PageState: "missing"}, "page 0 is missing and does not report it. It is absent from both."},
		{Side{Verdict: Reported, PageState: "overfull", Reported: true}, "page 0 is overfull and reports it. There is no ledger to confirm it."},
	} {
		c.side.Stored = "0"
		if c.side.PageState == "" {
			c.side.PageState = "sound"
		}
		if got := c.side.lookup() + ". " + c.side.judgment(); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

// The words about a window do not mention pages or a ledger.
func TestWordsOfWindows(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		side Side
		want string
	}{
		{
			Side{Verdict: Reported, PageState: "sound", Reported: true, Since: since, Until: since.Add(time.Hour)},
			"window 0:seen.z reports it. It was recorded at 2026-01-01 00:00:00 UTC or later, and is forgotten at " +
				"2026-01-01 01:00:00 UTC. Nothing can confirm it.",
		},
		{Side{Verdict: Gone, PageState: "sound"}, "window 0:seen.z does not report it. It was never recorded, or is forgotten."},
		{Side{Verdict: Gone, PageState: "damaged"}, "window 0:seen.z is damaged and counts as empty. It was never recorded, or is forgotten."},
	} {
		c.side.Stored = "0:seen.z"
		if got := c.side.windowWords(); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
