package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// StreamConn is the connection of a stream. Each read and each write extends the client's idle
// time.
type StreamConn struct {
	call    *Call
	ctx     context.Context //nolint:containedctx // of the request
	control *http.ResponseController
	idle    time.Duration
	watched func() bool // stops watching ctx

	mu       sync.Mutex
	released bool
}

// NewStreamConn returns the connection of a request. idle is how long the client may stall.
func NewStreamConn(k *Call, idle time.Duration) *StreamConn {
	s := &StreamConn{
		call: k, ctx: k.Request().Context(), control: http.NewResponseController(k.Response().Writer), idle: idle,
	}
	// A read that waits for the client does not notice the end of the context.
	s.watched = context.AfterFunc(s.ctx, s.stopReading)
	return s
}

// Release ends the use of the connection. The handler calls it before it returns, because setting a
// deadline later panics over HTTP/2.
func (s *StreamConn) Release() {
	s.watched()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
}

// stopReading makes all reads fail, waiting ones too.
func (s *StreamConn) stopReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return
	}
	_ = s.control.SetReadDeadline(time.Unix(1, 0)) // an error means that no read can wait
}

// Begin sends the header of the answer before it reads a line: some clients wait for it before they
// write.
func (s *StreamConn) Begin() error {
	if err := supported(s.control.EnableFullDuplex()); err != nil {
		return fmt.Errorf("answer while reading: %w", err)
	}
	res := s.call.Response()
	if r := s.call.Request(); r.ProtoAtLeast(1, 1) && r.Header.Get("Expect") != "" {
		// net/http would send "100 Continue" only at the first read of the body, which is too late.
		res.Writer.WriteHeader(http.StatusContinue)
	}
	res.Header().Set(echo.HeaderContentType, TypeNDJSON)
	res.WriteHeader(http.StatusOK)
	return s.flush()
}

// Read waits for what the client sends next.
func (s *StreamConn) Read(p []byte) (int, error) {
	if err := s.ExpectRead(); err != nil {
		return 0, err
	}
	return s.call.Request().Body.Read(p)
}

// ExpectRead gives the client time to send something.
func (s *StreamConn) ExpectRead() error {
	if err := supported(s.control.SetReadDeadline(time.Now().Add(s.idle))); err != nil {
		return fmt.Errorf("extend the read deadline: %w", err)
	}
	// Check the context after setting the deadline: its end sets the deadline to the past.
	return s.ctx.Err()
}

// ExpectWrite gives the client time to receive something.
func (s *StreamConn) ExpectWrite() error {
	if err := supported(s.control.SetWriteDeadline(time.Now().Add(s.idle))); err != nil {
		return fmt.Errorf("extend the write deadline: %w", err)
	}
	return nil
}

// WaitForever removes the time limit of writes until the next one.
func (s *StreamConn) WaitForever() error { return supported(s.control.SetWriteDeadline(time.Time{})) }

// Send writes lines and flushes them.
func (s *StreamConn) Send(lines []byte) error {
	if err := s.ExpectWrite(); err != nil {
		return err
	}
	if _, err := s.call.Response().Write(lines); err != nil {
		return fmt.Errorf("answer lines: %w: %w", ErrGone, err)
	}
	return s.flush()
}

func (s *StreamConn) flush() error {
	if err := supported(s.control.Flush()); err != nil {
		return fmt.Errorf("answer lines: %w: %w", ErrGone, err)
	}
	return nil
}

// BreakOff prepares for the connection to be closed because of err, and returns err. Without it,
// net/http would wait for the rest of the request before it closes the connection.
func (s *StreamConn) BreakOff(err error) error {
	s.stopReading()
	return err
}

// supported returns err, or nil if err says that the connection does not support the call.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// TakeTime extends the time for writing the answer beyond the server's write timeout. Read timeouts
// need no change: they end with the body, and the server still notices a client that leaves.
func TakeTime(k *Call, d time.Duration) error {
	if err := supported(http.NewResponseController(k.Response().Writer).SetWriteDeadline(time.Now().Add(d))); err != nil {
		return fmt.Errorf("extend the write deadline: %w: %w", ErrGone, err)
	}
	return nil
}
