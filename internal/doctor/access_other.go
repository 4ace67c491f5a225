//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package doctor

// writable cannot tell, short of making a file.
func writable(string) error { return nil }

// writableDirectory cannot either.
func writableDirectory(string) error { return nil }

func notDirectory(error) bool { return false }
