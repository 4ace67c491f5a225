package pages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/admission"
)

// committer records changes: it groups those of concurrent callers into transactions of the ledger,
// applies them to pages, and acknowledges them.
type committer struct {
	core

	applier *applier

	waiting    atomic.Int64 // number of writes
	queue      chan *write
	committing chan struct{} // an element during a transaction, until its group is in tail
	settling   chan struct{} // one element for each group in flight to the store
	following  chan struct{} // one element for each transaction of a source
	slots      chan struct{} // one element for each page in repair for a write
	queuedRows atomic.Int64  // sum over all pageQueues

	mu sync.Mutex
	// tail has, for each page, the channel of the last group in flight to it. The channel is closed
	// when the group has arrived.
	tail       map[uint32]chan struct{}
	pageQueues map[uint32]*pageQueue // of pages whose changes need more than one call of the store
}

func newCommitter(a *applier) *committer {
	return &committer{
		core:       a.core,
		applier:    a,
		queue:      make(chan *write),
		committing: make(chan struct{}, 1),
		settling:   make(chan struct{}, maxSettling),
		following:  make(chan struct{}, 2), // one for the ledger, one for the store
		slots:      make(chan struct{}, maxRepairing),
		tail:       make(map[uint32]chan struct{}),
		pageQueues: make(map[uint32]*pageQueue),
	}
}

// Write makes changes durable in the ledger, as if one after another. When it returns nil, every
// Read that begins afterwards, in any process, sees them.
//
// Errors are [ErrOverloaded], [ErrClosed], an [*InvalidError] with [CodeFollowed], an
// [*UnavailableError], or that of ctx. The first three mean that nothing was changed. After any
// other error each change may have taken full effect or none; repeating is safe. While the store is
// down, Write returns nil once the staleness bound has passed since the commit.
func (p *Pages) Write(ctx context.Context, changes []ledger.Change) (Written, error) {
	w := newWrite(ctx, changes)
	if err := p.committer.write(ctx, w); err != nil {
		return Written{}, err
	}
	return w.result, nil
}

// group is the writes that share one ledger transaction.
type group struct {
	writes    []*write
	receipt   ledger.Receipt
	committed int64    // when it was committed, as elapsed
	apply     approach // how pages get the changes
	toClose   []uint32 // pages of the layout that was leaving
	await     map[chan struct{}]bool
	passed    chan struct{} // closed after the first call of the store for all its pages

	slots  chan struct{}       // one element for each page in repair
	mu     sync.Mutex          // guards open and failed
	open   map[uint32][]*write // writes that wait, by page
	failed map[uint32]error
	end    context.CancelFunc // of the context of the steps
}

// commitLoop commits queued writes, group by group, until Close is called. Having only one
// transaction at a time costs nothing: while one is made durable, the next group gathers.
func (cm *committer) commitLoop() {
	for {
		select {
		case w := <-cm.queue:
			cm.commit(cm.gather(w))
		case <-cm.life.Open.Done():
			return
		}
	}
}

// gather takes the other queued writes, up to maxGroup changes. It leaves out writes whose caller
// has canceled; they have no effect.
func (cm *committer) gather(first *write) []*write {
	var writes []*write
	changes := 0
	take := func(w *write) {
		if err := w.ctx.Err(); err != nil {
			w.finish(err)
			return
		}
		writes = append(writes, w)
		changes += len(w.changes)
	}
	take(first)
	for changes < maxGroup {
		select {
		case w := <-cm.queue:
			take(w)
		default:
			return writes
		}
	}
	return writes
}

// commit makes the group durable in the ledger, and starts its changes of the pages.
func (cm *committer) commit(writes []*write) {
	if len(writes) == 0 {
		return
	}
	err := cm.record(writes)
	followed, isFollowed := errors.AsType[*ledger.FollowedError](err)
	switch {
	case err == nil:
	case isFollowed:
		cm.commit(cm.refuse(writes, followed))
	case errors.Is(err, ledger.ErrKindsDiffer) && len(writes) > 1:
		for _, w := range writes { // which had no effect: refuse no other than those concerned
			cm.commit([]*write{w})
		}
	default:
		err = Unavailable("ledger", err)
		for _, w := range writes {
			w.finish(err)
		}
	}
}

// record records the writes in one transaction of the ledger.
func (cm *committer) record(writes []*write) error {
	cm.committing <- struct{}{}
	defer func() { <-cm.committing }()
	ctx, cancel := context.WithTimeout(onBehalf(writes), commitTimeout)
	defer cancel()
	var changes []ledger.Change
	for _, w := range writes {
		changes = append(changes, w.changes...)
	}
	receipt, err := cm.ledger.Record(ctx, cm.storage.now(), changes)
	if err != nil {
		return err
	}
	next := 0
	for _, w := range writes {
		end := next + len(w.changes)
		w.receipt, w.result = receipt, Written{receipt.Changed[next:end], receipt.Refused[next:end]}
		next = end
	}
	cm.start(receipt, writes)
	return nil
}

// start starts the changes of the pages after a transaction. The caller holds committing since
// before it, so that groups are in tail in the order of their transactions.
func (cm *committer) start(receipt ledger.Receipt, writes []*write) {
	g := &group{
		writes:    writes,
		receipt:   receipt,
		committed: cm.life.Elapsed(),
		apply:     cm.approachTo(writes, receipt),
		toClose:   cm.pagesToClose(receipt, writes),
		await:     make(map[chan struct{}]bool),
		passed:    make(chan struct{}),
		slots:     make(chan struct{}, maxGroupRepairs),
	}
	cm.layout.Learn(receipt.Owners)
	cm.settling <- struct{}{}
	cm.mu.Lock()
	for _, p := range receipt.Pages {
		cm.sequences.Of(p.Page).Receive(p.Sequence, p.Changed())
		if before := cm.tail[p.Page]; before != nil {
			g.await[before] = true
		}
		cm.tail[p.Page] = g.passed
	}
	cm.mu.Unlock()
	cm.life.Go(func() { cm.settle(g) })
}

// onBehalf returns a context for work for all the writes. It does not end when a caller cancels. It
// has the values of the first write's context, so that traces of that write show the work.
func onBehalf(writes []*write) context.Context {
	return admission.Detach(context.WithoutCancel(writes[0].ctx))
}

// approachTo returns how pages get the changes of writes. Those of a deletion of a user need
// rebuilds.
func (cm *committer) approachTo(writes []*write, receipt ledger.Receipt) approach {
	to := make(approach)
	for _, w := range writes {
		if !w.deletes {
			continue
		}
		for row := range w.rows {
			page, dedicated := receipt.Owners[row.Hash]
			if !dedicated {
				page = cm.layout.PageIn(receipt.Layouts.Current, row.Hash)
			}
			if dedicated && row.Hash == w.hash {
				to[page] = max(to[page], postponed)
			} else {
				to[page] = rebuilt
			}
		}
	}
	return to
}

// settle changes the group's pages with one call of the store, and answers the callers whose pages
// then have their sequences. A page that needs more calls continues in a queue of its own, and so
// does one that has a queue from an earlier group. Writes to other pages do not wait for those.
//
// Groups reach a page in the order of their transactions. So they leave no gap in its sequences,
// unless others write to it, too: a [Bulk], a move of a user, or another process.
func (cm *committer) settle(g *group) {
	for before := range g.await {
		<-before
	}
	ctx, cancel := context.WithTimeout(onBehalf(g.writes), pageTimeout)
	pages, steps := cm.enqueue(ctx, g)
	repairs, failed := cm.applier.applyOnce(ctx, pages, g.apply)
	maps.Copy(failed, cm.applier.closePages(ctx, g.toClose))
	cm.mu.Lock()
	begun := make([]uint32, 0, len(repairs))
	for _, repair := range repairs {
		s := &step{ctx: ctx, group: g, change: repair.change, repair: repair.do}
		steps = append(steps, s)
		cm.pageQueues[s.change.Page] = &pageQueue{}
		cm.enter(s)
		begun = append(begun, s.change.Page)
	}
	for _, p := range g.receipt.Pages {
		if cm.tail[p.Page] == g.passed {
			delete(cm.tail, p.Page)
		}
	}
	answered := cm.track(g, steps, failed, cancel)
	cm.mu.Unlock()
	close(g.passed)
	<-cm.settling
	if len(steps) > 0 {
		context.AfterFunc(ctx, func() { cm.life.Background(func() { cm.expire(g) }) })
	}
	for _, page := range begun {
		cm.life.Go(func() { cm.runQueue(page) })
	}
	cm.answer(g.committed, answered)
}

// write queues w and waits until it is decided.
func (cm *committer) write(ctx context.Context, w *write) error {
	if cm.life.IsClosed() {
		return ErrClosed
	}
	err := cm.known.Agreed()
	if err == nil && len(w.changes) == 0 {
		return nil
	}
	if err == nil {
		err = cm.known.Reachable()
	}
	if err != nil {
		return fmt.Errorf("record %d activities: nothing was changed: %w", len(w.changes), err)
	}
	resume, ok := admission.PauseForLedger(ctx)
	if !ok {
		return ErrOverloaded
	}
	defer resume()
	if err := cm.checkFollowed(ctx, w); err != nil {
		return fmt.Errorf("record %d activities: nothing was changed: %w", len(w.changes), err)
	}
	// Deletions and removals of ended activities may change many pages, but run one at a time.
	if !w.deletes && !w.changes[0].Ended && cm.congested(w.rows) {
		return ErrOverloaded
	}
	if cm.waiting.Add(1) > maxWaiting {
		cm.waiting.Add(-1)
		return ErrOverloaded
	}
	defer cm.waiting.Add(-1)
	select {
	case cm.queue <- w:
	case <-cm.life.Open.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("record %d activities: nothing was changed: %w", len(w.changes), ctx.Err())
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return fmt.Errorf("record %d activities: undecided: %w", len(w.changes), ctx.Err())
	}
	if w.err != nil {
		return fmt.Errorf("record %d activities: %w", len(w.changes), w.err)
	}
	return nil
}

// pagesToClose returns the pages of the changes' users in the layout that was leaving when the
// changes were made. That includes users with dedicated pages, because a reader that knows neither
// of the switch nor of the dedicated page looks for them there. While such a page is open, a reader
// that has not polled since the switch may trust it.
func (cm *committer) pagesToClose(receipt ledger.Receipt, writes []*write) []uint32 {
	if receipt.Layouts.Leaving == 0 {
		return nil
	}
	pages := make(map[uint32]bool)
	for _, w := range writes {
		for row := range w.rows {
			pages[cm.layout.PageIn(receipt.Layouts.Leaving, row.Hash)] = true
		}
	}
	return slices.Collect(maps.Keys(pages))
}
