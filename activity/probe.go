package activity

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// largePage is from how many bytes on a page is not read with each feed, but probed: bit by bit, which costs the store some
// milliseconds for a feed of 500 posts, and the network next to nothing.
const largePage = 1 << 20

// probed is what was found in a page that was not read.
type probed struct {
	header favfilter.Header
	found  map[favfilter.Hash]bool // of all keys that were looked for
}

// isLarge reports whether the page is known to be too large to be read.
func (r *Recorder) isLarge(page uint32) bool {
	return page >= ledger.OwnPages && r.marks.of(page).large.Load() != nil
}

// noteSize remembers a page that is too large to be read. Home pages are not: who makes them so, leaves.
func (r *Recorder) noteSize(page uint32, h favfilter.Header) {
	if page < ledger.OwnPages {
		return
	}
	mark := r.marks.of(page)
	if h.Shape.Bits/8 > r.largePage {
		known := h // here, so that only large pages put it on the heap
		mark.large.Store(&known)
	} else {
		mark.large.Store(nil)
	}
}

// probe looks for what v has to look for in its page, which is large, while the windows are read. It
// reports whether it could: where the page is not as it was known to be, or as it has to be, it has to be read.
func (r *Recorder) probe(
	ctx context.Context, v *View, page, moves uint32, want uint64, parts []favfilter.PageID,
) (windows []favfilter.Loaded, ok bool) {
	known := r.marks.of(page).large.Load()
	if known == nil || known.Identity != r.identity || known.Moves != moves {
		return nil, false
	}
	found := make([]bool, len(v.keys))
	sequence := uint64(0)
	var both errgroup.Group
	both.Go(func() (err error) {
		windows, err = r.load(ctx, parts[1:])
		return err
	})
	both.Go(func() (err error) {
		limited, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		sequence, ok, err = r.store.Probe(limited, parts[0], *known, v.keys, found)
		return err
	})
	switch err := both.Wait(); {
	case err != nil:
		return nil, false
	case !ok:
		r.marks.of(page).large.CompareAndSwap(known, nil)
		return nil, false
	case sequence < want || r.ahead(ctx, page, sequence):
		return nil, false
	}
	v.probed = &probed{header: *known, found: make(map[favfilter.Hash]bool, len(found))}
	v.probed.header.Sequence = sequence
	for i, key := range v.keys {
		v.probed.found[key] = found[i]
	}
	r.stats.probed.Add(1)
	return windows, true
}
