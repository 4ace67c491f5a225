package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/admission"
	"github.com/feedfilter/feedfilter/internal/pause"
)

const (
	// headroom is the capacity of a rebuilt page, relative to its keys. More headroom means fewer
	// rebuilds and more memory. It is less than a step between the allocator's size classes, an
	// eighth at least. A page that grows takes each of these classes in turn.
	headroom = 1.05
	// shrinkFactor is how many times too large a page must be to be rebuilt smaller. Keys of a kind
	// with phrases need more room, with their marks, so shrinkPhrases holds if there is one.
	shrinkFactor  = 4
	shrinkPhrases = 10
	// emptyExpiry is how long a page is kept that has never had a key, or whose user was deleted.
	emptyExpiry = time.Hour
	// outagePatience is how long a rebuild waits for the page in the store while pages cannot be
	// read. Most who wait for the rebuild have waited for the store before. If it does not answer in
	// time, they get the page all the same, but the store does not.
	outagePatience = 200 * time.Millisecond
)

// rebuilds holds the rebuilds in progress: one flight for each page, and a bounded number at once.
type rebuilds struct {
	mu        sync.Mutex
	closed    bool
	flights   map[uint32]*flight
	reasons   map[string]uint64 // number of flights by reason
	slots     chan struct{}
	large     chan struct{} // slots for pages that are read in parts, which may take minutes
	failed    map[uint32]failure
	ended     sync.WaitGroup
	onRebuild func(reason string, took time.Duration, err error) // Config.OnRebuild; may be nil
}

// rebuilder rebuilds pages from the ledger. It holds pages in this process: see [heldPages].
type rebuilder struct {
	core

	kinds         []ledger.Kind // that this process writes
	declared      declared
	phrases       atomic.Bool // the ledger knows a kind of phrases
	maxSharedKeys int         // a user with more keys gets a dedicated page
	large         largePages
	held          *heldPages
	rebuilds      *rebuilds

	// heavy is called for a user with too many keys for a shared page. The applier sets it.
	heavy func(hash uint64)
}

func newRebuilder(shared core, r *rebuilds, c Config) *rebuilder {
	return &rebuilder{
		core:          shared,
		kinds:         c.Kinds,
		maxSharedKeys: c.MaxSharedKeys,
		large:         largePages{least: largePage},
		held:          newHeldPages(c.ListCache),
		rebuilds:      r,
		heavy:         func(uint64) {},
	}
}

// flight is one rebuild of one page. Its results may be read once done is closed.
type flight struct {
	done chan struct{}

	page *favfilter.Page // read-only
	// current is a time at which page had all acknowledged writes, as elapsed: when it was read from
	// the ledger, or given to the store, which had nothing newer.
	current  int64
	placed   bool  // page is in the store; if not, one at least as new is
	storeErr error // the store failed: its page is unknown
	err      error // there is no page
}

// failure describes a page whose last rebuilds all failed. The next rebuild starts after a pause,
// so that a page that cannot be rebuilt costs the others little. A current page in the store can be
// used meanwhile.
//
// The pause is at least as long as the rebuild took, up to costlyPause. There is no pause after a
// single failure that took less than cheapFailure.
type failure struct {
	err   error
	times int
	until int64 // end of the pause, as [lifecycle.Lifecycle.Elapsed]
	// slow is set if the ledger took too long. The page is then read in parts.
	slow bool
}

const (
	firstPause   = 100 * time.Millisecond // after the second failure in a row; then doubles
	longestPause = 2 * time.Second
	costlyPause  = 10 * time.Second
	cheapFailure = time.Second
)

// done notes how the rebuild of a page ended.
func (b *rebuilds) done(number uint32, err error, took time.Duration, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.flights, number)
	if err == nil || errors.Is(err, ledger.ErrGone) {
		delete(b.failed, number)
		return
	}
	f := b.failed[number]
	f.err = err
	if f.times > 0 || took >= cheapFailure {
		wait := pause.Doubled(firstPause, longestPause, f.times)
		f.until = now + int64(max(wait, min(took, costlyPause)))
	}
	f.times++
	f.slow = f.slow || errors.Is(err, context.DeadlineExceeded)
	b.failed[number] = f
}

// endPauses ends all pauses, because the ledger can be read again.
func (b *rebuilds) endPauses() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for number, f := range b.failed {
		f.until, f.times = 0, 0
		b.failed[number] = f
	}
}

// counts returns the number of rebuilds so far, by reason, and of those in progress.
func (b *rebuilds) counts() (reasons map[string]uint64, inProgress int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.reasons), len(b.flights)
}

// inParts reports whether the page is known to be too large to be read at once.
func (b *rebuilder) inParts(number uint32) bool {
	b.rebuilds.mu.Lock()
	defer b.rebuilds.mu.Unlock()
	return b.rebuilds.failed[number].slow || b.large.has(number)
}

func newRebuilds(onRebuild func(reason string, took time.Duration, err error)) *rebuilds {
	return &rebuilds{
		onRebuild: onRebuild,
		flights:   make(map[uint32]*flight),
		slots:     make(chan struct{}, maxRebuilds),
		large:     make(chan struct{}, maxLarge),
		failed:    make(map[uint32]failure),
		reasons:   make(map[string]uint64),
	}
}

// rebuild rebuilds the page from the ledger and writes it to the store. The flight that it returns
// has a page with at least the sequence want. If most or more flights are in progress, rebuild
// refuses to start another.
func (b *rebuilder) rebuild(
	ctx context.Context, number uint32, want uint64, reason string, most int,
) (*flight, error) {
	for {
		//nolint:contextcheck // a flight outlives its first caller
		f, joined, err := b.join(number, reason, most)
		if err != nil {
			return nil, err
		}
		if err := f.wait(ctx); err != nil {
			return nil, fmt.Errorf("rebuild page %d: %w", number, err)
		}
		switch late := joined && !f.placed && f.storeErr == nil; {
		case errors.Is(f.err, ledger.ErrGone):
			return nil, f.err
		case f.err != nil:
			return nil, Unavailable("ledger", f.err)
		case f.page.Header().Sequence >= want && !late:
			return f, nil
		case !joined:
			return nil, Unavailable("ledger", fmt.Errorf(
				"rebuild page %d: the ledger has it at sequence %d, but promised %d",
				number, f.page.Header().Sequence, want,
			))
		}
		// The flight started before the commit that this caller waits for, or before the page that
		// this caller saw was written.
	}
}

// wait waits until the flight is over.
func (f *flight) wait(ctx context.Context) error {
	resume, ok := admission.PauseForLedger(ctx)
	if !ok {
		return fmt.Errorf("%w: too many requests wait for the ledger", ErrOverloaded)
	}
	defer resume()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join joins the flight of the page, or starts one.
func (b *rebuilder) join(
	number uint32, reason string, most int,
) (f *flight, joined bool, err error) {
	b.rebuilds.mu.Lock()
	defer b.rebuilds.mu.Unlock()
	if b.rebuilds.closed {
		return nil, false, ErrClosed
	}
	if f := b.rebuilds.flights[number]; f != nil {
		return f, true, nil
	}
	if f := b.rebuilds.failed[number]; b.life.Elapsed() < f.until {
		err := fmt.Errorf("%w (failed %d times, retry later)", f.err, f.times)
		return nil, false, Unavailable("ledger", err)
	}
	if len(b.rebuilds.flights) >= most {
		return nil, false, fmt.Errorf(
			"rebuild page %d: %w: %d pages wait for that already", number, ErrOverloaded, most,
		)
	}
	f = &flight{done: make(chan struct{})}
	b.rebuilds.flights[number] = f
	b.rebuilds.reasons[reason]++
	b.rebuilds.ended.Go(func() { b.run(f, number, reason) })
	return f, false, nil
}

// close refuses new flights, and waits for those in progress.
func (b *rebuilds) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.ended.Wait()
}

// run rebuilds the page. If the page turns out to be large, run gives up its slot and continues in
// one for large pages.
func (b *rebuilder) run(f *flight, number uint32, reason string) {
	large := b.inParts(number)
	var start time.Time
	if !large {
		start = b.runIn(b.rebuilds.slots, pageTimeout, f, number, large)
		large = errors.Is(f.err, ledger.ErrLargePage)
	}
	if large {
		start = b.runIn(b.rebuilds.large, largeTimeout, f, number, large)
	}
	took := time.Since(start)
	if b.rebuilds.onRebuild != nil && !errors.Is(f.err, ledger.ErrGone) {
		b.rebuilds.onRebuild(reason, took, cmp.Or(f.err, f.storeErr))
	}
	b.rebuilds.done(number, f.err, took, b.life.Elapsed())
	if f.err == nil {
		h := f.page.Header()
		b.storage.log.Debug("page rebuilt", slog.Any("page", number), slog.String("reason", reason),
			slog.Any("keys", h.Count), slog.Any("sequence", h.Sequence), tookSince(start))
	}
	close(f.done)
}

// runIn waits for a slot and rebuilds the page in it. It returns when the rebuild started.
func (b *rebuilder) runIn(
	slots chan struct{}, limit time.Duration, f *flight, number uint32, large bool,
) (start time.Time) {
	slots <- struct{}{}
	defer func() { <-slots }()
	ctx, cancel := context.WithTimeout(b.life.Base, limit)
	defer cancel()
	start = time.Now()
	f.err = b.remakePage(ctx, number, f, large)
	return start
}

// tookSince returns the time since start, for the log.
func tookSince(start time.Time) slog.Attr {
	return slog.Float64("took_ms", float64(time.Since(start).Microseconds())/1000)
}

// remakePage is the only repair of pages. It reads the page in the store first, and the ledger
// after it. So the image has all that the page had. It may replace a page of the same sequence, or
// of a sequence that the ledger never had.
func (b *rebuilder) remakePage(ctx context.Context, number uint32, f *flight, large bool) error {
	id := b.layout.PageID(number)
	var seen favfilter.Version
	limit := patience(large)
	if !large && b.storage.readOutage.on.Load() {
		limit = outagePatience
	}
	loaded, _, storeErr := b.storage.loadWithin(ctx, limit, []favfilter.PageID{id}, nil)
	if storeErr == nil {
		seen = loaded[0].Version
	}
	f.current = b.life.Elapsed()
	var keys pageKeys
	read := func(ctx context.Context) (err error) {
		keys, err = b.readKeys(ctx, number, large)
		return err
	}
	var err error
	if large {
		err = read(ctx) // for minutes: a ledger that hangs for a second must not end that
	} else {
		err = b.known.WhileReachable(ctx, read)
	}
	if err != nil {
		return fmt.Errorf("rebuild page %d: %w", number, err)
	}
	b.sequences.Of(number).Learn(keys.state.Sequence)
	for _, hash := range keys.heavy {
		b.heavy(hash)
	}
	f.page, err = b.imageOf(number, keys.parts, keys.state)
	if err != nil {
		return fmt.Errorf("rebuild page %d: %w", number, err)
	}
	b.large.note(number, f.page.Header())
	expire, offered := time.Duration(0), int64(0)
	if keys.rows == 0 && (keys.state.Sequence == 0 || number >= ledger.DedicatedPages) {
		expire = emptyExpiry
	}
	if storeErr == nil {
		offered = b.life.Elapsed()
		image := favfilter.Replacement{
			ID: id, Page: f.page, Seen: seen, Newer: true, Expire: expire,
		}
		f.placed, storeErr = b.storage.store.Replace(ctx, image)
	}
	if f.storeErr = storeErr; storeErr != nil {
		b.held.putRefused(number, f.page)
	}
	if f.placed {
		f.current = offered
	}
	return nil
}

// pageKeys is what the ledger has for a page.
type pageKeys struct {
	state ledger.PageState
	rows  int
	parts []rowKeys
	heavy []uint64 // users who have to leave the page
}

// readKeys reads the keys of a page at once, or in parts if it is large, which bounds the memory
// for rows.
func (b *rebuilder) readKeys(
	ctx context.Context, number uint32, large bool,
) (keys pageKeys, err error) {
	users := make(map[uint64]int) // rows of each user, if some user may have too many
	each := func(rows []ledger.Row) error {
		part, err := b.keysOf(ctx, rows)
		if err != nil {
			return err
		}
		keys.rows += len(rows)
		keys.parts = append(keys.parts, part)
		for rest := rows; len(rest) > 0 && (large || len(rows) > b.maxSharedKeys); {
			n := ofFirst(rest)
			users[rest[0].Hash] += n
			rest = rest[n:]
		}
		return nil
	}
	if large {
		keys.state, err = b.ledger.EachRow(ctx, number, each)
	} else {
		var rows []ledger.Row
		if rows, keys.state, err = b.ledger.Keys(ctx, number); err == nil {
			err = each(rows)
		}
	}
	for hash, n := range users {
		if n > b.maxSharedKeys && number < ledger.DedicatedPages {
			keys.heavy = append(keys.heavy, hash)
		}
	}
	return keys, err
}

// imageOf builds the page of the given keys.
func (b *rebuilder) imageOf(
	number uint32, parts []rowKeys, s ledger.PageState,
) (*favfilter.Page, error) {
	marks := make(map[favfilter.Hash]bool)
	for _, part := range parts {
		for _, h := range part.marks {
			marks[h] = true
		}
	}
	capacity, err := b.weigh(parts, marks)
	if err != nil {
		return nil, err
	}
	for {
		shape, err := b.shapeFor(capacity)
		if err != nil {
			return nil, err
		}
		page, err := favfilter.NewPage(favfilter.Header{
			Identity: b.storage.identity,
			Shape:    shape,
			Left:     uint32(s.Left & favfilter.LeftMask),
			Number:   b.layout.Slot(number),
			Sequence: s.Sequence,
			Build:    favfilter.RandomID(),
		})
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			for _, h := range part.hashes {
				page.Insert(h)
			}
		}
		for h := range marks { // each once, so that it shares no region with itself
			page.Mark(h)
		}
		if !b.overfull(page.Header()) {
			return page, nil
		}
		// A few keys can set more bits than expected, and would do so each time. The next size has
		// room.
		capacity = max(capacity, shape.Capacity(b.storage.keyRate)) + 1
	}
}

// weigh returns how many keys without weight take as much room as the given keys and marks.
func (b *rebuilder) weigh(
	parts []rowKeys, marks map[favfilter.Hash]bool,
) (capacity int, err error) {
	shape, err := b.shapeFor(0)
	weight := 0.0
	for _, part := range parts {
		weight += shape.Weigh(part.hashes...)
	}
	for h := range marks {
		weight += shape.Weigh(h)
	}
	if b.phrases.Load() { // a small page would have no room for a second phrase
		one := b.heaviest()
		weight += shape.Weigh(one.hashes...) + shape.Weigh(one.marks...)
	}
	return int(math.Ceil(weight)), err
}

// shapeFor returns the shape of a page for so many keys without weight, in the format in which
// pages are built.
func (b *rebuilder) shapeFor(keys int) (favfilter.Shape, error) {
	shape, err := favfilter.ShapeFor(int(float64(keys)*headroom)+1, b.storage.keyRate)
	shape.Uniform = b.storage.uniform.Load()
	return shape, err
}

// heaviest returns the key that takes most room, with its marks.
func (b *rebuilder) heaviest() rowKeys {
	if b.phrases.Load() {
		phrase := favfilter.Hash{Extra: Weight("", true)}
		return rowKeys{[]favfilter.Hash{phrase}, make([]favfilter.Hash, maxMarks)}
	}
	return rowKeys{hashes: []favfilter.Hash{{Extra: Weight("", false)}}}
}

// overfull reports whether one more key, of the largest weight, could take the page past its
// false-positive rate. A page with room for a key takes most writes, also if it cannot be rebuilt.
func (b *rebuilder) overfull(h favfilter.Header) bool {
	one := b.heaviest()
	more := favfilter.Batch{
		Sequence: 1, Rate: b.storage.keyRate, Add: one.hashes, Marks: one.marks,
	}
	return int64(h.Set) > more.Room(h.Shape)
}

// oversized reports whether the page is many times larger than keys without weight would need. A
// page of the heaviest keys is not: they need less than three times as much, or if users have one
// long phrase each, less than eight times.
func (b *rebuilder) oversized(h favfilter.Header) bool {
	fit, err := b.shapeFor(int(h.Count))
	factor := uint32(shrinkFactor)
	if b.phrases.Load() {
		factor = shrinkPhrases
	}
	return err == nil && fit.Bits <= h.Shape.Bits/factor
}

// outdated reports whether the page should have a later format version.
func (b *rebuilder) outdated(h favfilter.Header) bool {
	return h.Shape.Uniform && !b.storage.uniform.Load() && !isClosed(h)
}

// remake rebuilds the page for a writer. It fails if the store does not take the page. If nobody is
// on the page any more, remake closes it, so that nobody takes what is there for current.
func (b *rebuilder) remake(ctx context.Context, number uint32, want uint64, reason string) error {
	f, err := b.rebuild(ctx, number, want, reason, math.MaxInt) // writers are bounded elsewhere
	if errors.Is(err, ledger.ErrGone) {
		return b.closePage(ctx, number)
	}
	if err != nil {
		return err
	}
	return Unavailable("pages", f.storeErr)
}

// rowKeys are the keys of rows, and their marks.
type rowKeys struct {
	hashes []favfilter.Hash // of the keys
	marks  []favfilter.Hash // see [favfilter.Page.Mark]; some may be the same
}

// keysOf returns the keys of rows. Rows of an undeclared kind have no key.
func (b *rebuilder) keysOf(ctx context.Context, rows []ledger.Row) (all rowKeys, err error) {
	kinds, err := b.rowKinds(ctx, rows)
	if err != nil {
		return all, err
	}
	all.hashes = make([]favfilter.Hash, 0, len(rows))
	seed := b.storage.identity.Seed
	var start favfilter.Start
	var of *ledger.Row // the row that start is of: rows of one owner and kind are adjacent
	for i := range rows {
		row := &rows[i]
		k, ok := kinds[row.Kind]
		if !ok {
			continue
		}
		if of == nil || of.Kind != row.Kind || of.Owner != row.Owner {
			start, of = KeyStart(seed, row.Kind, row.Owner, k.Target), row
			start.Extra = k.Weight
		}
		all.hashes = append(all.hashes, start.With(favfilter.HashKey(seed, row.Target)))
		if k.Phrases {
			all.marks = appendMarks(all.marks, seed, row, k)
		}
	}
	return all, nil
}

// PageAt names a page, and one of its sequences.
type PageAt struct {
	Page     uint32
	Sequence uint64
}

// repairTries is how often Repair rebuilds a page that was changed during each rebuild.
const repairTries = 32

// Repair rebuilds a page that lacks keys of the ledger although its sequence is current. Errors are
// an [*UnavailableError], that of ctx, or that the page was changed too often during the rebuilds.
func (p *Pages) Repair(ctx context.Context, at PageAt) error {
	if err := p.rebuilder.putInPlace(ctx, at, "sampled"); err != nil {
		return fmt.Errorf("repair page %d: %w", at.Page, err)
	}
	return nil
}

// putInPlace rebuilds a page and, unlike other rebuilds, does not accept a newer page in its place.
// A write to a page that lacks keys makes a newer page that lacks them, too.
func (b *rebuilder) putInPlace(ctx context.Context, at PageAt, reason string) error {
	defer b.held.pages.Drop(at.Page) // not before, or a reader might hold it again
	for range repairTries {
		f, err := b.rebuild(ctx, at.Page, at.Sequence, reason, maxFlights)
		switch {
		case errors.Is(err, ledger.ErrGone):
			return nil
		case err != nil:
			return err
		case f.storeErr != nil:
			return Unavailable("pages", f.storeErr)
		case f.placed:
			return nil
		}
	}
	return fmt.Errorf("it was changed %d times meanwhile", repairTries)
}

// closePage overwrites a page with a closed one. A reader of a closed page polls the ledger to
// learn where the page's users are.
//
// Until this process polls, it still looks for these users on this page. It then accepts neither a
// held copy nor an older page that the store was set back to.
func (b *rebuilder) closePage(ctx context.Context, number uint32) error {
	b.sequences.Of(number).Required.Raise(closedSequence)
	page, err := b.imageOf(number, nil, ledger.PageState{Sequence: closedSequence})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	// If Replace stores nothing, a closed page is already there.
	_, err = b.storage.store.Replace(ctx, favfilter.Replacement{
		ID: b.layout.PageID(number), Page: page, Newer: true, Expire: closedExpiry,
	})
	if err != nil {
		return fmt.Errorf("close page %d: %w", number, Unavailable("pages", err))
	}
	return nil
}

// allKeys reads all rows of a page without their times. Rows of one user and kind are adjacent, but
// a large page may have several such runs.
func (b *rebuilder) allKeys(
	ctx context.Context, number uint32,
) ([]ledger.Row, ledger.PageState, error) {
	rows, s, err := b.ledger.Keys(ctx, number)
	if !errors.Is(err, ledger.ErrLargePage) {
		return rows, s, err
	}
	s, err = b.ledger.EachRow(ctx, number, func(some []ledger.Row) error {
		for _, row := range some {
			if n := len(rows); n > 0 && rows[n-1].Owner == row.Owner {
				row.Owner = rows[n-1].Owner // one string for all
			}
			row.Since, row.Until = time.Time{}, time.Time{}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, s, err
}

// Rebuilt describes a page that was rebuilt.
type Rebuilt struct {
	Number   uint32
	Sequence uint64
	Keys     int
	Bytes    int // bits and collision bitmap
	Took     time.Duration
}

// RebuildPage rebuilds a page from the ledger, whatever its state, and returns once the page is in
// the store. Errors are [ErrNoPage], an [*UnavailableError], or that of ctx.
func (p *Pages) RebuildPage(ctx context.Context, number uint32) (Rebuilt, error) {
	if !p.layout.InUse(number) {
		return Rebuilt{}, fmt.Errorf("rebuild page %d: %w", number, ErrNoPage)
	}
	start := time.Now()
	want := p.sequences.Of(number).Required.Load()
	f, err := p.rebuilder.rebuild(ctx, number, want, "asked for", maxFlights)
	if errors.Is(err, ledger.ErrGone) {
		return Rebuilt{}, fmt.Errorf("rebuild page %d: %w", number, ErrNoPage)
	}
	if err == nil {
		err = Unavailable("pages", f.storeErr)
	}
	if err != nil {
		return Rebuilt{}, err
	}
	st := f.page.Status()
	return Rebuilt{
		Number:   number,
		Sequence: st.Header.Sequence,
		Keys:     int(st.Header.Count),
		Bytes:    int(st.Size.Bytes),
		Took:     time.Since(start),
	}, nil
}

// ofFirst returns how many of rows belong to the user of the first row. The rows are in order of
// hash.
func ofFirst(rows []ledger.Row) int {
	n := 1
	for n < len(rows) && rows[n].Hash == rows[0].Hash {
		n++
	}
	return n
}
