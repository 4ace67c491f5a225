package redistest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

const orphanEnv = "REDISTEST_ORPHAN"

// TestDiesWithTheTestProcess runs TestOrphan in another process, and kills that process with
// SIGKILL. Its server must end.
func TestDiesWithTheTestProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOrphan$", "-test.v")
	// The killed process cannot clean up. This test removes its directory.
	cmd.Env = append(os.Environ(), orphanEnv+"=1", "TMPDIR="+t.TempDir())
	stdin, err := cmd.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var addr string
	for lines := bufio.NewScanner(stdout); addr == "" && lines.Scan(); {
		_, addr, _ = strings.Cut(lines.Text(), "server at ")
	}
	if addr == "" {
		t.Fatalf("the process named no server: %v", cmd.Wait())
	}
	conn := dialAddr(t, addr)
	must(t, cmd.Process.Kill())
	assertClosedByServer(t, conn)
	_ = cmd.Wait()
}

// TestOrphan is the process that TestDiesWithTheTestProcess kills.
func TestOrphan(t *testing.T) {
	if os.Getenv(orphanEnv) == "" {
		t.Skip("run by TestDiesWithTheTestProcess")
	}
	fmt.Println("server at " + redistest.Start(t).Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
}
