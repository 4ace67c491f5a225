//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package doctor

// writable returns nil: only creating a file would show whether it is writable.
func writable(string) error { return nil }

// writableDirectory returns nil for the same reason.
func writableDirectory(string) error { return nil }

func notDirectory(error) bool { return false }
