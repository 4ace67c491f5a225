package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// removeAbandoned removes the directories of killed test processes, and ends the servers that run
// there. The kernel kills only a server's first process, and the others of a paused server do not
// notice. The next call repeats what this one could not do.
func removeAbandoned() {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), directoryPrefix+"*", dataDirectory)) // no more than a test needs
	for _, data := range found {
		// One without data may be about to be locked by who has just made it.
		dir := filepath.Dir(data)
		if unlock, err := lock(dir); err == nil {
			killIn(data)
			_ = os.RemoveAll(dir)
			unlock()
		}
	}
}

// killIn kills the processes whose working directory is the given one, as that of
// each process of a server is its data.
func killIn(dir string) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is sound
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || target != dir {
			continue // it has ended, or is somebody else's
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// lock locks a directory until unlock is called or this process ends. It is an
// error that the directory is locked already.
func lock(dir string) (unlock func(), err error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return func() { _ = file.Close() }, nil
}
