package pages

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedfilter/feedfilter/activity/ledger"
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
// reached, does not tell whether the page is ahead of it: see ask.
func (pl *poller) fault(ctx context.Context, number uint32, want uint64, st favfilter.Status) (string, error) {
	h := st.Header
	switch {
	case st.Damage != nil:
		reason := damageReason(st.Damage)
		if reason == PageDamaged {
			pl.storage.log.WarnContext(ctx, "page is damaged", "page", number, "error", st.Damage)
		}
		return reason, nil
	case st.Missing:
		return PageMissing, nil
	case h.Identity != pl.storage.identity || h.Number != pl.layout.slot(number):
		return PageForeign, nil
	case isClosed(h):
		return reasonClosed, nil
	case h.Sequence < want:
		return PageBehind, nil
	}
	ahead, err := pl.ahead(ctx, number, h.Sequence)
	if ahead {
		return PageAhead, nil
	}
	return "", err
}

// above reports whether the sequence is above what the ledger is known to have. fault then asks the
// ledger.
func (pl *poller) above(number uint32, sequence uint64) bool {
	return sequence > pl.sequences.of(number).known.Load()
}

// ahead reports whether the page has a sequence that the ledger never had, as after a restore
// of the ledger from a backup. If the ledger cannot be reached, the page counts as valid.
func (pl *poller) ahead(ctx context.Context, number uint32, sequence uint64) (bool, error) {
	if !pl.above(number, sequence) {
		return false, nil
	}
	if access(pl.follow.access.Load()) == unreachable {
		return false, nil // feeds do not wait for it
	}
	known, err := ask(ctx, pl, func(ctx context.Context) (uint64, error) { return pl.ledger.Sequence(ctx, number) })
	switch {
	case errors.Is(err, errUnreachable):
		return false, nil
	case errors.Is(err, ledger.ErrGone):
		// Later writes close the page of a layout that is gone, so an open one has all writes.
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask for the sequence of page %d: %w", number, err)
	}
	pl.sequences.of(number).learn(known)
	return sequence > known, nil
}
