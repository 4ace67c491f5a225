package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpenOnFullDisk opens a ledger that was closed, on a disk that has no space since. It opens
// again once there is some.
func TestOpenOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("SKIPPED: this process may not mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	url := "sqlite:" + filepath.Join(dir, "ledger.db")
	l, err := Open(t.Context(), url, Options{Pages: 1})
	if err == nil {
		err = l.Close()
	}
	must(t, err)
	rest := filepath.Join(dir, "rest")
	if err := os.WriteFile(rest, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, want ENOSPC", err)
	}
	if _, err := Open(t.Context(), url, Options{}); err == nil || !strings.Contains(err.Error(), "no space left on the disk") {
		t.Errorf("error %v", err)
	}
	must(t, os.Remove(rest))
	if l, err = Open(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
