package pages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
)

// States of a page. All but the first two are faults: the page must not be used.
const (
	PageSound    = "sound"    // as the ledger has it
	PageUnused   = "unused"   // missing, and not needed
	PageMissing  = "missing"  // missing, although needed
	PageDamaged  = "damaged"  // unreadable or torn
	PageBehind   = "behind"   // stale: it lacks changes of the ledger
	PageForeign  = "foreign"  // of another ledger, or another page
	PageAhead    = "ahead"    // it has changes that the ledger lost in a restore
	PageOverfull = "overfull" // it has no room for another key within its false-positive rate
)

// Further reasons to build a page.
const (
	// reasonLayout is the reason for building a page of a new layout.
	reasonLayout = "layout"
	// reasonClosed is the reason of a closed page, which has no users. If the ledger has users on
	// it, its state is PageAhead.
	reasonClosed = "closed"
	// reasonOversized is the reason of a page that is much larger than its keys need.
	reasonOversized = "oversized"
)

// stateAlone returns the state of a page by its content. Without a ledger, a missing page cannot be
// told from an unused one.
func (s *storage) stateAlone(st favfilter.Status) string {
	switch {
	case st.Damage != nil:
		return damageReason(st.Damage)
	case st.Missing:
		return PageUnused
	case st.Header.Identity != s.identity:
		return PageForeign
	default:
		return PageSound
	}
}

// damageReason tells a damaged page from one of another format version. The latter is expected:
// after an upgrade, every page has the old format.
func damageReason(damage error) string {
	if errors.Is(damage, favfilter.ErrFormat) {
		return PageForeign
	}
	return PageDamaged
}

// statusOf returns l as [favfilter.Store.Peek] would have returned it.
func statusOf(l favfilter.Loaded) favfilter.Status {
	if l.Page == nil {
		return favfilter.Status{Missing: l.Damage == nil, Damage: l.Damage}
	}
	return favfilter.Status{Header: l.Page.Header()}
}

// fault returns why a page in the state st must not be used by a reader that requires at least the
// sequence want. "" means that the page may be used. An error means that the ledger, which can be
// reached, does not tell whether the page is ahead of it.
func (c core) fault(
	ctx context.Context, number uint32, want uint64, st favfilter.Status,
) (string, error) {
	h := st.Header
	switch {
	case st.Damage != nil:
		reason := damageReason(st.Damage)
		if reason == PageDamaged {
			c.storage.log.WarnContext(ctx, "page is damaged", "page", number, "error", st.Damage)
		}
		return reason, nil
	case st.Missing:
		return PageMissing, nil
	case h.Identity != c.storage.identity || h.Number != c.layout.Slot(number):
		return PageForeign, nil
	case isClosed(h):
		return reasonClosed, nil
	case h.Sequence < want:
		return PageBehind, nil
	}
	ahead, err := c.known.Ahead(ctx, number, h.Sequence)
	if ahead {
		return PageAhead, nil
	}
	return "", err
}

// holds reports whether the page with the header has the keys of the position's user.
func holds(at known.Position, h favfilter.Header) bool {
	return !isClosed(h) && uint64(h.Left) == at.Left&favfilter.LeftMask
}

const (
	// closedSequence is the sequence of a closed page. It is above all that the ledger assigns, so
	// no older page replaces a closed one, and no change is applied to it.
	closedSequence = favfilter.MaxSequence - 1
	// closedExpiry is how long a closed page is kept, for a process that cannot reach the ledger and
	// would otherwise answer from an older page.
	closedExpiry = 24 * time.Hour
)

// isClosed reports whether the page is closed, and so has no users.
func isClosed(h favfilter.Header) bool { return h.Sequence == closedSequence }

// movedFrom is the error of a read that cannot learn where a user is who may have left the page.
func (c core) movedFrom(page uint32) error {
	return Unavailable("ledger", fmt.Errorf(
		"somebody left page %d, or it was replaced, since the last poll, %v ago: "+
			"the user may be on another page", page, c.known.Age().Round(time.Millisecond),
	))
}

// lacking returns how many of the keys and marks the page does not report: all of them if there is
// no page.
func lacking(page *favfilter.Page, keys rowKeys) (n int) {
	for _, hashes := range [...][]favfilter.Hash{keys.hashes, keys.marks} {
		for _, h := range hashes {
			if page == nil || !page.Contains(h) {
				n++
			}
		}
	}
	return n
}
