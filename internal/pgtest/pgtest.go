// Package pgtest runs real PostgreSQL servers for tests.
//
// Each server is a child process of the test with a loopback port and a
// directory of its own, so tests can run in parallel, across packages too. A
// server ends with its test; on Linux it also ends when the test process is
// killed.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	// Making a server takes a second or two, or less from the template; starting it takes some 100
	// ms. The limits are for overloaded machines.
	makeTimeout  = 2 * time.Minute
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second

	readyToServe = "database system is ready to accept connections"
)

// Server is a PostgreSQL server that belongs to one test.
//
// Its methods may be called concurrently. Restart fails the test with FailNow
// and so belongs on the test's own goroutine; the others may be called from any.
type Server struct {
	t        testing.TB
	programs string // the directory of initdb and postgres
	dir      string
	account  *account
	settings []string
	addr     string
	schemas  atomic.Int64

	mu      sync.Mutex          // guards running, and orders Kill and Restart
	running *servertest.Process // nil when it is down
}

// Start makes a PostgreSQL cluster in a directory of its own, runs a server for
// it on a free loopback port, and ends it with the test. It returns when the
// server accepts connections.
//
// Settings are the server's, such as "fsync=on", and win over the default:
// fsync=off, which is faster and loses nothing when the server alone is killed.
// Encoding is UTF-8, the locale C, and nobody needs a password. A test that
// runs as root runs the server as postgres or nobody.
//
// Without PostgreSQL the test is skipped, or fails when the environment has
// CI=true, where a skipped test would go unnoticed. A server that does not start
// fails the test with the end of its log.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t, programs: findPrograms(t), settings: settings}
	var err error
	if s.account, err = unprivileged(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	s.makeDirectory()
	s.makeCluster()
	s.running, err = servertest.OnFreePort(t, func(port int) (*servertest.Process, error) {
		s.addr = servertest.Addr(port)
		return s.launch()
	})
	if err != nil {
		t.Fatalf("pgtest: starting %s: %v", s.programs, err)
	}
	t.Cleanup(s.end)
	return s
}

// findPrograms returns the directory of PostgreSQL's programs: that of initdb
// on the PATH, or the newest where Debian puts them.
func findPrograms(t testing.TB) string {
	t.Helper()
	newest, others := -1, []string(nil)
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is sound
	for _, path := range found {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		if err == nil && version > newest {
			newest, others = version, []string{path}
		}
	}
	return filepath.Dir(servertest.FindProgram(t, "POSTGRESQL", "initdb", others...))
}

// makeDirectory makes the server's directory.
func (s *Server) makeDirectory() {
	s.t.Helper()
	removeAbandoned()
	dir, remove, err := makeDirectory(s.account)
	if err != nil {
		s.t.Fatalf("pgtest: making the server's directory: %v", err)
	}
	s.dir = dir
	s.t.Cleanup(func() {
		if err := remove(); err != nil {
			s.t.Errorf("pgtest: removing the server's directory: %v", err)
		}
	})
}

func (s *Server) data() string { return filepath.Join(s.dir, dataDirectory) }

// makeCluster makes what a server serves.
func (s *Server) makeCluster() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	if err := s.initialize(ctx); err != nil {
		s.t.Fatalf("pgtest: making a cluster: %v", err)
	}
}

// command is a program of PostgreSQL, run as the server's account.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs, name), args...) //nolint:gosec // the test's own words
	cmd.Dir = s.dir
	s.account.use(cmd)
	return cmd
}

// launch runs the server on s.addr and waits until it is ready.
func (s *Server) launch() (*servertest.Process, error) {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return nil, err
	}
	settings := slices.Concat(
		[]string{"fsync=off", "max_connections=200", "shared_buffers=16MB"},
		s.settings,
		[]string{
			"listen_addresses=" + host, "port=" + port, "unix_socket_directories=",
			"logging_collector=off", "log_destination=stderr",
			// A killed server leaves its shared memory behind. In files of its directory it is
			// removed together with the directory.
			"dynamic_shared_memory_type=mmap",
		},
	)
	args := make([]string, 0, 2+2*len(settings))
	args = append(args, "-D", s.data())
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	// Its life is the Server's to end, not a context's: a test's context is
	// over before its cleanups, which may still need the server.
	return servertest.Start(ctx, s.command(context.Background(), "postgres", args...), readyToServe)
}

// end ends the server for good.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	// It writes nothing more and, unlike one that is killed, leaves no shared
	// memory behind.
	if err := s.running.Stop(ctx, syscall.SIGQUIT); err != nil {
		s.t.Errorf("pgtest: ending the server on %s: %v", s.Addr(), err)
	}
	s.running = nil
}

// Addr is the server's host:port. It stays the same over Restart.
func (s *Server) Addr() string { return s.addr }

// URL is the address of the server's database, as its superuser.
func (s *Server) URL() string {
	return "postgres://postgres@" + s.Addr() + "/postgres?sslmode=disable"
}

// Schema is URL with the name of a schema that does not exist as the
// search_path, another one at each call.
func (s *Server) Schema() string {
	return fmt.Sprintf("%s&search_path=schema%d", s.URL(), s.schemas.Add(1))
}

// Kill ends all processes of the server at once, as kill -9 does, and returns
// when they are gone. A server that is down stays down.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	if err := s.running.Kill(); err != nil {
		s.t.Errorf("pgtest: killing the server on %s: %v", s.Addr(), err)
	}
	s.running = nil
}

// Restart starts the server again after Kill, on the same port and directory,
// and returns when it accepts connections. What was committed is there. A server
// that is up, or does not start, fails the test.
func (s *Server) Restart() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.t.Fatalf("pgtest: restarting the server on %s: it is running; Kill it first", s.Addr())
	}
	// It names a process that is gone, and whose number may be another's by now.
	err := os.Remove(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatalf("pgtest: restarting the server on %s: %v", s.Addr(), err)
	}
	p, err := s.launch()
	if err != nil {
		s.t.Fatalf("pgtest: restarting the server on %s: %v", s.Addr(), err)
	}
	s.running = p
}

// Pause stops all processes of the server where they are, as a machine that
// hangs does: connections stay, and nothing is answered until Resume. It returns
// when they have stopped. A server that is down stays so. Only Linux has it;
// elsewhere it fails the test.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.running.Suspend(ctx); err != nil {
		s.t.Errorf("pgtest: pausing the server on %s: %v", s.Addr(), err)
	}
}

// Resume lets a paused server go on. On any other it has no effect.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	if err := s.running.Resume(); err != nil {
		s.t.Errorf("pgtest: resuming the server on %s: %v", s.Addr(), err)
	}
}
