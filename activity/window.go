package activity

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Activities of a kind with a window live in a page of their own beside the user's,
// without a ledger and without removals. That page lasts for the kind's window
// from its first activity on, or until it is full, and then starts anew: what it
// held is forgotten, so that the false-positive rate and the memory stay bounded.
const (
	// windowCapacity is how many activities a page's window has room for: at the
	// default rate a string of 8,186 bytes, the end of an allocator class.
	windowCapacity = 3500
	// windowBatch is the most activities written to a window in one step. It must
	// fit an empty one.
	windowBatch = 1000
	// windowRounds bounds the tries of one step whose page others change each time.
	windowRounds = 8
)

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

// addWindowWrite notes in ws that activity number i of a call, of kind k, is to be written.
func (r *Recorder) addWindowWrite(ws *windowWrites, k Kind, a Activity, i int) {
	id := favfilter.PageID{Number: r.pageOf(userHash(r.identity.Seed, a.User)), Part: k.Name}
	if ws.pages == nil {
		ws.pages = make(map[favfilter.PageID]*windowWrite)
	}
	w := ws.pages[id]
	if w == nil {
		w = &windowWrite{id: id, kind: k}
		ws.pages[id] = w
		ws.order = append(ws.order, w)
	}
	key := appendEscaped(appendKeyStart(nil, k.Name, a.User, k.Target), a.Target)
	w.keys = append(w.keys, favfilter.HashKeyBytes(r.identity.Seed, key))
	w.result = append(w.result, i)
}

// recordWindows writes ws, a step of every page at a time, and sets changed for what
// was new.
func (r *Recorder) recordWindows(ctx context.Context, ws windowWrites, changed []bool) error {
	pending := ws.order
	for len(pending) > 0 {
		batches := make([]favfilter.Batch, len(pending))
		for i, w := range pending {
			batches[i] = r.windowBatch(w)
		}
		var rest []*windowWrite
		for i, res := range r.store.Apply(ctx, batches) {
			w := pending[i]
			fresh, err := r.settleWindow(ctx, w, batches[i], res)
			if err != nil {
				return fmt.Errorf("record %s: %w", w.kind.Name, unavailable("pages", err))
			}
			for n, isNew := range fresh {
				changed[w.result[n]] = isNew
			}
			w.keys, w.result = w.keys[len(fresh):], w.result[len(fresh):]
			if len(w.keys) > 0 {
				rest = append(rest, w)
			}
		}
		pending = rest
	}
	return nil
}

func (r *Recorder) windowBatch(w *windowWrite) favfilter.Batch {
	return favfilter.Batch{
		ID:       w.id,
		Identity: r.windowIdentity(),
		Limit:    r.windowShape.Limit(r.keyRate) - uint32(r.windowShape.Hashes), // the last key may set as many
		Add:      w.keys[:min(len(w.keys), windowBatch)],
	}
}

// windowIdentity is that of pages which outlive a restored ledger.
func (r *Recorder) windowIdentity() favfilter.Identity {
	id := r.identity
	id.Incarnation = 0
	return id
}

// settleWindow sees to it that all of b is in the window after the store answered
// res, and returns for each key whether it was new.
func (r *Recorder) settleWindow(ctx context.Context, w *windowWrite, b favfilter.Batch, res favfilter.Result) ([]bool, error) {
	fresh := make([]bool, len(b.Add))
	for range windowRounds {
		if res.Err != nil {
			return nil, res.Err
		}
		full := false
		for i := range fresh {
			outcome := favfilter.Added // what a window that starts anew makes of it
			if res.State == favfilter.Applied {
				outcome = res.Outcomes[i]
			}
			fresh[i] = fresh[i] || outcome != favfilter.Present
			full = full || outcome == favfilter.Full
		}
		if res.State == favfilter.Applied && !full && res.Header.Shape == r.windowShape {
			return fresh, nil
		}
		// All of b, also what still fitted: the old window goes. One of another shape was
		// for another rate.
		done, err := r.startWindow(ctx, w, b.Add, res.Version)
		if err != nil {
			return nil, err
		}
		if done {
			return fresh, nil
		}
		res = r.store.Apply(ctx, []favfilter.Batch{b})[0]
	}
	return nil, errors.New("other writers changed the page each time")
}

// startWindow puts a window of keys in place of what was seen there.
func (r *Recorder) startWindow(ctx context.Context, w *windowWrite, keys []favfilter.Hash, seen favfilter.Version) (bool, error) {
	page, err := favfilter.NewPage(favfilter.Header{
		Identity: r.windowIdentity(),
		Shape:    r.windowShape,
		Number:   w.id.Number,
		Sequence: 1,
		Build:    randomBuild(),
	})
	if err != nil {
		return false, err
	}
	for _, h := range keys {
		page.Add(h)
	}
	return r.store.Replace(ctx, favfilter.Replacement{ID: w.id, Page: page, Seen: seen, Expire: w.kind.Window})
}

// window returns the page of a window as loaded, nil if nothing of it can be used.
func (r *Recorder) window(ctx context.Context, l favfilter.Loaded) *favfilter.Page {
	if l.Damage != nil {
		r.log.WarnContext(ctx, "window is damaged and counts as empty", "error", l.Damage)
	}
	if l.Page == nil || l.Page.Header().Identity != r.windowIdentity() || l.Page.Header().Shape != r.windowShape {
		return nil
	}
	return l.Page
}
