package redistest

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
)

func TestStartPassesOverATakenPort(t *testing.T) {
	t.Parallel()
	taken := port(listen(t))
	tried := 0
	s := start(t, func() int {
		tried++
		if tried <= 2 {
			return taken
		}
		return anyPort()
	}, nil)
	if tried < 3 || s.port == taken {
		t.Errorf("started on port %d at attempt %d, with %d taken", s.port, tried, taken)
	}
	if err := s.Client().Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestStartGivesUpWhenNoPortIsFree(t *testing.T) {
	t.Parallel()
	taken := port(listen(t))
	got := watch(t, func(tb testing.TB) {
		start(tb, func() int { return taken }, nil)
	})
	if !strings.Contains(got.fatal, fmt.Sprintf("no free port in %d attempts, the last %d", portAttempts, taken)) {
		t.Errorf("failed with %q", got.fatal)
	}
}

func TestPortStaysReservedWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Kill()
	if _, ok := reserve(s.port); ok {
		t.Errorf("port %d is free for another server", s.port)
	}
	s.Restart()
}

func TestStartShowsTheLogOfAServerThatFails(t *testing.T) {
	t.Parallel()
	got := watch(t, func(tb testing.TB) { Start(tb, "--maxmemory", "lots") })
	for _, want := range []string{"127.0.0.1:", "ended before it was ready", "exit status 1", "maxmemory"} {
		if !strings.Contains(got.fatal, want) {
			t.Errorf("failed with %q, want it to say %q", got.fatal, want)
		}
	}
}

func TestRestartOfARunningServerFails(t *testing.T) {
	t.Parallel()
	got := watch(t, func(tb testing.TB) { Start(tb).Restart() })
	if !strings.Contains(got.fatal, "it is running") {
		t.Errorf("failed with %q, want it to say that the server is running", got.fatal)
	}
}

func TestWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, ci := range []string{"", "false", "0"} {
		t.Setenv("CI", ci)
		got := watch(t, func(tb testing.TB) { Start(tb) })
		if got.fatal != "" || !strings.Contains(got.skip, "THIS TEST NEEDS A REDIS SERVER") {
			t.Errorf("with CI=%q: skipped with %q, failed with %q; want it skipped", ci, got.skip, got.fatal)
		}
	}
	t.Setenv("CI", "true")
	for _, start := range []func(testing.TB){
		func(tb testing.TB) { Start(tb) },
		func(tb testing.TB) { StartCluster(tb, 1, 0) },
		func(tb testing.TB) { StartSentinel(tb, 0, 1) },
	} {
		got := watch(t, start)
		if got.skip != "" || !strings.Contains(got.fatal, "THIS TEST NEEDS A REDIS SERVER") {
			t.Errorf("with CI=true: skipped with %q, failed with %q; want it failed", got.skip, got.fatal)
		}
	}
}

func TestServerLogKeepsItsEndAndNoticesReadiness(t *testing.T) {
	t.Parallel()
	l := newServerLog(readyToServe)
	for i := range 2 * logTail / 10 {
		_, _ = fmt.Fprintf(l, "line %04d\n", i)
	}
	select {
	case <-l.ready:
		t.Fatal("ready before the server said so")
	default:
	}
	for _, piece := range []string{"* Ready to acc", "ept connections", " tcp\n"} {
		_, _ = fmt.Fprint(l, piece)
	}
	select {
	case <-l.ready:
	default:
		t.Error("not ready after the server said so")
	}
	tail := string(l.tail())
	if len(tail) != logTail || !strings.HasSuffix(tail, "connections tcp\n") {
		t.Errorf("kept %d bytes that end in %q, want the last %d", len(tail), tail[max(0, len(tail)-20):], logTail)
	}
}

// outcome is what a watched function made of its test.
type outcome struct {
	testing.TB // for all that is not recorded

	fatal, skip string
}

// watch runs f with a test of its own, whose end is recorded and does not end t.
func watch(t *testing.T, f func(testing.TB)) *outcome {
	t.Helper()
	o := &outcome{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(o)
	}()
	<-done
	return o
}

func (o *outcome) Fatalf(format string, args ...any) {
	o.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (o *outcome) Skipf(format string, args ...any) {
	o.skip = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func port(l net.Listener) int {
	return l.Addr().(*net.TCPAddr).Port
}
