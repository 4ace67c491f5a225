package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tie gives the process a group of its own, so that its children can be killed with it. The kernel
// kills the process when the test process dies without running its cleanups.
func tie(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pgid = true, 0
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// kill kills all processes of the server. It also waits for those that have no parent to wait for
// them.
func (p *Process) kill() error {
	leader := p.cmd.Process.Pid
	members, err := signalAll(leader, syscall.SIGKILL)
	if err != nil {
		return err
	}
	// A context could not make the kernel faster, so there is none.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		left := slices.IndexFunc(members, func(m member) bool {
			now, err := memberOf(m.pid)
			return err == nil && now.group == m.group && !now.hasEnded()
		})
		if left < 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d was killed a minute ago, and goes on", members[left].pid)
		}
	}
}

func (p *Process) resume() error {
	_, err := signalAll(p.cmd.Process.Pid, syscall.SIGCONT)
	return err
}

func (p *Process) suspend(ctx context.Context) error {
	leader := p.cmd.Process.Pid
	if _, err := signalAll(leader, syscall.SIGSTOP); err != nil {
		return err
	}
	return Await(ctx, "it has stopped", func(context.Context) error {
		members, err := membersOf(leader)
		if err != nil {
			return err
		}
		for _, m := range members {
			if !m.isAtRest() {
				// The process may have started after the others were listed. Send the signal again.
				err := fmt.Errorf("process %d is in state %c", m.pid, m.state)
				return errors.Join(err, kill(m.pid, syscall.SIGSTOP))
			}
		}
		return nil
	})
}

// signalAll signals the processes of a server: its group, and the children that have left the
// group. It returns these processes. It returns os.ErrProcessDone if there are none.
func signalAll(leader int, signal syscall.Signal) ([]member, error) {
	// A stopped group starts no further processes.
	if err := kill(-leader, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	members, err := membersOf(leader)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.group == leader {
			continue
		}
		if err := kill(m.pid, signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return members, err
		}
	}
	return members, kill(-leader, signal)
}

// kill is kill(2), for a process or, with a negative id, a group.
func kill(id int, signal syscall.Signal) error {
	err := syscall.Kill(id, signal)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("sending %v to %d: %w", signal, id, err)
	}
	return nil
}

// member is a process of a server.
type member struct {
	pid, parent, group int
	state              byte
}

// isAtRest reports whether the process cannot run, because it is stopped or has ended.
func (m member) isAtRest() bool {
	return strings.IndexByte("TtZX", m.state) >= 0
}

// hasEnded reports whether the process has ended.
func (m member) hasEnded() bool { return m.state == 'Z' || m.state == 'X' }

// membersOf returns the leader, the processes in its group and its children.
func membersOf(leader int) (members []member, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, name := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return nil, err
		}
		m, err := memberOf(pid)
		switch {
		case errors.Is(err, os.ErrProcessDone):
			continue // it has ended since Glob
		case err != nil:
			return nil, err
		case m.pid == leader || m.group == leader || m.parent == leader:
			members = append(members, m)
		}
	}
	return members, nil
}

// memberOf describes a process. It returns os.ErrProcessDone if the process does not exist.
func memberOf(pid int) (member, error) {
	m := member{pid: pid}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return m, os.ErrProcessDone
	}
	// The file has: 123 (name, with any characters) S <parent> <group> ...
	rest := string(stat[bytes.LastIndexByte(stat, ')')+1:])
	_, err = fmt.Sscanf(rest, " %c %d %d", &m.state, &m.parent, &m.group)
	if err != nil {
		return m, fmt.Errorf("/proc/%d/stat: %q: %w", pid, stat, err)
	}
	return m, nil
}
