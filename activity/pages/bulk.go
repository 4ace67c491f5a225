package pages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// bulkTimeout bounds a transaction of a bulk, which takes longer than a group's.
	bulkTimeout = 5 * time.Minute
	// maxBulkKeys is the number of keys that a bulk holds in process for pages it builds, 16 bytes
	// each.
	maxBulkKeys = 8 << 20
	// bulkWriters is the number of a bulk's pages written at once.
	bulkWriters = 8
)

// Bulk writes very many changes, faster than [Pages.Write] can. Its transactions are as large as
// the caller makes them. A page that was empty before is built in process, and Finish writes it
// once. Until then other processes rebuild such pages from the ledger when they need them.
//
// The methods must be called one at a time. There may be any number of Bulks.
type Bulk struct {
	r     *Pages
	pages map[uint32]*bulkPage
	keys  int            // of all pages
	rows  map[uint64]int // number of rows of users with many, by hash

	settling  sync.WaitGroup // changes of existing pages by the last transaction
	late      map[uint32]uint64
	toClose   map[uint32]bool // pages of a layout that was leaving
	committed int64           // when the last transaction committed, as elapsed
}

// bulkPage is a page that the bulk has to write: it was empty before the bulk, or could not be
// changed.
type bulkPage struct {
	sequence uint64
	keys     rowKeys
	// rebuild is set if the page must be rebuilt from the ledger: another writer changed it too, or a
	// row of it was removed, or its change failed.
	rebuild bool
}

// NewBulk returns a new Bulk.
func (p *Pages) NewBulk() *Bulk {
	return &Bulk{
		r: p, pages: make(map[uint32]*bulkPage), late: make(map[uint32]uint64),
		toClose: make(map[uint32]bool), rows: make(map[uint64]int),
	}
}

// Record makes changes durable in the ledger, as if one after another. Once Finish has returned
// nil, every Read of any process sees them. Errors are those of [Pages.Write].
//
// PostgreSQL ends a transaction after some seconds, and until then other writers of its pages wait.
// So record at most some 10,000 changes at a time there.
func (b *Bulk) Record(ctx context.Context, changes []ledger.Change) (Written, error) {
	record := func(ctx context.Context) (ledger.Receipt, error) {
		return b.r.ledger.Record(ctx, b.r.storage.now(), changes)
	}
	receipt, err := b.commit(ctx, newWrite(ctx, changes), record)
	if followed, is := errors.AsType[*ledger.FollowedError](err); is {
		return Written{}, followedError(followed)
	}
	return Written{receipt.Changed, receipt.Refused}, err
}

// Follow is like Record for changes of a source: see [ledger.Ledger.Follow]. An error that wraps
// ledger.ErrFenced or ledger.ErrStrayRow means that nothing was changed.
func (b *Bulk) Follow(ctx context.Context, step ledger.Step, changes []ledger.SourceChange) error {
	follow := func(ctx context.Context) (ledger.Receipt, error) {
		return b.r.ledger.Follow(ctx, b.r.storage.now(), step, changes)
	}
	_, err := b.commit(ctx, newSourceWrite(ctx, changes), follow)
	return err
}

// commit makes a transaction, and adds its changes to the pages that the bulk builds.
func (b *Bulk) commit(
	ctx context.Context, w *write, record func(ctx context.Context) (ledger.Receipt, error),
) (ledger.Receipt, error) {
	r := b.r
	if r.life.IsClosed() {
		return ledger.Receipt{}, ErrClosed
	}
	if err := r.known.Agreed(); err != nil {
		return ledger.Receipt{}, fmt.Errorf("nothing was changed: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	receipt, err := record(limited)
	if err != nil {
		return ledger.Receipt{}, Unavailable("ledger", err)
	}
	b.committed = r.life.Elapsed()
	for _, page := range r.committer.pagesToClose(receipt, []*write{w}) {
		b.toClose[page] = true
	}
	return receipt, b.follow(ctx, receipt)
}

// follow adds the changes of a transaction to pages that the bulk builds, and applies those of
// other pages to the store.
func (b *Bulk) follow(ctx context.Context, receipt ledger.Receipt) error {
	r := b.r
	r.layout.Learn(receipt.Owners)
	others := make([]ledger.PageChange, 0, len(receipt.Pages))
	for _, p := range receipt.Pages {
		r.sequences.Of(p.Page).Receive(p.Sequence, p.Changed())
		b.count(p)
		taken, err := b.take(ctx, p)
		if err != nil {
			return fmt.Errorf("make keys: %w", Unavailable("ledger", err))
		}
		if !taken {
			others = append(others, p)
		}
	}
	b.settling.Wait() // transactions reach a page in their order
	if len(others) > 0 {
		//nolint:contextcheck // committed changes must be applied
		b.settling.Go(func() { b.settle(others) })
	}
	if b.keys > maxBulkKeys {
		return b.place(ctx)
	}
	return nil
}

// count finds heavy users, because pages built in process do not reveal them. It ignores users with
// few rows in a transaction: if one of them has many rows in all, the next rebuild of the page
// detects it.
func (b *Bulk) count(p ledger.PageChange) {
	const few = 16
	for rows := p.Added; len(rows) > 0; {
		n := ofFirst(rows)
		if n >= few && p.Page < ledger.DedicatedPages {
			b.rows[rows[0].Hash] += n
		}
		rows = rows[n:]
	}
}

// take adds a change to a page that the bulk builds. It reports whether the page is one of these.
func (b *Bulk) take(ctx context.Context, p ledger.PageChange) (bool, error) {
	changed := p.Changed()
	page := b.pages[p.Page]
	switch {
	case page != nil && !changed && p.Sequence == page.sequence:
		return true, nil
	case page == nil && changed && p.Sequence == 1:
		page = &bulkPage{}
		b.pages[p.Page] = page
		b.r.scrubber.bulked.Store(p.Page, true)
	case page == nil:
		return false, nil
	}
	if !changed || p.Sequence != page.sequence+1 || len(p.Removed) > 0 {
		page.rebuild = true
	}
	if page.rebuild {
		b.keys -= len(page.keys.hashes)
		page.keys, page.sequence = rowKeys{}, p.Sequence
		return true, nil
	}
	keys, err := b.r.rebuilder.keysOf(ctx, p.Added)
	if err != nil {
		return false, err
	}
	page.sequence = p.Sequence
	page.keys.hashes = append(page.keys.hashes, keys.hashes...)
	page.keys.marks = append(page.keys.marks, keys.marks...)
	b.keys += len(keys.hashes)
	return true, nil
}

// settle brings pages to the sequence that a transaction gave them. Finish rebuilds the pages where
// that fails.
func (b *Bulk) settle(pages []ledger.PageChange) {
	ctx, cancel := context.WithTimeout(b.r.life.Base, bulkTimeout)
	defer cancel()
	failed := b.r.applier.applyAll(ctx, pages, nil)
	for _, p := range pages {
		if failed[p.Page] != nil {
			b.late[p.Page] = p.Sequence
		} else {
			delete(b.late, p.Page)
		}
	}
}

// Finish writes everything that was recorded to the pages. When it returns nil, every Read that
// begins afterwards sees it, and users with too many keys for a shared page have moved to a
// dedicated one. If the store does not answer, Finish returns nil once the staleness bound has
// passed.
//
// Call Finish also after an error of Record, because the changes of earlier calls are in the
// ledger.
func (b *Bulk) Finish(ctx context.Context) error {
	err := b.place(ctx)
	b.r.applier.waitMoved(ctx) // a move takes seconds, or minutes for a large page
	if err == nil || ctx.Err() == nil && b.r.known.Outlast(b.committed) {
		return nil
	}
	return err
}

// place writes the pages that the bulk has built, and rebuilds those that could not be changed.
func (b *Bulk) place(ctx context.Context) error {
	b.settling.Wait()
	for _, err := range b.r.applier.closePages(ctx, slices.Collect(maps.Keys(b.toClose))) {
		return err
	}
	clear(b.toClose)
	pages := b.pages
	for number, sequence := range b.late {
		pages[number] = &bulkPage{sequence: sequence, rebuild: true}
	}
	b.pages, b.late, b.keys = make(map[uint32]*bulkPage), make(map[uint32]uint64), 0
	// The sequences are required even if the rebuild fails: a page with a lower one lacks writes.
	for number, page := range pages {
		b.r.sequences.Of(number).Required.Raise(page.sequence)
	}
	failed := make([]error, 0, bulkWriters)
	inParallel(bulkWriters, slices.Sorted(maps.Keys(pages)), func(number uint32, mu *sync.Mutex) {
		page := pages[number]
		err := b.put(ctx, number, page)
		b.r.scrubber.bulked.Delete(number) // even after an error
		if err == nil {
			b.r.sequences.Of(number).Stored.Raise(page.sequence)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		b.late[number] = page.sequence
		if len(failed) < bulkWriters { // a few errors represent the others
			failed = append(failed, err)
		}
	})
	for hash, n := range b.rows {
		if n > b.r.rebuilder.maxSharedKeys {
			b.r.applier.leave(hash) //nolint:contextcheck // continues in the background
			delete(b.rows, hash)
		}
	}
	return errors.Join(failed...)
}

// put builds a page and writes it, unless the store has one that is at least as new.
func (b *Bulk) put(ctx context.Context, number uint32, p *bulkPage) error {
	r := b.r
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.rebuild {
		return r.rebuilder.remake(ctx, number, p.sequence, "bulk")
	}
	state := ledger.PageState{Sequence: p.sequence}
	page, err := r.rebuilder.imageOf(number, []rowKeys{p.keys}, state)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, replaceTimeout(page))
	defer cancel()
	image := favfilter.Replacement{ID: r.layout.PageID(number), Page: page, Newer: true}
	placed, err := r.storage.store.Replace(limited, image)
	switch {
	case err != nil:
		return Unavailable("pages", err)
	case placed:
		return nil
	default:
		return r.applier.ensure(ctx, number, p.sequence)
	}
}
