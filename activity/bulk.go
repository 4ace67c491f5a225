package activity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// bulkTimeout bounds a transaction of a bulk, which is longer than a group's.
	bulkTimeout = 5 * time.Minute
	// maxBulkKeys is how many keys a bulk holds in process, 16 bytes each, for pages that it makes.
	maxBulkKeys = 8 << 20
	// bulkWriters is how many pages of a bulk are put in place at once.
	bulkWriters = 8
)

// Bulk records very many activities at a rate that [Recorder.Record] does not reach: in transactions as large as the caller
// makes them, and so that a page which was empty before is made in process and written once, by Finish. What other
// Recorders see of the activities meanwhile they make from the ledger.
//
// Prepare may be called beside everything else, the other methods one at a time. A Recorder has any number of
// Bulks, and is used meanwhile as ever.
type Bulk struct {
	r     *Recorder
	pages map[uint32]*bulkPage
	keys  int            // of all pages
	rows  map[uint64]int // of users, by hash, who have many

	settling  sync.WaitGroup // pages of the last transaction that are changed, not made
	late      map[uint32]uint64
	committed int64 // when the last transaction was, as [Recorder.elapsed]
}

// bulkPage is a page that had nothing before the bulk.
type bulkPage struct {
	sequence uint64
	keys     []favfilter.Hash
	anew     bool // somebody else changed it too, or something of it went: the ledger has to be read for it
}

// NewBulk returns a Bulk.
func (r *Recorder) NewBulk() *Bulk {
	return &Bulk{r: r, pages: make(map[uint32]*bulkPage), late: make(map[uint32]uint64), rows: make(map[uint64]int)}
}

// PreparedBulk is activities made ready for [Bulk.Record].
type PreparedBulk struct {
	activities []Activity
	at         time.Time
	changes    *ledger.Prepared
	inLedger   []int // the activities that the ledger keeps
	seen       seen.Batch
}

// Prepare checks activities and makes them ready. Errors are those of [Recorder.Record] for what is not valid.
func (b *Bulk) Prepare(activities []Activity) (*PreparedBulk, error) {
	p := &PreparedBulk{activities: activities, at: b.r.now()}
	changes := make([]ledger.Change, 0, len(activities))
	var rows rowChunks
	for i, a := range activities {
		if err := b.r.check(a, p.at); err != nil {
			return nil, Within("activities["+strconv.Itoa(i)+"].", err)
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

// rowChunks keeps rows side by side: a hundred thousand slices of one or two take twice as much.
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

// Record makes what was prepared durable in the ledger, as if one after another, and returns what became of each. Every View of
// this Recorder and of others has it when Finish has returned nil. Errors are those of [Recorder.Record].
func (b *Bulk) Record(ctx context.Context, p *PreparedBulk) ([]Outcome, error) {
	r := b.r
	if r.isClosed() {
		return nil, ErrClosed
	}
	if err := r.agreed(); err != nil {
		return nil, fmt.Errorf("record %d activities: nothing was changed: %w", len(p.activities), err)
	}
	result := make([]Outcome, len(p.activities))
	if len(p.inLedger) > 0 {
		limited, cancel := context.WithTimeout(ctx, bulkTimeout)
		receipt, err := r.ledger.RecordPrepared(limited, r.now(), p.changes)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("record %d activities: %w", len(p.activities), unavailable("ledger", err))
		}
		b.committed = r.elapsed()
		for n, o := range outcomes(receipt) {
			result[p.inLedger[n]] = o
		}
		if err := b.follow(ctx, receipt.Pages); err != nil {
			return nil, err
		}
	}
	if err := r.recordSeen(ctx, &p.seen, p.at, result); err != nil {
		return nil, err
	}
	r.stats.record(p.activities, result)
	return result, nil
}

// follow notes what a transaction did to pages that are to be made, and changes the others.
func (b *Bulk) follow(ctx context.Context, pages []ledger.PageChange) error {
	r := b.r
	others := make([]ledger.PageChange, 0, len(pages))
	for _, p := range pages {
		r.sequences.of(p.Page).giveOut(p.Sequence)
		r.placements.note(p.Page, p.Owner)
		b.count(p)
		taken, err := b.take(ctx, p)
		if err != nil {
			return fmt.Errorf("make keys: %w", unavailable("ledger", err))
		}
		if !taken {
			others = append(others, p)
		}
	}
	b.settling.Wait() // transactions reach a page in their order
	if len(others) > 0 {
		b.settling.Go(func() { b.settle(others) }) //nolint:contextcheck // what was committed is carried out
	}
	if b.keys > maxBulkKeys {
		return b.place(ctx)
	}
	return nil
}

// count finds users who are heavy, whom a page that is made in process does not show. It leaves out who has few rows in a
// transaction: if they have many in all, the next rebuild of the page shows it.
func (b *Bulk) count(p ledger.PageChange) {
	const few = 16
	for rows := p.Added; len(rows) > 0; {
		n := ofFirst(rows)
		if n >= few && !isOwn(p, rows[0].Hash) {
			b.rows[rows[0].Hash] += n
		}
		rows = rows[n:]
	}
}

// take notes the change of a page that is to be made, and reports whether it is one.
func (b *Bulk) take(ctx context.Context, p ledger.PageChange) (bool, error) {
	changed := len(p.Added)+len(p.Removed) > 0
	page := b.pages[p.Page]
	switch {
	case page != nil && !changed && p.Sequence == page.sequence:
		return true, nil
	case page == nil && changed && p.Sequence == 1:
		page = &bulkPage{}
		b.pages[p.Page] = page
		b.r.bulked.Store(p.Page, true)
	case page == nil:
		return false, nil
	}
	if page.anew = page.anew || !changed || p.Sequence != page.sequence+1 || len(p.Removed) > 0; page.anew {
		b.keys -= len(page.keys)
		page.keys, page.sequence = nil, p.Sequence
		return true, nil
	}
	keys, err := b.r.hashes(ctx, p.Added)
	if err != nil {
		return false, err
	}
	page.sequence = p.Sequence
	page.keys = append(page.keys, keys...)
	b.keys += len(keys)
	return true, nil
}

// settle brings pages to where a transaction left them. Those that cannot be brought there are left to Finish.
func (b *Bulk) settle(pages []ledger.PageChange) {
	ctx, cancel := context.WithTimeout(b.r.base, bulkTimeout)
	defer cancel()
	failed := b.r.applyAll(ctx, pages, nil)
	for _, p := range pages {
		if failed[p.Page] != nil {
			b.late[p.Page] = p.Sequence
		} else {
			delete(b.late, p.Page)
		}
	}
}

// Finish has every page hold what was recorded: when it returns nil, every [View] made afterwards has it, and who got too
// many for the page that they share has left it. Where the store does not answer, that is so once the staleness bound has
// passed. To be called also after an error of Record: what earlier calls have recorded stays.
func (b *Bulk) Finish(ctx context.Context) error {
	err := b.place(ctx)
	b.r.owners.wait(ctx) // each has some seconds, or minutes for a large page
	if err == nil {
		b.r.outwait(b.committed)
		return nil
	}
	if ctx.Err() == nil && b.r.outlast(b.committed) {
		return nil
	}
	return fmt.Errorf("finish a bulk: %w", err)
}

// place puts the pages that are to be made in place, and makes those anew that could not be changed.
func (b *Bulk) place(ctx context.Context) error {
	b.settling.Wait()
	pages, late := b.pages, b.late
	b.pages, b.late, b.keys = make(map[uint32]*bulkPage), make(map[uint32]uint64), 0
	for number, page := range pages { // whatever comes: what is read below has lost writes
		b.r.sequences.of(number).require(page.sequence)
	}
	var writers errgroup.Group
	writers.SetLimit(bulkWriters)
	failed := make([]error, 0, bulkWriters)
	var mu sync.Mutex
	put := func(number uint32, sequence uint64, do func() error) {
		writers.Go(func() error {
			err := do()
			b.r.bulked.Delete(number) // whatever came of it
			if err == nil {
				b.r.sequences.of(number).standAt(sequence)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			b.late[number] = sequence
			if len(failed) < bulkWriters { // of ten thousand pages alike, some tell enough
				failed = append(failed, err)
			}
			return nil // the others go on
		})
	}
	numbers := make([]uint32, 0, len(pages))
	for number := range pages {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		put(number, pages[number].sequence, func() error { return b.put(ctx, number, pages[number]) })
	}
	for number, sequence := range late {
		put(number, sequence, func() error { return b.r.remake(ctx, number, sequence, "bulk") })
	}
	_ = writers.Wait() // always nil
	for hash, n := range b.rows {
		if n > b.r.ownPage {
			b.r.leave(hash) //nolint:contextcheck // it goes on by itself
			delete(b.rows, hash)
		}
	}
	return errors.Join(failed...)
}

// put makes a page and puts it in place, unless one stands there that is at least as new.
func (b *Bulk) put(ctx context.Context, number uint32, p *bulkPage) error {
	r := b.r
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.anew {
		return r.remake(ctx, number, p.sequence, "bulk")
	}
	page, err := r.imageOf(number, [][]favfilter.Hash{p.keys}, ledger.Standing{Sequence: p.sequence})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, replaceTimeout(page))
	defer cancel()
	placed, err := r.store.Replace(limited, favfilter.Replacement{ID: r.pageID(number), Page: page, Newer: true})
	switch {
	case err != nil:
		return unavailable("pages", err)
	case placed:
		return nil
	default:
		return r.stand(ctx, number, p.sequence)
	}
}
