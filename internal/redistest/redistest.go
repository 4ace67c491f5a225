// Package redistest runs real Redis servers for tests: single servers, clusters, and replicas with
// sentinels. REDIS_SERVER names another program, such as valkey-server.
//
// Each server is a child process of the test with its own loopback port, directory and client.
// Tests can therefore run in parallel, also across packages, and no test has to flush a server that
// another one uses. A server ends with its test. On Linux it also ends when the test process is
// killed.
package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	// Redis is ready about 10 ms after its start. The limits are for overloaded machines.
	startTimeout = 3 * time.Minute
	stopTimeout  = time.Minute
)

// Server is a redis-server process that belongs to one test.
//
// Its methods may be called concurrently. Restart, RestartFrom, Snapshot and CommandStats fail the
// test with FailNow, so only the test's goroutine may call them. Any goroutine may call the others.
type Server struct {
	*servertest.Child

	binary string
	dir    string
	args   []string
	client *redis.Client

	// config is the file for args if the server must keep its settings over Restart, "" if args
	// stay on the command line.
	config string
	mode   []string // further arguments that are not allowed in a file
	ready  string   // text in the log when the server is ready
}

// Start runs redis-server on a free loopback port, in its own directory. It returns when the server
// accepts connections. The server ends with the test.
//
// args are arguments of redis-server, such as "--save", "60 1" or "--appendonly", "yes". They
// override the defaults --save "" --appendonly no, with which nothing is kept on disk. Start sets
// the address, the directory and the log. With Authority.Args and PasswordArgs among args, the
// server speaks TLS and asks for a password; Client and URL use both.
//
// Without a redis-server on the PATH the test is skipped. With CI=true in the environment it fails
// instead, because a skipped test would go unnoticed. A server that does not start fails the test
// with the end of its log.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, findBinary(t), args)
	if err := s.begin(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return s
}

// newServer makes a server that begin has not started yet.
func newServer(t testing.TB, binary string, args []string) *Server {
	t.Helper()
	child := &servertest.Child{T: t, Name: "redistest", StopTimeout: stopTimeout}
	return &Server{
		Child: child, binary: binary, dir: t.TempDir(), args: args, ready: readyToServe,
	}
}

// readyToServe is in the log of redis-server when it accepts connections.
const readyToServe = "Ready to accept connections"

// begin starts a server for the first time, on a free port.
func (s *Server) begin() error {
	err := s.Begin(func() (*servertest.Process, error) {
		if err := s.writeConfig(); err != nil {
			return nil, err
		}
		return s.launch()
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.binary, err)
	}
	s.T.Cleanup(s.Kill)
	s.client = s.newClient()
	return nil
}

// startAll begins the servers, all at the same time. Only the test's goroutine may call it.
func startAll(servers []*Server) error {
	var wg sync.WaitGroup
	errs := make([]error, len(servers))
	for i, s := range servers {
		wg.Go(func() { errs[i] = s.begin() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func findBinary(t testing.TB) string {
	t.Helper()
	program := cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server")
	return servertest.FindProgram(t, "A REDIS SERVER", program)
}

// launch runs the server on its port and waits until it is ready.
func (s *Server) launch() (*servertest.Process, error) {
	args := s.allArgs()
	if s.config != "" {
		args = slices.Concat([]string{s.config}, s.mode)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	// No context ends the server. A test's context ends before its cleanups, which may still need
	// the server.
	//nolint:gosec // the test's own words
	cmd := exec.CommandContext(context.Background(), s.binary, args...)
	return servertest.Start(ctx, cmd, s.ready)
}

// allArgs returns the server's arguments. Later ones override earlier ones.
func (s *Server) allArgs() []string {
	return slices.Concat(
		[]string{"--save", "", "--appendonly", "no"},
		s.args,
		[]string{"--bind", servertest.Host},
		s.portArgs(strconv.Itoa(s.Port)),
		[]string{"--dir", s.dir, "--logfile", "", "--daemonize", "no"},
	)
}

// arg returns the value of the last argument with that name, "" if there is none.
func (s *Server) arg(name string) string {
	args := s.allArgs()
	for i := len(args) - 2; i >= 0; i-- {
		if args[i] == name {
			return args[i+1]
		}
	}
	return ""
}

// writeConfig writes the arguments to the configuration file, unless config is "". From then on the
// server itself changes the file.
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

// newClient makes the client. It connects at its first use.
func (s *Server) newClient() *redis.Client {
	secure, password, _ := s.access("")
	client := redis.NewClient(&redis.Options{
		Addr:                  s.Addr(),
		TLSConfig:             secure,
		Password:              password,
		ContextTimeoutEnabled: true,
		// Without CLIENT SETINFO at the start of a connection, CommandStats shows only HELLO and
		// the test's commands.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.T.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			s.T.Errorf("redistest: closing the client of %s: %v", s.Addr(), err)
		}
	})
	return client
}

// URL returns the server's address as redis://host:port/0. With TLS it begins with rediss://. A
// password stands before the host.
func (s *Server) URL() string {
	_, _, url := s.access("")
	return url + s.Addr() + "/0"
}

// Client returns the client of the server, the same one at each call. It is closed with the test.
// It honours context deadlines, retries as go-redis does by default, and reconnects after Restart.
func (s *Server) Client() *redis.Client {
	return s.client
}

// Replicated waits until that many replicas have what any client has written.
func (s *Server) Replicated(ctx context.Context, replicas int64) error {
	for {
		pipe := s.client.Pipeline()
		// WAIT waits for what precedes the connection's last write. PUBLISH is one in any slot.
		pipe.Publish(ctx, "any", "")
		having := pipe.Do(ctx, "WAIT", replicas, 1000)
		if _, err := pipe.Exec(ctx); err != nil || having.Val() == any(replicas) {
			return err
		}
	}
}

// Stop shuts the server down with SIGTERM, and returns when it has ended. After Restart the server
// has the data that its persistence settings keep. Stop resumes a paused server first. If the
// server is down, Stop is a no-op. A server that does not end within a minute fails the test and is
// killed.
func (s *Server) Stop() { s.Signal(syscall.SIGTERM) }

// Restart starts the server after Kill or Stop, on the same port and directory. It returns when the
// server accepts connections. It fails the test if the server runs or does not start.
func (s *Server) Restart() {
	s.T.Helper()
	s.Child.Restart(func() error { return nil }, s.launch)
}
