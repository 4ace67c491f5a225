package pages

import (
	"context"
	"errors"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Reasons why a page must not be used.
const (
	reasonDamaged = "damaged"
	reasonForeign = "foreign"
	// reasonLayout is the reason for building a page of a new layout.
	reasonLayout = "layout"
	// reasonClosed is the reason of a closed page, which has no users.
	reasonClosed = "closed"
)

// PageState is the state of a page.
type PageState uint8

// States of a page.
const (
	PageSound    PageState = iota // as the ledger has it
	PageUnused                    // missing, and not needed
	PageMissing                   // missing, although needed
	PageDamaged                   // unreadable or torn
	PageBehind                    // stale: it lacks changes of the ledger
	PageForeign                   // of another ledger, or another page
	PageAhead                     // it has changes that the ledger lost in a restore
	PageOverfull                  // its false-positive rate is too high
)

func (s PageState) String() string {
	return [...]string{"sound", "unused", "missing", "damaged", "behind", "foreign", "ahead", "overfull"}[s]
}

// Faulty reports whether a page in this state has to be rebuilt.
func (s PageState) Faulty() bool { return s >= PageMissing }

// stateOf returns the state of a page with the given fault.
func stateOf(fault string) PageState {
	for s := PageMissing; s <= PageOverfull; s++ {
		if s.String() == fault {
			return s
		}
	}
	return PageSound
}

// stateAlone returns the state of a page by its content. Without a ledger, a missing page cannot be
// told from an unused one.
func (s *storage) stateAlone(st favfilter.Status) PageState {
	switch {
	case st.Damage != nil && damageReason(st.Damage) == reasonForeign:
		return PageForeign
	case st.Damage != nil:
		return PageDamaged
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
		return reasonForeign
	}
	return reasonDamaged
}

// statusOf returns l as [favfilter.Store.Peek] would have returned it.
func statusOf(l favfilter.Loaded) favfilter.Status {
	if l.Page == nil {
		return favfilter.Status{Missing: l.Damage == nil, Damage: l.Damage}
	}
	return favfilter.Status{Header: l.Page.Header()}
}

// fault returns why a page in the state st must not be used by a reader that requires at least the
// sequence want. "" means that the page may be used.
func (pl *poller) fault(ctx context.Context, number uint32, want uint64, st favfilter.Status) string {
	h := st.Header
	switch {
	case st.Damage != nil:
		reason := damageReason(st.Damage)
		if reason == reasonDamaged {
			pl.storage.log.WarnContext(ctx, "page is damaged", "page", number, "error", st.Damage)
		}
		return reason
	case st.Missing:
		return "missing"
	case h.Identity != pl.storage.identity || h.Number != pl.layout.slot(number):
		return reasonForeign
	case isClosed(h):
		return reasonClosed
	case h.Sequence < want:
		return "behind"
	case pl.ahead(ctx, number, h.Sequence):
		return "ahead"
	default:
		return ""
	}
}

// ahead reports whether the page has a sequence that the ledger never had, as after a restore
// of the ledger from a backup. If the ledger is unavailable, the page counts as valid.
func (pl *poller) ahead(ctx context.Context, number uint32, sequence uint64) bool {
	if sequence <= pl.sequences.of(number).known.Load() {
		return false
	}
	if access(pl.follow.access.Load()) == unreachable {
		return false // feeds do not wait for it
	}
	var known uint64
	err := pl.ask(ctx, func(ctx context.Context) (err error) {
		known, err = pl.ledger.Sequence(ctx, number)
		return err
	})
	if err != nil {
		// Later writes close the page of a layout that is gone, so an open one has all writes.
		return false
	}
	pl.sequences.of(number).learn(known)
	return sequence > known
}
