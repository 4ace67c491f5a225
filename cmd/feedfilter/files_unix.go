//go:build unix

package main

import (
	"math"
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
