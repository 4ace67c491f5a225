package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestHangupEndsNothing sends SIGHUP to a command that has no use for it.
func TestHangupEndsNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "feedfilter", "import", "--data-dir", dir, "--format", "csv", "-")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, ledgerFile)); err == nil {
			break // it runs
		}
		if time.Now().After(deadline) {
			t.Fatal("the import does not begin")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "1,block,2\n"); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	wantContains(t, out.String(), "imported 1 activities")
}
