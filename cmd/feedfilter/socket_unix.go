//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// restrict sets the mode with which the file of a socket is created, on systems that take it from
// the socket. On others, the caller sets it afterwards.
func restrict(c syscall.RawConn, mode fs.FileMode) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
}
