// Package redistest runs real Redis servers for tests.
//
// Each server is a child process of the test with a loopback port, a directory
// and a client of its own, so tests can run in parallel, across packages too,
// and none of them ever has to flush a server that another one uses. A server
// ends with its test; on Linux it also ends when the test process is killed.
package redistest

import (
	"context"
	"errors"
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
	infoTimeout  = time.Minute
	portAttempts = 20
)

// Server is a redis-server process that belongs to one test.
//
// Its methods may be called concurrently. Restart and CommandStats fail the test
// with FailNow and so belong on the test's own goroutine; the others may be
// called from any.
type Server struct {
	t      testing.TB
	binary string
	dir    string
	args   []string
	port   int
	client *redis.Client

	mu      sync.Mutex // guards running, and orders Kill, Stop and Restart
	running *process   // nil when it is down
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
	s := &Server{t: t, binary: findBinary(t), dir: t.TempDir(), args: args}
	t.Cleanup(s.Kill)
	for range portAttempts {
		s.port = nextPort()
		release, free := reserve(s.port)
		if !free {
			continue
		}
		p, err := s.launch()
		if err == nil {
			t.Cleanup(release)
			s.running = p
			s.client = s.newClient()
			return s
		}
		release()
		if !p.portTaken() {
			t.Fatalf("redistest: starting %s on %s: %v\n%s", s.binary, s.Addr(), err, p.log.tail())
		}
	}
	t.Fatalf("redistest: starting %s: no free port in %d attempts, the last %d", s.binary, portAttempts, s.port)
	return nil
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
	args := slices.Concat(
		[]string{"--save", "", "--appendonly", "no"},
		s.args,
		[]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port)},
		[]string{"--dir", s.dir, "--logfile", "", "--daemonize", "no"},
	)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	p := newProcess(s.binary, args)
	err := p.start(ctx)
	return p, err
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
	s.running = nil
}

// Stop shuts the server down in order, with SIGTERM, and returns when it is
// gone. What its persistence settings keep is there after Restart. A server
// that is down stays down; one that will not end in a minute fails the test and
// is killed.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
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
	p, err := s.launch()
	if err != nil {
		s.t.Fatalf("redistest: restarting %s on %s: %v\n%s", s.binary, s.Addr(), err, p.log.tail())
	}
	s.running = p
}

// CommandStats is the number of calls of each command since the server started,
// from INFO commandstats. Names are in lower case, subcommands as "client|id".
// The commands that a script calls are counted too. A server that does not
// answer fails the test.
func (s *Server) CommandStats() map[string]int64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), infoTimeout)
	defer cancel()
	info, err := s.client.Info(ctx, "commandstats").Result()
	if err != nil {
		s.t.Fatalf("redistest: reading the command statistics of %s: %v", s.Addr(), err)
	}
	stats := make(map[string]int64)
	for line := range strings.Lines(info) {
		// cmdstat_get:calls=2,usec=9,usec_per_call=4.50,...
		entry, ok := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_")
		if !ok {
			continue
		}
		name, rest, _ := strings.Cut(entry, ":calls=")
		digits, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			s.t.Fatalf("redistest: reading the command statistics of %s: line %q: %v", s.Addr(), line, err)
		}
		stats[name] = calls
	}
	return stats
}
