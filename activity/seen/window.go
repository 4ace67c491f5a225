package seen

import (
	"context"
	"errors"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Window is the content of one user's window of one kind when it was read. [Windows.Window] returns
// it, the caller reads its Pages, and Fill takes what was read. A Window is not safe for concurrent
// use.
type Window struct {
	windows *Windows
	ring    ring
	kind    string
	id      favfilter.PageID
	now     time.Time
	loaded  []favfilter.Loaded // of ring.Pages
	pages   []*favfilter.Page  // the usable pages of loaded; nil where one is not usable

	held    bool
	written uint64    // writes to its group before the read
	begun   time.Time // when the read began
}

// Window returns the user's window of a kind at the time now. If the window is in the cache, it is
// complete already; see [Window.Held].
func (ws *Windows) Window(kind string, user uint64, now time.Time) *Window {
	w := &Window{windows: ws, ring: ws.rings[kind], kind: kind, id: ws.id(kind, user), now: now}
	if ws.cache == nil {
		return w
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.written, w.begun = ws.written[group(w.id)], time.Now()
	value, ok := ws.cache.Get(w.id)
	if !ok {
		return w
	}
	held, _ := value.(*Window)
	from, _ := w.ring.Span(0, now)
	if was, _ := held.ring.Span(0, held.now); !was.Equal(from) || ws.overlook > 0 && w.begun.Sub(held.begun) > ws.overlook {
		ws.cache.Drop(w.id)
		return w
	}
	w.loaded, w.pages, w.held = held.loaded, held.pages, true
	return w
}

// Held reports whether the window came from the cache, so that nothing has to be read.
func (w *Window) Held() bool { return w.held }

// Pages returns the ids of the pages to read for Fill, the newest part first.
func (w *Window) Pages() []favfilter.PageID {
	return w.ring.Pages(w.id, w.now)
}

// Fill takes the window's pages from the beginning of loaded, and returns the rest. A damaged part
// counts as empty, and is logged. A part of another format version also counts as empty.
func (w *Window) Fill(ctx context.Context, loaded []favfilter.Loaded) (rest []favfilter.Loaded) {
	loaded, rest = loaded[:w.ring.parts], loaded[w.ring.parts:]
	w.loaded = loaded
	w.pages = make([]*favfilter.Page, len(loaded))
	for i, l := range loaded {
		// No log line for another format version: after an upgrade each feed meets some.
		if l.Damage != nil && !errors.Is(l.Damage, favfilter.ErrFormat) {
			w.windows.log.WarnContext(ctx, "a part of a window is damaged and counts as empty", "error", l.Damage)
		}
		w.pages[i] = w.ring.Usable(l)
	}
	w.hold()
	return rest
}

// hold puts the window into the cache, unless it was written to since its read began.
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
	held := *w
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.written[group(w.id)] == w.written {
		ws.cache.Put(w.id, &held, bytes)
	}
}

// Contains reports whether the window has the key. At the false-positive rate, it also reports a
// key that the window does not have.
func (w *Window) Contains(key favfilter.Hash) bool {
	for _, page := range w.pages {
		if page != nil && page.Contains(key) {
			return true
		}
	}
	return false
}

// ContainsAll sets found[i] if Contains reports the key of start and ids[i], and does not change the
// others.
func (w *Window) ContainsAll(start favfilter.Start, ids []favfilter.Hash, found []bool) {
	for _, page := range w.pages {
		if page != nil {
			page.ContainsAll(start, ids, found)
		}
	}
}

// Part is a part of a window.
type Part struct {
	ID        favfilter.PageID
	Page      *favfilter.Page // nil: there is none that may be used
	Damage    error           // of the page; nil: none
	From      time.Time       // its keys were recorded at that time or later
	Before    time.Time       // its keys were recorded before that
	Forgotten time.Time       // when it is removed
}

// Parts returns all parts of the window, the newest first.
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

// Add records keys in one write, based on what was just read of the window. Errors are those of the
// store or of ctx; the keys may or may not be recorded then.
func (w *Window) Add(ctx context.Context, keys []favfilter.Hash) error {
	_, err := w.windows.add(ctx, w.kind, w.id, w.now, keys, w.loaded)
	return err
}
