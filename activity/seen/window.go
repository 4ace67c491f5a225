package seen

import (
	"context"
	"errors"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Window is what one user's window of one kind held when it was read. It is asked for with
// [Windows.Window], its Pages are read, and Fill takes what was read. It is not safe for concurrent use.
type Window struct {
	windows *Windows
	ring    ring
	kind    string
	user    uint64
	now     time.Time
	loaded  []favfilter.Loaded // of ring.Pages
	pages   []*favfilter.Page  // what of that is usable, nil where nothing is

	held    bool
	written uint64    // to windows of its group, before it was read
	begun   time.Time // when it began to be read
}

// Window returns the user's window of a kind as of now. What the cache holds is filled in already.
func (ws *Windows) Window(kind string, user uint64, now time.Time) *Window {
	w := &Window{windows: ws, ring: ws.rings[kind], kind: kind, user: user, now: now}
	if ws.cache == nil {
		return w
	}
	id := ws.id(kind, user)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.written, w.begun = ws.written[group(id)], time.Now()
	value, ok := ws.cache.Get(id)
	if !ok {
		return w
	}
	held, _ := value.(*Window)
	from, _ := w.ring.Span(0, now)
	if was, _ := held.ring.Span(0, held.now); !was.Equal(from) || ws.overlook > 0 && w.begun.Sub(held.begun) > ws.overlook {
		ws.cache.Drop(id)
		return w
	}
	w.loaded, w.pages, w.held = held.loaded, held.pages, true
	return w
}

// Held reports whether the window was in the cache and has nothing to be read.
func (w *Window) Held() bool { return w.held }

// Pages are the pages to be read for Fill, the newest part first.
func (w *Window) Pages() []favfilter.PageID {
	return w.ring.Pages(w.windows.id(w.kind, w.user), w.now)
}

// Fill takes what was read of Pages, which loaded begins with, and returns the rest of it. A part that is
// damaged counts as empty, and is logged.
func (w *Window) Fill(ctx context.Context, loaded []favfilter.Loaded) (rest []favfilter.Loaded) {
	loaded, rest = loaded[:w.ring.parts], loaded[w.ring.parts:]
	w.loaded = loaded
	w.pages = make([]*favfilter.Page, len(loaded))
	for i, l := range loaded {
		// One of another format version counts as empty, too: after an upgrade each feed meets some.
		if l.Damage != nil && !errors.Is(l.Damage, favfilter.ErrFormat) {
			w.windows.log.WarnContext(ctx, "a part of a window is damaged and counts as empty", "error", l.Damage)
		}
		w.pages[i] = w.ring.Usable(l)
	}
	w.hold()
	return rest
}

// hold puts the window into the cache, unless it was written to while it was read.
func (w *Window) hold() {
	ws := w.windows
	if ws.cache == nil {
		return
	}
	const overhead, perPage = 512, 256
	bytes := overhead
	for _, page := range w.pages {
		if page != nil {
			bytes += int(page.Size().Bytes) + perPage
		}
	}
	id := ws.id(w.kind, w.user)
	held := *w
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.written[group(id)] == w.written {
		ws.cache.Put(id, &held, bytes)
	}
}

// Contains reports whether the window has the key; or, at the false-positive rate, has not.
func (w *Window) Contains(key favfilter.Hash) bool {
	for _, page := range w.pages {
		if page != nil && page.Contains(key) {
			return true
		}
	}
	return false
}

// ContainsAll sets found for each key that Contains reports, and leaves the others as they are.
func (w *Window) ContainsAll(keys []favfilter.Hash, found []bool) {
	for _, page := range w.pages {
		if page != nil {
			page.ContainsAll(keys, found)
		}
	}
}

// Part is a part of a window.
type Part struct {
	ID        favfilter.PageID
	Page      *favfilter.Page // nil: there is none that is usable
	Damage    error           // why not; nil: there is none
	From      time.Time       // it holds what was recorded from then on
	Before    time.Time       // and before then
	Forgotten time.Time       // when it goes
}

// Parts are all parts of the window, the newest first.
func (w *Window) Parts() []Part {
	parts := make([]Part, len(w.pages))
	for i, id := range w.Pages() {
		from, before := w.ring.Span(i, w.now)
		parts[i] = Part{
			ID: id, Page: w.pages[i], Damage: w.loaded[i].Damage,
			From: from, Before: before, Forgotten: before.Add(w.ring.length),
		}
	}
	return parts
}

// Add records keys in one write, as the window was read a moment ago. An error is that of the store or of
// ctx: the keys may be recorded or not.
func (w *Window) Add(ctx context.Context, keys []favfilter.Hash) error {
	_, err := w.windows.add(ctx, w.kind, w.user, w.now, keys, w.loaded)
	return err
}
