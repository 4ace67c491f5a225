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

var raceCommand = flag.Bool("command.race", false, //nolint:gochecknoglobals // a flag of the test binary
	"build the feedfilter under test with the race detector, which needs a C compiler and CGO_ENABLED=1")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// buildArgs returns the arguments of go that build the feedfilter under test as that binary.
func buildArgs(binary string, more ...string) []string {
	args := append([]string{"build", "-o", binary}, more...)
	if *raceCommand {
		args = append(args, "-race")
	}
	return append(args, "../cmd/feedfilter")
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "feedfilter-integration")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	command = filepath.Join(dir, "feedfilter")
	if *raceCommand {
		_ = os.Setenv("GORACE", "halt_on_error=1") // the service exits at the first race, and the test fails
	}
	build := exec.Command("go", buildArgs(command)...) //nolint:noctx // go test bounds it
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
