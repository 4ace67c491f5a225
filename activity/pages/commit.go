package pages

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/admission"
)

// committer records changes: it groups those of concurrent callers into transactions of the ledger,
// applies them to pages, and acknowledges them.
type committer struct {
	core

	applier *applier

	next       *write       // the first of the next group; only commitLoop uses it
	waiting    atomic.Int64 // number of writes
	queue      chan *write
	settling   chan struct{} // one element for each group in flight to the store
	following  chan struct{} // one element for each write of a source
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
		settling:   make(chan struct{}, maxSettling),
		following:  make(chan struct{}, 2), // one for the ledger, one for the store
		slots:      make(chan struct{}, maxRepairing),
		tail:       make(map[uint32]chan struct{}),
		pageQueues: make(map[uint32]*pageQueue),
	}
}

// Written holds the results of changes, in their order.
type Written struct {
	Changed []bool // whether the change had an effect
	Refused []bool // whether it was refused because of its Limit
}

// Write makes changes durable in the ledger, as if one after another. When it returns nil, every
// Read that begins afterwards, in any process, sees them.
//
// Errors are [ErrOverloaded], [ErrClosed], an [*InvalidError] with [CodeFollowed], an
// [*UnavailableError], or that of ctx. The first three mean that nothing was changed. After any
// other error each change may have taken full effect or none; repeating is safe. While the store is
// down, Write returns nil once the staleness bound has passed since the commit.
func (p *Pages) Write(ctx context.Context, changes []ledger.Change) (Written, error) {
	w := &write{ctx: ctx, done: make(chan struct{}), changes: changes}
	if err := p.committer.write(ctx, w); err != nil {
		return Written{}, err
	}
	return w.result, nil
}

// Follow is [ledger.Ledger.Follow]. When it returns nil, the ledger has the changes, and every Read
// that begins after [Pages.Reach] sees them. Their way to the pages goes on, beside the next call.
// An error that wraps ledger.ErrFenced or ledger.ErrStrayRow means that nothing was changed.
func (p *Pages) Follow(ctx context.Context, step ledger.Step, changes []ledger.SourceChange) error {
	defer p.poller.stepped()
	if len(changes) == 0 { // no page changes
		_, err := p.poller.ledger.Follow(ctx, p.storage.now(), step, nil)
		return Unavailable("ledger", err)
	}
	select { // pages must not fall behind the ledger for long
	case p.committer.following <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	w := &write{ctx: ctx, done: make(chan struct{}), source: &sourceWrite{step, changes, make(chan struct{})}}
	ended := make(chan error, 1)
	started := p.life.background(func() {
		ended <- p.committer.write(ctx, w)
		<-p.committer.following
	})
	if !started {
		return ErrClosed
	}
	select {
	case <-w.source.committed:
		return nil
	case err := <-ended:
		select {
		case <-w.source.committed: // only the pages lack the changes
			return nil
		default:
			return err
		}
	}
}

// Reach waits until reached reports true of the ledger's sources. Every Read that begins afterwards
// has all changes up to their positions.
func (p *Pages) Reach(ctx context.Context, reached func([]ledger.Source) (bool, error)) error {
	return p.poller.reach(ctx, reached)
}

// Bounds returns the bounds between which the ledger's clock is now. What one process says that the
// clock has passed, another does not take for later than it is.
func (p *Pages) Bounds() (earliest, latest time.Time) { return p.poller.bounds() }

// Sources returns the ledger's sources at the last poll, in order of name. A source whose lease
// has ended since has no Holder.
func (p *Pages) Sources() (all []ledger.Source) {
	if known := p.poller.follow.sources.Load(); known != nil {
		all = slices.Clone(*known)
	}
	for i := range all {
		if !all[i].Until.After(p.Now()) {
			all[i].Holder = ""
		}
	}
	return all
}

// write is one caller's changes. Its results may be read once done is closed.
type write struct {
	ctx     context.Context //nolint:containedctx // of the waiting caller
	changes []ledger.Change
	source  *sourceWrite // makes changes in a transaction of their own; nil: a caller made those above
	done    chan struct{}
	// deletes is set if the user of hash is being deleted. Pages are then rebuilt instead of
	// changed, so that no bit of a removed key remains.
	deletes bool
	hash    uint64

	receipt ledger.Receipt // of the group's transaction
	result  Written
	err     error

	open   int   // number of pages not yet changed
	failed error // errors of its pages
}

// sourceWrite is what a source changes.
type sourceWrite struct {
	step      ledger.Step
	changes   []ledger.SourceChange
	committed chan struct{} // closed when the ledger has them
}

// len is the number of changes.
func (w *write) len() int {
	if w.source != nil {
		return len(w.source.changes)
	}
	return len(w.changes)
}

// rows yields the rows of the changes.
func (w *write) rows() iter.Seq[ledger.Row] {
	return func(yield func(ledger.Row) bool) {
		for i := range w.len() {
			var rows []ledger.Row
			if w.source != nil {
				rows = w.source.changes[i].Rows
			} else {
				rows = w.changes[i].Rows
			}
			for _, row := range rows {
				if !yield(row) {
					return
				}
			}
		}
	}
}

func (w *write) finish(err error) {
	w.err = err
	close(w.done)
}

// group is the writes that share one ledger transaction.
type group struct {
	writes    []*write
	receipt   ledger.Receipt
	committed int64           // when it was committed, as [Pages.elapsed]
	toRebuild map[uint32]bool // pages to rebuild instead of change; false: later
	toClose   []uint32        // pages of the layout that was leaving
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
		w := cm.next
		if cm.next = nil; w == nil {
			select {
			case w = <-cm.queue:
			case <-cm.life.open.Done():
				return
			}
		}
		cm.commit(cm.gather(w))
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
		changes += w.len()
	}
	take(first)
	for changes < maxGroup && first.source == nil {
		select {
		case w := <-cm.queue:
			if w.source != nil {
				cm.next = w
				return writes
			}
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
	receipt, err := cm.poller.record(onBehalf(writes), commitTimeout, writes)
	followed, isFollowed := errors.AsType[*ledger.FollowedError](err)
	switch {
	case err == nil:
	case isFollowed:
		cm.commit(cm.refuse(writes, followed))
		return
	case errors.Is(err, ledger.ErrKindsDiffer) && len(writes) > 1:
		for _, w := range writes { // which had no effect: refuse no other than those concerned
			cm.commit([]*write{w})
		}
		return
	default:
		err = Unavailable("ledger", err)
		for _, w := range writes {
			w.finish(err)
		}
		return
	}
	g := &group{
		writes: writes, receipt: receipt, committed: cm.life.elapsed(), toRebuild: cm.pagesToRebuild(writes, receipt),
		toClose: cm.pagesToClose(receipt, writes),
		await:   make(map[chan struct{}]bool), passed: make(chan struct{}), slots: make(chan struct{}, maxGroupRepairs),
	}
	distribute(receipt, writes)
	cm.layout.learn(receipt.Owners)
	cm.settling <- struct{}{}
	cm.mu.Lock()
	for _, p := range receipt.Pages {
		cm.sequences.of(p.Page).known.raise(p.Sequence)
		if before := cm.tail[p.Page]; before != nil {
			g.await[before] = true
		}
		cm.tail[p.Page] = g.passed
	}
	cm.mu.Unlock()
	cm.life.ended.Go(func() { cm.settle(g) })
}

// distribute gives each write of a group its part of the receipt.
func distribute(receipt ledger.Receipt, writes []*write) {
	next := 0
	for _, w := range writes {
		end := next + w.len()
		if w.receipt = receipt; w.source != nil {
			close(w.source.committed)
		} else {
			w.result = Written{receipt.Changed[next:end], receipt.Refused[next:end]}
		}
		next = end
	}
}

// record records writes in one transaction of the ledger. That of a source is alone.
func (pl *poller) record(ctx context.Context, limit time.Duration, writes []*write) (ledger.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if s := writes[0].source; s != nil {
		return pl.ledger.Follow(ctx, pl.storage.now(), s.step, s.changes)
	}
	var changes []ledger.Change
	for _, w := range writes {
		changes = append(changes, w.changes...)
	}
	return pl.ledger.Record(ctx, pl.storage.now(), changes)
}

// onBehalf returns a context for work for all the writes. It does not end when a caller cancels. It
// has the values of the first write's context, so that traces of that write show the work.
func onBehalf(writes []*write) context.Context {
	return admission.Detach(context.WithoutCancel(writes[0].ctx))
}

// pagesToRebuild returns the pages that must be rebuilt because a user is being deleted. The value
// is false for the dedicated page of that user: its rebuild waits until all rows are gone. Until
// then the page is stale, and so not used.
func (cm *committer) pagesToRebuild(writes []*write, receipt ledger.Receipt) map[uint32]bool {
	pages := make(map[uint32]bool)
	for _, w := range writes {
		if !w.deletes {
			continue
		}
		for row := range w.rows() {
			page, dedicated := receipt.Owners[row.Hash]
			if !dedicated {
				page = cm.layout.id.PageIn(receipt.Layouts.Current, row.Hash)
			}
			pages[page] = pages[page] || !dedicated || row.Hash != w.hash
		}
	}
	return pages
}

// settle changes the group's pages with one call of the store, and answers the callers whose pages
// then have their sequences. A page that needs more calls continues in a queue of its own, and so
// does one that has a queue from an earlier group. Writes to other pages do not wait for those.
//
// Groups reach a page in the order of their transactions. So the writers of one process never leave
// a gap in a page's sequences.
func (cm *committer) settle(g *group) {
	for before := range g.await {
		<-before
	}
	ctx, cancel := context.WithTimeout(onBehalf(g.writes), pageTimeout)
	pages, steps := cm.enqueue(ctx, g)
	repairs, failed := cm.applier.applyOnce(ctx, pages, g.toRebuild)
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
		context.AfterFunc(ctx, func() { cm.life.background(func() { cm.expire(g) }) })
	}
	for _, page := range begun {
		cm.life.ended.Go(func() { cm.runQueue(page) })
	}
	cm.answer(g.committed, answered)
}

// answer reports to callers how their writes ended. Writes that failed on a page wait until the
// staleness bound guarantees that every process sees them.
func (cm *committer) answer(committed int64, writes []*write) {
	var late []*write
	for _, w := range writes {
		if w.failed != nil {
			late = append(late, w)
			continue
		}
		w.finish(nil)
	}
	if len(late) == 0 {
		return
	}
	seen := cm.poller.outlast(committed)
	for _, w := range late {
		if !seen {
			w.finish(Unavailable("pages", w.failed))
			continue
		}
		cm.storage.stats.withoutPage.Add(1)
		w.finish(nil)
	}
}

// pagesOf calls each with the pages of w, some of them more than once. These are the pages of its
// rows, and pages where processes may still look for the rows. The latter are the shared pages of
// users with dedicated pages, and the pages of a layout that is leaving.
func (cm *committer) pagesOf(w *write, receipt ledger.Receipt, each func(page uint32)) {
	for row := range w.rows() {
		each(cm.layout.id.PageIn(receipt.Layouts.Current, row.Hash))
		if page, ok := receipt.Owners[row.Hash]; ok {
			each(page)
		}
		if leaving := receipt.Layouts.Leaving; leaving > 0 {
			each(cm.layout.id.PageIn(leaving, row.Hash))
		}
	}
}

// failure returns the errors of the pages of w.
func (cm *committer) failure(w *write, receipt ledger.Receipt, failed map[uint32]error) error {
	if len(failed) == 0 {
		return nil
	}
	var errs []error
	cm.pagesOf(w, receipt, func(page uint32) {
		if err := failed[page]; err != nil && !slices.Contains(errs, err) {
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}

// write queues w and waits until it is decided.
func (cm *committer) write(ctx context.Context, w *write) error {
	if cm.life.isClosed() {
		return ErrClosed
	}
	err := cm.poller.agreed()
	if err == nil && w.len() == 0 {
		return nil
	}
	if err == nil {
		err = cm.poller.reachable()
	}
	if err != nil {
		return fmt.Errorf("record %d activities: nothing was changed: %w", w.len(), err)
	}
	resume, ok := admission.PauseForLedger(ctx)
	if !ok {
		return ErrOverloaded
	}
	defer resume()
	if err := cm.checkFollowed(ctx, w); err != nil {
		return fmt.Errorf("record %d activities: nothing was changed: %w", w.len(), err)
	}
	if err := cm.awaitRoom(ctx, w); err != nil {
		return err
	}
	if cm.waiting.Add(1) > maxWaiting {
		cm.waiting.Add(-1)
		return ErrOverloaded
	}
	defer cm.waiting.Add(-1)
	select {
	case cm.queue <- w:
	case <-cm.life.open.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("record %d activities: nothing was changed: %w", w.len(), ctx.Err())
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return fmt.Errorf("record %d activities: undecided: %w", w.len(), ctx.Err())
	}
	if w.err != nil {
		return fmt.Errorf("record %d activities: %w", w.len(), w.err)
	}
	return nil
}

// awaitRoom returns ErrOverloaded if too many writes wait for pages of w. A source waits instead.
func (cm *committer) awaitRoom(ctx context.Context, w *write) error {
	// Deletions and removals of ended activities may change many pages, but run one at a time.
	if w.deletes || w.source == nil && w.changes[0].Ended {
		return nil
	}
	for cm.congested(w) {
		if w.source == nil || cm.life.isClosed() {
			return ErrOverloaded
		}
		select {
		case <-time.After(reachEvery):
		case <-ctx.Done():
			return fmt.Errorf("record %d activities: nothing was changed: %w", w.len(), ctx.Err())
		}
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
		for row := range w.rows() {
			pages[cm.layout.id.PageIn(receipt.Layouts.Leaving, row.Hash)] = true
		}
	}
	return slices.Collect(maps.Keys(pages))
}
