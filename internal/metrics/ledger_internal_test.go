package metrics

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// TestLedgerFailures checks that neither a call that its caller gave up nor an answer during a
// change of layout counts as failed.
func TestLedgerFailures(t *testing.T) {
	for err, want := range map[error]float64{nil: 0, context.Canceled: 0, ledger.ErrGone: 0, ledger.ErrLayoutBusy: 0, context.DeadlineExceeded: 1, io.EOF: 1} {
		of := call{prometheus.NewHistogram(prometheus.HistogramOpts{}), prometheus.NewCounter(prometheus.CounterOpts{})}
		if err != nil {
			err = fmt.Errorf("record: %w", err)
		}
		of.done(time.Now(), &err)
		if got := testutil.ToFloat64(of.failed); got != want {
			t.Errorf("%v: %v failures, want %v", err, got, want)
		}
	}
}
