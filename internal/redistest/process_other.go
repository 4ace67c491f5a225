//go:build !linux

package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// setProcessAttributes does nothing: only Linux can tie a child's life to its
// parent's. A test process that is killed leaves its servers behind.
func setProcessAttributes(*exec.Cmd) {}

// killProcess kills the process.
func killProcess(p *os.Process) error {
	return p.Kill()
}

// suspendProcess fails: signals to stop a process are not everywhere.
func suspendProcess(*os.Process) error {
	return fmt.Errorf("pausing a process: %w", errors.ErrUnsupported)
}

// resumeProcess fails, as suspendProcess does.
func resumeProcess(*os.Process) error {
	return fmt.Errorf("resuming a process: %w", errors.ErrUnsupported)
}

// isSuspended is false: no process is ever suspended.
func isSuspended(*os.Process) bool {
	return false
}
