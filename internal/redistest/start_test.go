package redistest

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

func TestLaunchOnATakenPort(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", servertest.Addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newServer(t, findBinary(t), nil)
	s.port = l.Addr().(*net.TCPAddr).Port
	if _, err := s.launch(); !errors.Is(err, servertest.ErrPortTaken) {
		t.Errorf("launching on a port that is in use: %v, want ErrPortTaken", err)
	}
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

// outcome records the result that a function sets on its test.
type outcome struct {
	testing.TB // the other methods

	fatal, skip string
}

// watch runs f with a recording test. FailNow or Skip in f does not end t.
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
