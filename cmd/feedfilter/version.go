package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// What the linker is told by make build, make dist and the Dockerfile. `go install` of a version tells nothing.
var linkedVersion, linkedCommit, linkedDate string //nolint:gochecknoglobals // the linker knows variables alone

type versionCmd struct {
	Result resultFlags `embed:""`
}

// version is what this program was made of.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitzero"`
	Modified bool   `json:"modified"`      // since the commit
	Date     string `json:"date,omitzero"` // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the version of the module, the commit and what it was built with and for.
func (c *versionCmd) Run(std stdio) error {
	v := thisVersion()
	if c.Result.json() {
		return writeJSON(std.out, v)
	}
	_, err := fmt.Fprintln(std.out, v)
	return err
}

// thisVersion is that of this program.
func thisVersion() version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return describe(info, linkedVersion, linkedCommit, linkedDate)
}

// describe returns the version that the linker was told, or else that of the module, and the commit that the build
// found, or else what the linker was told.
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

// String is all of it in a line.
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
