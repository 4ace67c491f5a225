//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package doctor

import "errors"

// writable returns nil: only creating a file would show whether it is writable.
func writable(string) error { return nil }

// writableDirectory returns nil for the same reason.
func writableDirectory(string) error { return nil }

// freeSpace returns an error: it is unknown.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }

func notDirectory(error) bool { return false }
