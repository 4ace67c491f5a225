//go:build unix

package main

import (
	"math"
	"syscall"
)

// maxOpenFiles is how many files, connections among them, the process may have open.
func maxOpenFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxInt
	}
	return int(min(uint64(limit.Cur), math.MaxInt)) //nolint:unconvert // signed on some systems
}
