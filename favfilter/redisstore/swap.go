package redisstore

import (
	"context"
	"errors"

	"github.com/feedfilter/feedfilter/favfilter"
)

// stepKeys is the number of keys that a script applies at a time after swaps have lost. They fit in
// 3,999 arguments, the limit of serverless caches.
const stepKeys = 3900 / (favfilter.MaxHashes + 1)

var errNoProgress = errors.New("other writers changed the page each time")

// swap applies the pending batches in the process, and replaces the pages it read by the changed
// ones. This takes two round trips, whatever the number of keys and pages.
func (s *Store) swap(ctx context.Context, pending []change) {
	for range maxRounds {
		if len(pending) == 0 {
			return
		}
		pending = s.swapRound(ctx, pending)
	}
	for _, c := range pending {
		if c.Sequence > 0 {
			// Other writers do not cause this for a guarded batch, which ends when they overtake
			// it.
			*c.result = favfilter.Result{Err: s.failed("swap", errNoProgress, c.ID)}
		} else {
			s.applyInSteps(ctx, c)
		}
	}
}

// applyInSteps applies a batch without a guard by scripts, where possible: these cannot lose to
// other writers. For a page that has grown it tries swaps, with random pauses. If several writers
// swap such a page, one of them succeeds each time.
func (s *Store) applyInSteps(ctx context.Context, c change) {
	rest := *c.Batch
	var outcomes []favfilter.Outcome
	for pause := resendPause; ; {
		removals := min(len(rest.Remove), stepKeys)
		adds := min(len(rest.Add), stepKeys-removals)
		step := rest
		step.Remove, step.Add = rest.Remove[:removals], rest.Add[:adds]
		only := []change{{&step, c.result}}
		if len(s.applyByScript(ctx, only)) > 0 && len(s.swapRound(ctx, only)) > 0 {
			if !sleep(ctx, &pause) {
				*c.result = favfilter.Result{Err: s.failed("swap", errNoProgress, c.ID)}
				return
			}
			continue
		}
		if c.result.Err != nil || c.result.State != favfilter.Applied {
			return
		}
		outcomes = append(outcomes, c.result.Outcomes...)
		rest.Remove, rest.Add = rest.Remove[removals:], rest.Add[adds:]
		if len(rest.Remove)+len(rest.Add) == 0 {
			c.result.Outcomes = outcomes
			return
		}
	}
}

// swapRound tries one compare-and-swap. It returns the batches whose page changed between the two
// round trips.
func (s *Store) swapRound(ctx context.Context, pending []change) (again []change) {
	ids := make([]favfilter.PageID, len(pending))
	for i, c := range pending {
		ids[i] = c.ID
	}
	var calls []command
	var changed []change
	for i, cmd := range s.readWhole(ctx, ids) {
		c := pending[i]
		l, err := s.decodeWhole(c.ID, cmd)
		if err != nil {
			*c.result = favfilter.Result{Err: s.failed("swap", err, c.ID)}
		} else if page := c.applyTo(l); page != nil {
			calls = append(calls, s.replaceCall(page))
			changed = append(changed, c)
		}
	}
	for i, cmd := range s.send(ctx, s.replace.name, calls) {
		c := changed[i]
		switch done, err := cmd.Bool(); {
		case err != nil:
			*c.result = favfilter.Result{Err: s.failed("swap", err, c.ID)}
		case !done:
			again = append(again, c)
		default:
			s.learn(c.ID, c.result.Header)
		}
	}
	return again
}

// applyTo applies the batch to the page that was read. The replacement is nil if nothing changed.
func (c change) applyTo(l favfilter.Loaded) *favfilter.Replacement {
	if l.Page == nil { // missing, damaged, or a value
		*c.result = unusable(l.Version, c.Batch)
		return nil
	}
	*c.result = l.Page.Apply(*c.Batch)
	if c.result.State != favfilter.Applied || c.result.Version == l.Version {
		return nil
	}
	expire := favfilter.KeepExpiry
	if c.Sequence > 0 {
		expire = 0 // only an empty page has a time to live
	}
	return &favfilter.Replacement{ID: c.ID, Page: l.Page, Seen: l.Version, Expire: expire}
}
