package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// removeAbandoned removes the directories of killed test processes, and ends the servers that still
// run there. When a test process dies, the kernel kills only the server's first process. If the
// server is paused, its other processes stay. An error is ignored, because the next call tries
// again.
func removeAbandoned() {
	pattern := filepath.Join(os.TempDir(), directoryPrefix+"*", dataDirectory)
	found, _ := filepath.Glob(pattern) // the pattern is sound
	for _, data := range found {
		// A directory without data may be new and not yet locked.
		dir := filepath.Dir(data)
		if unlock, err := lock(dir); err == nil {
			killIn(data)
			_ = os.RemoveAll(dir)
			unlock()
		}
	}
}

// killIn kills all processes whose working directory is dir. Every process of a server works in its
// data directory.
func killIn(dir string) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is sound
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || target != dir {
			continue // it has ended, belongs to another user, or works elsewhere
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// lock locks a directory until unlock is called or this process ends. It returns an error if the
// directory is already locked.
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
