package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that servers run as; nil for the test's own.
type account struct{ uid, gid uint32 }

// unprivileged returns the account for servers of a test that runs as root,
// which PostgreSQL refuses to.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the test's own account will do
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("finding an account other than root: %w", err)
		}
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("account %s: %w", u.Username, err)
	}
	return &account{uint32(uid), uint32(gid)}, nil
}

// own gives the directory to the account.
func (a *account) own(directory string) error {
	if a == nil {
		return nil
	}
	return os.Chown(directory, int(a.uid), int(a.gid))
}

// setProcessAttributes has the process run as the account, in a group of its
// own, and has the kernel kill it when the test process dies without running
// its cleanups: the server's other processes then end by themselves.
func setProcessAttributes(cmd *exec.Cmd, a *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}

// signalAll stops the server, so that it makes no more processes, and then
// signals all that it has: each is in a session of its own.
func signalAll(p *os.Process, signal syscall.Signal) error {
	err := p.Signal(syscall.SIGSTOP)
	if err != nil {
		return err
	}
	children, err := childrenOf(p.Pid)
	if err != nil {
		return err
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signalling process %d: %w", pid, err)
		}
	}
	return p.Signal(signal)
}

// childrenOf lists the processes whose parent is given.
func childrenOf(parent int) (children []int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		// 123 (name, which may hold anything) S <parent> ...
		var state byte
		var ppid int
		if _, err := fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %c %d", &state, &ppid); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, stat, err)
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && ppid == parent {
			children = append(children, pid)
		}
	}
	return children, nil
}
