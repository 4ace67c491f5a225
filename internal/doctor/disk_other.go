//go:build !unix

package doctor

import "errors"

const mayWrite, mayEnter = 0, 0

// access returns nil: only creating a file would show whether it is writable.
func access(string, uint32) error { return nil }

// freeSpace returns an error: it is unknown.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
