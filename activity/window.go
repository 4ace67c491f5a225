package activity

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Activities of a kind with a window live in pages of their own, a ring of them for each
// user and kind, without a ledger. They are not shared as the ledger's pages are: what
// a feed reads of them is what its viewer has seen, and a user's can be deleted.

// windowWriters is how many windows one call writes at a time.
const windowWriters = 16

// openRings makes the ring of every kind with a window.
func (r *Recorder) openRings() error {
	identity := r.identity
	identity.Incarnation = 0 // windows outlive a restored ledger
	r.rings = make(map[string]*favfilter.Ring)
	for _, k := range r.kinds.All() {
		if k.InLedger() {
			continue
		}
		ring, err := favfilter.NewRing(r.store, identity, favfilter.RingConfig{
			Length: k.Window, Parts: k.Parts, FalsePositiveRate: r.keyRate,
		})
		if err != nil {
			return fmt.Errorf("kind %q: %w", k.Name, err)
		}
		r.rings[k.Name] = ring
	}
	return nil
}

// windowID is that of the pages of a user's window.
func (r *Recorder) windowID(hash uint64, k Kind) favfilter.PageID {
	return favfilter.PageID{Number: r.homeOf(hash), Part: k.Name + "-" + strconv.FormatUint(hash, 16)}
}

// windowWrites are the activities of one call that go to windows, by page.
type windowWrites struct {
	pages map[favfilter.PageID]*windowWrite
	order []*windowWrite
}

type windowWrite struct {
	id     favfilter.PageID
	kind   Kind
	keys   []favfilter.Hash
	result []int // the place of each key's answer
}

// add notes that activity number i of a call, of kind k, is to be written.
func (ws *windowWrites) add(r *Recorder, k Kind, a Activity, i int) {
	id := r.windowID(userHash(r.identity.Seed, a.User), k)
	if ws.pages == nil {
		ws.pages = make(map[favfilter.PageID]*windowWrite)
	}
	w := ws.pages[id]
	if w == nil {
		w = &windowWrite{id: id, kind: k}
		ws.pages[id] = w
		ws.order = append(ws.order, w)
	}
	seed := r.identity.Seed
	w.keys = append(w.keys, startHash(seed, k.Name, a.User, k.Target).With(favfilter.HashKey(seed, a.Target)))
	w.result = append(w.result, i)
}

// recordWindows writes ws as of now, and sets outcomes for what was new.
func (r *Recorder) recordWindows(ctx context.Context, ws windowWrites, now time.Time, outcomes []Outcome) error {
	writers, ctx := errgroup.WithContext(ctx)
	writers.SetLimit(windowWriters)
	for _, w := range ws.order {
		writers.Go(func() error {
			fresh, err := r.rings[w.kind.Name].Add(ctx, w.id, now, w.keys, nil)
			r.cache.wrote(w.id) // also where it failed: it may have taken effect
			if err != nil {
				return fmt.Errorf("record %s: %w", w.kind.Name, unavailable("pages", err))
			}
			for n, isNew := range fresh { // each place belongs to one write
				if isNew {
					outcomes[w.result[n]] = Changed
				}
			}
			return nil
		})
	}
	return writers.Wait()
}

// window is a View's look at a user's window.
type window struct {
	ring   *favfilter.Ring
	id     favfilter.PageID
	now    time.Time
	loaded []favfilter.Loaded // of ring.Pages(id, now)
	parts  []*favfilter.Page  // what of that is usable, nil where nothing is

	held   bool   // it is the cache's, and needs not be read
	writes uint64 // to windows like it before it was read, as the cache counts
	begun  int64  // when it began to be read, as elapsed
}

// readWindow finds what of w.loaded is usable.
func (r *Recorder) readWindow(ctx context.Context, w *window) {
	w.parts = make([]*favfilter.Page, len(w.loaded))
	for i, l := range w.loaded {
		// One of another format version counts as empty, too: after an upgrade each feed meets some.
		if l.Damage != nil && damageReason(l.Damage) == reasonDamaged {
			r.log.WarnContext(ctx, "a part of a window is damaged and counts as empty", "error", l.Damage)
		}
		w.parts[i] = w.ring.Usable(l)
	}
}

func (w *window) contains(h favfilter.Hash) bool {
	for _, part := range w.parts {
		if part != nil && part.Contains(h) {
			return true
		}
	}
	return false
}

// Part is a part of a window that reports an id.
type Part struct {
	Page      string    // its name among the pages
	From      time.Time // it holds what was recorded from then on
	Before    time.Time // and before then
	Forgotten time.Time // when it goes
}

// Parts are the parts of the i-th kind's window that report id, the newest first.
func (v *View) Parts(i int, id string) (parts []Part) {
	l := &v.kinds[i]
	if l.window == nil {
		return nil
	}
	w := l.window
	h := l.direct.With(favfilter.HashKey(v.seed, id))
	for n, page := range w.ring.Pages(w.id, w.now) {
		if w.parts[n] != nil && w.parts[n].Contains(h) {
			from, before := w.ring.Span(n, w.now)
			parts = append(parts, Part{Page: page.String(), From: from, Before: before, Forgotten: before.Add(l.kind.Window)})
		}
	}
	return parts
}

// Record records that the user has the i-th kind, which has a window, with targets: in one
// write to the store, since the View has read the window already. When it returns nil, every View made
// afterwards has them. After an [*UnavailableError], or if ctx ends, it may or may
// not have taken effect.
func (v *View) Record(ctx context.Context, i int, targets []string) error {
	l := &v.kinds[i]
	if l.window == nil {
		return fmt.Errorf("record %s: %w", l.kind.Name, unavailable("pages", errors.New("the window could not be read")))
	}
	keys := make([]favfilter.Hash, len(targets))
	for n, target := range targets {
		keys[n] = l.direct.With(favfilter.HashKey(v.seed, target))
	}
	_, err := l.window.ring.Add(ctx, l.window.id, l.window.now, keys, l.window.loaded)
	v.cache.wrote(l.window.id)
	if err != nil {
		return fmt.Errorf("record %s: %w", l.kind.Name, unavailable("pages", err))
	}
	return nil
}
