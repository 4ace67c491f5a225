//go:build unix

package doctor

import "syscall"

const mayWrite, mayEnter = 2, 1 // W_OK and X_OK of access(2)

// access returns an error if the process may not do what mode says with a file or directory.
func access(name string, mode uint32) error { return syscall.Access(name, mode) }

// freeSpace returns how many bytes the process may still write to the disk of a directory.
func freeSpace(directory string) (uint64, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(directory, &s)
	return uint64(s.Bavail) * uint64(s.Bsize), err //nolint:unconvert // types differ between systems
}
