package redistest

import "context"

// Pause stops the server's process, like a machine that hangs. Connections stay open, the kernel
// accepts new ones, and the server answers nothing. Pause returns when the process has stopped. If
// the server is paused already, Pause is a no-op. If the server is down, or the system is not
// Linux, Pause fails the test.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.t.Errorf("redistest: pausing the server on %s: it is down", s.Addr())
		return
	}
	if s.running.Suspended() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.running.Suspend(ctx); err != nil {
		s.t.Errorf("redistest: pausing the server on %s: %v", s.Addr(), err)
	}
}

// Resume lets a paused server continue. The server then answers the commands that it received while
// it was paused. If the server is not paused, Resume is a no-op.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	if err := s.running.Resume(); err != nil {
		s.t.Errorf("redistest: resuming the server on %s: %v", s.Addr(), err)
	}
}

// isUp reports whether the server runs and is not paused.
func (s *Server) isUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running != nil && !s.running.Suspended()
}
