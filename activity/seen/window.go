package seen

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// rateTolerance is the factor by which stored keys may exceed the rate: see [Windows.Decode].
const rateTolerance = 3

// Window holds the keys of one owner that had not been forgotten at some moment. It never changes,
// and is safe for concurrent use.
type Window struct {
	windows *Windows
	id      favfilter.PageID
	now     time.Time
	version favfilter.Version
	bytes   int
	changes uint32
	damage  error

	runs []run // the oldest first
	// bitmap has a bit for the first bits of each fingerprint. A lookup of most absent keys ends
	// there.
	bitmap []uint64
	shift  uint8 // shifts a hash to the number of its bit
}

// bitmapBits is the number of bits of the bitmap for each fingerprint. With 32, only 3 % of absent
// keys are looked up in the runs.
const bitmapBits = 32

// Decode returns the window that a store has under id, without the keys that were forgotten by now.
// l is what [favfilter.Store.Load] returned for id.
//
// The window is empty if its keys must not be used: they have another seed, are damaged, or report
// more than [Config.MostTolerated]. Keys that exceed the rate by less stay in use, because the rate
// may have been lowered, and forgetting them would be worse. Damage is logged and
// counted. A string of another format version is damaged, too, but is neither logged nor counted:
// after an upgrade, each feed meets some.
func (ws *Windows) Decode(
	ctx context.Context, id favfilter.PageID, l favfilter.Loaded, now time.Time,
) *Window {
	w := &Window{windows: ws, id: id, now: now, version: l.Version, bytes: len(l.Value)}
	if l.Value != nil {
		s, err := decode(l.Value)
		if err != nil {
			w.damage = fmt.Errorf("window %v: %w", id, err)
		}
		w.changes = s.changes
		w.use(s)
	}
	if w.damage != nil && !errors.Is(w.damage, favfilter.ErrFormat) {
		ws.damaged.Add(1)
		ws.c.Log.WarnContext(
			ctx, "a window is damaged and counts as empty", "kind", ws.c.Name, "error", w.damage,
		)
	}
	return w
}

// use takes the runs of s that may be used.
func (w *Window) use(s stored) {
	live := s.runs
	for len(live) > 0 && live[0].before+w.windows.length <= w.now.UnixMilli() {
		live = live[1:]
	}
	if len(live) == 0 || s.seed != w.windows.c.Seed ||
		rateOf(live) > w.windows.c.MostTolerated {
		return
	}
	w.runs = live
	total, width := 0, uint8(maxFingerprint)
	for _, run := range live {
		total += run.count
		width = min(width, run.width)
	}
	most := bits.Len(uint(bitmapBits*total - 1)) // bits of the number of a bit
	first := min(width, uint8(max(6, most)))
	words := max(1, 1<<first>>6)
	buffer := make([]uint64, words+total)
	w.bitmap, w.shift = buffer[:words], 64-first
	sorted := buffer[words:words]
	for i := range live {
		r, from := &live[i], len(sorted)
		sorted = r.decode(sorted)
		r.sorted = sorted[from:len(sorted):len(sorted)]
		for _, number := range r.sorted {
			bit := number >> (r.width - first)
			w.bitmap[bit>>6] |= 1 << (bit & 63)
		}
	}
}

// ID returns the id under which the store keeps the window.
func (w *Window) ID() favfilter.PageID { return w.id }

// Bytes returns the number of bytes that the store keeps.
func (w *Window) Bytes() int { return w.bytes }

// Damage returns why the stored string is unreadable; nil: it is readable, or there is none.
func (w *Window) Damage() error { return w.damage }

// Keys returns the number of keys.
func (w *Window) Keys() (keys int) {
	for i := range w.runs {
		keys += len(w.runs[i].sorted)
	}
	return keys
}

// Add adds keys in one write, based on what was read of the window; the Window itself stays as it
// is. Errors are those of the store or of ctx; the keys may or may not be added then.
func (w *Window) Add(ctx context.Context, keys []favfilter.Hash) error {
	entries := make([]entry, len(keys))
	for i, key := range keys {
		entries[i].key = key
	}
	_, err := w.windows.write(ctx, w.id, entries, w.now, w)
	return err
}

// Contains reports whether the owner has the key. At the false-positive rate, it also reports a key
// that the owner does not have.
func (w *Window) Contains(key favfilter.Hash) bool {
	return w.mayContain(key) && w.search(key, 0) < len(w.runs)
}

// ContainsAll sets found[i] if Contains reports the key of start and ids[i], and otherwise leaves
// it unchanged. found must have the length of ids.
func (w *Window) ContainsAll(start favfilter.Start, ids []favfilter.Hash, found []bool) {
	if len(w.runs) == 0 {
		return
	}
	for i, id := range ids { // mayContain is inlined here, Contains would not be
		if key := start.With(id); w.mayContain(key) && w.search(key, 0) < len(w.runs) {
			found[i] = true
		}
	}
}

// mayContain looks the key up in the bitmap.
func (w *Window) mayContain(key favfilter.Hash) bool {
	if len(w.bitmap) == 0 {
		return false
	}
	bit := key.H1 >> w.shift
	return w.bitmap[bit>>6]>>(bit&63)&1 != 0
}

// search returns the index of the first run, from run on, that has the key; the number of runs if
// none has it.
func (w *Window) search(key favfilter.Hash, run int) int {
	for ; run < len(w.runs); run++ {
		if r := &w.runs[run]; has(r.sorted, fingerprint(key, r.width), r.width) {
			break
		}
	}
	return run
}

// has reports whether a fingerprint of so many bits is among sorted ones. They are spread evenly,
// because they come from hashes, so the search begins where it is expected.
func has(sorted []uint64, mark uint64, width uint8) bool {
	expected, _ := bits.Mul64(mark<<(64-width), uint64(len(sorted)))
	i := int(expected)
	for i > 0 && sorted[i-1] >= mark {
		i--
	}
	for i < len(sorted) && sorted[i] < mark {
		i++
	}
	return i < len(sorted) && sorted[i] == mark
}

// Run describes a run of fingerprints. A part of a window usually has one.
type Run struct {
	Keys              int
	FalsePositiveRate float64   // of one absent key
	From, Before      time.Time // its keys were recorded in the part from From until Before
	Forgotten         time.Time // when they are forgotten
}

// Runs returns the runs, the oldest first.
func (w *Window) Runs() (runs []Run) {
	for i := range w.runs {
		runs = append(runs, w.describe(i))
	}
	return runs
}

// RunsOf returns the runs that have the key, the oldest first.
func (w *Window) RunsOf(key favfilter.Hash) (runs []Run) {
	for run := w.search(key, 0); run < len(w.runs); run = w.search(key, run+1) {
		runs = append(runs, w.describe(run))
	}
	return runs
}

func (w *Window) describe(i int) Run {
	before := w.runs[i].before
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	return Run{
		Keys: w.runs[i].count, FalsePositiveRate: w.runs[i].rate(),
		From: at(before - w.windows.part), Before: at(before), Forgotten: at(before + w.windows.length),
	}
}
