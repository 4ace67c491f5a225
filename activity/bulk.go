package activity

import (
	"context"
	"fmt"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// Bulk records very many activities, faster than [Recorder.Record] can. Its transactions are as
// large as the caller makes them. A page that was empty before is built in process, and Finish
// writes it once. Until then other Recorders rebuild such pages from the ledger when they need
// them.
//
// The methods must be called one at a time. A Recorder may have any number of Bulks, and works as
// usual meanwhile.
type Bulk struct {
	r     *Recorder
	pages *pages.Bulk
}

// NewBulk returns a new Bulk.
func (r *Recorder) NewBulk() *Bulk { return &Bulk{r, r.pages.NewBulk()} }

// Record makes the activities of a batch durable in the ledger, as if one after another, and
// returns the outcome of each. Once Finish has returned nil, every View has them, of this Recorder
// and of others. Errors are those of [Recorder.Record].
func (b *Bulk) Record(ctx context.Context, batch *Batch) ([]Outcome, error) {
	call := b.r.prepare(batch)
	if len(call.rows) > 0 {
		written, err := b.pages.Record(ctx, b.r.changes(call))
		if err != nil {
			return nil, fmt.Errorf("record %d activities: %w", len(call.activities), err)
		}
		call.take(written)
	}
	return b.r.finish(ctx, call)
}

// Finish writes everything that was recorded to the pages. When it returns nil, every [View] that
// begins afterwards has it. Users with too many keys for a shared page have then moved to a
// dedicated one. If the store does not answer, Finish returns nil once the staleness bound has
// passed.
//
// Call Finish also after an error of Record: what earlier calls recorded stays.
func (b *Bulk) Finish(ctx context.Context) error {
	if err := b.pages.Finish(ctx); err != nil {
		return fmt.Errorf("finish a bulk: %w", err)
	}
	return nil
}
