package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/internal/logqueue"
)

const (
	// logLines and logBytes limit the part of a service's log that waits for its reader.
	logLines, logBytes = 10_000, 1 << 20
	// logPatience is how long a caller waits for its line to be written. It is long enough for an
	// active reader, so that a crash loses no line, and too short to delay a feed.
	logPatience = time.Millisecond
	// logClose is how long a service that ends waits for its last lines to be written.
	logClose = time.Second
)

// serviceLog returns the queue of a service's log, so that a stalled reader does not stop the
// service. Other commands write to standard error directly: a stalled reader stops only them.
func (f *dataFlags) serviceLog(to io.Writer) *logqueue.Queue {
	return logqueue.New(logqueue.Config{
		Out: to, Lines: logLines, Bytes: logBytes, Patience: logPatience, Gap: f.linesDropped,
	})
}

// linesDropped returns a log line about n dropped lines, for any log level.
func (f *dataFlags) linesDropped(n uint64) []byte {
	var text bytes.Buffer
	to, _ := f.leveledLogger(&text)
	line := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines dropped", 0)
	line.Add("dropped", n)
	_ = to.Handler().Handle(context.Background(), line) // a buffer never fails
	return text.Bytes()
}

// heldLines holds back log lines until release, because the address must be the first line of the
// log.
type heldLines struct {
	to io.Writer

	mu   sync.Mutex
	held bytes.Buffer
	open bool
}

// Write implements [io.Writer].
func (h *heldLines) Write(line []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return h.held.Write(line)
	}
	return h.to.Write(line)
}

// release writes the held lines. Later lines pass through.
func (h *heldLines) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = true
	_, _ = h.held.WriteTo(h.to) // an error of the log cannot be reported
}
