//go:build unix

package main

import (
	"io/fs"
	"math"
	"os"
	"syscall"
)

// maxOpenFiles returns how many files the process may have open, connections included.
func maxOpenFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxInt
	}
	return int(min(uint64(limit.Cur), math.MaxInt)) //nolint:unconvert // signed on some systems
}

// keepOwner gives a file the owner and group of another, as far as the process may.
func keepOwner(file *os.File, of os.FileInfo) {
	if is, ok := of.Sys().(*syscall.Stat_t); ok {
		if file.Chown(int(is.Uid), int(is.Gid)) != nil {
			_ = file.Chown(-1, int(is.Gid)) // without root, the process may still set one of its groups
		}
	}
}

// restrict sets the mode with which the file of a socket is created, on systems that take it from
// the socket. On others, the caller sets it afterwards.
func restrict(c syscall.RawConn, mode fs.FileMode) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
}
