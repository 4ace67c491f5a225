package doctor

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestDataDirFull checks that doctor reports a disk without space.
func TestDataDirFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("SKIPPED: this process may not mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	for _, name := range []string{dir, filepath.Join(dir, "new")} {
		if f := judgeDirectory(name); f.status != Fail || !strings.Contains(f.found, "512 KiB of free space") || f.todo == "" {
			t.Errorf("%+v", f)
		}
	}
}

// TestDataDirOfOthers checks that doctor reports a directory, or its nearest parent, that the user
// may not write to. Root may write everywhere, so the check runs in a thread with another user id.
func TestDataDirOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // lets the other user enter
		t.Fatal(err)
	}
	closed, open := filepath.Join(dir, "closed"), filepath.Join(dir, "open")
	for name, mode := range map[string]os.FileMode{dir: 0o755, closed: 0o555, open: 0o777} {
		if err := os.Mkdir(name, mode); err != nil && name != dir {
			t.Fatal(err)
		}
		must(t, os.Chmod(name, mode))
	}
	ledger := filepath.Join(open, "ledger.db")
	must(t, os.WriteFile(ledger, nil, 0o444))
	found := make(map[string]finding)
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // stays locked, so the thread ends with the goroutine
		var errno syscall.Errno
		if os.Getuid() == 0 {
			const nobody, same = 65534, ^uintptr(0)
			_, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, same, same)
		}
		for _, name := range []string{closed, filepath.Join(closed, "a", "b"), open, filepath.Join(open, "a")} {
			found[name] = judgeDirectory(name)
		}
		found[ledger] = judgeFile(ledger)
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Skipf("SKIPPED: this process may not be another user: %v", errno)
	}
	for name, want := range map[string]string{
		closed:                          "fail " + closed + " is not writable: permission denied",
		filepath.Join(closed, "a", "b"): "fail " + closed + " is not writable: permission denied",
		ledger:                          "fail " + ledger + " is not writable: permission denied",
		open:                            "ok ",
		filepath.Join(open, "a"):        "ok ",
	} {
		f := found[name]
		if got := f.status.String() + " " + f.found; !strings.HasPrefix(got, want) || strings.HasPrefix(want, "fail") && f.todo == "" {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
