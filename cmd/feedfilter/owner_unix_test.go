//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestTokenFileOwner checks that the service's user can read a token file that root has changed.
func TestTokenFileOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	name := filepath.Join(t.TempDir(), "tokens.json")
	tokenFile(t, name, "a", "b")
	must(t, os.Chown(name, 4711, 4712))
	said, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer said.Close()
	for _, args := range [][]string{{"new", "--name=c", "--scope=feed:read"}, {"remove", "a"}} {
		if code := run(append(append([]string{"token"}, args...), "--auth-file", name), stdio{os.Stdin, said, said}); code != 0 {
			t.Fatalf("%v: exit code %d", args, code)
		}
		info, err := os.Stat(name)
		must(t, err)
		if is := info.Sys().(*syscall.Stat_t); is.Uid != 4711 || is.Gid != 4712 || info.Mode().Perm() != 0o600 {
			t.Errorf("after %v: owner %d, group %d, mode %v", args, is.Uid, is.Gid, info.Mode())
		}
	}
}
