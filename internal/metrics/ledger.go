package metrics

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Ledger counts and measures the calls of a ledger: see [ledger.Ledger.Around].
func (r *Registry) Ledger() ledger.Around {
	seconds, failed := r.outcomes(
		durations("feedfilter_ledger_call_seconds", "Duration of ledger calls."),
		prometheus.CounterOpts{
			Name: "feedfilter_ledger_errors_total",
			Help: "Ledger calls that failed, unless cancelled by the caller.",
		},
		"operation",
		"record", "keys", "each_row", "sequence", "changed", "place",
		"layouts", "begin_layout", "switch_layout", "leave_layout", "dedicate", "release",
		"page_formats", "raise_page_format",
		"ended", "list", "list_naming", "lookup", "counts", "owned", "all", "naming",
		"declare", "kinds", "ping", "agree", "checkpoint", "set_checkpoint",
		"lease", "renew", "start_over", "settle", "follow", "unfollow", "sources",
	)
	return func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		start := time.Now()
		err := next(ctx)
		seconds.WithLabelValues(c.Operation).Observe(time.Since(start).Seconds())
		counted := err
		if err != nil && c.Operation == "changed" {
			counted = cmp.Or(context.Cause(ctx), err) // a poll that timed out was cancelled: a failure
		}
		_, followed := errors.AsType[*ledger.FollowedError](counted)
		switch {
		case counted == nil:
		case errors.Is(counted, context.Canceled): // the caller left, the ledger did not fail
		case errors.Is(counted, ledger.ErrLargePage): // an answer: read it in parts
		case errors.Is(counted, ledger.ErrGone): // an answer: the page has no users
		case errors.Is(counted, ledger.ErrLayoutBusy): // an answer: another process changes the layouts
		case followed: // an answer: a source alone writes the kind
		case errors.Is(counted, ledger.ErrHeld), errors.Is(counted, ledger.ErrFenced),
			errors.Is(counted, ledger.ErrStrayRow): // an answer to a follower
		default:
			failed.WithLabelValues(c.Operation).Inc()
		}
		return err
	}
}
