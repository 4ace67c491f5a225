package inspect

import (
	"fmt"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// wordsOf explains each side of a key in English sentences.
func wordsOf(in *KeyInside) []string {
	if len(in.Sides) == 0 {
		return []string{fmt.Sprintf("The window is empty: everything of kind %s that %s did is forgotten.", in.Kind.Name, in.User)}
	}
	words := make([]string, len(in.Sides))
	for i := range in.Sides {
		s := &in.Sides[i]
		look, judge := lookup, judgment
		if !in.Kind.InLedger() {
			look, judge = windowLookup, windowJudgment
		}
		words[i] = fmt.Sprintf("%s: %s. %s%s", s.Key(in.Kind), look(s), judge(s), undoing(s))
	}
	return words
}

// lookup explains what the page reports.
func lookup(s *KeySide) string {
	set := 0
	for _, p := range s.Traced.Positions {
		if p.Set {
			set++
		}
	}
	switch of := len(s.Traced.Positions); {
	case of == 0 && s.State == pages.PageUnused:
		return fmt.Sprintf("there is no page %s, because its users have no activities", s.Page)
	case of == 0:
		return fmt.Sprintf("page %s is %s", s.Page, s.State)
	case set == of:
		return fmt.Sprintf("page %s reports it: all of its %d bits are set", s.Page, of)
	default:
		return fmt.Sprintf("page %s does not report it: %d of its %d bits are set", s.Page, set, of)
	}
}

// windowLookup explains what the window reports.
func windowLookup(s *KeySide) string {
	switch {
	case s.Traced.Reported:
		return fmt.Sprintf("window %s reports it", s.Page)
	case s.State == pages.PageSound:
		return fmt.Sprintf("window %s does not report it", s.Page)
	default:
		return fmt.Sprintf("window %s is %s and counts as empty", s.Page, s.State)
	}
}

// minute is the format of times.
const minute = "2006-01-02 15:04:05 MST"

// windowJudgment explains the verdict about a key in a window.
func windowJudgment(s *KeySide) string {
	if !s.Traced.Reported {
		return "It was never recorded, or is forgotten."
	}
	return fmt.Sprintf("It was recorded at %s or later, and is forgotten at %s. Nothing can confirm it.",
		s.From.Format(minute), s.Forgotten.Format(minute))
}

// judgment explains the verdict about a key in a page.
func judgment(s *KeySide) string {
	switch s.Verdict {
	case Held:
		if until := s.Row.Until; !until.IsZero() {
			return fmt.Sprintf("The ledger has it since %s, until %s.", s.Row.Since.Format(minute), until.Format(minute))
		}
		return fmt.Sprintf("The ledger has it since %s.", s.Row.Since.Format(minute))
	case Over:
		return fmt.Sprintf("It ended at %s, and will be removed soon.", s.Row.Until.Format(minute))
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

// undoing explains what an undo does.
func undoing(s *KeySide) string {
	own := s.Traced.Clearable
	switch {
	case s.Verdict == FalsePositive:
		return "" // no key to undo
	case s.Removal == RemovedByClearing:
		return fmt.Sprintf(" An undo clears %d of its bits, in regions without a collision bit.", own)
	case s.Removal == RemovedByRebuild:
		return fmt.Sprintf(" An undo rebuilds the page, because only %d of its bits are in regions without a collision bit.", own)
	case s.Removal == NotRemovable:
		return " It cannot be undone, because each of its bits is in a region with a collision bit."
	default:
		return ""
	}
}
