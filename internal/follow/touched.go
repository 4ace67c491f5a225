package follow

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
)

// maxTouched bounds the activities that an audit remembers, some 50 bytes each.
const maxTouched = 1_000_000

// touched are the activities that the stream has changed since an audit began, known by their
// hashes. The audit leaves them out: they are as the stream says.
//
// It keeps them for a range of parts ([spillParts]). The range begins after the parts that were
// compared, and ends before those for which there was no room. What is outside counts as touched.
// Nil is that of a full read, beside which there is no stream.
type touched struct {
	parts

	seed maphash.Seed
	most int         // how many it keeps
	on   atomic.Bool // an audit runs

	mu       sync.Mutex
	from, to int                                  // the range
	kept     [spillParts]map[uint64]pglogrepl.LSN // where the last change commits, by hash
	n        int
}

func newTouched(in parts) *touched {
	return &touched{parts: in, seed: maphash.MakeSeed(), most: maxTouched}
}

// begin begins to remember changes of a part and those after it.
func (t *touched) begin(from int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.from, t.to, t.n = from, spillParts, 0
	t.on.Store(true)
}

// end forgets all.
func (t *touched) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on.Store(false)
	t.from, t.to, t.n = 0, 0, 0
	clear(t.kept[:])
}

// add adds an activity that a transaction has changed. Without room for it, it forgets the last
// parts.
func (t *touched) add(of item, commit pglogrepl.LSN) {
	if t == nil || !t.on.Load() {
		return
	}
	key := maphash.Comparable(t.seed, of)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(t.of(side{of, false}), key, commit)
	if t.mirrored(of.kind) {
		t.keep(t.of(side{of, true}), key, commit)
	}
}

func (t *touched) keep(part int, key uint64, commit pglogrepl.LSN) {
	if part < t.from || part >= t.to {
		return
	}
	if t.kept[part] == nil {
		t.kept[part] = make(map[uint64]pglogrepl.LSN)
	}
	if _, found := t.kept[part][key]; !found {
		t.n++
	}
	for t.kept[part][key] = commit; t.n > t.most && t.to > t.from; {
		t.to--
		t.forget(t.to)
	}
}

// has reports whether the activity of the side was added, or may have been.
func (t *touched) has(of side) bool {
	if t == nil {
		return false
	}
	part, key := t.of(of), maphash.Comparable(t.seed, of.item)
	t.mu.Lock()
	defer t.mu.Unlock()
	_, found := t.kept[part][key]
	return found || part < t.from || part >= t.to
}

// since forgets what was committed before a snapshot, which has it.
func (t *touched) since(snapshot pglogrepl.LSN) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, part := range &t.kept {
		for key, commit := range part {
			if commit < snapshot {
				delete(part, key)
				t.n--
			}
		}
	}
}

// compared forgets a part that was compared and mended, and those before it. It reports false if
// there was no room for the part: then it was not compared.
func (t *touched) compared(part int) bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if part >= t.to {
		return false
	}
	for ; t.from <= part; t.from++ {
		t.forget(t.from)
	}
	return true
}

// limit is the part that ends the range.
func (t *touched) limit() int {
	if t == nil {
		return spillParts
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.to
}

func (t *touched) forget(part int) {
	t.n -= len(t.kept[part])
	t.kept[part] = nil
}

// await waits until the stream has been recorded up to a position. Nil does not wait.
func (t *touched) await(ctx context.Context, f *Follower, at pglogrepl.LSN) error {
	for t != nil && pglogrepl.LSN(f.progress.recorded.Load()) < at {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
