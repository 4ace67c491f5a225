package redisstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxStuck is the maximum number of pages that are noted because their slots put commands off.
const maxStuck = 1 << 16

// stuck notes the pages whose slots put commands off for longer than a call waits. Causes are a
// move of the slot that stopped half-way, nodes that redirect clients to each other, and a slot
// that no node serves. The node serves its other slots, so this does not count for its breaker.
//
// Pages are noted separately for each kind of command. A slot that is moving to another node serves
// a command whose keys are all on one side.
type stuck struct {
	noted atomic.Int64 // length of pages; if it is 0, calls need not lock mu
	mu    sync.Mutex
	pages map[stuckPage]*stuckSince
}

type stuckPage struct {
	kind   string
	number uint32
}

type stuckSince struct {
	until time.Time // no commands are sent before this time
	err   error     // reply to the last command
}

// ask reports whether commands of that kind work for the page, as far as is known. If they do not,
// it returns an error, except to one caller a pause, who retries.
func (s *stuck) ask(kind string, page uint32) (works bool, err error) {
	if s.noted.Load() == 0 {
		return true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.pages[stuckPage{kind, page}]
	if since == nil {
		return true, nil
	}
	if now := time.Now(); now.Before(since.until) {
		return false, fmt.Errorf("page %d: %w: %v", page, ErrUnavailable, since.err) //nolint:errorlint // it is not this command's
	}
	since.until = time.Now().Add(guardPause)
	return false, nil
}

// note records the outcome of a command.
func (s *stuck) note(kind string, page uint32, err error) {
	is := isBetween(err) || err != nil && redis.HasErrorPrefix(err, unserved)
	if !is && (s.noted.Load() == 0 || err != nil && !isReply(err)) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := stuckPage{kind, page}
	switch {
	case !is:
		delete(s.pages, key)
	case len(s.pages) < maxStuck || s.pages[key] != nil:
		if s.pages == nil {
			s.pages = make(map[stuckPage]*stuckSince)
		}
		s.pages[key] = &stuckSince{time.Now().Add(guardPause), err}
	}
	s.noted.Store(int64(len(s.pages)))
}
