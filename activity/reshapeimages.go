package activity

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// prepared are pages as they are to stand after a reshape, by their number.
type prepared map[uint32]*favfilter.Page

// prepare makes the pages that a plan has to do with as they will be, and puts those in place that are new, where nobody looks
// for them yet. The plan holds then only as long as nobody writes to what they are made of. Where that is too much, it makes none.
func (r *Recorder) prepare(ctx context.Context, plan *ledger.ReshapePlan) (prepared, error) {
	var from []uint32 // pages that hold anything of the pages to be made
	from = append(from, plan.Sources...)
	after := make(map[uint32]*preparing)
	for _, t := range plan.Targets {
		if t.Made {
			r.placements.note(t.Page, t.Least)
			after[t.Page] = &preparing{standing: ledger.Standing{Sequence: 1}}
		} else {
			from = append(from, t.Page)
		}
	}
	plan.Expect = make(map[uint32]uint64)
	keys := 0
	for _, page := range from {
		if _, read := plan.Expect[page]; read {
			continue
		}
		n, err := r.readForReshape(ctx, plan, page, after)
		if err != nil {
			return nil, unavailable("ledger", err)
		}
		if keys += n; keys > maxPreparedKeys {
			plan.Expect = nil
			return nil, nil //nolint:nilnil // no images are prepared too
		}
	}
	ready := make(prepared, len(after))
	for page, p := range after {
		image, err := r.imageOf(page, [][]favfilter.Hash{p.keys}, p.standing)
		if err != nil {
			return nil, err
		}
		ready[page] = image
	}
	return ready, r.putNew(ctx, plan, ready)
}

// preparing is a page before it is made.
type preparing struct {
	keys     []favfilter.Hash
	standing ledger.Standing
}

// readForReshape gives what a page holds to the pages that are to have it after the plan, and returns how much that is.
func (r *Recorder) readForReshape(ctx context.Context, plan *ledger.ReshapePlan, page uint32, after map[uint32]*preparing) (int, error) {
	rows, s, err := r.allKeys(ctx, page)
	if err != nil {
		return 0, err
	}
	plan.Expect[page] = s.Sequence
	stays := after[page]
	if stays == nil {
		stays = &preparing{}
		after[page] = stays
	}
	stays.standing = ledger.Standing{Sequence: s.Sequence + 1, Moves: s.Moves + 1}
	for rest := rows; len(rest) > 0; {
		n := ofFirst(rest)
		keys, err := r.hashes(ctx, rest[:n])
		if err != nil {
			return 0, err
		}
		to := stays
		if t, found := targetOf(plan.Targets, rest[0].Hash); found {
			if to = after[t.Page]; to == nil {
				to = &preparing{}
				after[t.Page] = to
			}
		}
		to.keys = append(to.keys, keys...)
		rest = rest[n:]
	}
	return len(rows), nil
}

// targetOf is the page that the users of a hash come to.
func targetOf(targets []ledger.Target, hash uint64) (ledger.Target, bool) {
	n, found := slices.BinarySearchFunc(targets, hash, func(t ledger.Target, hash uint64) int {
		switch {
		case t.Greatest < hash:
			return -1
		case t.Least > hash:
			return 1
		default:
			return 0
		}
	})
	if !found {
		return ledger.Target{}, false
	}
	return targets[n], true
}

// putNew puts the pages in place that a plan makes. They go by themselves if it is not carried out.
func (r *Recorder) putNew(ctx context.Context, plan *ledger.ReshapePlan, ready prepared) error {
	var writers errgroup.Group
	writers.SetLimit(bulkWriters)
	for _, t := range plan.Targets {
		if !t.Made {
			continue
		}
		writers.Go(func() error {
			limited, cancel := context.WithTimeout(ctx, replaceTimeout(ready[t.Page]))
			defer cancel()
			_, err := r.store.Replace(limited, favfilter.Replacement{
				ID: r.pageID(t.Page), Page: ready[t.Page], Newer: true, Expire: preparedExpiry,
			})
			if err != nil {
				return fmt.Errorf("page %d: %w", t.Page, unavailable("pages", err))
			}
			return nil
		})
	}
	return writers.Wait()
}

// settleImages puts pages in place as a reshape has left them, unless somebody was quicker. What fails is left to applyAll.
func (r *Recorder) settleImages(ctx context.Context, plan *ledger.ReshapePlan, receipt ledger.Receipt, ready prepared) {
	var writers errgroup.Group
	writers.SetLimit(bulkWriters)
	for _, p := range receipt.Pages {
		page := ready[p.Page]
		if page == nil || page.Header().Sequence != p.Sequence {
			continue
		}
		writers.Go(func() error {
			limited, cancel := context.WithTimeout(ctx, replaceTimeout(page))
			defer cancel()
			raw, _ := page.Encode()
			expire := time.Duration(0)
			if page.Header().Count == 0 {
				expire = emptyExpiry
			}
			placed, err := r.store.Replace(limited, favfilter.Replacement{
				ID: r.pageID(p.Page), Page: page, Newer: true, Expire: expire,
				Seen: favfilter.Version(raw[:favfilter.HeaderBytes]), // a new one stands there, and has a time to live
			})
			if err == nil && !placed && made(plan, p.Page) {
				// A write has come first; the page has to be kept all the same.
				err = r.remake(limited, p.Page, p.Sequence, "reshaped")
				placed = err == nil
			}
			if placed {
				r.noteSize(p.Page, page.Header())
				r.sequences.of(p.Page).standAt(p.Sequence)
			}
			return nil
		})
	}
	_ = writers.Wait() // always nil
}

// made reports whether a page is made by the plan.
func made(plan *ledger.ReshapePlan, page uint32) bool {
	return slices.ContainsFunc(plan.Targets, func(t ledger.Target) bool { return t.Made && t.Page == page })
}
