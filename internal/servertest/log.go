package servertest

import (
	"bytes"
	"sync"
)

// serverLog keeps the end of what a server logs and notices when it is ready.
type serverLog struct {
	sign  []byte        // a ready server logs this text
	ready chan struct{} // closed when the server has logged sign

	mu      sync.Mutex
	text    []byte
	isReady bool
}

const logTail = 8 << 10 // bytes

func newServerLog(sign string) *serverLog {
	return &serverLog{sign: []byte(sign), ready: make(chan struct{})}
}

// Write receives the log of the server, in pieces of any size.
func (l *serverLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if !l.isReady && bytes.Contains(l.text, l.sign) {
		l.isReady = true
		close(l.ready)
	}
	if excess := len(l.text) - logTail; excess > 0 {
		l.text = l.text[excess:]
	}
	return len(b), nil
}

// tail returns the end of the log.
func (l *serverLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
