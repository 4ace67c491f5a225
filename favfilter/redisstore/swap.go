package redisstore

import (
	"context"
	"errors"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// swapRounds is the maximum number of attempts of a compare-and-swap. Each lost attempt means
	// that another writer succeeded, and a writer that uses a script is always faster.
	swapRounds = 8
	// stepKeys is the number of keys that a script applies at a time after swaps have lost. They
	// fit in 3,999 arguments, the limit of serverless caches.
	stepKeys = 3900 / (favfilter.MaxHashes + 1)
)

var errNoProgress = errors.New("other writers changed the page each time")

// swap applies the pending batches in the process, and replaces the pages it read by the changed
// ones. This takes two round trips, whatever the number of keys and pages.
func (s *Store) swap(ctx context.Context, batches []favfilter.Batch, results []favfilter.Result, pending []int) {
	for range swapRounds {
		if len(pending) == 0 {
			return
		}
		pending = s.swapRound(ctx, batches, results, pending)
	}
	for _, i := range pending {
		if batches[i].Sequence > 0 {
			// Other writers do not cause this for a guarded batch, which ends when they overtake
			// it.
			results[i] = favfilter.Result{Err: s.failed("swap", batches[i].ID, errNoProgress)}
		} else {
			results[i] = s.applyInSteps(ctx, batches[i])
		}
	}
}

// applyInSteps applies a batch without a guard by scripts, where possible: these cannot lose to
// other writers. For a page that has grown it tries swaps, with random pauses. If several writers
// swap such a page, one of them succeeds each time.
func (s *Store) applyInSteps(ctx context.Context, b favfilter.Batch) favfilter.Result {
	step, result, only := make([]favfilter.Batch, 1), make([]favfilter.Result, 1), []int{0}
	var outcomes []favfilter.Outcome
	for pause := resendPause; ; {
		removals := min(len(b.Remove), stepKeys)
		adds := min(len(b.Add), stepKeys-removals)
		step[0] = b
		step[0].Remove, step[0].Add = b.Remove[:removals], b.Add[:adds]
		if len(s.applyByScript(ctx, step, result, only)) > 0 && len(s.swapRound(ctx, step, result, only)) > 0 {
			if !sleep(ctx, &pause) {
				return favfilter.Result{Err: s.failed("swap", b.ID, errNoProgress)}
			}
			continue
		}
		res := result[0]
		if res.Err != nil || res.State != favfilter.Applied {
			return res
		}
		outcomes = append(outcomes, res.Outcomes...)
		if b.Remove, b.Add = b.Remove[removals:], b.Add[adds:]; len(b.Remove)+len(b.Add) == 0 {
			res.Outcomes = outcomes
			return res
		}
	}
}

// swapRound tries one compare-and-swap. It returns the batches whose page changed between the two
// round trips.
func (s *Store) swapRound(ctx context.Context, batches []favfilter.Batch, results []favfilter.Result, pending []int) (again []int) {
	ids := make([]favfilter.PageID, len(pending))
	for n, i := range pending {
		ids[n] = batches[i].ID
	}
	var calls []invocation
	var changed []int
	for n, cmd := range s.readWhole(ctx, ids) {
		i := pending[n]
		l, err := s.decodeWhole(ids[n], cmd)
		if err != nil {
			results[i] = favfilter.Result{Err: s.failed("swap", ids[n], err)}
			continue
		}
		page, res := applyTo(l, batches[i])
		if page != nil {
			calls = append(calls, replaceCall(page))
			changed = append(changed, i)
		}
		results[i] = res
	}
	for n, cmd := range s.run(ctx, s.replace, calls) {
		i := changed[n]
		switch done, err := cmd.Bool(); {
		case err != nil:
			results[i] = favfilter.Result{Err: s.failed("swap", batches[i].ID, err)}
		case !done:
			again = append(again, i)
		default:
			s.learn(batches[i].ID, results[i].Header)
		}
	}
	return again
}

// applyTo applies b to the page that was read. The replacement is nil if nothing changed.
func applyTo(l favfilter.Loaded, b favfilter.Batch) (*favfilter.Replacement, favfilter.Result) {
	switch {
	case l.Version == "" && l.Damage == nil:
		return nil, favfilter.Result{State: favfilter.Missing}
	case l.Page == nil: // damaged, or a value
		h, err := favfilter.DecodeHeader([]byte(l.Version))
		// A foreign page is Foreign even if its bits or collision bits are damaged.
		if err == nil && (h.Identity != b.Identity || h.Number != b.ID.Number) {
			return nil, favfilter.Result{State: favfilter.Foreign, Header: h, Version: l.Version}
		}
		return nil, favfilter.Result{State: favfilter.Torn, Version: l.Version}
	}
	res := l.Page.Apply(b)
	if res.State != favfilter.Applied || res.Version == l.Version {
		return nil, res
	}
	expire := favfilter.KeepExpiry
	if b.Sequence > 0 {
		expire = 0 // only an empty page has a time to live
	}
	return &favfilter.Replacement{ID: b.ID, Page: l.Page, Seen: l.Version, Expire: expire}, res
}
