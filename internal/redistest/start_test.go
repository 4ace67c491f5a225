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
	s.Port = l.Addr().(*net.TCPAddr).Port
	if _, err := s.launch(); !errors.Is(err, servertest.ErrPortTaken) {
		t.Errorf("launching on a port that is in use: %v, want ErrPortTaken", err)
	}
}

func TestRestartOfARunningServerFails(t *testing.T) {
	t.Parallel()
	got := watch(t, func(tb testing.TB) { Start(tb).Restart() })
	if !strings.Contains(got.fatal, "it is running") {
		t.Errorf("failed with %q, want it to say that the server is running", got.fatal)
	}
}

// outcome records the failure that a function sets on its test.
type outcome struct {
	testing.TB // the other methods

	fatal string
}

// watch runs f with a recording test. FailNow in f does not end t.
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
