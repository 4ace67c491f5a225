package redisstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// maxBackoff is the maximum number of pages that are noted because their slots put commands off.
const maxBackoff = 1 << 16

// backoff notes the pages whose slots put commands off for longer than a call waits. Causes are a
// move of the slot that stopped half-way, nodes that redirect clients to each other, and a slot
// that no node serves. The node serves its other slots, so this does not count for its breaker.
//
// Pages are noted separately for each kind of command. A slot that is moving to another node serves
// a command whose keys are all on one side.
type backoff struct {
	noted atomic.Int64 // length of pages; if it is 0, calls need not lock mu
	mu    sync.Mutex
	pages map[slotPage]*putOff
}

type slotPage struct {
	kind   string
	number uint32
}

type putOff struct {
	until time.Time // no commands are sent before this time
	err   error     // reply to the last command
}

// ask reports whether commands of that kind work for the page, as far as is known. If they do not,
// it returns an error, except to one caller a pause, who retries.
func (b *backoff) ask(kind string, page uint32) (works bool, err error) {
	if b.noted.Load() == 0 {
		return true, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	off := b.pages[slotPage{kind, page}]
	if off == nil {
		return true, nil
	}
	if now := time.Now(); now.Before(off.until) {
		//nolint:errorlint // it is not this command's
		return false, fmt.Errorf("page %d: %w: %v", page, ErrUnavailable, off.err)
	}
	off.until = time.Now().Add(guardPause)
	return false, nil
}

// note records the outcome of a command.
func (b *backoff) note(kind string, page uint32, err error) {
	is := isBetween(err) || isUnserved(err)
	if !is && (b.noted.Load() == 0 || err != nil && !isReply(err)) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := slotPage{kind, page}
	switch {
	case !is:
		delete(b.pages, key)
	case len(b.pages) < maxBackoff || b.pages[key] != nil:
		if b.pages == nil {
			b.pages = make(map[slotPage]*putOff)
		}
		b.pages[key] = &putOff{time.Now().Add(guardPause), err}
	}
	b.noted.Store(int64(len(b.pages)))
}
