package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints the version of the module, the commit and what it was built with and for.
func (versionCmd) Run(std stdio) error {
	version, commit := "(unknown)", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version, commit = describe(info)
	}
	_, err := fmt.Fprintf(std.out, "feedfilter %s, commit %s, %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

func describe(info *debug.BuildInfo) (version, commit string) {
	version, commit = info.Main.Version, "unknown"
	if version == "" {
		version = "(devel)"
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	return version, commit + modified
}
