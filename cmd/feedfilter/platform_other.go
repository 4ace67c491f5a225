//go:build !unix

package main

import (
	"io/fs"
	"math"
	"os"
	"syscall"
)

// maxOpenFiles returns no limit, because the limit is unknown.
func maxOpenFiles() int { return math.MaxInt }

// keepOwner does nothing, because there are no such owners.
func keepOwner(*os.File, os.FileInfo) {}

// restrict does nothing, because files of sockets have no such modes.
func restrict(syscall.RawConn, fs.FileMode) error { return nil }
