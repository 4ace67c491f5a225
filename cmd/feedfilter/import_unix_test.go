//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that can be read only once has no checkpoints.
func TestImportPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "a.csv")
	must(t, syscall.Mkfifo(pipe, 0o600))
	for range 2 {
		written := make(chan error, 1)
		go func() { written <- os.WriteFile(pipe, []byte("1,block,2\n1,block,1\n"), 0o600) }()
		r := feedfilter(t, 1, "import", "--data-dir", dir, pipe)
		wantContains(t, r.stderr, pipe+":2: ", "1 activities before line 2 are imported, and the import cannot be continued")
		must(t, <-written)
	}
}
