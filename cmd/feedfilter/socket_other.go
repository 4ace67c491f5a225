//go:build !unix

package main

import (
	"io/fs"
	"syscall"
)

func restrict(syscall.RawConn, fs.FileMode) error { return nil }
