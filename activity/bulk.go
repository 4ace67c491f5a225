package activity

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
)

// Bulk records very many activities, faster than [Recorder.Record] can. Its transactions are as
// large as the caller makes them. A page that was empty before is built in process, and Finish
// writes it once. Until then other Recorders rebuild such pages from the ledger when they need
// them.
//
// Prepare is safe for concurrent use with all other methods. The other methods must be called one
// at a time. A Recorder may have any number of Bulks, and works as usual meanwhile.
type Bulk struct {
	r     *Recorder
	pages *pages.Bulk
}

// NewBulk returns a new Bulk.
func (r *Recorder) NewBulk() *Bulk { return &Bulk{r, r.pages.NewBulk()} }

// PreparedBulk holds activities that are ready for [Bulk.Record].
type PreparedBulk struct {
	activities []Activity
	outcomes   []Outcome // Ended or Early, of those that are not recorded
	at         time.Time
	changes    *ledger.Prepared
	inLedger   []int // indexes of the activities that the ledger keeps
	seen       seen.Batch
}

// Prepare checks activities and prepares them for Record. Errors are those of [Recorder.Record] for
// invalid activities.
func (b *Bulk) Prepare(activities []Activity) (*PreparedBulk, error) {
	p := &PreparedBulk{activities: activities, outcomes: make([]Outcome, len(activities)), at: b.r.pages.Now()}
	changes := make([]ledger.Change, 0, len(activities))
	var rows rowChunks
	for i, a := range activities {
		if err := b.r.Check(a); err != nil {
			return nil, Within("activities["+strconv.Itoa(i)+"].", err)
		}
		if p.outcomes[i] = a.timely(p.at); p.outcomes[i] != Unchanged {
			continue
		}
		if k, _ := b.r.kinds.Named(a.Kind); k.InLedger() {
			c := b.r.change(k, a, p.at)
			c.Rows = rows.copy(c.Rows)
			changes = append(changes, c)
			p.inLedger = append(p.inLedger, i)
		} else {
			b.r.addSeen(&p.seen, k, a, i)
		}
	}
	var err error
	p.changes, err = b.r.ledger.Prepare(changes)
	return p, err
}

// rowChunks stores rows side by side. A hundred thousand slices of one or two rows take twice as
// much memory.
type rowChunks struct{ chunk []ledger.Row }

func (c *rowChunks) copy(rows []ledger.Row) []ledger.Row {
	const size = 4096
	if cap(c.chunk)-len(c.chunk) < len(rows) {
		c.chunk = make([]ledger.Row, 0, size)
	}
	from := len(c.chunk)
	c.chunk = append(c.chunk, rows...)
	return c.chunk[from:len(c.chunk):len(c.chunk)]
}

// Record makes prepared activities durable in the ledger, as if one after another, and returns the
// outcome of each. Once Finish has returned nil, every View has them, of this Recorder and of
// others. Errors are those of [Recorder.Record].
func (b *Bulk) Record(ctx context.Context, p *PreparedBulk) ([]Outcome, error) {
	result := slices.Clone(p.outcomes)
	if len(p.inLedger) > 0 {
		written, err := b.pages.Record(ctx, p.changes, p.users(b.r))
		if err != nil {
			return nil, fmt.Errorf("record %d activities: %w", len(p.activities), err)
		}
		for n, i := range p.inLedger {
			result[i] = outcomeOf(written, n)
		}
	}
	if err := b.r.recordSeen(ctx, &p.seen, p.at, result); err != nil {
		return nil, err
	}
	b.r.tally.record(p.activities, result)
	return result, nil
}

// users yields the users whose pages the activities change, by hash.
func (p *PreparedBulk) users(r *Recorder) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, i := range p.inLedger {
			a := p.activities[i]
			k, _ := r.kinds.Named(a.Kind)
			own, mirror, mirrored := k.rows(a.User, a.Target)
			if !yield(r.userHash(own.owner)) || mirrored && !yield(r.userHash(mirror.owner)) {
				return
			}
		}
	}
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
