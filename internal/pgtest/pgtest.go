// Package pgtest runs real PostgreSQL servers for tests.
//
// Each server is a child process of the test with its own loopback port and directory. Tests can
// therefore run in parallel, also across packages. A server ends with its test. On Linux it also
// ends when the test process is killed.
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	// initdb takes a second or two, and a copy of the template less. The server starts in about 100
	// ms. The limits are for overloaded machines.
	makeTimeout  = 2 * time.Minute
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second

	readyToServe = "database system is ready to accept" // a standby accepts read-only connections
)

// Server is a PostgreSQL server that belongs to one test.
//
// Its methods may be called concurrently. Restart fails the test with FailNow, so only the test's
// goroutine may call it. Any goroutine may call the others.
type Server struct {
	*servertest.Child

	programs string // the directory of initdb and postgres
	dir      string
	account  *account
	settings []string
	schemas  atomic.Int64
}

// newServer returns a server that start has not started yet.
func newServer(t testing.TB, programs string, a *account, settings []string) *Server {
	child := &servertest.Child{T: t, Name: "pgtest", StopTimeout: stopTimeout}
	return &Server{Child: child, programs: programs, account: a, settings: settings}
}

// Start runs a server for a new PostgreSQL cluster on a free loopback port. It returns when the
// server accepts connections. The server ends with the test.
//
// Settings are settings of the server, such as "fsync=on". They override the default fsync=off,
// which is faster and loses nothing when only the server is killed. The encoding is UTF-8, the
// locale is C, and no password is needed. There is no template1: CREATE DATABASE takes TEMPLATE
// template0. If the test runs as root, the server runs as postgres or nobody.
//
// Without PostgreSQL the test is skipped. With CI=true in the environment it fails instead, because
// a skipped test would go unnoticed. A server that does not start fails the test with the end of
// its log.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return startOf(t, findPrograms(t), settings)
}

// StartAtLeast is Start with a version of PostgreSQL, such as 17, or a later one.
//
// If the installed one is older, the programs are in the directory that the environment variable
// TEST_POSTGRES17 names, for version 17. Without it the test is skipped, also with CI=true, because
// not every system has a package of that version.
func StartAtLeast(t testing.TB, version int, settings ...string) *Server {
	t.Helper()
	programs := findPrograms(t)
	installed := versionOf(t, programs)
	if installed >= version {
		return startOf(t, programs, settings)
	}
	variable := fmt.Sprintf("TEST_POSTGRES%d", version)
	programs = os.Getenv(variable)
	if programs == "" {
		t.Skipf(
			"THIS TEST NEEDS POSTGRESQL %d, and %d is installed: "+
				"install a later one, or set %s to the directory of its programs",
			version, installed, variable,
		)
	}
	if is := versionOf(t, programs); is < version {
		t.Fatalf("pgtest: %s names PostgreSQL %d", variable, is)
	}
	return startOf(t, programs, settings)
}

// startOf runs a server of the programs in a directory.
func startOf(t testing.TB, programs string, settings []string) *Server {
	t.Helper()
	a, err := unprivileged()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	s := newServer(t, programs, a, settings)
	s.makeDirectory()
	s.makeCluster()
	s.start()
	return s
}

// StartStandby runs a standby of the server, with the same settings and those given, which override
// them. It follows the server until a client calls pg_promote(). It returns when the standby
// accepts connections.
func (s *Server) StartStandby(settings ...string) *Server {
	s.T.Helper()
	standby := newServer(s.T, s.programs, s.account, slices.Concat(s.settings, settings))
	standby.makeDirectory()
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	copying := standby.command(ctx, "pg_basebackup", "--pgdata", standby.data(), "--dbname", s.URL(),
		"--write-recovery-conf", "--checkpoint", "fast", "--no-sync")
	if output, err := servertest.Run(copying); err != nil {
		s.T.Fatalf("pgtest: copying the server on %s: %v\n%s", s.Addr(), err, output)
	}
	standby.start()
	return standby
}

// start runs the server on a free port until the test ends.
func (s *Server) start() {
	s.T.Helper()
	if err := s.Begin(s.launch); err != nil {
		s.T.Fatalf("pgtest: starting %s: %v", s.programs, err)
	}
	// After SIGQUIT the server writes nothing more, but it removes its shared memory. A killed
	// server would leave it behind.
	s.T.Cleanup(func() { s.Signal(syscall.SIGQUIT) })
}

// findPrograms returns the directory of PostgreSQL's programs: the one with the initdb on the PATH,
// or else the newest one below Debian's directory.
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
	program := servertest.FindProgram(t, "POSTGRESQL", "initdb", others...)
	if resolved, err := filepath.EvalSymlinks(program); err == nil {
		program = resolved // where the other programs are, too
	}
	return filepath.Dir(program)
}

// versionOf returns the version of the programs in a directory, such as 17.
func versionOf(t testing.TB, programs string) (version int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	//nolint:gosec // as in command
	initdb := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "--version")
	output, err := servertest.Run(initdb)
	if err == nil {
		_, err = fmt.Sscanf(string(output), "initdb (PostgreSQL) %d", &version)
	}
	if err != nil {
		t.Fatalf("pgtest: the version of PostgreSQL in %s: %v\n%s", programs, err, output)
	}
	return version
}

// makeDirectory makes the server's directory.
func (s *Server) makeDirectory() {
	s.T.Helper()
	removeAbandoned()
	dir, remove, err := makeDirectory(s.account)
	if err != nil {
		s.T.Fatalf("pgtest: making the server's directory: %v", err)
	}
	s.dir = dir
	s.T.Cleanup(func() {
		if err := remove(); err != nil {
			s.T.Errorf("pgtest: removing the server's directory: %v", err)
		}
	})
}

func (s *Server) data() string { return filepath.Join(s.dir, dataDirectory) }

// makeCluster makes the data of a new cluster.
func (s *Server) makeCluster() {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	if err := s.initialize(ctx); err != nil {
		s.T.Fatalf("pgtest: making a cluster: %v", err)
	}
}

// command returns a command that runs a program of PostgreSQL as the server's account.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	//nolint:gosec // the test's own words
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs, name), args...)
	cmd.Dir = s.dir
	s.account.use(cmd)
	return cmd
}

// launch runs the server on its port and waits until it is ready.
func (s *Server) launch() (*servertest.Process, error) {
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		return nil, err
	}
	settings := slices.Concat(
		[]string{"fsync=off", "max_connections=200", "shared_buffers=16MB"},
		s.settings,
		[]string{
			"listen_addresses=" + host, "port=" + port, "unix_socket_directories=",
			"logging_collector=off", "log_destination=stderr",
			// A killed server leaves its shared memory behind. As files in the server's directory,
			// it is removed with the directory.
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
	// No context ends the server. A test's context ends before its cleanups, which may still need
	// the server.
	return servertest.Start(ctx, s.command(context.Background(), "postgres", args...), readyToServe)
}

// URL returns the URL of the server's database, with its superuser.
func (s *Server) URL() string {
	return "postgres://postgres@" + s.Addr() + "/postgres?sslmode=disable"
}

// Schema returns a URL whose search_path is a new schema. The schema does not exist. Each call
// returns another name.
func (s *Server) Schema() string {
	return fmt.Sprintf("%s&search_path=schema%d", s.URL(), s.schemas.Add(1))
}

// Restart starts the server after Kill, on the same port and directory. It returns when the server
// accepts connections. All committed data is there. Restart fails the test if the server runs or
// does not start.
func (s *Server) Restart() {
	s.T.Helper()
	s.Child.Restart(func() error {
		// The file names a process that has ended. Another process may have its number by now.
		err := os.Remove(filepath.Join(s.data(), "postmaster.pid"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}, s.launch)
}
