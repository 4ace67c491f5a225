// Package servertest runs server programs as child processes of tests. Packages redistest, pgtest
// and proxytest share it. It finds a program and a port, and runs, stops, suspends and kills the
// program with all its processes.
//
// A server ends at the latest with the test process. On Linux it also ends when the test process is
// killed. On other systems a killed test process leaves its servers running.
package servertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// FindProgram returns the path of the program with that name on the PATH, or else the first of the
// other paths that is a program.
//
// Without the program the test is skipped. With CI=true in the environment it fails instead,
// because a skipped test would go unnoticed. The message says that the test needs need, such as "A
// REDIS SERVER", and how to get it.
func FindProgram(t testing.TB, need, name string, others ...string) string {
	t.Helper()
	_, missing := exec.LookPath(name)
	for _, candidate := range slices.Concat([]string{name}, others) {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	const advice = "THIS TEST NEEDS %s, and there is none: %v (make deps installs it)"
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatalf(advice, need, missing)
	}
	t.Skipf(advice, need, missing)
	return ""
}

const (
	pollInterval = 20 * time.Millisecond
	// Awaited events come within seconds. The limit is for overloaded machines. It is below the
	// limit of the whole run, so that a failing test can report what it waits for.
	awaitTimeout = 3 * time.Minute
)

// Await calls try every 20 ms until it returns nil, for at most three minutes. The error contains
// what, such as "it has stopped", and the last error of try.
func Await(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // an error caused by the end of ctx explains nothing
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w; the last attempt: %w", what, ctx.Err(), last)
		}
	}
}
