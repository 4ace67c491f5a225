//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package doctor

import (
	"errors"
	"syscall"
)

// mayWrite is what access(2) calls W_OK, mayEnter X_OK.
const mayWrite, mayEnter = 2, 1

// writable returns an error if a file cannot be written to.
func writable(file string) error { return syscall.Access(file, mayWrite) }

// writableDirectory returns an error if files cannot be made in a directory, without making one.
func writableDirectory(directory string) error { return syscall.Access(directory, mayWrite|mayEnter) }

// notDirectory tells whether a parent of a file is none.
func notDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
