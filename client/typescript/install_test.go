//go:build unix

package typescript_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// npm reports success if it could not fetch an optional package, and each program that a package
// brings for a platform is one. scripts/npm-ci asks for it again, and fails if it stays away.
func TestInstallAsksAgain(t *testing.T) {
	needTools(t)
	for _, test := range []struct {
		name     string
		arrives  int // the attempt that brings the package
		attempts int
		ok       bool
	}{
		{"at once", 1, 1, true},
		{"at the third attempt", 3, 3, true},
		{"never", 4, 3, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "package-lock.json"), `{"packages": {
				"": {"name": "project"},
				"node_modules/plain": {},
				"node_modules/here": {"optional": true, "os": ["linux", "darwin"], "cpu": ["!mips"]},
				"node_modules/elsewhere": {"optional": true, "os": ["win32"]},
				"node_modules/neither": {"optional": true, "os": ["!linux", "!darwin"]}
			}}`)
			write(t, filepath.Join(dir, "package.json"), "{}")
			npm := filepath.Join(dir, "bin", "npm")
			write(t, npm, fmt.Sprintf(`#!/bin/sh
				echo >> calls
				mkdir -p node_modules/plain node_modules/here
				touch node_modules/plain/package.json
				[ "$(wc -l < calls)" -lt %d ] || touch node_modules/here/package.json`, test.arrives))
			if err := os.Chmod(npm, 0o755); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a complete installation is left as it is
				install := exec.CommandContext(t.Context(), "../../scripts/npm-ci", dir)
				install.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
				printed, err := install.CombinedOutput()
				if (err == nil) != test.ok {
					t.Fatalf("installed with error %v\n%s", err, printed)
				}
				if !test.ok {
					if !strings.Contains(string(printed), "npm did not install node_modules/here\n") {
						t.Errorf("printed %s", printed)
					}
					break
				}
			}
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil || len(calls) != test.attempts {
				t.Errorf("npm was called %d times with error %v, want %d", len(calls), err, test.attempts)
			}
		})
	}
}
