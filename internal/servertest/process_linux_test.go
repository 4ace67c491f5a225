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
	"testing"
	"time"
)

// family is a server with one child in its group and one in its own session. Each writes its
// process id to a file with its name before the server is ready.
const family = `
	echo $$ > server
	sleep 3600 & echo $! > child
	setsid sh -c 'echo $$ > session; exec sleep 3600' &
	until test -s session; do :; done
	echo now ready
	wait`

func TestKillEndsAllProcesses(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*testing.T, *Process){
		"running":   func(*testing.T, *Process) {},
		"suspended": suspend,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := startScript(t, dir, family)
			pids := familyOf(t, dir)
			before(t, p)
			if err := inTime(t, p.Kill); err != nil {
				t.Error(err)
			}
			for who, pid := range pids {
				if state := stateOf(t, pid); state != 0 && state != 'Z' {
					t.Errorf("the %s is in state %c, want it gone", who, state)
				}
			}
			if err := p.Kill(); err != nil {
				t.Errorf("second Kill: %v", err)
			}
			if err := p.Suspend(t.Context()); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("suspending an ended process: %v, want os.ErrProcessDone", err)
			}
		})
	}
}

func TestSuspendStopsAllProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startScript(t, dir, family)
	pids := familyOf(t, dir)
	if err := p.Resume(); err != nil || p.Suspended() {
		t.Errorf("resuming a running process: %v, suspended %t", err, p.Suspended())
	}
	for range 2 {
		suspend(t, p)
		if !p.Suspended() {
			t.Error("Suspended() is false after Suspend")
		}
		for who, pid := range pids {
			if state := stateOf(t, pid); state != 'T' {
				t.Errorf("the %s is in state %c, want T", who, state)
			}
		}
	}
	if err := p.Resume(); err != nil || p.Suspended() {
		t.Errorf("resuming it: %v, suspended %t", err, p.Suspended())
	}
	for who, pid := range pids {
		if state := stateOf(t, pid); state == 'T' || state == 0 {
			t.Errorf("the %s is in state %c after Resume", who, state)
		}
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	t.Run("in order", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		// No shell can trap SIGINT if it is ignored already, as in a script's background jobs.
		p := startScript(t, dir, `trap 'echo done > end; exit' TERM; echo now ready; while :; do :; done`)
		suspend(t, p)
		stop := func() error { return p.Stop(t.Context(), syscall.SIGTERM) }
		if err := inTime(t, stop); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "end")); err != nil {
			t.Errorf("the file that the trap writes: %v", err)
		}
		if err := inTime(t, stop); err != nil {
			t.Errorf("second Stop: %v", err)
		}
	})
	t.Run("by force", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		p := startScript(t, dir, `trap '' TERM; echo it ignores that`+family)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := inTime(t, func() error { return p.Stop(ctx, syscall.SIGTERM) })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "it ignores that") {
			t.Errorf("stopping a process that ignores the signal: %v, want context.DeadlineExceeded and the log", err)
		}
		if state := stateOf(t, familyOf(t, dir)["server"]); state != 0 {
			t.Errorf("the process is in state %c, want it killed", state)
		}
	})
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		name, script string
		ctx          context.Context
		want         error
		says         []string
	}{
		{"ends", "echo out of order >&2; exit 3", t.Context(), nil, []string{"ended before it was ready", "exit status 3", "out of order"}},
		{"port", "echo 'bind: Address already in use'; exit 1", t.Context(), ErrPortTaken, []string{"bind: "}},
		{"hangs", "echo thinking; sleep 3600 & sleep 3600", short, context.DeadlineExceeded, []string{"until it is ready"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := inTime(t, func() error {
				_, err := Start(c.ctx, script(t.TempDir(), c.script), "now ready")
				return err
			})
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q, want it to say %q", err, text)
				}
			}
			if errors.Is(err, ErrPortTaken) != (c.name == "port") {
				t.Errorf("error %v is ErrPortTaken", err)
			}
		})
	}
	_, err := Start(t.Context(), exec.CommandContext(t.Context(), filepath.Join(t.TempDir(), "absent")), "now ready")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("starting a program that does not exist: %v", err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	output, err := Run(script(t.TempDir(), "echo one; echo two >&2; exit 4"))
	var ended *exec.ExitError
	if string(output) != "one\ntwo\n" || !errors.As(err, &ended) || ended.ExitCode() != 4 {
		t.Errorf("Run gave %q, %v; want both lines and exit status 4", output, err)
	}
}

func script(dir, text string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), "sh", "-c", text)
	cmd.Dir = dir
	return cmd
}

func startScript(t *testing.T, dir, text string) *Process {
	t.Helper()
	p, err := Start(t.Context(), script(dir, text), "now ready")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inTime(t, p.Kill); err != nil {
			t.Error(err)
		}
	})
	return p
}

func suspend(t *testing.T, p *Process) {
	t.Helper()
	if err := p.Suspend(t.Context()); err != nil {
		t.Error(err)
	}
}

const inTimeLimit = time.Minute // for overloaded machines

// inTime returns the error of f, or an error if f takes too long.
func inTime(t *testing.T, f func() error) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- f() }()
	select {
	case err := <-result:
		return err
	case <-time.After(inTimeLimit):
		return fmt.Errorf("it took longer than %s", inTimeLimit)
	}
}

// familyOf returns the process ids of a family.
func familyOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	pids := make(map[string]int)
	for _, who := range []string{"server", "child", "session"} {
		text, err := os.ReadFile(filepath.Join(dir, who))
		if err != nil {
			t.Fatal(err)
		}
		if pids[who], err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
			t.Fatal(err)
		}
	}
	return pids
}

// stateOf returns the state of a process, 0 if it does not exist.
func stateOf(t *testing.T, pid int) byte {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0
	}
	_, state, ok := strings.Cut(string(status), "\nState:\t")
	if err != nil || !ok {
		t.Fatalf("the state of process %d: %q, %v", pid, status, err)
	}
	return state[0]
}
