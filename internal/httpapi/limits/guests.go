package limits

import (
	"container/list"
	"net/http"
	"sync"
	"time"
)

// maxGuests is the maximum number of requests in progress that no budget counts: probes,
// documents, calls without a token, and errors that are being answered.
const maxGuests = 1024

// Guests are requests that may stay for as long as their clients like, oldest first. If there are
// too many, the oldest gives way: nobody can keep others out, and a client that reads and writes
// is done long before. A request that a budget admits is never among them, so no storm of others
// ends it.
type Guests struct {
	limit int

	mu  sync.Mutex
	all list.List // of the requests' http.ResponseWriter
}

// NewGuests returns room for as many guests as the limit.
func NewGuests(limit int) *Guests { return &Guests{limit: limit} }

// Enter adds a request. The caller calls Leave before the handler returns.
func (g *Guests) Enter(w http.ResponseWriter) *list.Element {
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

// Leave removes a request, if it is still there. A nil e was never there.
func (g *Guests) Leave(e *list.Element) {
	if e == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all.Remove(e)
}
