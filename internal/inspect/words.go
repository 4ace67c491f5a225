package inspect

import (
	"fmt"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// lookup explains what the page reports.
func (s *Side) lookup() string {
	said := "does not report it"
	if s.Reported {
		said = "reports it"
	}
	switch s.PageState {
	case pages.PageUnused:
		return fmt.Sprintf("there is no page %s, because its users have no activities", s.Stored)
	case pages.PageSound:
		return fmt.Sprintf("page %s %s", s.Stored, said)
	default:
		return fmt.Sprintf("page %s is %s and %s", s.Stored, s.PageState, said)
	}
}

// minute is the format of times.
const minute = "2006-01-02 15:04:05 MST"

// judgment explains the verdict about a key in a page.
func (s *Side) judgment() string {
	switch s.Verdict {
	case Held:
		has := "The ledger has it"
		if !s.Since.IsZero() {
			has += " since " + s.Since.Format(minute)
		}
		if !s.Until.IsZero() {
			has += ", until " + s.Until.Format(minute)
		}
		return has + "."
	case Over:
		return fmt.Sprintf("It ended at %s, and will be removed soon.", s.Until.Format(minute))
	case Lost:
		return "The ledger has it, so the page has lost it and must be rebuilt."
	case FalsePositive:
		return "The ledger does not have it: a false positive, which an exact feed keeps."
	case Reported:
		return "There is no ledger to confirm it."
	default:
		return "It is absent from both."
	}
}

// windowWords explains what the window reports, and what that means.
func (s *Side) windowWords() string {
	switch {
	case s.Reported:
		return fmt.Sprintf(
			"window %s reports it. It was recorded at %s or later, and is forgotten at %s. "+
				"Nothing can confirm it.",
			s.Stored, s.Since.Format(minute), s.Until.Format(minute),
		)
	case s.PageState == pages.PageSound:
		return fmt.Sprintf(
			"window %s does not report it. It was never recorded, or is forgotten.", s.Stored,
		)
	default:
		return fmt.Sprintf(
			"window %s is %s and counts as empty. It was never recorded, or is forgotten.",
			s.Stored, s.PageState,
		)
	}
}
