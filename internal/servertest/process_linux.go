package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// tie gives the process a group of its own, so that its children can be killed
// with it, and has the kernel kill it when the test process dies without running
// its cleanups.
func tie(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pgid = true, 0
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

func (p *Process) kill() error { return signalAll(p.cmd.Process.Pid, syscall.SIGKILL) }

func (p *Process) resume() error { return signalAll(p.cmd.Process.Pid, syscall.SIGCONT) }

func (p *Process) suspend(ctx context.Context) error {
	leader := p.cmd.Process.Pid
	if err := signalAll(leader, syscall.SIGSTOP); err != nil {
		return err
	}
	return Await(ctx, "it has stopped", func(context.Context) error {
		members, err := membersOf(leader)
		if err != nil {
			return err
		}
		for _, m := range members {
			if !m.isAtRest() {
				// Again, for one that was being made when the others were listed.
				return errors.Join(fmt.Errorf("process %d is in state %c", m.pid, m.state), kill(m.pid, syscall.SIGSTOP))
			}
		}
		return nil
	})
}

// signalAll signals a server's processes: its group, and the children that have
// left that for sessions of their own. The error is os.ErrProcessDone if there
// are none.
func signalAll(leader int, signal syscall.Signal) error {
	// Stopped, it makes no more of them.
	if err := kill(-leader, syscall.SIGSTOP); err != nil {
		return err
	}
	members, err := membersOf(leader)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.group == leader {
			continue
		}
		if err := kill(m.pid, signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	return kill(-leader, signal)
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
	pid, group int
	state      byte
}

// isAtRest says whether the process can do nothing: it is stopped, or has ended.
func (m member) isAtRest() bool {
	return strings.IndexByte("TtZX", m.state) >= 0
}

// membersOf lists the processes that are in the leader's group or its children.
func membersOf(leader int) (members []member, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		var m member
		var parent int
		// 123 (name, which may hold anything) S <parent> <group> ...
		_, err = fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %c %d %d", &m.state, &parent, &m.group)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, stat, err)
		}
		if m.pid, err = strconv.Atoi(filepath.Base(filepath.Dir(name))); err != nil {
			return nil, err
		}
		if m.pid == leader || m.group == leader || parent == leader {
			members = append(members, m)
		}
	}
	return members, nil
}
