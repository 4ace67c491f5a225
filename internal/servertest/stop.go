package servertest

import (
	"os/exec"
	"testing"
)

// StopTest stops the process of the test for so many seconds, such as "0.4", with all that runs in
// it. It skips the test where processes cannot be stopped.
func StopTest(t testing.TB, seconds string) {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell stops this process")
	}
	const script = `kill -STOP $PPID; sleep "$0"; kill -CONT $PPID`
	//nolint:gosec // a constant script
	out, err := exec.CommandContext(t.Context(), shell, "-c", script, seconds).CombinedOutput()
	if err != nil {
		t.Fatalf("stop the test: %v\n%s", err, out)
	}
}
