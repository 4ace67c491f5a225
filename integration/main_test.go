// Package integration tests the built command as users run it: as a process that serves HTTP on
// real servers, and that is killed.
package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// command is the path of the feedfilter under test.
var command string //nolint:gochecknoglobals // set once, before the tests

func TestMain(m *testing.M) {
	flag.Parse()
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
	args := append([]string{"build", "-ldflags=-s", "-o", command}, raceArgs()...)
	build := exec.Command("go", append(args, "../cmd/feedfilter")...) //nolint:noctx // go test bounds it
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the command:", err)
		return 1
	}
	authority, err = redistest.NewAuthority(dir)
	if err == nil {
		err = os.Setenv("SSL_CERT_FILE", authority.CAFile()) // for the services
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
