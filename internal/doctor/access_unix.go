//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package doctor

import (
	"errors"
	"syscall"
)

// mayWrite is W_OK of access(2), mayEnter is X_OK.
const mayWrite, mayEnter = 2, 1

// writable returns an error if a file cannot be written to.
func writable(file string) error { return syscall.Access(file, mayWrite) }

// writableDirectory returns an error if the process cannot create files in a directory. It creates
// none.
func writableDirectory(directory string) error { return syscall.Access(directory, mayWrite|mayEnter) }

// freeSpace returns how many bytes the process may still write to the disk of a directory.
func freeSpace(directory string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(directory, &s); err != nil {
		return 0, err
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil //nolint:unconvert // types differ between systems
}

// notDirectory reports whether err says that a parent of a file is not a directory.
func notDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
