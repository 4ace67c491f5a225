package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// StalenessBound returns the bound of the [Config]; 0 if every View asks the ledger first.
func (r *poller) StalenessBound() time.Duration { return r.follow.bound }

// ErrBehind reports that the ledger answers, but its changes are not read within the staleness
// bound. Either polls fail, or a poll reads every page after its connection was lost. Feeds are
// correct meanwhile, but slower: each asks the ledger for the sequence of its page.
var ErrBehind = errors.New("changes are not read from the ledger in time")

// Ready reports whether feeds can be answered, for which either the pages or the ledger must
// answer. It returns an [*UnavailableError] for each of the two that is down. The error of a ledger
// that answers, but whose changes are not read in time, wraps [ErrBehind].
func (r *Recorder) Ready(ctx context.Context) (ready bool, down []error) {
	// Ask both at once: one that hangs leaves no time for the other.
	ledgerErr := make(chan error, 1)
	go func() { ledgerErr <- r.ledger.Ping(ctx) }()
	_, storeErr := r.store.Load(ctx, []favfilter.PageID{{Number: 0}})
	if err := <-ledgerErr; err != nil {
		down = append(down, unavailable("ledger", err))
	}
	if err := r.behind(); err != nil && len(down) == 0 {
		down = append(down, unavailable("ledger", err))
	}
	if storeErr != nil {
		down = append(down, unavailable("pages", storeErr))
	}
	return len(down) < 2, down
}

// behind returns an error that wraps ErrBehind if the ledger's changes are not read in time.
func (r *Recorder) behind() error {
	if r.scrubPace == nil || access(r.follow.access.Load()) != behind {
		return nil // a passive Recorder polls when it reads
	}
	return fmt.Errorf("%w: the last poll that succeeded began %v ago", ErrBehind,
		time.Duration(r.elapsed()-r.follow.start.Load()).Round(time.Millisecond))
}

// lookups returns the largest number of keys that a feed check tests for one candidate.
func (ks *Kinds) lookups() int {
	n := 0
	for _, k := range ks.all {
		if k.Effect == Drop {
			n += k.lookups()
		}
	}
	return max(n, 1)
}
