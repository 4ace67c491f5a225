package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

	dockerfileText = "FROM golang:1.26 AS build\nRUN make\nFROM build AS next\nFROM scratch\nCOPY --from=build /a /b\nCOPY --from=0 /a /c\n" +
		"COPY --from=tools/tool:3 /d /e\n"
	composeText = "services:\n  own: {build: ., image: feedfilter}\n  store:\n    image: valkey/valkey:8.1\n"
)

// written writes the three files to a directory, and returns their paths.
func written(t *testing.T, dockerfile, compose, unpinned string) (dir string, names [3]string) {
	t.Helper()
	dir = t.TempDir()
	names = [3]string{filepath.Join(dir, "Dockerfile"), filepath.Join(dir, "compose.yaml"), filepath.Join(dir, "tools/containers/unpinned")}
	if err := os.MkdirAll(filepath.Dir(names[2]), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{dockerfile, compose, unpinned} {
		if err := os.WriteFile(names[i], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, names
}

// TestImages expects every pulled image. It leaves out scratch, stages and locally built images.
func TestImages(t *testing.T) {
	_, names := written(t, dockerfileText, composeText, "")
	got, err := images(t.Context(), names[0], names[1])
	if want := []string{"golang:1.26", "tools/tool:3", "valkey/valkey:8.1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// An image without a digest is an error unless an exception gives a reason. An exception that no
// image needs is an error, too.
func TestPinned(t *testing.T) {
	all := strings.NewReplacer("golang:1.26", "golang:1.26"+digest, "tools/tool:3", "tools/tool:3"+digest)
	for name, c := range map[string]struct{ dockerfile, compose, unpinned, want string }{
		"no digest":     {dockerfileText, composeText, "", "a tag and a digest of golang:1.26"},
		"one of three":  {all.Replace(dockerfileText), composeText, "", "a tag and a digest of valkey/valkey:8.1"},
		"excepted":      {all.Replace(dockerfileText), composeText, "# why\n\nvalkey/valkey:8.1 no network\n", ""},
		"no reason":     {all.Replace(dockerfileText), composeText, "valkey/valkey:8.1\n", "a reason why valkey/valkey:8.1"},
		"another tag":   {all.Replace(dockerfileText), composeText, "valkey/valkey:8.0 no network\n", "a tag and a digest of valkey/valkey:8.1"},
		"not needed":    {all.Replace(dockerfileText), strings.ReplaceAll(composeText, ":8.1", ":8.1"+digest), "postgres:17 old\n", "no exception for postgres:17"},
		"pinned":        {all.Replace(dockerfileText), strings.ReplaceAll(composeText, ":8.1", ":8.1"+digest), "", ""},
		"digest alone":  {all.Replace(dockerfileText), strings.ReplaceAll(composeText, ":8.1", digest), "", "a tag and a digest of valkey/valkey@"},
		"half a digest": {all.Replace(dockerfileText), strings.ReplaceAll(composeText, ":8.1", ":8.1"+digest[:40]), "", "8.1@sha256"},
	} {
		_, names := written(t, c.dockerfile, c.compose, c.unpinned)
		err := checkPinned(t.Context(), names[0], names[1], names[2])
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// scripts/pin-images writes the digest of every image and empties the list of exceptions. A second
// run follows a tag that has moved. If the script does not find one digest, it changes no file.
func TestPinImages(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	const excepted = "# why\ngolang:1.26 no network\ntools/tool:3 no network\nvalkey/valkey:8.1 no network\n"
	dir, names := written(t, dockerfileText, composeText, excepted)
	bin := t.TempDir()
	run := func(crane string) error {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, "crane"), []byte("#!/bin/sh\n"+crane), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "../../scripts/pin-images", dir)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	texts := func() (all [3]string) {
		t.Helper()
		for i, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = string(text)
		}
		return all
	}
	before := [3]string{dockerfileText, composeText, excepted}
	for _, crane := range []string{
		`case $2 in valkey*) exit 1; esac; echo ` + digest[1:], `case $2 in valkey*) echo latest;; *) echo ` + digest[1:] + `; esac`,
	} {
		if err := run(crane); err == nil || texts() != before {
			t.Errorf("without one digest: %v, %q", err, texts())
		}
	}
	next := strings.ReplaceAll(digest, "0123", "4567")
	for _, d := range []string{digest, next} {
		if err := run(`test "$1" = digest && case $2 in *@*) exit 1; esac; echo ` + d[1:]); err != nil {
			t.Fatal(err)
		}
		pin := strings.NewReplacer("golang:1.26", "golang:1.26"+d, "tools/tool:3", "tools/tool:3"+d, "valkey/valkey:8.1", "valkey/valkey:8.1"+d)
		if want := [3]string{pin.Replace(dockerfileText), pin.Replace(composeText), "# why\n"}; texts() != want {
			t.Errorf("%q, want %q", texts(), want)
		}
	}
}
