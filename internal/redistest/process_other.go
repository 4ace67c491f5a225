//go:build !linux

package redistest

import (
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
