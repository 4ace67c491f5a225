//go:build !goexperiment.jsonv2

package feedjson

// experimental is what the toolchain has to be told to build.
func experimental() []library { return nil }
