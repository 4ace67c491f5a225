package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/importer"
)

// TestMain makes the commands below available to scripts and tests, as separate processes.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"feedfilter":     main,
		"feedfilter-hit": mainHit,
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		UpdateScripts: updated(), // expected outputs in files
		Setup: func(env *testscript.Env) error {
			env.Values["serving"] = &serving{}
			env.Setenv("GOGC", os.Getenv("GOGC")) // scripts have only what is set for them
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serve": scriptServe, "halt": scriptHalt, "reload": scriptReload,
			"call": scriptCall, "refused": scriptRefused,
		},
	})
}

// mainHit is feedfilter import that gets a signal at one of its checkpoints, or with --sync at one
// of its calls of the target. HIT specifies it: "before 3 SIGKILL", "after 3 SIGINT".
func mainHit() {
	std := stdio{os.Stdin, os.Stdout, os.Stderr}
	ctx, stop := untilSignal(context.Background())
	err := importHit(ctx, std)
	stop()
	if err != nil {
		std.note(err.Error())
		os.Exit(exitCode(err)) //nolint:revive // this is main
	}
}

func importHit(ctx context.Context, std stdio) error {
	chosen, err := invoke(ctx, os.Args[1:], std)
	if err != nil {
		return err
	}
	h, file := newHit(ctx), &chosen.commands.Import.File
	if file.Sync.Sync {
		return file.sync(ctx, std, func(next importer.Target) importer.Target {
			h.Target = next
			return h
		})
	}
	return file.run(ctx, std, func(d *data) importer.Checkpoints {
		h.Checkpoints = d.ledger
		return h
	})
}

// hit sends a signal to its process at the n-th call of SetCheckpoint, or of a target's.
type hit struct {
	importer.Checkpoints
	importer.Target

	ended  context.Context
	n      int
	after  bool
	signal syscall.Signal
}

func newHit(ctx context.Context) *hit {
	var when, name string
	h := &hit{ended: ctx}
	if _, err := fmt.Sscanf(os.Getenv("HIT"), "%s %d %s", &when, &h.n, &name); err != nil {
		panic(err)
	}
	h.after = when == "after"
	h.signal = map[string]syscall.Signal{"SIGKILL": syscall.SIGKILL, "SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM}[name]
	return h
}

func (h *hit) SetCheckpoint(ctx context.Context, id, value string) error {
	return h.call(func() error { return h.Checkpoints.SetCheckpoint(ctx, id, value) })
}

func (h *hit) All(ctx context.Context, each func(target string, until time.Time) error) error {
	return h.call(func() error { return h.Target.All(ctx, each) })
}

func (h *hit) Record(ctx context.Context, all []activity.Activity) (outcomes []activity.Outcome, err error) {
	err = h.call(func() (err error) {
		outcomes, err = h.Target.Record(ctx, all)
		return err
	})
	return outcomes, err
}

func (h *hit) Finish(ctx context.Context) error {
	return h.call(func() error { return h.Target.Finish(ctx) })
}

func (h *hit) call(do func() error) error {
	h.n--
	if h.n == 0 && !h.after {
		h.strike()
	}
	err := do()
	if h.n == 0 && h.after {
		h.strike()
	}
	return err
}

// strike returns when the signal has arrived. After SIGKILL it does not return.
func (h *hit) strike() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(h.signal)
	}
	if err != nil {
		panic(err)
	}
	<-h.ended.Done()
}

// result is the exit code and output of a finished process.
type result struct {
	stdout, stderr string
	code           int // -1: killed by a signal
}

// runCommand runs a command to its end, with env added to the environment.
func runCommand(t testing.TB, env []string, name string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// feedfilter runs the command to its end and fails the test unless it exits with code.
func feedfilter(t testing.TB, code int, args ...string) result {
	t.Helper()
	r := runCommand(t, nil, "feedfilter", args...)
	if r.code != code {
		t.Fatalf("feedfilter %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.stdout, r.stderr)
	}
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantContains fails the test unless text holds all of parts.
func wantContains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want it to contain %q", text, part)
		}
	}
}

func TestExitCodeOfSignals(t *testing.T) {
	for s, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		err := fmt.Errorf("import: %w", interruption{s})
		if got := exitCode(err); got != want {
			t.Errorf("exit code %d after %v, want %s", got, s, strconv.Itoa(want))
		}
	}
}

// Every command has a method Run with arguments that the program can provide.
func TestCommandsRun(t *testing.T) {
	parser := testParser(t)
	for _, node := range parser.Model.Leaves(false) {
		switch command := node.Target.Addr().Interface().(type) {
		case interface{ Run(std stdio) error }:
		case interface {
			Run(std stdio, chosen *invocation) error
		}:
		case interface {
			Run(ctx context.Context, std stdio) error
		}:
		case interface {
			Run(ctx context.Context, std stdio, chosen *invocation) error
		}:
		default:
			t.Errorf("%s: %T has no such method", node.FullPath(), command)
		}
	}
}
