package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/pause"
)

// Pauses of a writer that was overtaken by another one.
const (
	firstSwapPause   = time.Millisecond
	longestSwapPause = 256 * time.Millisecond
)

var errNoProgress = errors.New("other writers changed the page each time")

// swap applies the pending batches in the process, and replaces the pages it read by the changed
// ones. This takes two round trips, whatever the number of keys and pages. Batches that other
// writers overtake are tried again until ctx ends, with random pauses.
func (s *Store) swap(ctx context.Context, pending []change) {
	for overtaken := 1; len(pending) > 0; overtaken++ {
		pending = s.swapRound(ctx, pending)
		wait := pause.About(pause.Doubled(firstSwapPause, longestSwapPause, overtaken))
		if len(pending) > 0 && !pause.Sleep(ctx, wait) {
			for _, c := range pending {
				*c.result = favfilter.Result{Err: s.failed("swap", errNoProgress, c.ID)}
			}
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
			continue
		}
		*c.result = l.Apply(*c.Batch)
		if c.result.State == favfilter.Applied && c.result.Version != l.Version {
			swap := &favfilter.Replacement{ID: c.ID, Page: l.Page, Seen: l.Version}
			calls = append(calls, s.replaceCall(swap))
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

// Replace implements [favfilter.Store]. It runs one script.
func (s *Store) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	done, err := s.send(ctx, s.replace.name, []command{s.replaceCall(&r)})[0].Bool()
	if err != nil {
		return false, s.failed("replace", err, r.ID)
	}
	if done && r.Page != nil {
		s.learn(r.ID, r.Page.Header())
	}
	return done, nil
}

// replaceCall returns the script call for one replacement.
func (s *Store) replaceCall(r *favfilter.Replacement) command {
	raw, collisions := r.Encode()
	expire := (r.Expire + time.Millisecond - 1) / time.Millisecond
	c := s.run(s.replace, r.ID, 5)
	c.args = append(c.args, raw, collisions, string(r.Seen), r.Newer, int64(expire))
	return c
}
