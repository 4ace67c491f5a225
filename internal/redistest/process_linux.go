package redistest

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// setProcessAttributes gives the process a group of its own, so that its forks
// can be killed with it, and has the kernel kill it when the test process dies
// without running its cleanups.
func setProcessAttributes(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killProcess kills the process and its forks.
func killProcess(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
