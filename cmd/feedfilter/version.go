package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker: see the Makefile and the Dockerfile. `go install` sets none of them.
//
//nolint:gochecknoglobals // the linker sets only variables
var linkedVersion, linkedCommit, linkedDate string

type versionCmd struct {
	Result resultFlags `embed:""`
}

// version describes the build of this program.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitzero"`
	Modified bool   `json:"modified"`      // changed since the commit
	Date     string `json:"date,omitzero"` // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the version, the commit, the Go version and the platform.
func (c *versionCmd) Run(_ context.Context, std stdio) error {
	v := thisVersion()
	if c.Result.json() {
		return writeJSON(std.out, v)
	}
	_, err := fmt.Fprintln(std.out, v)
	return err
}

// thisVersion returns the version of this program.
func thisVersion() version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return describe(info, linkedVersion, linkedCommit, linkedDate)
}

// describe returns the linked version, or that of the module. It returns the commit of the build
// information, or the linked one.
func describe(info *debug.BuildInfo, linked, commit, date string) version {
	v := version{
		Version: cmp.Or(linked, info.Main.Version, "(devel)"),
		Go:      runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Date = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	v.Commit, v.Date = cmp.Or(v.Commit, commit), cmp.Or(v.Date, date)
	return v
}

// String returns the version as one line.
func (v version) String() string {
	text := fmt.Sprintf("feedfilter %s, commit %s", v.Version, cmp.Or(v.Commit, "unknown"))
	if v.Modified {
		text += " with changes"
	}
	if v.Date != "" {
		text += " of " + v.Date
	}
	return fmt.Sprintf("%s, %s %s", text, v.Go, v.Platform)
}
