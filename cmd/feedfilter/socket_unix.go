//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// restrict sets the mode that the file of a socket is made with, where the system takes it from the socket. Elsewhere it
// is set afterwards.
func restrict(c syscall.RawConn, mode fs.FileMode) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
}
