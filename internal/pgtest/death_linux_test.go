package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const orphanEnv = "PGTEST_ORPHAN"

// TestDiesWithTheTestProcess runs TestOrphan in another process, and kills that process with
// SIGKILL. Its server must end, and the next server must remove its directory.
func TestDiesWithTheTestProcess(t *testing.T) {
	t.Parallel()
	o := startOrphan(t, "running")
	conn, data := o.connect(t)
	removeAbandoned()
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err != nil {
		t.Errorf("the directory of a server that is up: %v, want it left alone", err)
	}
	o.kill(t)
	wantClosed(t, conn)
	addr := net.JoinHostPort(conn.Config().Host, fmt.Sprint(conn.Config().Port))
	wantSoon(t, addr+" refuses connections", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil //nolint:nilerr // it does
		}
		_ = conn.Close()
		return errors.New("it accepts them")
	})
	wantRemoved(t, data)
}

// TestPausedServerOfADeadTestProcess checks that the next server ends what is left of a paused
// server whose test process was killed.
func TestPausedServerOfADeadTestProcess(t *testing.T) {
	t.Parallel()
	o := startOrphan(t, "paused")
	conn, data := o.connect(t)
	if _, err := io.WriteString(o.stdin, "pause\n"); err != nil {
		t.Fatal(err)
	}
	o.read(t, "paused")
	o.kill(t)
	wantRemoved(t, data)
	wantClosed(t, conn)
}

// orphan is a process that runs TestOrphan.
type orphan struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
	url   string
}

func startOrphan(t *testing.T, mode string) *orphan {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOrphan$", "-test.v")
	cmd.Env = append(os.Environ(), orphanEnv+"="+mode)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &orphan{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	o.url = o.read(t, "server at ")
	return o
}

// read returns the rest of the next line that contains the text.
func (o *orphan) read(t *testing.T, text string) string {
	t.Helper()
	for o.lines.Scan() {
		if _, rest, ok := strings.Cut(o.lines.Text(), text); ok {
			return rest
		}
	}
	t.Fatalf("the process did not say %q: %v", text, o.cmd.Wait())
	return ""
}

func (o *orphan) connect(t *testing.T) (conn *pgx.Conn, data string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), o.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&data); err != nil {
		t.Fatal(err)
	}
	return conn, data
}

func (o *orphan) kill(t *testing.T) {
	t.Helper()
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = o.cmd.Wait()
}

// wantClosed waits for up to a minute until the server has closed the connection.
func wantClosed(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := conn.WaitForNotification(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("reading from the server: %v, want the connection closed", err)
	}
}

func wantRemoved(t *testing.T, data string) {
	t.Helper()
	wantSoon(t, "the server's directory is gone", func(context.Context) error {
		removeAbandoned()
		if _, err := os.Stat(filepath.Dir(data)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", filepath.Dir(data), err)
		}
		return nil
	})
}

func wantSoon(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	if err := servertest.Await(t.Context(), what, try); err != nil {
		t.Error(err)
	}
}

// TestOrphan is the process that the other tests of this file kill.
func TestOrphan(t *testing.T) {
	mode := os.Getenv(orphanEnv)
	if mode == "" {
		t.Skip("only other tests run this one, as a process to kill")
	}
	s := Start(t)
	fmt.Println("server at " + s.URL())
	if mode == "paused" {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		s.Pause()
		fmt.Println("paused")
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
}
