// Package redistest runs real Redis servers for tests: single ones, clusters, and
// replicas under sentinels.
//
// Each server is a child process of the test with a loopback port, a directory
// and a client of its own, so tests can run in parallel, across packages too,
// and none of them ever has to flush a server that another one uses. A server
// ends with its test; on Linux it also ends when the test process is killed.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// Redis is ready some 10 ms after its start; the limits are for machines
	// with far too much to do.
	startTimeout = time.Minute
	stopTimeout  = time.Minute
	portAttempts = 20
)

// Server is a redis-server process that belongs to one test.
//
// Its methods may be called concurrently. Restart, RestartFrom, Snapshot and
// CommandStats fail the test with FailNow and so belong on the test's own
// goroutine; the others may be called from any.
type Server struct {
	t      testing.TB
	binary string
	dir    string
	args   []string
	port   int
	client *redis.Client

	// config is the file that args are put in, for a server that is to keep its
	// settings over Restart; "" when they stay on the command line.
	config string
	mode   []string // further arguments that a file cannot have
	ready  string   // what it logs when it is ready

	mu      sync.Mutex // guards running and paused, and orders all that changes them
	running *process   // nil when it is down
	paused  bool
}

// Start runs redis-server on a free loopback port, in a directory of its own,
// and ends it with the test. It returns when the server accepts connections.
//
// Nothing is kept on disk unless args say so: they are redis-server's own
// arguments, such as "--save", "60 1" or "--appendonly", "yes", and win over the
// defaults --save "" --appendonly no. The address, the directory and the log are
// Start's to set.
//
// Without a redis-server on the PATH the test is skipped, or fails when the
// environment has CI=true, where a skipped test would go unnoticed. A server
// that does not start fails the test with the end of its log.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, anyPort, args)
}

// start tries the ports that nextPort names until one is free.
func start(t testing.TB, nextPort func() int, args []string) *Server {
	t.Helper()
	s := newServer(t, findBinary(t), args)
	if err := s.begin(nextPort); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return s
}

// newServer makes a server that has yet to begin, and ends with the test.
func newServer(t testing.TB, binary string, args []string) *Server {
	t.Helper()
	s := &Server{t: t, binary: binary, dir: t.TempDir(), args: args, ready: readyToServe}
	t.Cleanup(s.Kill)
	return s
}

// readyToServe is what redis-server logs when it accepts connections.
const readyToServe = "Ready to accept connections"

// begin starts a server for the first time, on the first free one of the ports
// that nextPort names.
func (s *Server) begin(nextPort func() int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range portAttempts {
		s.port = nextPort()
		release, free := reserve(s.port)
		if !free {
			continue
		}
		if err := s.writeConfig(); err != nil {
			release()
			return err
		}
		p, err := s.launch()
		if err == nil {
			s.t.Cleanup(release)
			s.running = p
			s.client = s.newClient()
			return nil
		}
		release()
		if !p.portTaken() {
			return fmt.Errorf("starting %s on %s: %w\n%s", s.binary, s.Addr(), err, p.log.tail())
		}
	}
	return fmt.Errorf("starting %s: no free port in %d attempts, the last %d", s.binary, portAttempts, s.port)
}

// startAll begins the servers, all at once. It is for the test's own goroutine.
func startAll(servers []*Server) error {
	var wg sync.WaitGroup
	errs := make([]error, len(servers))
	for i, s := range servers {
		wg.Go(func() { errs[i] = s.begin(anyPort) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func findBinary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path
	}
	const advice = "redistest: THIS TEST NEEDS A REDIS SERVER, and there is none: %v (make deps installs it)"
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatalf(advice, err)
	}
	t.Skipf(advice, err)
	return ""
}

// launch runs the server on s.port and waits until it is ready. On an error the
// process is gone, and returned for its log.
func (s *Server) launch() (*process, error) {
	args := s.allArgs()
	if s.config != "" {
		args = slices.Concat([]string{s.config}, s.mode)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	p := newProcess(s.binary, args, s.ready)
	err := p.start(ctx)
	return p, err
}

// allArgs are the server's arguments, later ones over earlier ones.
func (s *Server) allArgs() []string {
	return slices.Concat(
		[]string{"--save", "", "--appendonly", "no"},
		s.args,
		[]string{"--bind", loopbackHost, "--port", strconv.Itoa(s.port)},
		[]string{"--dir", s.dir, "--logfile", "", "--daemonize", "no"},
	)
}

// arg is the value of the last argument with the given name that has one.
func (s *Server) arg(name string) string {
	args := s.allArgs()
	for i := len(args) - 2; i >= 0; i-- {
		if args[i] == name {
			return args[i+1]
		}
	}
	return ""
}

// writeConfig puts the arguments in the configuration file, if there is one to
// be. The server itself changes it from then on.
func (s *Server) writeConfig() error {
	if s.config == "" {
		return nil
	}
	var text strings.Builder
	for _, arg := range s.allArgs() {
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			fmt.Fprintf(&text, "\n%s", name)
		} else {
			fmt.Fprintf(&text, " %q", arg)
		}
	}
	if err := os.WriteFile(s.config, []byte(text.String()+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of %s: %w", s.Addr(), err)
	}
	return nil
}

// newClient makes the client once and for all; it connects when it is used.
func (s *Server) newClient() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr:                  s.Addr(),
		ContextTimeoutEnabled: true,
		// No CLIENT SETINFO on connecting: CommandStats then shows what the
		// test sent, and HELLO.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			s.t.Errorf("redistest: closing the client of %s: %v", s.Addr(), err)
		}
	})
	return client
}

// Addr is the server's host:port. It stays the same over Restart.
func (s *Server) Addr() string {
	return loopback(s.port)
}

// URL is the server's address as redis://host:port/0.
func (s *Server) URL() string {
	return "redis://" + s.Addr() + "/0"
}

// Client is a client of the server, the same one at each call, closed with the
// test. It honours context deadlines, retries as go-redis does by default, and
// finds the server again after Restart.
func (s *Server) Client() *redis.Client {
	return s.client
}

// Kill ends the server at once, as kill -9 does, and returns when it is gone.
// A server that is down stays down.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

func (s *Server) kill() {
	if s.running == nil {
		return
	}
	if err := s.running.kill(); err != nil {
		s.t.Errorf("redistest: killing the server on %s: %v", s.Addr(), err)
	}
	s.running, s.paused = nil, false
}

// Stop shuts the server down in order, with SIGTERM, and returns when it is
// gone. What its persistence settings keep is there after Restart. A paused
// server is resumed. A server that is down stays down; one that will not end in a minute fails the test and
// is killed.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	s.resume()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.running.terminate(ctx); err != nil {
		s.t.Errorf("redistest: stopping the server on %s: %v\n%s", s.Addr(), err, s.running.log.tail())
		s.kill()
	}
	s.running = nil
}

// Restart starts the server again after Kill or Stop, on the same port and
// directory, and returns when it accepts connections. A server that is up, or
// does not start, fails the test.
func (s *Server) Restart() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.t.Fatalf("redistest: restarting the server on %s: it is running; Kill or Stop it first", s.Addr())
	}
	s.restart()
}

func (s *Server) restart() {
	s.t.Helper()
	p, err := s.launch()
	if err != nil {
		s.t.Fatalf("redistest: restarting %s on %s: %v\n%s", s.binary, s.Addr(), err, p.log.tail())
	}
	s.running = p
}
