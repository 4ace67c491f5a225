// Package logqueue keeps a program running while the reader of its log is stalled, for example with
// a full pipe.
package logqueue

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a [Queue].
type Config struct {
	_ struct{} // fields are named

	Out io.Writer // gets one line a call, in one call at a time, and may block

	// Lines and Bytes limit what may wait. A line that would exceed a limit is dropped.
	Lines, Bytes int

	// Patience is how long a caller waits at most for its line to be written. If that is not
	// enough, the queue is behind: callers no longer wait until the queue is empty again.
	Patience time.Duration

	// Retry is the pause before the queue retries a line after an error of Out. The queue is behind
	// until a retry succeeds. 0: a line that cannot be written is dropped.
	Retry time.Duration

	// Gap returns a line that reports n dropped lines. nil: the log has no such line.
	Gap func(n uint64) []byte

	// OnBehind is called each time the queue falls behind, by the caller whose patience ended.
	OnBehind func()
}

// Queue writes lines in order, in its own goroutine. While Out takes lines, a line is written when
// the call of Write returns, so it survives the end of the process. While Out blocks, no caller
// waits longer than the patience. Lines wait in memory. When there are too many, further lines are
// dropped until the queue is empty, so that the log has one gap, and one line about it. It is safe
// for concurrent use.
type Queue struct {
	c       Config
	retry   chan struct{} // has an element if the pause after an error must end
	dropped atomic.Uint64

	mu     sync.Mutex
	lines  []line        // the first one is being written
	bytes  int           // sum of lines
	gap    uint64        // lines dropped since the queue was full
	behind bool          // a caller's patience ended, or a failed write will be retried
	closed bool          // no line is retried
	idle   chan struct{} // closed when all lines are written; nil: no line waits

	untold uint64 // dropped lines that Gap has not reported; only write uses it
}

type line struct {
	text []byte
	done chan struct{} // closed when the line is written or dropped
}

// New returns an empty queue.
func New(c Config) *Queue { return &Queue{c: c, retry: make(chan struct{}, 1)} }

// Write takes a line, or drops it if too many lines wait. It never fails.
func (q *Queue) Write(text []byte) (int, error) {
	q.put(text, false)
	return len(text), nil
}

// Put takes a line, however many wait.
func (q *Queue) Put(text []byte) { q.put(text, true) }

// Behind reports whether Out blocks, or fails and will be retried.
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

// Close waits for at most the given time until all lines are written, and drops those that are
// left. It returns their number. It does not interrupt a call of Out that blocks.
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

// room reports whether the queue takes a line of n bytes. An empty queue takes a line of any
// length.
func (q *Queue) room(n int) bool {
	return q.gap == 0 && (len(q.lines) == 0 || len(q.lines) < q.c.Lines && q.bytes+n <= q.c.Bytes)
}

// await waits until the line is written. It returns false if the queue falls behind by this call.
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

// write writes lines until none is left.
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

// tell reports dropped lines in the log, if there are any. It returns false if Out fails.
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

// pause waits for the next attempt. It returns false if there is none.
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
