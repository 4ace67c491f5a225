//go:build !linux

package servertest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// tie does nothing. Only Linux can end a child with its parent.
func tie(*exec.Cmd) {}

// kill kills the server's first process. Other processes must end by themselves.
func (p *Process) kill() error { return p.cmd.Process.Kill() }

// suspend returns an error, because not every system has signals that stop a process.
func (*Process) suspend(context.Context) error {
	return fmt.Errorf("suspending a process: %w", errors.ErrUnsupported)
}

// resume does nothing, because no process is ever suspended.
func (*Process) resume() error { return nil }
