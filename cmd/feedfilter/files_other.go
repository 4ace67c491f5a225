//go:build !unix

package main

import "math"

// maxOpenFiles returns no limit, because the limit is unknown.
func maxOpenFiles() int { return math.MaxInt }
