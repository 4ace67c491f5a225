package httpapi

import (
	"container/list"
	"net/http"
	"sync"
	"time"
)

const (
	// maxGuests is the maximum number of requests in progress that no budget counts: probes,
	// documents, calls without a token, and errors that are being answered.
	maxGuests = 1024
	// maxScraped is the maximum number of scrapes that wait for their clients to read.
	maxScraped = 16
)

// guests are requests that may stay for as long as their clients like, oldest first. If there are
// too many, the oldest gives way: nobody can keep others out, and a client that reads and writes
// is done long before. A request that a budget admits is never among them, so no storm of others
// ends it.
type guests struct {
	mu    sync.Mutex
	limit int
	all   list.List // of the requests' http.ResponseWriter
}

// enter adds a request. The caller calls leave before the handler returns.
func (g *guests) enter(w http.ResponseWriter) *list.Element {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all.Len() >= g.limit {
		oldest, _ := g.all.Remove(g.all.Front()).(http.ResponseWriter)
		// The lock keeps the handler from returning: setting a deadline later panics over HTTP/2.
		control := http.NewResponseController(oldest)
		// An error means that there is no connection, as in a test.
		_ = control.SetReadDeadline(time.Unix(1, 0))
		_ = control.SetWriteDeadline(time.Unix(1, 0))
	}
	return g.all.PushBack(w)
}

// leave removes a request, if it is still there. A nil e was never there.
func (g *guests) leave(e *list.Element) {
	if e == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all.Remove(e)
}
