package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// clientTimeout is how long the load waits for an answer.
	clientTimeout = time.Minute
	// outageSlack is the time after an outage in which a client may still find a broken connection.
	outageSlack = 200 * time.Millisecond
)

// target is one instance as its clients see it.
type target struct {
	index  int
	url    string
	client *http.Client
	busy   [3]atomic.Int32 // requests in progress: writes, feeds and checks

	log           *tailLog
	readsReplicas bool // its feeds may miss writes of other instances for the staleness bound

	idle idleWaits

	mu      sync.Mutex
	life    int           // number of kills so far
	down    chan struct{} // closed when it is up again; nil while it is up
	outages []outage
}

// outage is a time in which connections may break, because the instance was killed or stopped.
type outage struct{ from, until time.Time } // until is zero while it lasts

func newTarget(index int, url string) *target {
	return &target{
		index: index, url: url, log: &tailLog{max: 4000},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: clientTimeout},
	}
}

// beginOutage records that the instance is about to be killed or stopped.
func (g *target) beginOutage(killed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.outages = append(g.outages, outage{from: time.Now()})
	if killed {
		g.life++
		g.down = make(chan struct{})
	}
}

// endOutage records that the instance accepts requests again.
func (g *target) endOutage() {
	g.client.CloseIdleConnections()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.outages) > 0 {
		g.outages[len(g.outages)-1].until = time.Now()
	}
	if g.down != nil {
		close(g.down)
		g.down = nil
	}
}

// mayBreak reports whether an outage may have cut a request of that time.
func (g *target) mayBreak(from, until time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.outages {
		if until.After(o.from) && (o.until.IsZero() || from.Before(o.until.Add(outageSlack))) {
			return true
		}
	}
	return false
}

// idleWaits are the times in which an instance, or the load, did not get the processor: a request
// that asks nobody waited for its answer. It is safe for concurrent use.
type idleWaits struct {
	mu      sync.Mutex
	long    []span
	present time.Time // when the request in progress was sent; zero: there is none
}

const (
	// idleEach is the time between two requests that ask nobody.
	idleEach = 50 * time.Millisecond
	// idleLong is how long such a request takes at least if the machine is busy.
	idleLong = 100 * time.Millisecond
)

// watchIdle sends requests that ask nobody until ctx ends.
func (g *target) watchIdle(ctx context.Context) {
	for wait(ctx, idleEach) == nil {
		g.idle.begin(time.Now())
		r := g.send(ctx, http.MethodGet, "/healthz", nil)
		g.idle.end(span{r.sent, r.done})
	}
}

func (w *idleWaits) begin(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = at
}

func (w *idleWaits) end(s span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = time.Time{}
	if s.until.Sub(s.from) > idleLong {
		w.long = append(w.long, s)
	}
}

// within returns how long a request that asks nobody waited between two times.
func (w *idleWaits) within(from, until time.Time) (all time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waits := w.long
	if !w.present.IsZero() && until.Sub(w.present) > idleLong {
		waits = append(slices.Clip(waits), span{w.present, until})
	}
	for _, s := range waits {
		all += max(0, earlier(s.until, until).Sub(later(s.from, from)))
	}
	return all
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// is returns the instance and its present life.
func (g *target) is() source {
	g.mu.Lock()
	defer g.mu.Unlock()
	return source{g.index, g.life}
}

// up returns nil if the instance runs, or else a channel that closes when it runs again.
func (g *target) up() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.down
}

// unknownLife is the life in a reply if the instance was restarted during the request.
const unknownLife = -1

// reply is the result of a request.
type reply struct {
	by         source
	sent, done time.Time
	status     int
	retryAfter string
	id         string // of the request
	body       []byte
	err        error // not nil if there was no answer
}

// send sends a request and reads the answer. The client's timeout and ctx bound its time.
func (g *target) send(ctx context.Context, method, path string, body any) reply {
	r := reply{by: g.is(), sent: time.Now()}
	r.err = g.exchange(ctx, method, path, body, &r)
	r.done = time.Now()
	if g.is() != r.by {
		r.by.life = unknownLife
	}
	return r
}

func (g *target) exchange(ctx context.Context, method, path string, body any, r *reply) error {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, in)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := g.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	r.status, r.retryAfter, r.id = res.StatusCode, res.Header.Get("Retry-After"), res.Header.Get("X-Request-ID")
	r.body, err = io.ReadAll(res.Body)
	return err
}

// ok decodes the answer of a request that must have status 200.
func (r reply) ok(out any) error {
	switch {
	case r.err != nil:
		return r.err
	case r.status != http.StatusOK:
		return statusError{r.status, string(r.body)}
	}
	if err := json.Unmarshal(r.body, out); err != nil {
		return fmt.Errorf("decode %q: %w", r.body, err)
	}
	return nil
}
