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
func (r *scrubber) verify(page uint32) {
	large := r.inParts(page)
	if !large {
		ctx, cancel := context.WithTimeout(r.base, pageTimeout)
		defer cancel()
		large = errors.Is(r.verifyWithin(ctx, page, false), ledger.ErrLargePage)
	}
	if large {
		r.largeWork(func(ctx context.Context) { _ = r.verifyWithin(ctx, page, true) })
	}
}

// verifyWithin is verify with a context. It returns why the page could not be compared; a later
// round tries again.
func (r *scrubber) verifyWithin(ctx context.Context, page uint32, large bool) error {
	loaded, _, err := r.loadWithin(ctx, patience(large), []favfilter.PageID{r.layout.pageID(page)}, nil)
	if err != nil {
		return err
	}
	if loaded[0].Damage != nil {
		r.repair([]faultyPage{{page, 0, damageReason(loaded[0].Damage)}}, pageTimeout, 1) //nolint:contextcheck // it has its own limit
	}
	if loaded[0].Page == nil {
		return nil
	}
	keys, err := r.readKeys(ctx, page, large)
	if err != nil {
		return err
	}
	h := loaded[0].Page.Header()
	if h.Sequence != keys.state.Sequence || h.Identity != r.identity {
		return nil // changed between the reads, or left to the scrub
	}
	r.stats.verified.Add(1)
	count, whole := 0, true
	for _, hashes := range keys.hashes {
		count += len(hashes)
		whole = whole && lacking(loaded[0].Page, hashes) == 0
	}
	if !whole || int(h.Count) != count {
		r.log.ErrorContext(ctx, "a page does not hold what the ledger does", slog.Any("page", page), slog.Any("sequence", h.Sequence))
		r.repair([]faultyPage{{page, h.Sequence, reasonCorrupt}}, pageTimeout, 1) //nolint:contextcheck // as above
		return nil
	}
	// No comparison reveals wrong collision bits, so every compared page is rebuilt.
	const reason = "verified"
	r.noteRepair(ctx, page, reason, r.remake(ctx, page, h.Sequence, reason))
	return nil
}
