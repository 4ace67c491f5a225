package pages

import (
	"context"
	"errors"
	"log/slog"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// verify compares the keys of one page with the ledger and rebuilds the page. That repairs what a
// header cannot reveal: flipped bits and collision bits. The scrub does not wait for a large page.
func (sc *Scrubber) verify(page uint32) {
	large := sc.rebuilder.inParts(page)
	if !large {
		ctx, cancel := context.WithTimeout(sc.life.base, pageTimeout)
		defer cancel()
		large = errors.Is(sc.verifyWithin(ctx, page, false), ledger.ErrLargePage)
	}
	if large {
		sc.largeWork(func(ctx context.Context) { _ = sc.verifyWithin(ctx, page, true) })
	}
}

// verifyWithin is verify with a context. It returns why the page could not be compared; a later
// round tries again.
func (sc *Scrubber) verifyWithin(ctx context.Context, page uint32, large bool) error {
	loaded, _, err := sc.storage.loadWithin(ctx, patience(large), []favfilter.PageID{sc.layout.pageID(page)}, nil)
	if err != nil {
		return err
	}
	if loaded[0].Damage != nil {
		sc.repair([]faultyPage{{page, 0, damageReason(loaded[0].Damage)}}, pageTimeout, 1) //nolint:contextcheck // it has its own limit
	}
	if loaded[0].Page == nil {
		return nil
	}
	keys, err := sc.rebuilder.readKeys(ctx, page, large)
	if err != nil {
		return err
	}
	h := loaded[0].Page.Header()
	if h.Sequence != keys.state.Sequence || h.Identity != sc.storage.identity {
		return nil // changed between the reads, or left to the scrub
	}
	sc.storage.stats.verified.Add(1)
	count, whole := 0, true
	for _, hashes := range keys.hashes {
		count += len(hashes)
		whole = whole && lacking(loaded[0].Page, hashes) == 0
	}
	if !whole || int(h.Count) != count {
		sc.storage.log.ErrorContext(ctx, "a page does not hold what the ledger does", slog.Any("page", page), slog.Any("sequence", h.Sequence))
		sc.repair([]faultyPage{{page, h.Sequence, reasonCorrupt}}, pageTimeout, 1) //nolint:contextcheck // as above
		return nil
	}
	// No comparison reveals wrong collision bits, so every compared page is rebuilt.
	sc.noteRepair(ctx, page, reasonVerified, sc.rebuilder.remake(ctx, page, h.Sequence, reasonVerified))
	return nil
}
