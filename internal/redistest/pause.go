package redistest

import "context"

// Pause stops the server's process where it is, as a machine that hangs: its
// connections stay open, new ones are accepted by the kernel, and nothing is
// answered. It returns when the process has stopped. A server that is paused
// stays so. A server that is down fails the test, as does a system other than
// Linux.
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

// Resume lets a paused server go on. The server then answers the commands that it received
// meanwhile. On any other server Resume is a no-op.
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
