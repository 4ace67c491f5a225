package main

import (
	"bytes"
	"io"
	"sync"
)

// heldLines holds what is written until it is released: the address is the log's first line, whatever goes wrong
// before it is known.
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

// release writes what was held. What comes later is not held any more.
func (h *heldLines) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = true
	_, _ = h.held.WriteTo(h.to) // there is nowhere to report that the log fails
}
