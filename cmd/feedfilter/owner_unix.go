//go:build unix

package main

import (
	"os"
	"syscall"
)

// keepOwner gives a file the owner and group of another, as far as the process may.
func keepOwner(file *os.File, of os.FileInfo) {
	if is, ok := of.Sys().(*syscall.Stat_t); ok {
		if file.Chown(int(is.Uid), int(is.Gid)) != nil {
			_ = file.Chown(-1, int(is.Gid)) // without root, the process may still set one of its groups
		}
	}
}
