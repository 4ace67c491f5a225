package redisstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxStuck bounds what is noted of pages whose slots put commands off.
const maxStuck = 1 << 16

// stuck notes the pages whose slots put commands off for longer than a call waits: a move of the
// slot that stopped half-way, nodes that send clients to one another, a slot that no node serves.
// The node serves its other slots, so its breaker has no part in this.
//
// Commands are told apart by what they do: a slot half-way to another node serves those whose keys
// are all on one side.
type stuck struct {
	noted atomic.Int64 // the length of pages: most calls look no further
	mu    sync.Mutex
	pages map[stuckPage]*stuckSince
}

type stuckPage struct {
	kind   string
	number uint32
}

type stuckSince struct {
	until time.Time // commands are not sent before
	err   error     // what the last one was answered
}

// ask reports whether commands of that kind have worked for the page, as far as is known. If not,
// it returns an error unless it is time to try again; one caller tries.
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

// note notes the outcome of a command.
func (s *stuck) note(kind string, page uint32, err error) {
	is := isBetween(err) || redis.HasErrorPrefix(err, unserved)
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
