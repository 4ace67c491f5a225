package seen

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Window is the content of one user's window of one kind when it was read. [Windows.Window] returns
// it, the caller loads its ID, and Fill takes what was loaded. A Window is not safe for concurrent
// use.
type Window struct {
	*favfilter.Recent // nil: it has no keys

	windows *Windows
	kind    *kind
	id      favfilter.PageID
	now     time.Time
	loaded  favfilter.Loaded

	held    bool
	written uint64    // writes to its group before the read
	begun   time.Time // when the read began
}

// Window returns the user's window of a kind at the time now. If the window is in the cache, it is
// complete already; see [Window.Held].
func (ws *Windows) Window(kind string, user uint64, now time.Time) *Window {
	k := ws.kinds[kind]
	w := &Window{windows: ws, kind: k, id: k.ID(user), now: now}
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
	if held.ends(now) || ws.overlook > 0 && w.begun.Sub(held.begun) > ws.overlook {
		ws.cache.Drop(w.id)
		return w
	}
	w.loaded, w.Recent, w.held = held.loaded, held.Recent, true
	return w
}

// ends reports whether some keys are forgotten by now.
func (w *Window) ends(now time.Time) bool {
	runs := w.Runs()
	return len(runs) > 0 && !now.Before(runs[0].Forgotten)
}

// Held reports whether the window came from the cache, so that nothing has to be read.
func (w *Window) Held() bool { return w.held }

// ID returns the id to load for Fill.
func (w *Window) ID() favfilter.PageID { return w.id }

// Stored returns the number of bytes that the store keeps.
func (w *Window) Stored() int {
	raw, _ := w.loaded.Encode()
	return len(raw)
}

// Damage returns why the window that was read cannot be used; nil: it can, or there is none.
func (w *Window) Damage() error { return w.loaded.Damage }

// Fill takes what was loaded. A damaged window counts as empty, and is logged and counted. A window
// of another format version also counts as empty.
func (w *Window) Fill(ctx context.Context, loaded favfilter.Loaded) {
	w.windows.noteDamage(ctx, w.kind, loaded.Damage)
	w.loaded = loaded
	w.Recent = w.kind.Recent(loaded, w.now)
	w.hold()
}

// hold puts the window into the cache, unless it was written to since its read began.
func (w *Window) hold() {
	ws := w.windows
	if ws.cache == nil {
		return
	}
	const overhead = 512
	held := *w
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.written[group(w.id)] == w.written {
		raw, _ := w.loaded.Encode()
		ws.cache.Put(w.id, &held, overhead+len(raw)+w.Bytes())
	}
}

// Add records keys in one write, based on what was just read of the window. Errors are those of the
// store or of ctx; the keys may or may not be recorded then.
func (w *Window) Add(ctx context.Context, keys []favfilter.Hash) error {
	_, err := w.windows.write(ctx, w.kind, w.id, favfilter.Writing{
		Keys: keys, Now: w.now, Loaded: &w.loaded, Recent: w.Recent,
	})
	return err
}
