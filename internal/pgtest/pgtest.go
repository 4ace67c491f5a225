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
)

const (
	// A server is made in a second or two and started in some 100 ms; the limits
	// are for machines with far too much to do.
	makeTimeout  = 2 * time.Minute
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	portAttempts = 20
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
	port     int
	schemas  atomic.Int64

	mu      sync.Mutex // guards running, and orders Kill and Restart
	running *process   // nil when it is down
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
	for range portAttempts {
		s.port = anyPort()
		release, free := reserve(s.port)
		if !free {
			continue
		}
		p, err := s.launch()
		if err == nil {
			t.Cleanup(release)
			t.Cleanup(s.end)
			s.running = p
			return s
		}
		release()
		if !p.portTaken() {
			t.Fatalf("pgtest: starting %s on %s: %v\n%s", s.programs, s.Addr(), err, p.log.tail())
		}
	}
	t.Fatalf("pgtest: starting %s: no free port in %d attempts, the last %d", s.programs, portAttempts, s.port)
	return nil
}

// findPrograms returns the directory of PostgreSQL's programs: that of initdb
// on the PATH, or the newest where Debian puts them.
func findPrograms(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	newest, directory := -1, ""
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is sound
	for _, path := range found {
		directories := filepath.Dir(path)
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(directories)))
		if err == nil && version > newest {
			newest, directory = version, directories
		}
	}
	if directory != "" {
		return directory
	}
	const advice = "pgtest: THIS TEST NEEDS POSTGRESQL, and there is none (make deps installs it)"
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatal(advice)
	}
	t.Skip(advice)
	return ""
}

// makeDirectory makes the server's directory. Those that package testing makes
// are closed to the account that the server may have to run as.
func (s *Server) makeDirectory() {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		s.t.Fatalf("pgtest: %v", err)
	}
	s.dir = dir
	s.t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			s.t.Errorf("pgtest: removing the server's directory: %v", err)
		}
	})
	if err := s.account.own(dir); err != nil {
		s.t.Fatalf("pgtest: %v", err)
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// makeCluster makes what a server serves.
func (s *Server) makeCluster() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	cmd := s.command(ctx, "initdb", "--pgdata", s.data(), "--username", "postgres",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	if output, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("pgtest: making a cluster with %s: %v\n%s", cmd.Path, err, output)
	}
}

// command is a program of PostgreSQL, run as the server's account.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs, name), args...) //nolint:gosec // the test's own words
	cmd.Dir = s.dir
	setProcessAttributes(cmd, s.account)
	return cmd
}

// launch runs the server on s.port and waits until it is ready. On an error the
// process is gone, and returned for its log.
func (s *Server) launch() (*process, error) {
	settings := slices.Concat(
		[]string{"fsync=off", "max_connections=200", "shared_buffers=16MB"},
		s.settings,
		[]string{
			"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port), "unix_socket_directories=",
			"logging_collector=off", "log_destination=stderr",
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
	p := newProcess(s.command(context.Background(), "postgres", args...))
	err := p.start(ctx)
	return p, err
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
	if err := s.running.abort(ctx); err != nil {
		s.t.Errorf("pgtest: ending the server on %s: %v\n%s", s.Addr(), err, s.running.log.tail())
	}
	s.running = nil
}

// Addr is the server's host:port. It stays the same over Restart.
func (s *Server) Addr() string { return loopback(s.port) }

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
	if err := s.running.kill(); err != nil {
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
		s.t.Fatalf("pgtest: restarting the server on %s: %v\n%s", s.Addr(), err, p.log.tail())
	}
	s.running = p
}

// Pause stops all processes of the server where they are, as a machine that
// hangs does: connections stay, and nothing is answered until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	if err := s.running.signal(signal); err != nil {
		s.t.Errorf("pgtest: sending %v to the server on %s: %v", signal, s.Addr(), err)
	}
}
