package activity

import (
	"context"
	"fmt"
	"slices"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// maxTimesDue bounds a reshape without [ForceReshape]: that many times the pages that are due.
	maxTimesDue = 16
	// sampledPages is how many pages are read, at most, to estimate the keys of all.
	sampledPages = 128
)

// ReshapeOption changes what [Recorder.Reshape] and [Recorder.StartReshape] allow.
type ReshapeOption uint8

// ForceReshape allows more than 16 times the pages that are due. Each page costs about 1 KiB in a process that keeps pages
// itself, also if it holds nothing.
const ForceReshape ReshapeOption = 1

// askFor has the ledger know how many pages there are to be, unless that is out of range.
func (r *Recorder) askFor(ctx context.Context, pages uint32, options []ReshapeOption) error {
	homes := r.identity.Pages
	if pages == 0 || pages&(pages-1) != 0 || pages > MaxPages ||
		uint64(pages) > uint64(homes)*ledger.MaxJoined || uint64(homes) > uint64(pages)*ledger.MaxJoined {
		least, most := max(1, homes/ledger.MaxJoined), min(MaxPages, uint64(homes)*ledger.MaxJoined)
		return &InvalidError{
			Code: CodeOutOfRange, Field: "pages",
			Message: fmt.Sprintf("%d is not a power of two from %d to %d, where the ledger was made with %d", pages, least, most, homes),
		}
	}
	if !slices.Contains(options, ForceReshape) {
		if err := r.checkDue(ctx, pages); err != nil {
			return err
		}
	}
	return unavailable("ledger", r.ledger.SetCut(ctx, pages))
}

// checkDue refuses many more pages than are due for the keys that there are: each page costs memory in the store and in every
// process, also if it holds nothing. It never refuses the number that the ledger was made with, or fewer pages than there are.
func (r *Recorder) checkDue(ctx context.Context, pages uint32) error {
	there := r.placements.census()
	if pages <= max(maxTimesDue*DefaultPages, r.identity.Pages) || int(pages) <= there.homes+len(there.shared) {
		return nil // without a look at the keys
	}
	keys, err := r.sharedKeys(ctx)
	if err != nil {
		return err
	}
	due := PagesFor(keys)
	if most := maxTimesDue * uint64(due); uint64(pages) > most {
		return &InvalidError{
			Code: CodeTooManyPages, Field: "pages",
			Message: fmt.Sprintf("%d pages, at most %d without force: %d pages are due", pages, most, due),
		}
	}
	return nil
}

// sharedKeys returns the keys of all pages that users share: as the last round of the scrub found them or, before the first, an
// estimate from what the ledger has of some pages.
func (r *Recorder) sharedKeys(ctx context.Context) (uint64, error) {
	if l := r.stats.load.Load(); l != nil {
		return l.keys, nil
	}
	others := r.placements.census()
	all := int(r.identity.Pages) + len(others.shared)
	number := min(all, sampledPages)
	var l load
	for i := range number {
		page := r.pageNumber(others, i*all/number)
		if page < ledger.OwnPages && !r.placements.of(page).usesHome(page) {
			continue
		}
		rows, _, err := r.ledger.Keys(ctx, page)
		if err != nil {
			return 0, unavailable("ledger", err)
		}
		l.pages++
		l.keys += uint64(len(rows))
	}
	return l.keys * uint64(others.homes+len(others.shared)) / uint64(max(1, l.pages)), nil
}
