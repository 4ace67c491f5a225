package ops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
)

// TestDownReasons: the reason of a dependency that does not answer differs from that of one that
// fails.
func TestDownReasons(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		err    error
		reason string
	}{
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "it cannot be reached"},
		{dial(&net.DNSError{Err: "no such host", Name: "redis", IsNotFound: true}), "it cannot be reached"},
		{dial(os.ErrDeadlineExceeded), "it does not answer in time"},
		{context.DeadlineExceeded, "it does not answer in time"},
		{fmt.Errorf("polls: %w", activity.ErrBehind), "its changes arrive too late; each feed reads its page's state from it"},
		{errors.New("OOM command not allowed"), "it failed; see the log"},
	} {
		err := fmt.Errorf("ask: %w", &activity.UnavailableError{Dependency: "pages", Err: c.err})
		if got, want := downOf(err), (down{"pages", c.reason}); got != want {
			t.Errorf("%v: %+v, want %+v", err, got, want)
		}
	}
}
