package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/feedfilter/feedfilter/internal/logqueue"
)

const (
	// logLines and logBytes are how much of a service's log may wait for its reader.
	logLines, logBytes = 10_000, 1 << 20
	// logPatience is how long a call that logs waits at most for its line to be written: long enough
	// for a reader that reads, so that a crash takes no line, and nothing to a feed.
	logPatience = time.Millisecond
	// logClose is how long the service waits at its end until its last lines are read.
	logClose = time.Second
)

// serviceLog returns the way to a service's log, on which a reader that stands still does not stop
// the service. Commands other than serve write to standard error directly: if nobody reads it, they
// stop, and nobody else does.
func (f *dataFlags) serviceLog(to io.Writer) *logqueue.Queue {
	return logqueue.New(logqueue.Config{
		Out: to, Lines: logLines, Bytes: logBytes, Patience: logPatience, Gap: f.linesDropped,
	})
}

// linesDropped returns the line that says it, whatever the level is.
func (f *dataFlags) linesDropped(n uint64) []byte {
	var text bytes.Buffer
	to, _ := f.leveledLogger(&text)
	line := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines dropped", 0)
	line.Add("dropped", n)
	_ = to.Handler().Handle(context.Background(), line) // a buffer takes all
	return text.Bytes()
}
