package main

import (
	"bytes"
	"io"
	"sync"
)

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
