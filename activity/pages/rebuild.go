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
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/admission"
)

const (
	// headroom is the capacity of a rebuilt page, relative to its keys. More headroom means fewer
	// rebuilds and more memory. It is less than a step between the allocator's size classes, an
	// eighth at least. A page that grows takes each of these classes in turn.
	headroom = 1.05
	// shrinkFactor is how many times too large a page must be to be rebuilt smaller.
	shrinkFactor = 4
	// emptyExpiry is how long a page of users without activities is kept.
	emptyExpiry = time.Hour
)

// rebuilds holds the rebuilds in progress: one flight for each page, and a bounded number at once.
type rebuilds struct {
	mu      sync.Mutex
	closed  bool
	flights map[uint32]*flight
	reasons map[string]uint64 // number of flights by reason
	slots   chan struct{}
	large   chan struct{} // slots for pages that are read in parts, which may take minutes
	failed  map[uint32]failure
	ended   sync.WaitGroup
	told    func(reason string, took time.Duration, err error) // Config.OnRebuild; may be nil
}

// rebuilder rebuilds pages from the ledger. It holds pages in this process: those that the store
// did not take, and those that feeds have read.
type rebuilder struct {
	*poller

	kinds         []ledger.Kind // that this process writes
	declared      declared
	maxSharedKeys int // a user with more keys gets a dedicated page
	large         largePages
	held          *heldPages
	rebuilds      rebuilds
	heavy         func(hash uint64) // called for a user with too many keys for a shared page
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
	until int64 // end of the pause, as [Pages.elapsed]
	// slow is set if the ledger took too long. The page is then read in parts.
	slow bool
}

const (
	firstPause   = 100 * time.Millisecond // after the second failure in a row; then doubles
	longestPause = 2 * time.Second
	costlyPause  = 10 * time.Second
	cheapFailure = time.Second
)

// landed notes how the rebuild of a page ended.
func (b *rebuilds) landed(number uint32, err error, took time.Duration, now int64) {
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
		pause := min(firstPause<<max(0, min(f.times-1, 16)), longestPause)
		f.until = now + int64(max(pause, min(took, costlyPause)))
	}
	f.times++
	f.slow = f.slow || errors.Is(err, context.DeadlineExceeded)
	b.failed[number] = f
}

// forgive ends all pauses, because the ledger can be read again.
func (b *rebuilds) forgive() {
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

// isSlow reports whether a rebuild of the page took too long.
func (b *rebuilds) isSlow(number uint32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed[number].slow
}

// inParts reports whether the page is known to be too large to be read at once.
func (r *rebuilder) inParts(number uint32) bool {
	return r.rebuilds.isSlow(number) || r.large.has(number)
}

func newRebuilds(told func(reason string, took time.Duration, err error)) rebuilds {
	return rebuilds{
		told:    told,
		flights: make(map[uint32]*flight),
		slots:   make(chan struct{}, maxRebuilds),
		large:   make(chan struct{}, maxLarge),
		failed:  make(map[uint32]failure),
		reasons: make(map[string]uint64),
	}
}

// rebuild rebuilds the page from the ledger and writes it to the store. The flight that it returns
// has a page with at least the sequence want. If most or more flights are in progress, rebuild
// refuses to start another.
func (r *rebuilder) rebuild(ctx context.Context, number uint32, want uint64, reason string, most int) (*flight, error) {
	for {
		f, joined, err := r.board(number, reason, most) //nolint:contextcheck // a flight outlives its first caller
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
			return nil, Unavailable("ledger", fmt.Errorf("rebuild page %d: the ledger has it at sequence %d, but gave out %d",
				number, f.page.Header().Sequence, want))
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

// board joins the flight of the page, or starts one.
func (r *rebuilder) board(number uint32, reason string, most int) (f *flight, joined bool, err error) {
	r.rebuilds.mu.Lock()
	defer r.rebuilds.mu.Unlock()
	if r.rebuilds.closed {
		return nil, false, ErrClosed
	}
	if f := r.rebuilds.flights[number]; f != nil {
		return f, true, nil
	}
	if f := r.rebuilds.failed[number]; r.elapsed() < f.until {
		return nil, false, Unavailable("ledger", fmt.Errorf("%w (failed %d times, retry later)", f.err, f.times))
	}
	if len(r.rebuilds.flights) >= most {
		return nil, false, fmt.Errorf("rebuild page %d: %w: %d pages wait for that already", number, ErrOverloaded, most)
	}
	f = &flight{done: make(chan struct{})}
	r.rebuilds.flights[number] = f
	r.rebuilds.reasons[reason]++
	r.rebuilds.ended.Go(func() { r.fly(f, number, reason) })
	return f, false, nil
}

// close refuses new flights, and waits for those in progress.
func (b *rebuilds) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.ended.Wait()
}

// fly rebuilds the page. If the page turns out to be large, fly gives up its slot and continues in
// one for large pages.
func (r *rebuilder) fly(f *flight, number uint32, reason string) {
	large := r.inParts(number)
	var start time.Time
	if !large {
		start = r.flyIn(r.rebuilds.slots, pageTimeout, f, number, large)
		large = errors.Is(f.err, ledger.ErrLargePage)
	}
	if large {
		start = r.flyIn(r.rebuilds.large, largeTimeout, f, number, large)
	}
	took := time.Since(start)
	if r.rebuilds.told != nil && !errors.Is(f.err, ledger.ErrGone) {
		r.rebuilds.told(reason, took, cmp.Or(f.err, f.storeErr))
	}
	r.rebuilds.landed(number, f.err, took, r.elapsed())
	if f.err == nil {
		r.log.Debug("page rebuilt", slog.Any("page", number), slog.String("reason", reason),
			slog.Any("keys", f.page.Header().Count), slog.Any("sequence", f.page.Header().Sequence), tookSince(start))
	}
	close(f.done)
}

// flyIn waits for a slot and rebuilds the page in it. It returns when the rebuild started.
func (r *rebuilder) flyIn(slots chan struct{}, limit time.Duration, f *flight, number uint32, large bool) (start time.Time) {
	slots <- struct{}{}
	defer func() { <-slots }()
	ctx, cancel := context.WithTimeout(r.base, limit)
	defer cancel()
	start = time.Now()
	f.err = r.remakePage(ctx, number, f, large)
	return start
}

// tookSince returns the time since start, for the log.
func tookSince(start time.Time) slog.Attr {
	return slog.Float64("took_ms", float64(time.Since(start).Microseconds())/1000)
}

// remakePage is the only repair of pages. It reads the page in the store first, and the ledger
// after it. So the image has all that the page had. It may replace a page of the same sequence, or
// of a sequence that the ledger never gave out.
func (r *rebuilder) remakePage(ctx context.Context, number uint32, f *flight, large bool) error {
	id := r.layout.pageID(number)
	var seen favfilter.Version
	loaded, _, storeErr := r.loadWithin(ctx, patience(large), []favfilter.PageID{id}, nil)
	if storeErr == nil {
		seen = loaded[0].Version
	}
	f.current = r.elapsed()
	keys, err := r.readKeys(ctx, number, large)
	if err != nil {
		return fmt.Errorf("rebuild page %d: %w", number, err)
	}
	r.sequences.of(number).learn(keys.state.Sequence)
	for _, hash := range keys.heavy {
		r.heavy(hash)
	}
	f.page, err = r.imageOf(number, keys.hashes, keys.state)
	if err != nil {
		return fmt.Errorf("rebuild page %d: %w", number, err)
	}
	r.large.note(number, f.page.Header())
	expire, offered := time.Duration(0), int64(0)
	if keys.rows == 0 {
		expire = emptyExpiry
	}
	if storeErr == nil {
		offered = r.elapsed()
		f.placed, storeErr = r.store.Replace(ctx, favfilter.Replacement{ID: id, Page: f.page, Seen: seen, Newer: true, Expire: expire})
	}
	if f.storeErr = storeErr; storeErr != nil {
		r.held.put(number, f.page)
	}
	if f.placed {
		f.current = offered
		r.glanced(number, PageSound, f.page.Status(), 0)
	}
	return nil
}

// pageKeys is what the ledger has for a page.
type pageKeys struct {
	state  ledger.PageState
	rows   int
	hashes [][]favfilter.Hash // of the keys
	heavy  []uint64           // users who have to leave the page
}

// readKeys reads the keys of a page at once, or in parts if it is large, which bounds the memory
// for rows.
func (r *rebuilder) readKeys(ctx context.Context, number uint32, large bool) (keys pageKeys, err error) {
	users := make(map[uint64]int) // rows of each user, if some user may have too many
	each := func(rows []ledger.Row) error {
		hashes, err := r.hashes(ctx, rows)
		if err != nil {
			return err
		}
		keys.rows += len(rows)
		keys.hashes = append(keys.hashes, hashes)
		for rest := rows; len(rest) > 0 && (large || len(rows) > r.maxSharedKeys); {
			n := ofFirst(rest)
			users[rest[0].Hash] += n
			rest = rest[n:]
		}
		return nil
	}
	if large {
		keys.state, err = r.ledger.EachRow(ctx, number, each)
	} else {
		var rows []ledger.Row
		if rows, keys.state, err = r.ledger.Keys(ctx, number); err == nil {
			err = each(rows)
		}
	}
	for hash, n := range users {
		if n > r.maxSharedKeys && number < ledger.DedicatedPages {
			keys.heavy = append(keys.heavy, hash)
		}
	}
	return keys, err
}

// imageOf builds the page of the given keys.
func (r *rebuilder) imageOf(number uint32, parts [][]favfilter.Hash, s ledger.PageState) (*favfilter.Page, error) {
	keys := 0
	for _, hashes := range parts {
		keys += len(hashes)
	}
	for {
		shape, err := r.shapeFor(keys)
		if err != nil {
			return nil, err
		}
		page, err := favfilter.NewPage(favfilter.Header{
			Identity: r.identity,
			Shape:    shape,
			Left:     uint32(s.Left & favfilter.LeftMask),
			Number:   r.layout.slot(number),
			Sequence: s.Sequence,
			Build:    favfilter.RandomID(),
		})
		if err != nil {
			return nil, err
		}
		for _, hashes := range parts {
			for _, h := range hashes {
				page.Insert(h)
			}
		}
		if !r.overfull(page.Header()) {
			return page, nil
		}
		// A few keys can set more bits than expected, and would do so each time. The next size has
		// room.
		keys = max(keys, shape.Capacity(r.keyRate)) + 1
	}
}

func (r *rebuilder) shapeFor(keys int) (favfilter.Shape, error) {
	return favfilter.ShapeFor(int(float64(keys)*headroom)+1, r.keyRate)
}

// overfull reports whether the page's false-positive rate is too high.
func (r *rebuilder) overfull(h favfilter.Header) bool {
	return h.Set > h.Shape.Limit(r.keyRate)
}

// oversized reports whether the page is shrinkFactor times larger than it needs to be.
func (r *rebuilder) oversized(h favfilter.Header) bool {
	fit, err := r.shapeFor(int(h.Count))
	return err == nil && fit.Bits <= h.Shape.Bits/shrinkFactor
}

// remake rebuilds the page for a writer. It fails if the store does not take the page. If nobody is
// on the page any more, remake closes it, so that nobody takes what is there for current.
func (r *rebuilder) remake(ctx context.Context, number uint32, want uint64, reason string) error {
	f, err := r.rebuild(ctx, number, want, reason, math.MaxInt) // writers are bounded elsewhere
	if errors.Is(err, ledger.ErrGone) {
		return r.closePage(ctx, number)
	}
	if err != nil {
		return err
	}
	return Unavailable("pages", f.storeErr)
}

// hashes returns the hashes of the rows' keys. Rows of an undeclared kind have no key.
func (r *rebuilder) hashes(ctx context.Context, rows []ledger.Row) ([]favfilter.Hash, error) {
	kinds, err := r.RowKinds(ctx, rows)
	if err != nil {
		return nil, err
	}
	hashes := make([]favfilter.Hash, 0, len(rows))
	seed := r.identity.Seed
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
		}
		hashes = append(hashes, start.With(favfilter.HashKey(seed, row.Target)))
	}
	return hashes, nil
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
func (r *rebuilder) Repair(ctx context.Context, at PageAt) error {
	if err := r.putInPlace(ctx, at, "sampled"); err != nil {
		return fmt.Errorf("repair page %d: %w", at.Page, err)
	}
	return nil
}

// putInPlace rebuilds a page and, unlike other rebuilds, does not accept a newer page in its place.
// A write to a page that lacks keys makes a newer page that lacks them, too.
func (r *rebuilder) putInPlace(ctx context.Context, at PageAt, reason string) error {
	defer r.held.pages.Drop(at.Page) // not before, or a reader might hold it again
	for range repairTries {
		f, err := r.rebuild(ctx, at.Page, at.Sequence, reason, maxFlights)
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
