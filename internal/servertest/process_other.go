//go:build !linux

package servertest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// tie does nothing: only Linux can tie a child's life to its parent's.
func tie(*exec.Cmd) {}

// kill kills the server's first process. The processes that it has started must end by themselves.
func (p *Process) kill() error { return p.cmd.Process.Kill() }

// suspend fails: signals to stop a process are not everywhere.
func (*Process) suspend(context.Context) error {
	return fmt.Errorf("suspending a process: %w", errors.ErrUnsupported)
}

// resume does nothing: no process is ever suspended.
func (*Process) resume() error { return nil }
