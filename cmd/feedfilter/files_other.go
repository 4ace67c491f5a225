//go:build !unix

package main

import "math"

// maxOpenFiles returns no limit: it is unknown.
func maxOpenFiles() int { return math.MaxInt }
