// Package logqueue keeps a log whose reader stands still, such as a full pipe, from stopping the
// program that writes it.
package logqueue

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a [Queue] is made of.
type Config struct {
	_ struct{} // fields are named

	Out io.Writer // gets each line in one call, one call at a time, and may block

	// Lines and Bytes are how much may wait. A line that comes while as much waits is dropped.
	Lines, Bytes int

	// Patience is how long a caller waits at most for its line to be written. Once a caller has
	// waited so long, the queue is behind, and nobody waits until it is empty again.
	Patience time.Duration

	// Retry is how long the queue pauses before it tries again to write a line, after an error of
	// Out; it is behind meanwhile. 0: a line that cannot be written is dropped.
	Retry time.Duration

	// Gap returns a line that says that n lines before it were dropped. Nil: no line says it.
	Gap func(n uint64) []byte

	// OnBehind is called each time that the queue falls behind, by a caller that waited.
	OnBehind func()
}

// Queue writes lines in order, from a goroutine of its own. While Out takes lines, a line is
// written when the call that brought it returns, so it outlives the process. While Out blocks,
// no caller waits longer than the patience: lines wait in memory, and are dropped when there are
// too many. From then on until the queue is empty all lines are dropped, so that the log has one
// gap, and one line about it. It is safe for concurrent use.
type Queue struct {
	c       Config
	retry   chan struct{} // has an element if the pause after an error is to end
	dropped atomic.Uint64

	mu     sync.Mutex
	lines  []line        // the first is being written
	bytes  int           // of lines
	gap    uint64        // lines dropped since the queue was full
	behind bool          // a caller's wait timed out, or Out has failed
	closed bool          // nothing is tried again
	idle   chan struct{} // closed when nothing is left to write; nil: nothing is

	untold uint64 // lines dropped that Gap has not told of; for write alone
}

type line struct {
	text []byte
	done chan struct{} // closed when it was written, or dropped
}

// New returns an empty queue.
func New(c Config) *Queue { return &Queue{c: c, retry: make(chan struct{}, 1)} }

// Write takes a line, or drops it if too much waits. It never fails.
func (q *Queue) Write(text []byte) (int, error) {
	q.put(text, false)
	return len(text), nil
}

// Put takes a line however much waits.
func (q *Queue) Put(text []byte) { q.put(text, true) }

// Behind reports whether Out blocks, or fails and will be tried again.
func (q *Queue) Behind() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.behind
}

// Dropped returns how many lines were dropped.
func (q *Queue) Dropped() uint64 { return q.dropped.Load() }

// TryNow ends the pause after an error.
func (q *Queue) TryNow() {
	select {
	case q.retry <- struct{}{}:
	default:
	}
}

// Close waits until all lines are written, at most for the given time, and drops those that are
// left. It returns how many these are. A call of Out that blocks is left alone.
func (q *Queue) Close(within time.Duration) (left int) {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle != nil {
		timer := time.NewTimer(within)
		defer timer.Stop()
		select {
		case <-idle:
		case <-timer.C:
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.TryNow()
	return len(q.lines)
}

func (q *Queue) put(text []byte, always bool) {
	l := line{text: bytes.Clone(text), done: make(chan struct{})}
	q.mu.Lock()
	if q.closed || !always && !q.room(len(text)) {
		q.gap++
		q.dropped.Add(1)
		q.mu.Unlock()
		return
	}
	q.lines = append(q.lines, l)
	q.bytes += len(text)
	wait := !q.behind
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.write()
	}
	q.mu.Unlock()
	if wait && !q.await(l) && q.c.OnBehind != nil {
		q.c.OnBehind()
	}
}

// room reports whether a line of n bytes may be put. One line always may.
func (q *Queue) room(n int) bool {
	return q.gap == 0 && (len(q.lines) == 0 || len(q.lines) < q.c.Lines && q.bytes+n <= q.c.Bytes)
}

// await waits until the line is written. It returns false if this call finds the queue behind.
func (q *Queue) await(l line) bool {
	timer := time.NewTimer(q.c.Patience)
	defer timer.Stop()
	select {
	case <-l.done:
		return true
	case <-timer.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle == nil || q.behind {
		return true
	}
	q.behind = true
	return false
}

// write writes all that there is.
func (q *Queue) write() {
	for {
		q.mu.Lock()
		if len(q.lines) == 0 && q.gap == 0 {
			close(q.idle)
			q.idle, q.behind = nil, false
			q.mu.Unlock()
			return
		}
		if len(q.lines) == 0 {
			q.untold += q.gap
			q.gap = 0
			q.mu.Unlock()
			q.tell()
			continue
		}
		first := q.lines[0]
		q.mu.Unlock()
		q.writeLine(first.text)
		q.mu.Lock()
		q.lines[0] = line{}
		q.lines = q.lines[1:]
		q.bytes -= len(first.text)
		q.mu.Unlock()
		close(first.done)
	}
}

// writeLine writes a line, or drops it.
func (q *Queue) writeLine(text []byte) {
	for {
		if q.tell() {
			if _, err := q.c.Out.Write(text); err == nil {
				return
			}
		}
		if q.c.Retry == 0 || !q.pause() {
			q.untold++
			q.dropped.Add(1)
			return
		}
	}
}

// tell writes how many lines were dropped, if any were. It reports whether Out works, as far as
// it knows.
func (q *Queue) tell() bool {
	if q.untold == 0 || q.c.Gap == nil {
		return true
	}
	if _, err := q.c.Out.Write(q.c.Gap(q.untold)); err != nil {
		return false
	}
	q.untold = 0
	return true
}

// pause waits until the next attempt to write to Out. It returns false if there is none.
func (q *Queue) pause() bool {
	q.mu.Lock()
	q.behind = true
	closed := q.closed
	q.mu.Unlock()
	if closed {
		return false
	}
	timer := time.NewTimer(q.c.Retry)
	defer timer.Stop()
	select {
	case <-q.retry:
	case <-timer.C:
	}
	return true
}
