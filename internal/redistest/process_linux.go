package redistest

import (
	"bytes"
	"errors"
	"fmt"
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

// suspendProcess asks the kernel to stop the process and its forks.
func suspendProcess(p *os.Process) error {
	return syscall.Kill(-p.Pid, syscall.SIGSTOP)
}

// resumeProcess lets the process and its forks run on.
func resumeProcess(p *os.Process) error {
	return syscall.Kill(-p.Pid, syscall.SIGCONT)
}

// isSuspended says whether the kernel has stopped the process: its state, after
// its name in parentheses, is T.
func isSuspended(p *os.Process) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	return err == nil && bytes.Contains(stat, []byte(") T "))
}
