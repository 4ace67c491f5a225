package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// A linked version overrides that of the module. A commit of the build information overrides the
// linked one.
func TestDescribe(t *testing.T) {
	git := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-22T06:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}
	platform := ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	for _, c := range []struct {
		settings     []debug.BuildSetting
		main, linked string
		commit, date string
		want         string
	}{
		{want: "feedfilter (devel), commit unknown"},
		{main: "v1.2.3", settings: git[:1], want: "feedfilter v1.2.3, commit abc"},
		{settings: git, commit: "def", date: "then", want: "feedfilter (devel), commit abc with changes of 2026-11-22T06:00:00Z"},
		{main: "v1.2.4-0.20261122060000-abc", linked: "v1.2.3", commit: "def", want: "feedfilter v1.2.3, commit def"},
		{commit: "def", want: "feedfilter (devel), commit def"},
		{commit: "def", date: "then", want: "feedfilter (devel), commit def of then"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.main}, Settings: c.settings}
		if got := describe(info, c.linked, c.commit, c.date).String(); got != c.want+platform {
			t.Errorf("got %q, want %q", got, c.want+platform)
		}
	}
}
