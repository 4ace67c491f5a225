// Package integration tests the built command as users run it: as a process, over
// HTTP, on real servers, and killed.
package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// command is the path of the feedfilter under test.
var command string //nolint:gochecknoglobals // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "feedfilter-integration")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	command = filepath.Join(dir, "feedfilter")
	build := exec.Command("go", "build", "-o", command, "../cmd/feedfilter") //nolint:noctx // go test bounds it
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the command:", err)
		return 1
	}
	return m.Run()
}
