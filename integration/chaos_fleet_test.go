package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// instance is a "feedfilter serve" process. Tests kill it and start it again on the same port.
type instance struct {
	*target

	dir   string // where it runs, and has files by default
	args  []string
	cmd   *exec.Cmd // the last process; only the test's goroutine uses it
	races *tailLog  // reports of the race detector

	lifeMu  sync.Mutex
	pid     int // 0: it is down
	started time.Time
}

const startLimit = time.Minute

// newInstance starts the command on a free port, and kills it at the end of the test.
func newInstance(t *testing.T, index int, args ...string) *instance {
	t.Helper()
	addr := servertest.Addr(servertest.ReservePort(t))
	i := &instance{
		target: newTarget(index, "http://"+addr), dir: t.TempDir(), races: &tailLog{max: 1000},
	}
	i.args = append([]string{"serve", "--addr", addr}, args...)
	must(t, i.start())
	t.Cleanup(func() {
		i.kill()
		i.client.CloseIdleConnections()
	})
	return i
}

// start runs the process until it listens.
func (i *instance) start() error {
	i.cmd = exec.Command(command, i.args...) //nolint:noctx // killed by the test
	i.cmd.Dir = i.dir
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := i.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := i.cmd.Start(); err != nil {
		return fmt.Errorf("start instance %d: %w", i.index, err)
	}
	listening := make(chan bool, 1)
	go i.follow(stderr, listening)
	ok := false
	select {
	case ok = <-listening:
	case <-time.After(startLimit):
	}
	if !ok {
		_ = i.cmd.Process.Kill()
		_ = i.cmd.Wait()
		return fmt.Errorf("start instance %d: it does not listen within %v\n%s", i.index, startLimit, i.log)
	}
	i.lifeMu.Lock()
	i.pid, i.started = i.cmd.Process.Pid, time.Now()
	i.lifeMu.Unlock()
	i.endOutage()
	return nil
}

// follow keeps the log, and what the race detector reports in it. It sends true when the process
// listens, or false if the log ends first.
func (i *instance) follow(stderr io.Reader, listening chan<- bool) {
	r := bufio.NewReader(stderr)
	said, race := false, false
	for {
		line, err := r.ReadBytes('\n')
		i.log.add(line)
		race = (race || bytes.HasPrefix(line, []byte("WARNING: DATA RACE"))) && !bytes.HasPrefix(line, []byte("====="))
		if race {
			i.races.add(line)
		}
		var entry struct {
			Msg string `json:"msg"`
		}
		if !said && json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
			said = true
			listening <- true
		}
		if err != nil {
			if !said {
				listening <- false
			}
			return
		}
	}
}

// kill ends the process at once, if it runs.
func (i *instance) kill() {
	i.lifeMu.Lock()
	running := i.pid != 0
	i.pid = 0
	i.lifeMu.Unlock()
	if !running {
		return
	}
	i.beginOutage(true)
	_ = i.cmd.Process.Kill()
	_ = i.cmd.Wait()
	i.log.add([]byte("--- killed\n"))
}

// pause stops the process with SIGSTOP. resume lets it continue.
func (i *instance) pause() error {
	i.beginOutage(false)
	return i.cmd.Process.Signal(syscall.SIGSTOP)
}

func (i *instance) resume() error {
	err := i.cmd.Process.Signal(syscall.SIGCONT)
	i.endOutage()
	return err
}

// tailLog keeps the last lines of a log.
type tailLog struct {
	max int

	mu    sync.Mutex
	lines [][]byte
}

func (l *tailLog) add(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(line) == 0 {
		return
	}
	if len(l.lines) == l.max {
		l.lines = l.lines[1:]
	}
	l.lines = append(l.lines, bytes.Clone(line))
}

func (l *tailLog) String() string { return l.last(200) }

// last returns up to n lines.
func (l *tailLog) last(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.Join(l.lines[max(0, len(l.lines)-n):], nil))
}

// about returns the line of a request, which may come a second after its answer; "" if none does.
func (l *tailLog) about(ctx context.Context, id string) (line string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = servertest.Await(ctx, "the log has request "+id, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, one := range slices.Backward(l.lines) {
			if bytes.Contains(one, []byte(id)) {
				line = string(one)
				return nil
			}
		}
		return errors.New("it does not")
	})
	return line
}

// logs returns the last lines of every instance's log.
func logs(instances []*instance) string {
	var b strings.Builder
	for i := range slices.Values(instances) {
		fmt.Fprintf(&b, "--- instance %d, %s\n%s", i.index, i.url, i.log)
	}
	return b.String()
}
