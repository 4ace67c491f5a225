package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// streamConn is the connection of a stream. Each read and each write extends the client's idle
// time.
type streamConn struct {
	c       echo.Context
	ctx     context.Context //nolint:containedctx // of the request
	control *http.ResponseController
	idle    time.Duration
	watched func() bool // stops watching ctx

	mu       sync.Mutex
	released bool
}

func newStreamConn(c echo.Context, idle time.Duration) *streamConn {
	s := &streamConn{c: c, ctx: c.Request().Context(), control: http.NewResponseController(c.Response().Writer), idle: idle}
	// A read that waits for the client does not notice the end of the context.
	s.watched = context.AfterFunc(s.ctx, s.stopReading)
	return s
}

// release ends the use of the connection. The handler calls it before it returns, because setting a
// deadline later panics over HTTP/2.
func (s *streamConn) release() {
	s.watched()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
}

// stopReading makes all reads fail, waiting ones too.
func (s *streamConn) stopReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return
	}
	_ = s.control.SetReadDeadline(time.Unix(1, 0)) // an error means that no read can wait
}

// begin sends the header of the answer before it reads a line: some clients wait for it before they
// write.
func (s *streamConn) begin() error {
	if err := supported(s.control.EnableFullDuplex()); err != nil {
		return fmt.Errorf("answer while reading: %w", err)
	}
	res := s.c.Response()
	if r := s.c.Request(); r.ProtoAtLeast(1, 1) && r.Header.Get("Expect") != "" {
		// net/http would send "100 Continue" only at the first read of the body, which is too late.
		res.Writer.WriteHeader(http.StatusContinue)
	}
	res.Header().Set(echo.HeaderContentType, typeNDJSON)
	res.WriteHeader(http.StatusOK)
	return s.flush()
}

// Read waits for what the client sends next.
func (s *streamConn) Read(p []byte) (int, error) {
	if err := s.expectRead(); err != nil {
		return 0, err
	}
	return s.c.Request().Body.Read(p)
}

// expectRead gives the client time to send something.
func (s *streamConn) expectRead() error {
	if err := supported(s.control.SetReadDeadline(time.Now().Add(s.idle))); err != nil {
		return fmt.Errorf("extend the read deadline: %w", err)
	}
	// Check the context after setting the deadline: its end sets the deadline to the past.
	return s.ctx.Err()
}

// expectWrite gives the client time to receive something.
func (s *streamConn) expectWrite() error {
	if err := supported(s.control.SetWriteDeadline(time.Now().Add(s.idle))); err != nil {
		return fmt.Errorf("extend the write deadline: %w", err)
	}
	return nil
}

// send writes lines and flushes them.
func (s *streamConn) send(lines []byte) error {
	if err := s.expectWrite(); err != nil {
		return err
	}
	if _, err := s.c.Response().Write(lines); err != nil {
		return fmt.Errorf("answer lines: %w: %w", errGone, err)
	}
	return s.flush()
}

func (s *streamConn) flush() error {
	if err := supported(s.control.Flush()); err != nil {
		return fmt.Errorf("answer lines: %w: %w", errGone, err)
	}
	return nil
}

// breakOff prepares for the connection to be closed because of err, and returns err. Without it,
// net/http would wait for the rest of the request before it closes the connection.
func (s *streamConn) breakOff(err error) error {
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
