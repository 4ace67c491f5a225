//go:build !unix

package main

import "math"

// maxOpenFiles is not known.
func maxOpenFiles() int { return math.MaxInt }
