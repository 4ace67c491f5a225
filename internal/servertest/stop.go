package servertest

import (
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// StopTest stops the process of the test for d, with all that runs in it. Where nothing can stop a
// process, it skips the test.
func StopTest(t testing.TB, d time.Duration) {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell stops this process")
	}
	const script = `kill -STOP $PPID; sleep "$0"; kill -CONT $PPID`
	seconds := strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	//nolint:gosec // a constant script
	out, err := exec.CommandContext(t.Context(), shell, "-c", script, seconds).CombinedOutput()
	if err != nil {
		t.Fatalf("stop the test: %v\n%s", err, out)
	}
}
